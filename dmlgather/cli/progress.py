"""Progress on standard error: a bar where that is a terminal, else a line that says how long something slow will take."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dmlgather.cli.failures import say

if TYPE_CHECKING:
    from rich.progress import Progress

SLOW = 10.0
"""Seconds from which on the reference's time is announced."""


@contextmanager
def progress_bar() -> Iterator[Callable[[int, int, str], None] | None]:
    """A function that shows (done, count, name) as a bar, which goes when the block ends; None off a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    with _bar() as bar:
        task = bar.add_task("")
        yield lambda done, count, name: bar.update(task, completed=done, total=count, description=name)


@contextmanager
def reference_progress(remedy: str) -> Iterator[None]:
    """A context in which the reference device shows its progress, or says at the rate of its first elements how long it takes.

    remedy: what a user can do "where that is too long".
    """
    from dmlgather.backends.reference import watched

    watcher = _Watcher(remedy)
    try:
        with watched(watcher):
            yield
    finally:
        watcher.end()


class _Watcher:
    """Shows one run of the reference after the other. A run that ends before its first report shows nothing."""

    def __init__(self, remedy: str) -> None:
        self._remedy = remedy
        self._bar: Progress | None = None
        self._start = 0.0
        self._told = False

    def __call__(self, done: int, count: int) -> None:
        if done == 0:
            self._start = time.perf_counter()
        elif done == count:
            self.end()
        elif sys.stderr.isatty():
            if self._bar is None:
                self._bar = _bar()
                self._bar.add_task("reference", total=count)
                self._bar.start()
            self._bar.update(self._bar.task_ids[0], completed=done)
        elif not self._told:
            self._told = True
            seconds = (time.perf_counter() - self._start) / done * (count - done)
            if seconds > SLOW:
                say(
                    f"reference: about {duration(seconds)} for {count} elements, at the rate of the first {done}; "
                    f"{self._remedy} where that is too long"
                )

    def end(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()
        self._bar, self._told = None, False


def _bar() -> Progress:
    """A bar that leaves standard output alone: redirected, it would be written to standard error."""
    from rich.console import Console
    from rich.progress import Progress

    return Progress(console=Console(stderr=True), transient=True, redirect_stdout=False, redirect_stderr=False)


def duration(seconds: float) -> str:
    """A time in the unit that suits it: "40 s", "12 min", "3.5 h"."""
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{_number(seconds / size)} {unit}"
    return f"{_number(seconds)} s"


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"
