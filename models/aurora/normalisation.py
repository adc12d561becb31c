"""Values as the published checkpoints know them: minus a mean, over a scale, by variable and pressure level."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Num

FILE = Path(__file__).with_name("normalisation.toml")


class UnknownVariableError(ValueError):
    """A variable or pressure level with which no published checkpoint was trained."""


def surface_scaling(variables: tuple[str, ...]) -> Float[np.ndarray, "two var 1 1"]:
    """Means, then scales."""
    return _columns([_told("surface", name) for name in variables])


def static_scaling(variables: tuple[str, ...]) -> Float[np.ndarray, "two var 1 1"]:
    return _columns([_told("static", name) for name in variables])


def atmosphere_scaling(
    variables: tuple[str, ...], levels: Num[np.ndarray, "level"]
) -> Float[np.ndarray, "two var level 1 1"]:
    """Raises `UnknownVariableError` for a level, in hPa, that is none of the published."""
    return _columns([[_level(name, float(level)) for level in levels] for name in variables])


def _columns(pairs: list[Any]) -> Float[np.ndarray, "two *any 1 1"]:
    return np.moveaxis(np.array(pairs, np.float32), -1, 0)[..., None, None]


def _level(variable: str, level: float) -> list[float]:
    known = _told("atmosphere", variable)
    if f"{level:g}" not in known:
        raise UnknownVariableError(
            f"{variable} at {level:g} hPa: Aurora was trained at {', '.join(known)} hPa; choose among these levels"
        )
    return known[f"{level:g}"]


def _told(part: str, variable: str) -> Any:
    known = _table()[part]
    if variable not in known:
        raise UnknownVariableError(f"Aurora knows no {part} variable {variable!r}; it knows {', '.join(known)}")
    return known[variable]


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(FILE.read_text(encoding="utf-8"))
