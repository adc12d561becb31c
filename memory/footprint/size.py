"""Sizes in bytes, as people write and read them."""

import re

UNITS = {
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}
_BY_LOWER = {unit.lower(): size for unit, size in UNITS.items()}


class SizeError(ValueError):
    """A text that should say how many bytes does not."""


def parse_size(text: str) -> int:
    """Bytes in a text such as "4GiB", "24 GB" or "0.5 MiB"; GiB counts in 1024s, GB in 1000s. Case does not matter.

    Raises `SizeError` on anything else: no unit, an unknown unit, less than one byte.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*", text)
    if match is None or match[2].lower() not in _BY_LOWER:
        raise SizeError(f"{text!r} is not a size; write a number and one of {', '.join(UNITS)}, such as 4GiB")
    size = int(float(match[1]) * _BY_LOWER[match[2].lower()])
    if size < 1:
        raise SizeError(f"{text!r} is no bytes at all; write at least 1B, such as 4GiB")
    return size


def format_size(size: int) -> str:
    """The largest binary unit that leaves a number of at least 1: 3.25 GiB, 12.0 MiB, 17 B."""
    if abs(size) < 2**10:
        return f"{size} B"
    unit = next(unit for unit in ("TiB", "GiB", "MiB", "KiB") if abs(size) >= UNITS[unit])
    number = size / UNITS[unit]
    return f"{number:.2f} {unit}" if abs(number) < 10 else f"{number:.1f} {unit}"
