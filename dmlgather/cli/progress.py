"""Progress on standard error: a bar on a terminal. Elsewhere, slow work writes one line with its estimated time."""

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
"""Estimates of more seconds than this are written."""


@contextmanager
def progress_bar() -> Iterator[Callable[[int, int, str], None] | None]:
    """Show a progress bar while the block runs. Yield a function that updates the bar, or None if there is no terminal.

    The function takes the number of finished items, the number of all items, and the name of the current one.
    """
    if not sys.stderr.isatty():
        yield None
        return
    with _bar() as bar:
        task = bar.add_task("")
        yield lambda done, count, name: bar.update(task, completed=done, total=count, description=name)


@contextmanager
def reference_progress(remedy: str) -> Iterator[None]:
    """Show the progress of the reference device. `remedy`: advice for a run that is too slow."""
    from dmlgather.backends.reference import watched

    watcher = _Watcher(remedy)
    try:
        with watched(watcher):
            yield
    finally:
        watcher.end()


class _Watcher:
    """A callback that shows the progress of a run: a bar on a terminal, otherwise one message if the run will take long."""

    def __init__(self, remedy: str) -> None:
        self._remedy = remedy
        self._bar: Progress | None = None
        self._start = 0.0
        self._estimated = False

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
        elif not self._estimated:
            self._estimated = True
            seconds = (time.perf_counter() - self._start) / done * (count - done)
            if seconds > SLOW:
                say(
                    f"reference: about {duration(seconds)} for {count} elements, at the rate of the first {done}; "
                    f"{self._remedy} where that is too long"
                )

    def end(self) -> None:
        if self._bar is not None:
            self._bar.stop()
        self._bar, self._estimated = None, False


def _bar() -> Progress:
    """Return a progress bar that does not redirect standard output to standard error, as rich's default does."""
    from rich.console import Console
    from rich.progress import Progress

    return Progress(console=Console(stderr=True), transient=True, redirect_stdout=False, redirect_stderr=False)


def duration(seconds: float) -> str:
    """Return a time with a suitable unit: "40 s", "12 min", "3.5 h"."""
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{_number(seconds / size)} {unit}"
    return f"{_number(seconds)} s"


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"
