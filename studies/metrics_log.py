"""Metrics of every step, in a CSV file and for TensorBoard."""

import csv
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from tensorboardX import SummaryWriter

from elbowroom.studies.run_folder import RunError


class MetricsLog:
    """Appends to `metrics.csv` and `tensorboard/` of a run; steps after `restored_step` are dropped first."""

    def __init__(self, folder: Path, *, restored_step: int) -> None:
        self._path = folder / "metrics.csv"
        self._columns = _drop_later_steps(self._path, restored_step) if self._path.exists() else None
        self._file = self._path.open("a", newline="", encoding="utf-8")
        self._board = SummaryWriter(str(folder / "tensorboard"), purge_step=restored_step + 1)

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Nine digits hold a float32 exactly."""
        row = {"step": str(step), **{name: f"{value:.9g}" for name, value in values.items()}}
        writer = csv.DictWriter(self._file, list(row), lineterminator="\n")
        if self._columns is None:
            self._columns = list(row)
            writer.writeheader()
        if self._columns != list(row):
            raise RunError(
                f"{self._path} has the columns {self._columns}, this run writes {list(row)}; use another --out"
            )
        writer.writerow(row)
        self._file.flush()
        for name, value in values.items():
            self._board.add_scalar(name, value, step)

    def __enter__(self) -> "MetricsLog":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        self._board.close()


def _drop_later_steps(path: Path, last: int) -> list[str] | None:
    """Rewrite the file up to step `last`, dropping a row cut short by a crash too; gives its columns."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    if not rows:
        return None
    header, *body = rows
    kept = [row for row in body if len(row) == len(header) and int(row[0]) <= last]
    shorter = path.with_suffix(".csv.partial")
    with shorter.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *kept])
    os.replace(shorter, path)
    return header
