"""Which runs of time steps make an example: history up to a step, and the steps to predict."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

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
    offsets = np.array([*range(1 - history, 1), *leads]) * between
    earliest, latest = times[0] - offsets[0], times[-1] - offsets.max()
    wanted = times[:, None] + offsets[None, :]
    places = np.searchsorted(times, wanted).clip(max=len(times) - 1)
    whole = (times[places] == wanted).all(axis=1)
    possible = 0 if latest < earliest else int((latest - earliest) // spacing) + 1
    return Windows(steps=places[whole], history=history, step=between, dropped=max(0, possible - int(whole.sum())))
