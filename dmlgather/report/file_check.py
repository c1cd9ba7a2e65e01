"""Checking of one file, or of many files in several processes."""

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

SUFFIXES = (".json", *STREAMS, ".onnx", ".ort", ".xml")
"""Files that a search in folders finds. Those with .ort and .xml count as skipped."""

NO_IR = (
    "OpenVINO IRs are neither checked nor explained: dg.openvino has OpenVINO's functions, and dg.openvino.run_layer runs a "
    "single layer of an IR"
)
"""The problem of an .xml file, an OpenVINO model."""


class CheckOptions(NamedTuple):
    """Options for the check of one file.

    `allow_outside`: True if a model may name files outside its folder.
    `include_host`: True to judge nodes that only compute shapes, too.
    """

    allow_outside: bool = False
    include_host: bool = False
    provider: Provider | None = None
    limits: Limits = DEFAULT


def file_report(path: Path, level: FeatureLevel, options: CheckOptions) -> Checked:
    """Check a file. This never raises: exceeded limits and internal errors become problems of the report."""
    try:
        with options.limits.over(path):
            return _checked(path, level, options)
    except LimitError as error:
        message = f"{error}; it is not checked"
    except RecursionError:
        message = "is nested too deeply"
    except Exception as error:  # one file must not prevent the report on the others
        if is_debugged():
            traceback.print_exception(error)
        hint = "" if is_debugged() else f"; set {DEBUG}=1 for a traceback"
        summary = " ".join(str(error).split())[:500]
        message = f"meets an internal error of dmlgather, please report it with the file: {type(error).__name__}: {summary}{hint}"
    return _unchecked(path, level, message), False


def _unchecked(path: Path, level: FeatureLevel, message: str) -> FileReport:
    problem = FileProblem(file=str(path), message=message)
    return FileReport(file=str(path), level=level, kind="unknown", problems=(problem,))


def _checked(path: Path, level: FeatureLevel, options: CheckOptions) -> Checked:
    # Modules are imported for the first file of a kind.
    name = path.name.lower()
    if name.endswith(".onnx"):
        return _model(_check_onnx(path, level, options), level), False
    if name.endswith(".xml") and path.is_file():
        return _unchecked(path, level, NO_IR), True
    if name.endswith(STREAMS):
        from dmlgather.directml.dxdispatch.descriptor_lines import check_lines_file

        return _json(check_lines_file(path, level), level)
    from dmlgather.directml.dxdispatch.model_file import check_file

    return _json(check_file(path, level, options.allow_outside), level)


def _check_onnx(path: Path, level: FeatureLevel, options: CheckOptions) -> CheckedModel:
    from dmlgather.onnx_checking.check import check_model

    return check_model(path, level, options.include_host, options.provider)


def stdin_report(level: FeatureLevel, allow_outside: bool = False) -> Checked:
    """Check standard input, like `file_report`."""
    from dmlgather.directml.dxdispatch.descriptor_lines import check_stdin

    checked = check_stdin(sys.stdin.buffer, level, allow_outside)
    report, foreign = _json(checked, level)
    return report.with_lines(checked.lines), foreign


def _json(checked: CheckedFile, level: FeatureLevel) -> Checked:
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
    return problem.line is None, problem.line or 0, problem.column or 0


def _reported(findings: Iterable[LocatedFinding], *, named: bool = False) -> tuple[ReportedFinding, ...]:
    """Convert findings. `named`: True if a subject may be a line of a program ("src/rows.cpp:12")."""
    reported = map(ReportedFinding.of_located, findings)
    return tuple(map(_with_program_line, reported) if named else reported)


def _with_program_line(finding: ReportedFinding) -> ReportedFinding:
    """If the subject is a line of a program ("src/rows.cpp:12"), add it to the finding."""
    created = ProgramLine.of(finding.subject)
    return finding if created is None else finding.model_copy(update={"created": created, "subject": str(created)})


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


Checked = tuple[FileReport, bool]
"""A file's report, and True if the file is neither a model nor a descriptor."""

Files = Sequence[tuple[Path, FeatureLevel, CheckOptions]]

Note = Callable[[str], None]
"""A function that shows a message to the user."""


def no_note(note: str) -> None:
    """Ignore a message."""


FILES_PER_WORKER = 3_000
"""As many files as one process checks while another one starts."""

MOST_PROCESSES = 4
"""The default maximum. Each process takes about 60 MB."""

BATCH = 100
"""Files that a process takes at a time. With few, all processes end at about the same time."""


def check_all(files: Files, jobs: int | None = 1, note: Note = no_note) -> list[Checked]:
    """Check files, with one worker process for each `FILES_PER_WORKER`. The results are in the order of the files.

    `jobs`: the maximum number of processes, with this one. None: one per CPU, at most `MOST_PROCESSES`.
    """
    workers = min(len(files) // FILES_PER_WORKER, (min(cpus(), MOST_PROCESSES) if jobs is None else jobs) - 1)
    return _check_with_workers(files, workers, note) if workers > 0 else _check(files)


def reduce_garbage_collection() -> None:
    """Make garbage collections rare. A process that only checks files keeps nearly all of its objects."""
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)


def serve() -> None:
    """Run a worker process: read batches of files from standard input, and write their reports."""
    reduce_garbage_collection()
    answers, sys.stdout = sys.stdout.buffer, sys.stderr
    while (files := _receive(sys.stdin.buffer)) is not None:
        _send(_check(files), answers)


def _send(value: Any, pipe: Any) -> None:
    import pickle

    pickle.dump(value, pipe, pickle.HIGHEST_PROTOCOL)
    pipe.flush()


def _receive(pipe: Any) -> Any:
    import pickle

    try:
        return pickle.load(pipe)
    except EOFError:
        return None


def _check(files: Files) -> list[Checked]:
    return [file_report(*file) for file in files]


def _check_with_workers(files: Files, workers: int, note: Note) -> list[Checked]:
    """Check files: workers start at the front of the list, this process at its back.

    It also checks the batches of workers that die or cannot be started.
    """
    batches = {start: files[start : start + BATCH] for start in range(0, len(files), BATCH)}
    queue = deque(batches)
    results: dict[int, list[Checked]] = {}
    with ExitStack() as stack:
        threads: list[threading.Thread] = []
        try:
            while len(threads) < workers:
                threads.append(stack.enter_context(_WorkerProcess(batches, queue, results)).thread)
        except (OSError, RuntimeError) as error:  # the process or its thread cannot be started
            note(f"{len(threads)} of {workers} worker processes could be started, and the rest is checked without them: {error}")
        _check_queue(batches, queue, results)
        for thread in threads:
            thread.join()
        _check_queue(batches, queue, results)  # batches of workers that died
    return [checked for start in batches for checked in results[start]]


def _check_queue(batches: dict[int, Files], queue: deque[int], results: dict[int, list[Checked]]) -> None:
    while queue:
        try:
            start = queue.pop()
        except IndexError:  # a worker took the last batch
            return
        results[start] = _check(batches[start])


class _WorkerProcess:
    """A child process that checks batches of files, and the thread that serves it."""

    def __init__(self, batches: dict[int, Files], queue: deque[int], results: dict[int, list[Checked]]) -> None:
        self._batches, self._queue, self._results = batches, queue, results
        self._process = start_python("-c", f"from {__name__} import serve; serve()")
        self.thread = threading.Thread(target=self._serve, daemon=True)
        try:
            self.thread.start()
        except RuntimeError:
            end(self._process)
            raise

    def __enter__(self) -> _WorkerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        end(self._process)

    def _serve(self) -> None:
        import pickle

        requests, answers = self._process.stdin, self._process.stdout
        while self._queue:
            try:
                start = self._queue.popleft()
            except IndexError:  # another process took the last batch
                return
            try:
                _send(self._batches[start], requests)
                answer = _receive(answers)
            except (OSError, ValueError, pickle.UnpicklingError):  # the process died, or is being ended
                answer = None
            if answer is None:
                self._queue.appendleft(start)
                return
            self._results[start] = answer
