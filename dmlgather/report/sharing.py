"""Many files are checked by several processes, this one among them."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dmlgather.directml.types import FeatureLevel
from dmlgather.report.check_report import FileReport
from dmlgather.report.single import check_one

if TYPE_CHECKING:
    from concurrent.futures import Future

Checked = tuple[FileReport, bool]
"""What was found in a file, and whether it is a file of another sort."""

SHARED_FROM = 3_000
"""Files that one process checks in the time that another needs to start."""

MOST = 4
"""Processes that are taken unasked: each holds about 60 MB."""

PART = 100
"""Files that a process takes at a time: few enough that all end at about the same moment."""


def check_all(files: Sequence[tuple[Path, FeatureLevel]], jobs: int | None = 1) -> list[Checked]:
    """Each file checked at its feature level, in order, by up to `jobs` processes: another one per SHARED_FROM files. None for
    one per CPU, MOST at most.
    """
    helpers = len(files) // SHARED_FROM
    if helpers:
        helpers = min(helpers, (_unasked() if jobs is None else jobs) - 1)
    return _shared(files, helpers) if helpers > 0 else _check(files)


def _unasked() -> int:
    from dmlgather.backends.cpu import cpus

    return min(cpus(), MOST)


def _check(files: Sequence[tuple[Path, FeatureLevel]]) -> list[Checked]:
    return [check_one(path, level) for path, level in files]


def _shared(files: Sequence[tuple[Path, FeatureLevel]], helpers: int) -> list[Checked]:
    """Helpers take parts from the front, this process those from the back that none of them has begun."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    parts = [files[start : start + PART] for start in range(0, len(files), PART)]
    own: dict[int, list[Checked]] = {}
    # A fork would copy threads' locks; a new interpreter is the same everywhere.
    with ProcessPoolExecutor(helpers, get_context("spawn"), initializer=_leave_interrupts) as pool:
        try:
            futures: list[Future[list[Checked]]] = [pool.submit(_check, part) for part in parts]
            for number in reversed(range(len(parts))):
                if futures[number].cancel():
                    own[number] = _check(parts[number])
            return [
                checked
                for number, future in enumerate(futures)
                for checked in (own[number] if number in own else future.result())
            ]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _leave_interrupts() -> None:
    """Ctrl-C reaches every process of a terminal; the one that was started answers it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
