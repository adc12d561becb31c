"""What is wrong with the user's files: defects stop a run, warnings are counted."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


class DataError(ValueError):
    """A file that cannot be read as what it claims to be. Its text is one line: where, what, and what to do."""

    def __init__(self, path: Path, where: str, reason: str, remedy: str) -> None:
        place = f"{path} {where}" if where else f"{path}"
        super().__init__(" ".join(f"{place}: {reason}; {remedy}".split()))
        self.path, self.where, self.reason, self.remedy = path, where, reason, remedy


@dataclass(frozen=True, kw_only=True)
class Warned:
    """One kind of oddity that was read around."""

    kind: str
    count: int
    first: str
    """File and line, residue or row of the first occurrence."""

    def __str__(self) -> str:
        return f"{self.count} x {self.kind} (first: {self.first})"


class Findings:
    """Collects what readers find. A strict one raises the first defect; otherwise reading goes on to find them all."""

    def __init__(self, *, strict: bool) -> None:
        self._strict = strict
        self._defects: list[DataError] = []
        self._warnings: dict[str, Warned] = {}

    def defect(self, path: Path, where: str, reason: str, remedy: str) -> None:
        """Raises `DataError` if strict; else the caller leaves out what is broken and goes on."""
        error = DataError(path, where, reason, remedy)
        if self._strict:
            raise error
        self._defects.append(error)

    def warn(self, kind: str, path: Path, where: str = "", count: int = 1) -> None:
        first = f"{path} {where}".strip()
        before = self._warnings.get(kind, Warned(kind=kind, count=0, first=first))
        self._warnings[kind] = Warned(kind=kind, count=before.count + count, first=before.first)

    @property
    def defects(self) -> tuple[DataError, ...]:
        return tuple(self._defects)

    @property
    def warnings(self) -> tuple[Warned, ...]:
        return tuple(self._warnings.values())


def listed(items: Iterable[object], most: int = 5) -> str:
    """The first few items, and how many more there are."""
    texts = [str(item) for item in items]
    rest = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + rest
