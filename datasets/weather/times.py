"""Time coordinates as dates of the one calendar, and the regular step between them."""

from pathlib import Path
from typing import Any, Final

import cftime
import numpy as np
from jaxtyping import Int, Shaped

from elbowroom.datasets.findings import Findings, listed

STANDARD: Final = ("standard", "gregorian", "proleptic_gregorian")
type Times = Shaped[np.ndarray, "_"]
"""datetime64[ns]"""


def decode(values: np.ndarray, attributes: dict[Any, Any], path: Path, findings: Findings) -> Times | None:
    """Dates of the standard calendar, in file order; None after a defect.

    Days of another calendar are taken by their date, which leaves holes where it has no such day. A date that the
    standard calendar does not have, such as 30 February, is a defect.
    """
    units, calendar = str(attributes.get("units", "")), calendar_of(attributes)
    if len(values) == 0:
        findings.defect(path, "coordinate time", "has no time steps", "write the file again, or leave it out")
        return None
    try:
        if not np.isfinite(values).all():
            raise ValueError("a time is missing")
        dates = cftime.num2date(values, units, calendar, only_use_cftime_datetimes=True)
    except (ValueError, OverflowError) as error:
        reason = f"cannot be read with units {units!r} and calendar {calendar!r} ({error})"
        findings.defect(path, "coordinate time", reason, "give units like 'hours since 1900-01-01'")
        return None
    impossible = [str(date) for date in dates if not _exists(date)]
    if impossible:
        reason = f"calendar {calendar} has {listed(impossible, most=1)}, which the standard calendar lacks"
        findings.defect(path, "coordinate time", reason, "convert the file to the standard calendar")
        return None
    if calendar not in STANDARD:
        findings.warn(f"calendar {calendar} taken by date: holes where it has no such day", path)
    return np.array([date.isoformat() for date in dates], "datetime64[ns]")


def calendar_of(attributes: dict[Any, Any]) -> str:
    return str(attributes.get("calendar", "standard")).lower()


def regular_step(times: Times) -> np.timedelta64 | None:
    """The most frequent distance of neighbours, the shorter of two equally frequent; None for less than two times."""
    if len(times) < 2:
        return None
    steps, counts = np.unique(np.diff(times), return_counts=True)
    return steps[np.argmax(counts)]


def missing_times(times: Times) -> Times:
    """Where a regular series would have a time and this one has none."""
    step = regular_step(times)
    if step is None:
        return times[:0]
    return np.setdiff1d(np.arange(times[0], times[-1], step), times)


def hours(times: Times) -> Int[np.ndarray, "time"]:
    """Whole hours since 1970-01-01 00 UTC."""
    return times.astype("datetime64[h]").astype(np.int32)


def written(time: np.datetime64 | Shaped[np.ndarray, ""]) -> str:
    """As messages show it, to the minute."""
    return str(time.astype("datetime64[m]"))


def _exists(date: cftime.datetime) -> bool:
    try:
        np.datetime64(date.isoformat())
    except ValueError:
        return False
    return True
