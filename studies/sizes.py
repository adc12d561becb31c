"""Sizes of a case by name, and what a user may write for them on the command line."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

type Sizes = Mapping[str, int]
"""A value for every size of a case: lengths, depths and counts by name."""


class CaseSizeError(ValueError):
    """A size that the case does not have, or a value it cannot have."""


@dataclass(frozen=True, kw_only=True)
class Size:
    """One number that scales a case."""

    default: int
    meaning: str
    least: int = 1


def chosen_sizes(known: Mapping[str, Size], texts: Sequence[str]) -> dict[str, int]:
    """Every size of a case, with those given as `name=value` in place of the defaults.

    Raises `CaseSizeError` for text of another form, an unknown name, a name given twice, and a value below the least.
    """
    given: dict[str, int] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise CaseSizeError(f"--size {text!r} is not of the form name=number, such as {_example(known)}")
        if name not in known:
            raise CaseSizeError(f"unknown size {name!r} in --size {text}; the sizes are {', '.join(known)}")
        if name in given:
            raise CaseSizeError(f"size {name!r} is given twice: {given[name]} and {value}; keep one")
        if not (value.isascii() and value.isdigit()) or int(value) < known[name].least:
            raise CaseSizeError(f"--size {text}: {name} must be a whole number from {known[name].least}")
        given[name] = int(value)
    return {name: given.get(name, size.default) for name, size in known.items()}


def with_defaults(known: Mapping[str, Size], defaults: Mapping[str, int]) -> dict[str, Size]:
    """The same sizes, with other defaults for some."""
    return {name: replace(size, default=defaults.get(name, size.default)) for name, size in known.items()}


def _example(known: Mapping[str, Size]) -> str:
    name, size = next(iter(known.items()))
    return f"{name}={size.default}"
