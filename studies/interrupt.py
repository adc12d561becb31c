"""Ctrl-C asks a long run to finish its step and save; a second Ctrl-C stops it at once."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


class StoppedError(Exception):
    """A long command stopped early at the user's wish; everything done so far is saved."""

    exit_code = 130  # what shells expect of a program ended by Ctrl-C


@dataclass
class Wish:
    """Whether the user asked to stop."""

    stop: bool = False


@contextmanager
def stop_on_request() -> Iterator[Wish]:
    """Within this block Ctrl-C and SIGTERM set `stop` instead of ending the program at once."""
    wish = Wish()

    def ask(number: int, frame: FrameType | None) -> None:
        wish.stop = True
        signal.signal(number, before[signal.Signals(number)])
        print("\nstopping after this step; press Ctrl-C again to stop without saving", file=sys.stderr)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, ask)
    try:
        yield wish
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
