"""Check one file, or many with several processes, this one among them."""

from __future__ import annotations

import gc
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dmlgather.child_process import end, start_python
from dmlgather.directml.findings import FileProblem, LocatedFinding
from dmlgather.directml.types import FeatureLevel
from dmlgather.files import STREAMS
from dmlgather.host import DEBUG, cpus, is_debugged
from dmlgather.limits import DEFAULT, LimitError, Limits
from dmlgather.onnx_checking.checked_model import CheckedModel, Provider
from dmlgather.report.check_report import FileReport
from dmlgather.report.finding_status import ProgramLine, ReportedFinding

if TYPE_CHECKING:
    from dmlgather.directml.dxdispatch.model_file import CheckedFile

# What checks a file is imported for the first file of its kind.


def _onnx(path: Path, level: FeatureLevel, asked: Asked) -> CheckedModel:
    from dmlgather.onnx_checking.check import check_model

    return check_model(path, level, asked.include_host, asked.provider)


SUFFIXES = (".json", *STREAMS, ".onnx", ".ort", ".xml")
"""The suffixes of files that are looked for in folders. ORT and XML are always of another sort, which the report counts."""

NO_IR = (
    "OpenVINO IRs are neither checked nor explained: dg.openvino has OpenVINO's functions, and dg.openvino.run_layer runs a "
    "single layer of an IR"
)
"""What is said of a file .xml."""


class Asked(NamedTuple):
    """What is asked of each file. allow_outside: as in `check_file`. include_host, provider: as in `check_model`. limits: of the
    work on it.
    """

    allow_outside: bool = False
    include_host: bool = False
    provider: Provider | None = None
    limits: Limits = DEFAULT


def file_report(path: Path, level: FeatureLevel, asked: Asked) -> tuple[FileReport, bool]:
    """The report of a file at a feature level, and whether the file is of another sort.

    A file that takes too long, too much memory, or that meets an error in dmlgather is a problem of its own.
    """
    try:
        with asked.limits.over(path):
            return _checked(path, level, asked)
    except LimitError as error:
        message = f"{error}; it is not checked"
    except RecursionError:
        message = "is nested too deeply"
    except Exception as error:  # no file may cost the report of the others
        if is_debugged():
            traceback.print_exception(error)
        hint = "" if is_debugged() else f"; set {DEBUG}=1 for a traceback"
        summary = " ".join(str(error).split())[:500]
        message = f"meets an internal error of dmlgather, please report it with the file: {type(error).__name__}: {summary}{hint}"
    return _unchecked(path, level, message), False


def _unchecked(path: Path, level: FeatureLevel, message: str) -> FileReport:
    problem = FileProblem(file=str(path), message=message)
    return FileReport(file=str(path), level=level, kind="unknown", problems=(problem,))


def _checked(path: Path, level: FeatureLevel, asked: Asked) -> tuple[FileReport, bool]:
    name = path.name.lower()
    if name.endswith(".onnx"):
        return _model(_onnx(path, level, asked), level), False
    if name.endswith(".xml") and path.is_file():
        return _unchecked(path, level, NO_IR), True
    if name.endswith(STREAMS):
        from dmlgather.directml.dxdispatch.descriptor_lines import check_lines_file

        return _json(check_lines_file(path, level), level)
    from dmlgather.directml.dxdispatch.model_file import check_file

    return _json(check_file(path, level, asked.allow_outside), level)


def stdin_report(level: FeatureLevel, allow_outside: bool = False) -> tuple[FileReport, bool]:
    """The report of what standard input holds, and whether it is of another sort. allow_outside: as in `check_file`."""
    from dmlgather.directml.dxdispatch.descriptor_lines import check_stdin

    checked = check_stdin(sys.stdin.buffer, level, allow_outside)
    report, foreign = _json(checked, level)
    return report.with_lines(checked.lines), foreign


def _json(checked: CheckedFile, level: FeatureLevel) -> tuple[FileReport, bool]:
    report = FileReport(
        file=checked.file,
        level=level,
        kind="unknown" if checked.kind in ("foreign", "unreadable") else checked.kind,
        descriptors=checked.descriptors,
        findings=_reported(checked.findings, named=checked.kind in ("descriptor", "descriptors")),
        problems=tuple(sorted(checked.problems, key=_by_place)),
    )
    return report, checked.kind == "foreign"


def _by_place(problem: FileProblem) -> tuple[bool, int, int]:
    """What sorts problems by place; those without a line, such as how many more there are, come last."""
    return problem.line is None, problem.line or 0, problem.column or 0


def _reported(findings: Iterable[LocatedFinding], *, named: bool = False) -> tuple[ReportedFinding, ...]:
    """The findings, open. named: whether their subjects are the names of descriptors, and may be lines of a program."""
    reported = map(ReportedFinding.of_located, findings)
    return tuple(each.model_copy(update={"created": ProgramLine.of(each.subject)}) if named else each for each in reported)


def _model(checked: CheckedModel, level: FeatureLevel) -> FileReport:
    return FileReport(
        file=checked.file,
        level=level,
        kind="unknown" if checked.problems else "onnx",
        opsets=checked.opsets,
        nodes=checked.nodes,
        others=checked.others,
        relatives=checked.relatives,
        findings=_reported(checked.findings),
        problems=checked.problems,
        provider=checked.provider,
    )


# Check many files with several processes, this one among them.


Checked = tuple[FileReport, bool]
"""The report of a file, and whether the file is of another sort."""

Files = Sequence[tuple[Path, FeatureLevel, Asked]]
"""Files, each with the feature level to check it for, and what else is asked of it: the arguments of `file_report`."""

Note = Callable[[str], None]
"""Takes what a user should know that is no finding."""


def ignored(note: str) -> None:
    """The `Note` of callers who need none."""


SHARED_FROM = 3_000
"""Files that one process checks in the time that another takes to start."""

MOST = 4
"""Processes that are used by default, at most: each needs about 60 MB."""

BATCH = 100
"""Files that a process takes at a time: few enough that all processes end at about the same time."""


def check_all(files: Files, jobs: int | None = 1, note: Note = ignored) -> list[Checked]:
    """Check each file at its feature level; the results are in order. jobs: processes to use, at most, this one counted; None for
    one per CPU and at most MOST. A worker process is started per SHARED_FROM files; `note` is told of one that cannot be.
    """
    workers = min(len(files) // SHARED_FROM, (min(cpus(), MOST) if jobs is None else jobs) - 1)
    return _shared(files, workers, note) if workers > 0 else _check(files)


def prepare_to_end() -> None:
    """Collect garbage rarely, in a process that checks files and ends: it would free little of what imports and reports need."""
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)


def serve() -> None:
    """What a worker process runs: batches of files come in at standard input, and their reports go out at standard output."""
    prepare_to_end()
    answers, sys.stdout = sys.stdout.buffer, sys.stderr
    while (files := _received(sys.stdin.buffer)) is not None:
        _send(_check(files), answers)


def _send(value: Any, pipe: Any) -> None:
    import pickle

    pickle.dump(value, pipe, pickle.HIGHEST_PROTOCOL)
    pipe.flush()


def _received(pipe: Any) -> Any:
    """What the other process sent; None where it has closed the pipe."""
    import pickle

    try:
        return pickle.load(pipe)
    except EOFError:
        return None


def _check(files: Files) -> list[Checked]:
    return [file_report(*file) for file in files]


def _shared(files: Files, workers: int, note: Note) -> list[Checked]:
    """Worker processes take batches from the front, this process takes them from the back. If a worker process dies or cannot be
    started, this one checks what it would have.
    """
    batches = {start: files[start : start + BATCH] for start in range(0, len(files), BATCH)}
    waiting = deque(batches)
    found: dict[int, list[Checked]] = {}
    with ExitStack() as stack:
        talking: list[threading.Thread] = []
        try:
            while len(talking) < workers:
                talking.append(stack.enter_context(_WorkerProcess(batches, waiting, found)).thread)
        except (OSError, RuntimeError) as error:  # no process, or no thread to talk to it
            note(f"{len(talking)} of {workers} worker processes could be started, and the rest is checked without them: {error}")
        _take(batches, waiting, found)
        for thread in talking:
            thread.join()
        _take(batches, waiting, found)
    return [checked for start in batches for checked in found[start]]


def _take(batches: dict[int, Files], waiting: deque[int], found: dict[int, list[Checked]]) -> None:
    while waiting:
        try:
            start = waiting.pop()
        except IndexError:  # a worker process took the last one
            return
        found[start] = _check(batches[start])


class _WorkerProcess:
    """A Python process that checks files, and the thread that talks to it. Leaving the context ends the process."""

    def __init__(self, batches: dict[int, Files], waiting: deque[int], found: dict[int, list[Checked]]) -> None:
        self._batches, self._waiting, self._found = batches, waiting, found
        self._process = start_python("-c", f"from {__name__} import serve; serve()")
        self.thread = threading.Thread(target=self._talk, daemon=True)
        try:
            self.thread.start()
        except RuntimeError:
            end(self._process)
            raise

    def __enter__(self) -> _WorkerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        end(self._process)

    def _talk(self) -> None:
        import pickle

        questions, answers = self._process.stdin, self._process.stdout
        while self._waiting:
            try:
                start = self._waiting.popleft()
            except IndexError:  # another process took the last one
                return
            try:
                _send(self._batches[start], questions)
                answer = _received(answers)
            except (OSError, ValueError, pickle.UnpicklingError):  # the process died, or is being ended
                answer = None
            if answer is None:
                self._waiting.appendleft(start)
                return
            self._found[start] = answer
