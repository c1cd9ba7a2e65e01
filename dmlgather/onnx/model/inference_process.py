"""ONNX's shape inference in a process of its own: it is native code, and some models make it crash.

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
from contextlib import suppress
from typing import Any

TIME_LIMIT = 60.0
"""Seconds that one graph may take."""

_REQUEST, _ANSWER = struct.Struct("<?Q"), struct.Struct("<?Q")
"""Whether inference is strict, or has failed; and the number of bytes that follow: a model, or the error's message in UTF-8."""


class InferenceFailedError(Exception):
    """Shapes could not be inferred. The message says why."""


def infer_shapes(model: bytes, *, strict: bool) -> bytes:
    """A serialised ModelProto with inferred shapes. strict: fail at a node whose shapes cannot be inferred; else pass over it.

    Raises InferenceFailedError for an error of ONNX's, and where the process crashed, took TIME_LIMIT or could not be started.
    """
    with _lock:
        return _running().infer(model, strict)


class _InferenceProcess:
    """A process that infers shapes until it is ended, or ends."""

    def __init__(self) -> None:
        self.owner, self._late = os.getpid(), False
        from dmlgather.child_process import start_python  # not at the top, which the process itself runs

        self._process = start_python(__file__, errors=subprocess.DEVNULL)

    @property
    def usable(self) -> bool:
        """Whether it runs, and belongs to this process and not to one that this process was forked from."""
        return self.owner == os.getpid() and self._process.poll() is None

    def infer(self, model: bytes, strict: bool) -> bytes:
        limit = threading.Timer(TIME_LIMIT, self._end_late)
        limit.daemon = True  # Ctrl-C may come before it is cancelled
        try:
            limit.start()
            failed, answer = self._answer(model, strict)
        except (OSError, EOFError):
            self.end()
            raise InferenceFailedError(self._how_it_ended()) from None
        except BaseException:  # Ctrl-C: what it answers later must not be read as the answer to another request
            self.end()
            raise
        finally:
            limit.cancel()
        if failed:
            raise InferenceFailedError(answer.decode())
        return answer

    def _answer(self, model: bytes, strict: bool) -> tuple[bool, bytes]:
        assert self._process.stdin is not None
        self._process.stdin.write(_REQUEST.pack(strict, len(model)) + model)
        self._process.stdin.flush()
        failed, size = _ANSWER.unpack(_read(self._process.stdout, _ANSWER.size))
        return failed, _read(self._process.stdout, size)

    def _end_late(self) -> None:
        self._late = True
        self._process.kill()

    def _how_it_ended(self) -> str:
        if self._late:
            return f"ONNX's shape inference took more than {TIME_LIMIT:g} seconds"
        code = self._process.wait()
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return f"ONNX's shape inference crashed ({how}) at this model"

    def end(self) -> None:
        from dmlgather.child_process import end

        end(self._process)


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
    """What the process runs: answer requests at standard input until it is closed."""
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # native code that prints must not print into an answer
    with suppress(EOFError):
        while True:
            strict, size = _REQUEST.unpack(_read(requests, _REQUEST.size))
            failed, answer = _inferred(_read(requests, size), strict)
            answers.write(_ANSWER.pack(failed, len(answer)) + answer)
            answers.flush()


def _inferred(model: bytes, strict: bool) -> tuple[bool, bytes]:
    from onnx import shape_inference

    try:
        return False, shape_inference.infer_shapes(
            model, check_type=False, strict_mode=strict, data_prop=True
        ).SerializeToString()
    except Exception as error:  # whatever it is, the parent says it
        return True, str(error).encode(errors="replace")


if __name__ == "__main__":
    serve()
