"""Files of forecasts in WeatherBench 2's layout: start and lead time apart, which together say what time it is for."""

from pathlib import Path

import numpy as np
import xarray as xr

from elbowroom.datasets.findings import Findings
from elbowroom.datasets.weather.names import TIME
from elbowroom.datasets.weather.times import decode

LEAD = "prediction_timedelta"


def over_valid_times(raw: xr.Dataset, path: Path, findings: Findings) -> xr.Dataset:
    """One forecast, or one lead of several, as a series over the times that it is for; anything else unchanged."""
    if LEAD not in raw.variables or any(name in raw.variables for name in TIME if name != "time"):
        return raw
    if "since" not in str(raw["time"].attrs.get("units", "") if "time" in raw.variables else ""):
        return raw
    leads = xr.decode_cf(xr.Dataset({"lead": raw[LEAD].variable}), decode_timedelta=True)["lead"].values
    if leads.dtype.kind != "m":
        findings.defect(path, f"coordinate {LEAD}", "has no unit of time", "write units such as hours into the file")
        return raw
    starts = decode(np.atleast_1d(raw["time"].values), raw["time"].attrs, path, findings)
    if starts is None:
        return raw
    if len(starts) > 1 and leads.size > 1:
        reason = f"holds {leads.size} leads of {len(starts)} forecasts, which are no steps of one series"
        findings.defect(path, f"dimension {LEAD}", reason, "write a file of one forecast, or of one lead")
        return raw
    valid = (starts[:, None] + np.atleast_1d(leads)[None]).ravel().astype("datetime64[m]").astype(np.int64)
    findings.warn("forecast read by the times that it is for", path)
    single, series = ("time", LEAD) if leads.size > 1 else (LEAD, "time")
    bare = raw.drop_vars(["time", LEAD]).isel({single: 0} if single in raw.dims else {})
    along = bare if series == "time" else bare.rename_dims({LEAD: "time"})
    dimensions, values = (("time",), valid) if "time" in along.dims else ((), valid[0])
    return along.assign_coords(time=(dimensions, values, {"units": "minutes since 1970-01-01"}))
