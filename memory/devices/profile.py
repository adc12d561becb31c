"""What is known of a device, with the source of every number: one TOML file each, beside this one."""

import dataclasses
import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, get_args

type Confidence = Literal["primary", "measured", "secondary", "derived", "unverified"]

FOLDER = Path(__file__).parent
UNITS = {
    "memory": "B",
    "usable_memory": "B",
    "memory_bandwidth": "B/s",
    "float32": "FLOP/s",
    "float16": "FLOP/s",
    "bfloat16": "FLOP/s",
    "host_link": "B/s",
    "device_link": "B/s",
    "power": "W",
}
"""What a profile may state. Rates are peaks without sparsity, links are one way."""
NEEDED = ("memory", "usable_memory", "memory_bandwidth")
TARGETS: Mapping[str, Mapping[str, type]] = {
    "tpu": {"topology": str},
    "cuda": {
        "compute_capability": list,
        "core_count": int,
        "fpus_per_core": int,
        "threads_per_core_limit": int,
        "shared_memory_per_core": int,
        "shared_memory_per_block_optin": int,
        "l2_cache_size": int,
        "clock_rate_ghz": float,
    },
}
"""What each platform's compiler must be told"""


class DeviceError(ValueError):
    """A device that is not known, or whose file cannot be used."""


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """A number that someone stated."""

    value: float
    unit: str
    confidence: Confidence
    source: str


@dataclass(frozen=True, kw_only=True)
class DeviceProfile:
    """An accelerator."""

    key: str
    """Its name on the command line: the file's, without ending"""
    name: str
    numbers: Mapping[str, Quantity]
    target: Mapping[str, Any]
    """What the device's own compiler must be told where there is no such device; empty where none can be."""

    @property
    def usable_memory(self) -> int:
        """Bytes that a program can have: less than the label says. Plans must fit these."""
        return int(self.numbers["usable_memory"].value)

    @property
    def platform(self) -> str:
        """Whose compiler knows the device, cuda or tpu; empty where none does."""
        return self.target.get("platform", "")

    def to_dict(self) -> dict[str, Any]:
        """Plain types, for JSON."""
        numbers = {name: dataclasses.asdict(quantity) for name, quantity in self.numbers.items()}
        return {"key": self.key, "name": self.name, "numbers": numbers, "target": dict(self.target)}


def device_keys() -> list[str]:
    """The names of all devices there are files of."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def device(key: str) -> DeviceProfile:
    """The device of that name; raises `DeviceError` naming those there are."""
    path = FOLDER / f"{key}.toml"
    if key not in device_keys():
        near = difflib.get_close_matches(key, device_keys(), n=1)
        known = f"nown are {', '.join(device_keys())}"
        known = f"did you mean {near[0]!r}? K{known}" if near else f"k{known}"
        raise DeviceError(f"no device is called {key!r}; {known}")
    return read_profile(path)


def read_profile(path: Path) -> DeviceProfile:
    """A profile from its file; raises `DeviceError` naming the file, the key and what is expected there."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DeviceError(f"{path} cannot be read: {error}") from None
    unknown = content.keys() - {"name", "numbers", "target"}
    if unknown:
        raise DeviceError(f"{path}: unknown key {min(unknown)!r}; a profile has name, numbers and target")
    name, numbers = content.get("name"), content.get("numbers")
    if not isinstance(name, str) or not isinstance(numbers, dict):
        raise DeviceError(f"{path}: needs a text `name` and a table [numbers]")
    missing = [needed for needed in NEEDED if needed not in numbers]
    if missing:
        raise DeviceError(f"{path}: [numbers] lacks {', '.join(missing)}")
    quantities = {key: _quantity(path, key, value) for key, value in numbers.items()}
    target = MappingProxyType(_target(path, content.get("target", {})))
    return DeviceProfile(key=path.stem, name=name, numbers=MappingProxyType(quantities), target=target)


def _target(path: Path, content: Any) -> dict[str, Any]:
    if content == {}:
        return {}
    platform = content.get("platform") if isinstance(content, dict) else None
    if not isinstance(platform, str) or platform not in TARGETS:
        raise DeviceError(f"{path}: target.platform = {platform!r} must be one of {', '.join(TARGETS)}")
    kinds = {"platform": str, **TARGETS[platform]}
    if content.keys() != kinds.keys():
        raise DeviceError(f"{path}: [target] must hold exactly {', '.join(kinds)}")
    for key, kind in kinds.items():
        if type(content[key]) is not kind:
            raise DeviceError(f"{path}: target.{key} = {content[key]!r} must be of type {kind.__name__}")
    capability = content.get("compute_capability", [0, 0])
    if [type(part) for part in capability] != [int, int]:
        raise DeviceError(f"{path}: target.compute_capability = {capability!r} must be two whole numbers")
    return content


def _quantity(path: Path, key: str, content: Any) -> Quantity:
    if key not in UNITS:
        raise DeviceError(f"{path}: unknown number {key!r}; known are {', '.join(UNITS)}")
    fields = {"value", "unit", "confidence", "source"}
    if not isinstance(content, dict) or content.keys() != fields:
        raise DeviceError(f"{path}: numbers.{key} must hold exactly {', '.join(sorted(fields))}")
    value, unit, confidence, source = (content[name] for name in ("value", "unit", "confidence", "source"))
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise DeviceError(f"{path}: numbers.{key}.value = {value!r} must be a number above 0")
    if unit != UNITS[key]:
        raise DeviceError(f"{path}: numbers.{key}.unit = {unit!r} must be {UNITS[key]!r}")
    if confidence not in get_args(Confidence.__value__):
        allowed = ", ".join(get_args(Confidence.__value__))
        raise DeviceError(f"{path}: numbers.{key}.confidence = {confidence!r} must be one of {allowed}")
    if not isinstance(source, str) or not source:
        raise DeviceError(f"{path}: numbers.{key}.source must say where the number comes from")
    return Quantity(value=float(value), unit=unit, confidence=confidence, source=source)
