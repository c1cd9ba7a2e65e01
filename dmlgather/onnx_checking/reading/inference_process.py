"""A separate process for ONNX's shape inference and reference evaluator, with limits of CPU time and memory.

Some models make ONNX crash or use much memory, which must not end the check. The process runs `inference_server.py`.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import threading
import time
from dataclasses import dataclass

from dmlgather.child_process import TIMER_SIGNAL, WAIT, end, start_python
from dmlgather.onnx_checking.reading import inference_server
from dmlgather.onnx_checking.reading.inference_server import ANSWER, FAILED, GRAPH, NODE, REQUEST, TOO_LARGE, read

MEGABYTE = 1_000_000

TAKES = "ONNX's shape inference takes more than its limit of"


class InferenceFailedError(Exception):
    """Raised if ONNX cannot infer the shapes of a model."""


class InferenceLimitError(InferenceFailedError):
    """Raised if the inference process crashed or exceeded its time or memory."""


@dataclass
class InferenceLimits:
    """The time and memory that shape inference may still use. `memory`: bytes, without the memory for importing onnx."""

    seconds: float
    memory: int

    def __post_init__(self) -> None:
        self.late = f"{TAKES} {self.seconds:.3g} seconds"

    @property
    def used_up(self) -> bool:
        """Return True if no CPU time is left."""
        return self.seconds <= 0

    @classmethod
    def of_file(cls, size: int) -> InferenceLimits:
        """Return the limits for a file of `size` bytes: 2 seconds and 128 MB per megabyte, but at least for one megabyte."""
        megabytes = max(size / MEGABYTE, 1.0)
        return cls(2.0 * megabytes, int(128 * MEGABYTE * megabytes))

    def infer_shapes(self, model: bytes, *, strict: bool, propagate: bool) -> bytes:
        """Run ONNX's shape inference on a serialised ModelProto, and return the result in the same form.
        `strict`: True to fail at a node instead of skipping it.
        `propagate`: True to also compute values that may be shapes (ONNX's data propagation).
        InferenceFailedError for an error of ONNX, InferenceLimitError for a crash or an exceeded limit.
        """
        return self._ask(_Request(GRAPH, model, strict, propagate))

    def ask_node(self, model: bytes, most: int) -> bytes:
        """Infer the output types of a node, and compute outputs of at most `most` elements, if possible.
        `model`: a serialised ModelProto with one node. Its inputs are graph inputs or initializers.

        The result has the types in value_info, and the computed outputs as initializers. The errors are those of
        `infer_shapes`.
        """
        return self._ask(_Request(NODE, model, most=most))

    def _ask(self, request: _Request) -> bytes:
        with _lock:
            running, start = _running(), time.monotonic()
            try:
                answer, took = running.ask(request, self)
            except InferenceFailedError:
                self.seconds = max(self.seconds - (time.monotonic() - start), 0.0)
                raise
        self.seconds = max(self.seconds - took, 0.0)
        return answer


@dataclass(frozen=True)
class _Request:
    kind: bytes
    model: bytes
    strict: bool = False
    propagate: bool = True
    most: int = 0

    def packed(self, limits: InferenceLimits) -> bytes:
        options = (self.kind, self.strict, self.propagate, limits.seconds, limits.memory, self.most)
        return REQUEST.pack(*options, len(self.model)) + self.model


class _InferenceProcess:
    """A running inference process. A new one is started after a crash or an exceeded limit."""

    def __init__(self) -> None:
        self.owner, self._late = os.getpid(), False
        self._process = start_python(inference_server.__file__, errors=subprocess.DEVNULL)
        try:
            self._process.stdout.read(1)  # type: ignore[union-attr] # a pipe; waits until onnx is imported
        except OSError:  # it ended; the first request reports that
            pass
        except BaseException:  # Ctrl-C: nothing else can end it yet
            self.end()
            raise

    @property
    def usable(self) -> bool:
        """Return False if the process has ended. Also return False in a forked child, which must start its own process."""
        return self.owner == os.getpid() and self._process.poll() is None

    def ask(self, request: _Request, limits: InferenceLimits) -> tuple[bytes, float]:
        """Return the answer to a request, and the CPU time that it took in seconds."""
        if limits.used_up:
            raise InferenceLimitError(limits.late)
        limit = threading.Timer(WAIT * limits.seconds, self._end_late)
        limit.daemon = True  # Ctrl-C may prevent its cancellation
        try:
            if request.kind == GRAPH or not TIMER_SIGNAL:  # for a node, the process's own timer suffices, and costs less
                limit.start()
            outcome, took, answer = self._answer(request.packed(limits))
        except (OSError, EOFError):
            self.end()
            code = self._process.wait()
            if self._late or (code < 0 and -code == TIMER_SIGNAL):
                limits.seconds = 0.0
                raise InferenceLimitError(limits.late) from None
            how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
            raise InferenceLimitError(f"ONNX's shape inference crashed ({how}) at this model") from None
        except BaseException:  # Ctrl-C: a late answer must not be read as that of another request
            self.end()
            raise
        finally:
            limit.cancel()
        if outcome == TOO_LARGE:
            self.end()  # its memory is fragmented
            raise InferenceLimitError(f"{TAKES} {limits.memory // MEGABYTE} MB of memory")
        if outcome == FAILED:
            raise InferenceFailedError(answer.decode())
        return answer, took

    def _answer(self, request: bytes) -> tuple[bytes, float, bytes]:
        assert self._process.stdin is not None
        self._process.stdin.write(request)
        self._process.stdin.flush()
        outcome, took, size = ANSWER.unpack(read(self._process.stdout, ANSWER.size))
        return outcome, took, read(self._process.stdout, size)

    def _end_late(self) -> None:
        self._late = True
        self._process.kill()

    def end(self) -> None:
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
