"""Devices as a table."""

from collections.abc import Callable

from elbowroom.memory.devices.profile import DeviceProfile
from elbowroom.memory.footprint.size import format_size
from elbowroom.studies.table import Column, Row

MARK = {"primary": "", "measured": "", "secondary": "", "derived": "~", "unverified": "?"}
DEVICE_CAPTION = (
    "usable: what a program can have, which plans must fit. Rates are peaks, links one way. ~ derived, ? unverified; "
    "--json gives the source of every number. compiler: for which --how compiled works where there is no such device."
)


def _number(name: str, shown: Callable[[float], str]) -> Column:
    def text(row: Row) -> str:
        quantity = row["profile"].numbers.get(name)
        return "-" if quantity is None else shown(quantity.value) + MARK[quantity.confidence]

    return Column(name.replace("_", " "), text)


def _compiler(profile: DeviceProfile) -> str:
    return profile.platform or "-"


DEVICE_COLUMNS = (
    Column("device", lambda row: row["profile"].key),
    Column("name", lambda row: row["profile"].name),
    _number("memory", lambda value: format_size(int(value))),
    _number("usable_memory", lambda value: format_size(int(value))),
    _number("memory_bandwidth", lambda value: f"{value / 1e9:,.0f} GB/s"),
    _number("float32", lambda value: f"{value / 1e12:,.1f} TFLOP/s"),
    _number("bfloat16", lambda value: f"{value / 1e12:,.0f} TFLOP/s"),
    _number("host_link", lambda value: f"{value / 1e9:,.0f} GB/s"),
    Column("compiler", lambda row: _compiler(row["profile"])),
)
