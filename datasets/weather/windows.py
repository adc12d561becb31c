"""Which runs of time steps make an example: history up to a step, and the steps to predict."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int, Shaped

from elbowroom.datasets.weather.times import Times, regular_step


@dataclass(frozen=True, kw_only=True)
class Windows:
    """Places in time of all steps of all windows."""

    steps: Int[np.ndarray, "window step"]
    """The history, oldest first, then the leads; the current step is `history - 1`."""
    history: int
    step: np.timedelta64
    dropped: int
    """Windows between the first and the last time of which a step is missing."""

    def __len__(self) -> int:
        return len(self.steps)


def windows(times: Times, *, history: int, leads: Sequence[int], step: np.timedelta64 | None = None) -> Windows:
    """Every window all of whose steps are there; one begins at each regular time.

    Raises ValueError if less than two times give no step, and for a history or leads below 1.

    Args:
      history: steps up to and with the current one.
      leads: steps ahead of the current one to predict, counted in `step`.
      step: between the steps of a window; None takes the series' own.
    """
    if history < 1 or not leads or min(leads) < 1:
        raise ValueError(f"history {history} and leads {tuple(leads)}: give 1 or more of each, leads from 1 on")
    spacing = regular_step(times)
    if spacing is None:
        raise ValueError(f"{len(times)} time step has no regular step: read two or more")
    between = spacing if step is None else step.astype("timedelta64[ns]")
    offsets = np.array([*range(1 - history, 1), *leads])
    whole = _whole(times, offsets * between)
    earliest, latest = times[0] - offsets[0] * between, times[-1] - offsets.max() * between
    possible = 0 if latest < earliest else int((latest - earliest) // spacing) + 1
    return Windows(steps=whole, history=history, step=between, dropped=max(0, possible - len(whole)))


def histories(times: Times, *, history: int, step: np.timedelta64) -> Int[np.ndarray, "window step"]:
    """Places of every time at which a forecast can start, after those of the `history - 1` times before it."""
    return _whole(times, np.arange(1 - history, 1) * step.astype("timedelta64[ns]"))


def _whole(times: Times, offsets: Shaped[np.ndarray, "step"]) -> Int[np.ndarray, "window step"]:
    """Places in time of every window all of whose steps are there."""
    wanted = times[:, None] + offsets[None, :]
    places = np.searchsorted(times, wanted).clip(max=len(times) - 1)
    return places[(times[places] == wanted).all(axis=1)]
