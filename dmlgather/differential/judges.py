"""Libraries that run an ONNX model: onnx's reference evaluator, and onnxruntime where it can be imported."""

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
    """The model raises for these inputs."""


class CannotRunError(Exception):
    """A library has no code for the model, or for types of its inputs."""


@dataclass(frozen=True, slots=True)
class Judge:
    """A library with a model loaded.

    name: with its version. run: the outputs, in order, of inputs by name; RaisedError where the model raises, CannotRunError
    where the library cannot run it, MemoryError. misses_errors: whether it may give a result where ONNX has an error.
    knows_empty: whether outputs without elements have the right shapes. inexact: operators of the model in which it loses the
    sign of a zero and the bits of a NaN. most_index: the largest index, of either sign, with which it comes to an end and is
    right.
    """

    name: str
    run: Callable[[Mapping[str, NDArray[Any]]], list[NDArray[Any]]]
    misses_errors: bool = False
    knows_empty: bool = True
    inexact: tuple[str, ...] = ()
    most_index: int | None = None


def read_model(source: Any) -> tuple[Any, bytes | Path]:
    """Return an onnx.ModelProto, and what libraries load: the file, or its bytes.

    source: a path or an onnx.ModelProto. FileError for a file that cannot be read, ModuleNotFoundError without onnx.
    """
    try:
        onnx = import_module("onnx")
    except ImportError as error:
        raise missing_extra("an ONNX model", "onnx", error) from None
    if isinstance(source, onnx.ModelProto):
        written = source.SerializeToString()
        return onnx.ModelProto.FromString(written), written
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


def broken(model: Any) -> str | None:
    """Return what onnx's checker says against a model; None for a legal one."""
    onnx = import_module("onnx")
    if model.ByteSize() > onnx.checker.MAXIMUM_PROTOBUF:
        return None
    try:
        onnx.checker.check_model(model, full_check=True)
    except MemoryError:
        raise
    except Exception as error:  # of several classes
        return _first_line(error)
    return None


def judges(model: Any, loaded: bytes | Path) -> tuple[list[Judge], list[str]]:
    """Return the libraries that load a model, and in words why another one does not.

    onnx's reference evaluator is not asked of a GatherElements where onnxruntime is: it has no errors there, takes no indices
    that are smaller than the data, and counts a far index back into the axis step by step, for ever.
    """
    found, remarks = list[Judge](), list[str]()
    for title, load in (("onnxruntime", _in_onnxruntime), ("onnx's reference evaluator", _in_reference)):
        if found and _has_gather_elements(model):
            continue
        try:
            found.append(load(model, loaded))
        except ModuleNotFoundError:
            continue
        except MemoryError:
            raise
        except Exception as error:  # each library raises its own
            remarks.append(f"{title} does not load it: {_first_line(error)}")
    return found, remarks


def _in_onnxruntime(model: Any, loaded: bytes | Path) -> Judge:
    ort: Any = import_module("onnxruntime")
    options = ort.SessionOptions()
    options.log_severity_level = 4  # it logs the errors that it raises
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(loaded, options, providers=["CPUExecutionProvider"])
    states = import_module("onnxruntime.capi.onnxruntime_pybind11_state")

    def run(inputs: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        options = ort.RunOptions()
        options.log_severity_level = 4

        def stop() -> None:
            options.terminate = True

        try:
            return [np.asarray(each) for each in _interruptible(lambda: session.run(None, dict(inputs), options), stop)]
        except (states.NotImplemented, TypeError, KeyError) as error:
            raise CannotRunError(_first_line(error)) from None
        except MemoryError:
            raise
        except Exception as error:
            if any(words in str(error) for words in NO_MEMORY):
                raise MemoryError(_first_line(error)) from None
            if any(words in str(error) for words in NO_CODE):
                raise CannotRunError(_first_line(error)) from None
            raise RaisedError(_first_line(error)) from None

    return Judge(
        f"onnxruntime {_short(ort.__version__)}",
        run,
        misses_errors=_counts_back(model),
        inexact=_operators(model, "Where", "DepthToSpace", "SpaceToDepth"),
        most_index=2**31 - 1 if _leaves_wide_indices(ort.__version__) and _operators(model, "Clip", "Min", "Max") else None,
    )


ENDING = 10.0
"""Seconds that work has to come to an end: a process that ends before its threads is aborted."""


def _interruptible(work: Callable[[], Any], stop: Callable[[], None]) -> Any:
    """Return what native work gives, in a thread of its own: signals, such as that of a time limit, are heeded meanwhile. stop:
    ends the work, where one of them raises.
    """
    done: list[Callable[[], Any]] = []
    over = threading.Event()  # an interrupted join takes the thread for stopped

    def call() -> None:
        try:
            value = work()
        except Exception as error:  # it is raised below
            failed = error
            done.append(lambda: _raise(failed))
        else:
            done.append(lambda: value)
        over.set()

    threading.Thread(target=call, daemon=True).start()
    try:
        while not over.wait(0.1):
            pass
    except BaseException:
        _wait_for_end(over, stop)
        raise
    return done[0]()


def _wait_for_end(over: threading.Event, stop: Callable[[], None]) -> None:
    """Stop work, and wait for its end: a limit that is passed raises again and again."""
    last = time.monotonic() + ENDING
    while not over.is_set() and time.monotonic() < last:
        with suppress(BaseException):
            stop()
            over.wait(0.1)


def _raise(error: Exception) -> None:
    raise error


def _leaves_wide_indices(version: str) -> bool:
    """Return whether this onnxruntime leaves some integers of more than 32 bits as they are where it has to clamp them."""
    return [int(part) for part in version.split(".")[:2]] < [1, 32]


def _in_reference(model: Any, _: bytes | Path) -> Judge:
    onnx = import_module("onnx")
    evaluator = import_module("onnx.reference").ReferenceEvaluator(model)

    def run(inputs: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        try:
            with np.errstate(all="ignore"):
                return [np.asarray(each) for each in evaluator.run(None, dict(inputs))]
        except (IndexError, ValueError) as error:
            if any(words in str(error) for words in CANNOT):
                raise CannotRunError(_first_line(error)) from None
            raise RaisedError(_first_line(error)) from None
        except MemoryError:
            raise
        except Exception as error:  # what it does not know, it does not name in one class
            raise CannotRunError(_first_line(error)) from None

    return Judge(
        f"the reference evaluator of onnx {_short(onnx.__version__)}",
        run,
        misses_errors=_misses_errors(model),
        knows_empty=False,
        inexact=_operators(model, "Expand"),
        most_index=2**16 if _has_gather_elements(model) else None,
    )


NO_MEMORY = ("Failed to allocate memory", "bad_alloc", "bad allocation")
"""What onnxruntime says where memory does not suffice."""

NO_CODE = ("Unexpected input data type", "is not supported", "MLDataType")
"""What it says of types that it does not have."""


def _operators(model: Any, *names: str) -> tuple[str, ...]:
    found = {node.op_type for node in _nodes(model)}
    return tuple(name for name in names if name in found)


CANNOT = ("all dimensions of index and self should be the same size", "cannot reshape array of size 0")
"""What the reference evaluator says of legal nodes: a GatherElements whose indices are smaller than the data beside the axis, a
GatherND of tuples without components.
"""


def _counts_back(model: Any) -> bool:
    """Return whether a model has a Gather before opset 11, which takes no negative indices; both libraries count them back."""
    opset = min((each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), default=11)
    return opset < 11 and any(node.op_type == "Gather" for node in _nodes(model))


def _misses_errors(model: Any) -> bool:
    """Return whether onnx's reference evaluator takes indices out of range: in GatherElements, and along axes of empty data."""
    sizes = [dim for value in model.graph.input for dim in value.type.tensor_type.shape.dim]
    empty = any(dim.HasField("dim_value") and dim.dim_value == 0 for dim in sizes)
    return empty or _has_gather_elements(model) or _counts_back(model)


def _has_gather_elements(model: Any) -> bool:
    return any(node.op_type == "GatherElements" for node in _nodes(model))


def _nodes(model: Any) -> Iterator[Any]:
    """Yield the nodes of a model, of its functions and of graphs inside nodes."""
    left = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    while left:
        node = left.pop()
        yield node
        for attribute in node.attribute:
            left += (inner for graph in (attribute.g, *attribute.graphs) for inner in graph.node)


def _short(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
