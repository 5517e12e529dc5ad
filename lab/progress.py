"""A line that says how far a grid is, and how long it will take."""

from __future__ import annotations

import sys
import time
from typing import TextIO

WIDTH = 30


class Progress:
    """Runs that are done of all, a bar, and the time left: as long for each run as those that are done took.

    On a terminal the line is written over; elsewhere there is a line for each run.
    """

    def __init__(self, total: int, file: TextIO | None = None) -> None:
        self.total, self.done, self.file = total, 0, file or sys.stderr
        self.begin = time.monotonic()

    def advance(self, what: str) -> None:
        """One more is done."""
        self.done += 1
        passed = time.monotonic() - self.begin
        left = passed / self.done * (self.total - self.done)
        full = WIDTH * self.done // self.total
        line = f"[{'#' * full}{'.' * (WIDTH - full)}] {self.done}/{self.total}, {duration(left)} left: {what}"
        end = "\n" if self.done == self.total or not self.file.isatty() else ""
        self.file.write(f"\r\033[K{line[:150]}{end}" if self.file.isatty() else line + "\n")
        self.file.flush()

    def say(self, line: str) -> None:
        """A line of its own."""
        self.file.write(f"\r\033[K{line}\n" if self.file.isatty() else line + "\n")
        self.file.flush()


def duration(seconds: float) -> str:
    """ "45 s", "12 min", "3 h 05 min"."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02d} min"
