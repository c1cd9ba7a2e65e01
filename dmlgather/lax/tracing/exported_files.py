"""Files that `jax.export` wrote, as graphs. A process of its own reads them: JAX's reader checks little, so that damaged ones
make it crash, or never end.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from dmlgather.child_process import TIMER_SIGNAL, WAIT, end, start_python
from dmlgather.dialects.index_graph import IndexGraph
from dmlgather.files import FileError, open_regular
from dmlgather.lax.tracing.index_graph import index_graph
from dmlgather.limits import MEGABYTE, MEMORY, SECONDS, data_limited, inherit_no_limit
from dmlgather.wording import printable


def exported_graph(path: Path) -> IndexGraph:
    """The graph of the function in a file. FileError, without the path, for what is no such file, has sizes that are symbols, or
    an operation that gathers, slices and views do not need, and where reading takes more than 5 seconds of a processor or 350 MB
    per megabyte of the file, 5 seconds and 350 MB at least. ModuleNotFoundError without JAX.
    """
    with open_regular(path) as (file, _):
        content = file.read()
    megabytes = max(len(content) / MEGABYTE, 1.0)
    seconds, memory = SECONDS * megabytes, int(MEMORY * megabytes)
    process = start_python("-c", f"from {__name__} import serve; serve({seconds}, {memory})", errors=subprocess.DEVNULL)
    try:
        answer, _ = process.communicate(content, WAIT * seconds)
    except subprocess.TimeoutExpired:
        answer, late = b"", True
    else:
        late = process.returncode < 0 and -process.returncode == TIMER_SIGNAL
    finally:
        end(process)
    if late:
        raise FileError(f"takes more than {seconds:.3g} seconds to read, or is damaged so that reading it never ends")
    if not answer:
        raise FileError(f"holds no function that jax.export wrote, or a damaged one: JAX's reader crashed ({process.returncode})")
    found: IndexGraph | Exception = pickle.loads(answer)
    if isinstance(found, Exception):
        raise found
    return found


def serve(seconds: float, memory: int) -> None:
    """What the process runs: read a file's content at standard input, and write its graph, or what was raised, to standard
    output. seconds: of a processor, after which the process ends. memory: bytes, beyond what JAX takes.
    """
    os.environ["JAX_PLATFORMS"] = "cpu"  # a GPU's memory would be reserved
    inherit_no_limit()
    content, answers = sys.stdin.buffer.read(), os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # native code that prints must not print into an answer
    found: Any
    try:
        import jax.export

        jax.devices()  # which starts threads
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_PROF, seconds)
        with data_limited(memory):
            found = graph_of(content)
    except (FileError, ModuleNotFoundError) as error:
        found = error
    except MemoryError:
        found = FileError(f"takes more than {memory // MEGABYTE} MB of memory to read")
    except RecursionError:
        found = FileError("is nested too deeply")
    answers.write(pickle.dumps(found))
    answers.close()


# Functions that `jax.export` serialised, as graphs: operations of StableHLO are the primitives of JAX that mean the same.


DEEPEST = 20
"""Calls inside each other, at most."""


def graph_of(content: bytes) -> IndexGraph:
    """The graph of a function. FileError for what is none, has sizes that are symbols, or an operation that gathers, slices and
    views do not need. Damaged bytes may also end the process, or never return.
    """
    jax, export = import_module("jax"), import_module("jax.export")
    ir, stablehlo = import_module("jaxlib.mlir.ir"), import_module("jaxlib.mlir.dialects.stablehlo")
    import_module("jaxlib.mlir.dialects.func")  # which modules of StableHLO hold their operations in
    try:
        exported = export.deserialize(bytearray(content))
        types = [jax.ShapeDtypeStruct([int(size) for size in each.shape], each.dtype) for each in exported.in_avals]
        with ir.Context() as context:
            stablehlo.register_dialect(context)
            module = stablehlo.deserialize_portable_artifact(context, exported.mlir_module_serialized)
            functions = {function.name.value: function for function in module.body.operations}
            kept = exported.module_kept_var_idx  # it has no arguments that nothing reads

            def called(*arrays: Any) -> Any:
                return _called(functions, "main", [arrays[number] for number in kept], DEEPEST)

            with jax.enable_x64(True):
                return index_graph(called, *types)
    except FileError as error:
        raise FileError(str(error)) from None  # without what JAX notes of its frames
    except (MemoryError, RecursionError):
        raise
    except Exception as error:  # what a damaged file raises is not stated
        shown = printable(" ".join(str(error).split())[:200])
        raise FileError(f"holds no function of known sizes that jax.export wrote, or a damaged one: {shown}") from None


def _called(functions: Mapping[str, Any], name: str, arguments: Sequence[Any], deepest: int) -> Any:
    """The results of a function: one, or a tuple."""
    if not deepest:
        raise FileError(f"has more than {DEEPEST} calls inside each other")
    block = functions[name].entry_block
    values = dict(zip(block.arguments, arguments, strict=True))
    for each in block.operations:
        operation = each.operation
        inputs = [values[operand] for operand in operation.operands]
        if operation.name == "func.return":
            return inputs[0] if len(inputs) == 1 else tuple(inputs)
        if operation.name == "func.call":
            results = _called(functions, operation.attributes["callee"].value, inputs, deepest - 1)
        elif operation.name in OPERATIONS:
            results = OPERATIONS[operation.name](operation, *inputs)
        else:
            raise FileError(f"has the operation {printable(operation.name)}, which neither gathers, slices nor views")
        values.update(zip(operation.results, results if isinstance(results, tuple) else (results,), strict=True))
    raise FileError(f"has a function {name!r} that returns nothing")


def _lax() -> Any:
    return import_module("jax.lax")


def _shape(operation: Any) -> tuple[int, ...]:
    return tuple(operation.results[0].type.shape)


def _dtype(operation: Any) -> np.dtype[Any]:
    """The type of the result's elements. FileError for one that no array has."""
    name = str(operation.results[0].type.element_type)
    names = {"i1": "bool", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"}
    sized = name.replace("ui", "uint") if name.startswith("ui") else name.replace("i", "int")
    try:
        found: np.dtype[Any] = import_module("jax.numpy").dtype(names.get(name, sized))
    except TypeError:
        raise FileError(f"has elements of type {printable(name)}, which are not read") from None
    return found


def _integers(operation: Any, name: str) -> tuple[int, ...]:
    return tuple(operation.attributes[name])


def _constant(operation: Any) -> Any:
    ir = import_module("jaxlib.mlir.ir")
    value, dtype = operation.attributes["value"], _dtype(operation)
    if dtype.name == "bfloat16":  # which NumPy does not know
        raise FileError("has constants of type bf16, which are not read")
    kind = ir.DenseIntElementsAttr if dtype.kind in "iub" else ir.DenseFPElementsAttr
    held = kind(value)
    array = np.array(held.get_splat_value().value if held.is_splat else held)
    return import_module("jax.numpy").asarray(np.broadcast_to(array, _shape(operation)), dtype)


def _compare(operation: Any, one: Any, other: Any) -> Any:
    if one.dtype.kind not in "iub":
        raise FileError(f"compares {one.dtype}, which indexing does not need")
    text = str(operation.attributes["comparison_direction"])
    direction = text.removeprefix("#stablehlo<comparison_direction ").removesuffix(">")
    return getattr(_lax(), direction.lower())(one, other)


def _reduce(operation: Any, value: Any, start: Any) -> Any:
    """Of booleans by "and", as mode "fill" needs it."""
    inner = [each.operation.name for each in operation.regions[0].blocks[0].operations]
    if inner != ["stablehlo.and", "stablehlo.return"] or value.dtype != bool:
        raise FileError("has the operation stablehlo.reduce of numbers, which neither gathers, slices nor views")
    for axis in sorted(_integers(operation, "dimensions"), reverse=True):
        parts = [_lax().index_in_dim(value, place, axis, keepdims=False) for place in range(value.shape[axis])]
        value = reduce(_lax().bitwise_and, parts, _lax().broadcast(start, tuple(np.delete(value.shape, axis))))
    return value


def _gather(operation: Any, data: Any, indices: Any) -> Any:
    stablehlo = import_module("jaxlib.mlir.dialects.stablehlo")
    own = stablehlo.GatherDimensionNumbers(operation.attributes["dimension_numbers"])
    if own.index_vector_dim == indices.ndim:
        indices = _lax().expand_dims(indices, [indices.ndim])
    elif own.index_vector_dim != indices.ndim - 1:
        raise FileError("has a gather whose index vectors do not lie in the last dimension, which JAX has not")
    names = ("offset_dims", "collapsed_slice_dims", "start_index_map", "operand_batching_dims", "start_indices_batching_dims")
    numbers = _lax().GatherDimensionNumbers(**{name: tuple(getattr(own, name)) for name in names})
    return _lax().gather(data, indices, numbers, _integers(operation, "slice_sizes"), mode="clip")


def _slice(operation: Any, value: Any) -> Any:
    return _lax().slice(value, *(_integers(operation, name) for name in ("start_indices", "limit_indices", "strides")))


def _dynamic_slice(operation: Any, value: Any, *starts: Any) -> Any:
    return _lax().dynamic_slice(value, starts, _integers(operation, "slice_sizes"), allow_negative_indices=False)


def _primitive(name: str) -> Callable[..., Any]:
    """An operation with the operands of a primitive, and nothing else to say."""
    return lambda _, *inputs: getattr(_lax(), name)(*inputs)


OPERATIONS: Mapping[str, Callable[..., Any]] = {
    "stablehlo.constant": _constant,
    "stablehlo.compare": _compare,
    "stablehlo.reduce": _reduce,
    "stablehlo.gather": _gather,
    "stablehlo.slice": _slice,
    "stablehlo.dynamic_slice": _dynamic_slice,
    "stablehlo.add": _primitive("add"),
    "stablehlo.subtract": _primitive("sub"),
    "stablehlo.multiply": _primitive("mul"),
    "stablehlo.remainder": _primitive("rem"),
    "stablehlo.negate": _primitive("neg"),
    "stablehlo.sign": _primitive("sign"),
    "stablehlo.minimum": _primitive("min"),
    "stablehlo.maximum": _primitive("max"),
    "stablehlo.and": _primitive("bitwise_and"),
    "stablehlo.or": _primitive("bitwise_or"),
    "stablehlo.not": _primitive("bitwise_not"),
    "stablehlo.clamp": _primitive("clamp"),
    "stablehlo.select": lambda _, which, one, other: _lax().select_n(which, other, one),
    "stablehlo.convert": lambda operation, value: _lax().convert_element_type(value, _dtype(operation)),
    "stablehlo.bitcast_convert": lambda operation, value: _lax().bitcast_convert_type(value, _dtype(operation)),
    "stablehlo.reshape": lambda operation, value: _lax().reshape(value, _shape(operation)),
    "stablehlo.transpose": lambda operation, value: _lax().transpose(value, _integers(operation, "permutation")),
    "stablehlo.reverse": lambda operation, value: _lax().rev(value, _integers(operation, "dimensions")),
    "stablehlo.broadcast_in_dim": lambda operation, value: _lax().broadcast_in_dim(
        value, _shape(operation), _integers(operation, "broadcast_dimensions")
    ),
    "stablehlo.concatenate": lambda operation, *values: _lax().concatenate(values, operation.attributes["dimension"].value),
    "stablehlo.iota": lambda operation: _lax().broadcasted_iota(
        _dtype(operation), _shape(operation), operation.attributes["iota_dimension"].value
    ),
}
"""What the operations of StableHLO are in JAX. All that `jax_form` states is here, and what JAX adds around it."""
