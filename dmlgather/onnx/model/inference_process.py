"""ONNX's shape inference in a process of its own, with limits of time and memory: it is native code, and some models make it
crash or grow.

The process runs this file as a script, which imports onnx and nothing of dmlgather. It serves one request after the other.
"""

from __future__ import annotations

import atexit
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

MEGABYTE = 1_000_000

LONGEST_SHAPE = 65
"""Sizes: one more than a shape may have that is looked at."""

_REQUEST, _ANSWER = struct.Struct("<??dQQ"), struct.Struct("<cdQ")
"""Whether inference is strict and whether it propagates data, seconds and bytes of memory that it may take, bytes of the model
that follows; the outcome, seconds that it took, and the number of bytes that follow: a model, or the error's message in UTF-8.
"""

WAIT = 4
"""Seconds that pass, at most, per second of a processor that inference may take; other programs run as well."""

TIMER_SIGNAL = getattr(signal, "SIGPROF", 0)
"""What ends the process after its time."""

TAKES = "ONNX's shape inference takes more than its limit of"

_DONE, _FAILED, _TOO_LARGE = b"d", b"f", b"m"


class InferenceFailedError(Exception):
    """Shapes could not be inferred. The message says why."""


class InferenceLimitError(InferenceFailedError):
    """Inference took more time or memory than it may, or crashed."""


@dataclass
class InferenceLimits:
    """What the shape inference of one model may still take. seconds: of a processor, for the model and all its functions; memory:
    bytes, beyond what importing onnx takes.
    """

    seconds: float
    memory: int

    def __post_init__(self) -> None:
        self.late = f"{TAKES} {self.seconds:.3g} seconds"
        """What is said when the time is used up."""

    @property
    def used_up(self) -> bool:
        """Whether no time is left."""
        return self.seconds <= 0

    @classmethod
    def of_file(cls, size: int) -> InferenceLimits:
        """The limits for a file of that many bytes: 2 seconds and 128 MB per megabyte, and no less for a smaller file."""
        megabytes = max(size / MEGABYTE, 1.0)
        return cls(2.0 * megabytes, int(128 * MEGABYTE * megabytes))

    def infer_shapes(self, model: bytes, *, strict: bool, propagate: bool) -> bytes:
        """A serialised ModelProto with inferred shapes. strict: fail at a node whose shapes cannot be inferred; else pass over
        it. propagate: also compute values that shapes depend on. What it takes is subtracted from `seconds`.

        Raises InferenceFailedError for an error of ONNX's, and where the process could not be started; InferenceLimitError where
        it crashed or passed a limit.
        """
        with _lock:
            running, start = _running(), time.monotonic()
            try:
                answer, took = running.infer(model, strict, propagate, self)
            except InferenceFailedError:
                self.seconds = max(self.seconds - (time.monotonic() - start), 0.0)
                raise
        self.seconds = max(self.seconds - took, 0.0)
        return answer


class _InferenceProcess:
    """A process that infers shapes until it is ended, or ends."""

    def __init__(self) -> None:
        self.owner, self._late = os.getpid(), False
        from dmlgather.child_process import start_python  # not at the top, which the process itself runs

        self._process = start_python(__file__, errors=subprocess.DEVNULL)
        with suppress(OSError):  # when it ends, the first request says so
            self._process.stdout.read(1)  # type: ignore[union-attr] # piped; it has imported onnx, which counts for no model

    @property
    def usable(self) -> bool:
        """Whether it runs, and belongs to this process and not to one that this process was forked from."""
        return self.owner == os.getpid() and self._process.poll() is None

    def infer(self, model: bytes, strict: bool, propagate: bool, limits: InferenceLimits) -> tuple[bytes, float]:
        """The answer, and the seconds that it took."""
        if limits.used_up:
            raise InferenceLimitError(limits.late)
        limit = threading.Timer(WAIT * limits.seconds, self._end_late)
        limit.daemon = True  # Ctrl-C may come before it is cancelled
        try:
            limit.start()
            outcome, took, answer = self._answer(
                _REQUEST.pack(strict, propagate, limits.seconds, limits.memory, len(model)), model
            )
        except (OSError, EOFError):
            self.end()
            code = self._process.wait()
            if self._late or (code < 0 and -code == TIMER_SIGNAL):
                limits.seconds = 0.0
                raise InferenceLimitError(limits.late) from None
            raise InferenceLimitError(_crashed(code)) from None
        except BaseException:  # Ctrl-C: what it answers later must not be read as the answer to another request
            self.end()
            raise
        finally:
            limit.cancel()
        if outcome == _TOO_LARGE:
            self.end()  # its memory is in pieces
            raise InferenceLimitError(f"{TAKES} {limits.memory // MEGABYTE} MB of memory")
        if outcome == _FAILED:
            raise InferenceFailedError(answer.decode())
        return answer, took

    def _answer(self, request: bytes, model: bytes) -> tuple[bytes, float, bytes]:
        assert self._process.stdin is not None
        self._process.stdin.write(request + model)
        self._process.stdin.flush()
        outcome, took, size = _ANSWER.unpack(_read(self._process.stdout, _ANSWER.size))
        return outcome, took, _read(self._process.stdout, size)

    def _end_late(self) -> None:
        self._late = True
        self._process.kill()

    def end(self) -> None:
        from dmlgather.child_process import end

        end(self._process)


def _crashed(code: int) -> str:
    how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    return f"ONNX's shape inference crashed ({how}) at this model"


_lock = threading.Lock()
_process: _InferenceProcess | None = None


def _running() -> _InferenceProcess:
    global _process  # noqa: PLW0603 # one process serves all models of this one
    if _process is None or not _process.usable:
        try:
            _process = _InferenceProcess()
        except OSError as error:
            raise InferenceFailedError(f"no process for ONNX's shape inference can be started: {error}") from None
    return _process


@atexit.register
def _end() -> None:
    if _process is not None and _process.owner == os.getpid():
        _process.end()


def _read(pipe: Any, size: int) -> bytes:
    data: bytes = pipe.read(size)
    if len(data) < size:
        raise EOFError
    return data


def serve() -> None:
    """What the process runs: answer requests at standard input until it is closed. A byte says that it is ready."""
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # native code that prints must not print into an answer
    with suppress(ImportError):  # which each request will report
        import onnx.shape_inference  # noqa: F401 # so that no request pays for it
    answers.write(b"r")
    answers.flush()
    taken = _data_bytes()
    with suppress(EOFError):
        while True:
            strict, propagate, seconds, memory, size = _REQUEST.unpack(_read(requests, _REQUEST.size))
            model, start = _read(requests, size), time.process_time()
            _limit(seconds, None if taken is None else taken + memory)
            outcome, answer = _inferred(model, strict, propagate)
            _limit(0, None)
            answers.write(_ANSWER.pack(outcome, time.process_time() - start, len(answer)) + answer)
            answers.flush()


def _inferred(model: bytes, strict: bool, propagate: bool) -> tuple[bytes, bytes]:
    try:
        from google.protobuf.message import EncodeError  # type: ignore[import-untyped] # protobuf ships no types
        from onnx import shape_inference

        inferred = shape_inference.infer_shapes(model, check_type=False, strict_mode=strict, data_prop=propagate)
        _shorten(inferred.graph)
        try:
            return _DONE, inferred.SerializeToString()
        except EncodeError:  # how protobuf says that memory is out, or that the message is too long
            return _TOO_LARGE, b""
    except MemoryError:
        return _TOO_LARGE, b""
    except Exception as error:  # whatever it is, the parent says it
        return _FAILED, str(error).encode(errors="replace")


def _shorten(graph: Any) -> None:
    """Leave at most LONGEST_SHAPE sizes in each inferred shape: what has more is not looked at, and takes memory."""
    for value in graph.value_info:
        if len(value.type.tensor_type.shape.dim) > LONGEST_SHAPE:
            del value.type.tensor_type.shape.dim[LONGEST_SHAPE:]


def _data_bytes() -> int | None:
    """The memory that this process has for data, as RLIMIT_DATA counts it; None where the system is not Linux."""
    with suppress(OSError), open("/proc/self/status", encoding="ascii", errors="replace") as status:  # noqa: PTH123 # imports less
        for line in status:
            if line.startswith("VmData:"):
                return int(line.split()[1]) * 1024
    return None


def _limit(seconds: float, memory: int | None) -> None:
    """End this process after so many seconds of a processor, if any, and allow it so many bytes of data; as many as there are for
    None. Only Linux keeps the latter limit, and Windows neither: there the parent alone keeps the time.
    """
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)
    if sys.platform == "linux":
        import resource

        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        wanted = hard if memory is None else memory if hard == resource.RLIM_INFINITY else min(memory, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))


if __name__ == "__main__":
    serve()
