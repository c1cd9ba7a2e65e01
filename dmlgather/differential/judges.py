"""Libraries that run an ONNX model for the differential check: onnxruntime and onnx's reference evaluator."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.files import FileError, open_regular
from dmlgather.model_formats import recognised
from dmlgather.package import missing_extra


class RaisedError(Exception):
    """The model has raised an error for its inputs, such as for an index out of range."""


class CannotRunError(Exception):
    """A library does not implement the model or its data types."""


@dataclass(frozen=True, slots=True)
class Judge:
    """A library that has loaded an ONNX model, and what is known about its errors.

    `run`: function that returns the outputs in order. It raises RaisedError, CannotRunError or MemoryError.
    `misses_errors`: True if it may return a result although ONNX requires an error.
    `knows_empty`: True if the shapes of its empty outputs are right.
    `inexact`: the operators that may change the sign of a zero or the bits of a NaN.
    `max_index`: the largest absolute value of an index. Beyond it, results are wrong or runs do not end. None for no limit.
    """

    name: str
    run: Callable[[Mapping[str, NDArray[Any]]], list[NDArray[Any]]]
    misses_errors: bool = False
    knows_empty: bool = True
    inexact: tuple[str, ...] = ()
    max_index: int | None = None


def read_model(source: Any) -> tuple[Any, bytes | Path]:
    """Return the model as an onnx.ModelProto, and the path or the bytes from which a library can load it.

    Raises FileError if the model cannot be read.
    """
    try:
        onnx = import_module("onnx")
    except ImportError as error:
        raise missing_extra("an ONNX model", "onnx", error) from None
    if isinstance(source, onnx.ModelProto):
        serialised = source.SerializeToString()
        return onnx.ModelProto.FromString(serialised), serialised
    path = Path(source)
    try:
        with open_regular(path):
            pass
    except FileError as error:
        raise FileError(f"{path} {error}") from None
    try:
        model = onnx.load(path)
    except Exception as error:  # protobuf and onnx raise errors of many classes
        raise FileError(f"{path}: {recognised(path) or f'is no ONNX model that can be read: {error}'}") from None
    if not model.HasField("graph"):
        raise FileError(f"{path}: {recognised(path) or 'holds no graph: it is no ONNX model, or one that was cut off'}")
    return model, path


def checker_error(model: Any) -> str | None:
    """Return the first line of the error that onnx's checker raises, or None."""
    onnx = import_module("onnx")
    if model.ByteSize() > onnx.checker.MAXIMUM_PROTOBUF:
        return None
    try:
        onnx.checker.check_model(model, full_check=True)
    except MemoryError:
        raise
    except Exception as error:  # the checker raises errors of several classes
        return _first_line(error)
    return None


def judges(model: Any, loadable: bytes | Path) -> tuple[list[Judge], list[str]]:
    """Load a model in each library. Return the libraries that loaded it, and a remark for each one that failed.

    A model with GatherElements goes to onnx's reference evaluator only if onnxruntime is missing. For this operator, the
    evaluator raises no errors and rejects index shapes smaller than the data. It also wraps an index by adding the axis size in
    a loop, which takes forever for large indices.
    """
    libraries, remarks = list[Judge](), list[str]()
    for title, load in (("onnxruntime", _load_in_onnxruntime), ("onnx's reference evaluator", _load_in_reference)):
        if libraries and _has_gather_elements(model):
            continue
        try:
            libraries.append(load(model, loadable))
        except ModuleNotFoundError:
            continue
        except MemoryError:
            raise
        except Exception as error:  # each library raises classes of its own
            remarks.append(f"{title} does not load it: {_first_line(error)}")
    return libraries, remarks


def _load_in_onnxruntime(model: Any, loadable: bytes | Path) -> Judge:
    ort: Any = import_module("onnxruntime")
    options = ort.SessionOptions()
    options.log_severity_level = 4  # errors are raised; do not log them too
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(loadable, options, providers=["CPUExecutionProvider"])
    states = import_module("onnxruntime.capi.onnxruntime_pybind11_state")

    def run(inputs: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        options = ort.RunOptions()
        options.log_severity_level = 4

        def stop() -> None:
            options.terminate = True

        try:
            return [np.asarray(output) for output in _interruptible(lambda: session.run(None, dict(inputs), options), stop)]
        except (states.NotImplemented, TypeError, KeyError) as error:
            raise CannotRunError(_first_line(error)) from None
        except MemoryError:
            raise
        except Exception as error:
            if any(words in str(error) for words in _ORT_OUT_OF_MEMORY):
                raise MemoryError(_first_line(error)) from None
            if any(words in str(error) for words in _ORT_NOT_IMPLEMENTED):
                raise CannotRunError(_first_line(error)) from None
            raise RaisedError(_first_line(error)) from None

    return Judge(
        f"onnxruntime {_short(ort.__version__)}",
        run,
        misses_errors=_wraps_in_old_gather(model),
        inexact=_operators(model, "Where", "DepthToSpace", "SpaceToDepth"),
        max_index=2**31 - 1 if _clamps_wrongly(ort.__version__) and _operators(model, "Clip", "Min", "Max") else None,
    )


_STOP_SECONDS = 10.0
"""Longest wait for a stopped thread. Python aborts if the process ends while the thread runs."""


def _interruptible(work: Callable[[], Any], stop: Callable[[], None]) -> Any:
    """Call `work`, which runs native code, in a thread, and return its result.

    If a signal handler raises in the meantime (Ctrl-C, a time limit), call `stop`, and raise the error again.
    """
    outcome: list[Any] = []
    errors: list[Exception] = []
    ended = threading.Event()  # not Thread.join: after an interrupted join, the thread counts as stopped

    def call() -> None:
        try:
            outcome.append(work())
        except Exception as error:
            errors.append(error)
        ended.set()

    threading.Thread(target=call, daemon=True).start()
    try:
        while not ended.wait(0.1):
            pass
    except BaseException:
        _stop_and_wait(ended, stop)
        raise
    if errors:
        raise errors[0]
    return outcome[0]


def _stop_and_wait(ended: threading.Event, stop: Callable[[], None]) -> None:
    """Stop the work and wait until it has ended.

    Errors are ignored meanwhile, because the handler of a time limit raises again and again.
    """
    deadline = time.monotonic() + _STOP_SECONDS
    while not ended.is_set() and time.monotonic() < deadline:
        with suppress(BaseException):
            stop()
            ended.wait(0.1)


def _clamps_wrongly(version: str) -> bool:
    """Return True if Clip, Min and Max of this onnxruntime fail to clamp some integers of more than 32 bits."""
    return [int(part) for part in version.split(".")[:2]] < [1, 32]


def _load_in_reference(model: Any, _: bytes | Path) -> Judge:
    onnx = import_module("onnx")
    evaluator = import_module("onnx.reference").ReferenceEvaluator(model)

    def run(inputs: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        try:
            with np.errstate(all="ignore"):
                return [np.asarray(output) for output in evaluator.run(None, dict(inputs))]
        except (IndexError, ValueError) as error:
            if any(words in str(error) for words in _EVALUATOR_NOT_IMPLEMENTED):
                raise CannotRunError(_first_line(error)) from None
            raise RaisedError(_first_line(error)) from None
        except MemoryError:
            raise
        except Exception as error:  # the evaluator has no class of errors for "not implemented"
            raise CannotRunError(_first_line(error)) from None

    return Judge(
        f"the reference evaluator of onnx {_short(onnx.__version__)}",
        run,
        misses_errors=_misses_errors(model),
        knows_empty=False,
        inexact=_operators(model, "Expand"),
        max_index=2**16 if _has_gather_elements(model) else None,
    )


_ORT_OUT_OF_MEMORY = ("Failed to allocate memory", "bad_alloc", "bad allocation")
"""Parts of onnxruntime's messages that mean insufficient memory."""

_ORT_NOT_IMPLEMENTED = ("Unexpected input data type", "is not supported", "MLDataType")
"""Parts of onnxruntime's messages that mean an unknown data type."""

_EVALUATOR_NOT_IMPLEMENTED = ("all dimensions of index and self should be the same size", "cannot reshape array of size 0")
"""Parts of the reference evaluator's messages about legal nodes that it does not implement.

These are GatherElements with indices smaller than the data, and GatherND with index tuples of length 0.
"""


def _operators(model: Any, *names: str) -> tuple[str, ...]:
    """Return the names, out of `names`, of the operators that the model uses."""
    used = {node.op_type for node in _nodes(model)}
    return tuple(name for name in names if name in used)


def _wraps_in_old_gather(model: Any) -> bool:
    """Return True if the model has a Gather before opset 11.

    ONNX forbids negative indices there, but both libraries accept them.
    """
    opset = min((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=11)
    return opset < 11 and any(node.op_type == "Gather" for node in _nodes(model))


def _misses_errors(model: Any) -> bool:
    """Return True if onnx's reference evaluator may accept indices out of range in this model."""
    sizes = [dim for value in model.graph.input for dim in value.type.tensor_type.shape.dim]
    empty = any(dim.HasField("dim_value") and dim.dim_value == 0 for dim in sizes)
    return empty or _has_gather_elements(model) or _wraps_in_old_gather(model)


def _has_gather_elements(model: Any) -> bool:
    return any(node.op_type == "GatherElements" for node in _nodes(model))


def _nodes(model: Any) -> Iterator[Any]:
    """Yield the nodes of a model, of its functions, and of all subgraphs."""
    stack = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    while stack:
        node = stack.pop()
        yield node
        for attribute in node.attribute:
            stack += (inner for graph in (attribute.g, *attribute.graphs) for inner in graph.node)


def _short(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
