"""Many files are checked by several processes, this one among them."""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from dmlgather.directml.types import FeatureLevel
from dmlgather.host import cpus
from dmlgather.report.check_report import FileReport
from dmlgather.report.single import check_one

Checked = tuple[FileReport, bool]
"""What was found in a file, and whether it is a file of another sort."""

Files = Sequence[tuple[Path, FeatureLevel]]
"""Files, each with the feature level to check it for."""

SHARED_FROM = 3_000
"""Files that one process checks in the time that another needs to start."""

MOST = 4
"""Processes that are taken unasked: each holds about 60 MB."""

PART = 100
"""Files that a process takes at a time: few enough that all end at about the same moment."""


def check_all(files: Files, jobs: int | None = 1) -> list[Checked]:
    """Each file checked at its feature level, in order, by up to `jobs` processes: another one per SHARED_FROM files. None for
    one per CPU, MOST at most.
    """
    helpers = len(files) // SHARED_FROM
    if helpers:
        helpers = min(helpers, (_unasked() if jobs is None else jobs) - 1)
    return _shared(files, helpers) if helpers > 0 else _check(files)


def prepare_to_end() -> None:
    """Collect garbage rarely in a process that checks files and ends: what the imports made stays, what is read mostly does."""
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)


def serve() -> None:
    """What a helper does: parts of the files come in at standard input, and what was found goes out at standard output."""
    prepare_to_end()
    answers, sys.stdout = sys.stdout.buffer, sys.stderr
    while (files := _received(sys.stdin.buffer)) is not None:
        _send(_check(files), answers)


def _send(value: Any, pipe: Any) -> None:
    pickle.dump(value, pipe, pickle.HIGHEST_PROTOCOL)
    pipe.flush()


def _received(pipe: Any) -> Any:
    """What the other side sent; None where it has closed the pipe."""
    try:
        return pickle.load(pipe)
    except EOFError:
        return None


def _unasked() -> int:
    return min(cpus(), MOST)


def _check(files: Files) -> list[Checked]:
    return [check_one(path, level) for path, level in files]


def _shared(files: Files, helpers: int) -> list[Checked]:
    """Helpers take parts from the front, this process those from the back that none of them has begun, and any that one loses."""
    parts = {start: files[start : start + PART] for start in range(0, len(files), PART)}
    waiting = deque(parts)
    found: dict[int, list[Checked]] = {}
    with ExitStack() as stack:
        threads = [stack.enter_context(_Helper(parts, waiting, found)).thread for _ in range(helpers)]
        _take(parts, waiting, found)
        for thread in threads:
            thread.join()
        _take(parts, waiting, found)
    return [checked for start in parts for checked in found[start]]


def _take(parts: dict[int, Files], waiting: deque[int], found: dict[int, list[Checked]]) -> None:
    while waiting:
        try:
            start = waiting.pop()
        except IndexError:  # a helper was quicker
            return
        found[start] = _check(parts[start])


class _Helper:
    """A process of this interpreter that checks files, and the thread that talks to it; leaving the context ends it."""

    def __init__(self, parts: dict[int, Files], waiting: deque[int], found: dict[int, list[Checked]]) -> None:
        self._parts, self._waiting, self._found = parts, waiting, found
        paths = os.pathsep.join(path or os.getcwd() for path in sys.path)  # noqa: PTH109 # joined as text
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", f"from {__name__} import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": paths},
            start_new_session=True,  # whom Ctrl-C means is this process, which ends the other
        )
        self.thread = threading.Thread(target=self._talk, daemon=True)
        self.thread.start()

    def __enter__(self) -> _Helper:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):  # what was still to be sent
                pipe.close()

    def _talk(self) -> None:
        questions, answers = self._process.stdin, self._process.stdout
        while self._waiting:
            try:
                start = self._waiting.popleft()
            except IndexError:  # another was quicker
                return
            try:
                _send(self._parts[start], questions)
                answer = _received(answers)
            except (OSError, ValueError, pickle.UnpicklingError):  # it ended, or is being ended
                answer = None
            if answer is None:
                self._waiting.appendleft(start)
                return
            self._found[start] = answer
