"""A live bar of a training run on a terminal, and plain lines everywhere else."""

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from elbowroom.memory.footprint.size import format_size

SECONDS_BETWEEN_LINES = 10.0


@dataclass(frozen=True, kw_only=True)
class Moment:
    """What is worth seeing while a run goes on."""

    step: int
    loss: float
    rate: float
    """Units per second, such as residues."""
    unit: str
    peak_bytes: int
    peak_label: str
    """Where the peak was read, such as resident memory."""

    def __str__(self) -> str:
        return f"loss {self.loss:.4f}  {self.rate:,.0f} {self.unit}/s  {self.peak_label} {format_size(self.peak_bytes)}"


@contextmanager
def training_progress(
    console: Console, title: str, *, start: int, steps: int, clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[Moment], None]]:
    """Gives the function to call after each step."""
    show = _bar if console.is_terminal else _lines
    with show(console, title, start, steps, clock) as update:
        yield update


@contextmanager
def counting(console: Console, title: str, total: int) -> Iterator[Callable[[str], None]]:
    """Gives the function to call, with its name, after each of `total` items."""
    if console.is_terminal:
        with Progress(
            TextColumn(title), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=console
        ) as bar:
            task = bar.add_task(title, total=total)
            yield lambda name: bar.advance(task)
        return
    done = itertools.count(1)
    yield lambda name: console.print(f"{title}: {next(done)}/{total}  {name}", highlight=False, soft_wrap=True)


@contextmanager
def _bar(
    console: Console, title: str, start: int, steps: int, clock: Callable[[], float]
) -> Iterator[Callable[[Moment], None]]:
    columns = [
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("{task.fields[moment]}"),
        TextColumn("left"),
        TimeRemainingColumn(),
    ]
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(title, total=steps, completed=start, moment="preparing the first step")
        yield lambda moment: progress.update(task, completed=moment.step, moment=str(moment))


@contextmanager
def _lines(
    console: Console, title: str, start: int, steps: int, clock: Callable[[], float]
) -> Iterator[Callable[[Moment], None]]:
    console.print(f"{title}: preparing the first step", highlight=False, soft_wrap=True)
    last, first = clock(), clock()

    def update(moment: Moment) -> None:
        nonlocal last, first
        now = clock()
        if moment.step == start + 1:
            first = now  # preparing is not part of the pace
        elif moment.step < steps and now - last < SECONDS_BETWEEN_LINES:
            return
        last = now
        left = _time_left(now - first, moment.step - start - 1, steps - moment.step)
        console.print(f"{title}: step {moment.step}/{steps}  {moment}{left}", highlight=False, soft_wrap=True)

    yield update


def _time_left(seconds: float, done: int, left: int) -> str:
    if done == 0 or left == 0:
        return ""
    return f"  {time.strftime('%H:%M:%S', time.gmtime(seconds / done * left))} left"
