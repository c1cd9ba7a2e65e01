"""GatherElements of a chunked table: along an axis that is not cut into chunks, so that each chunk of the output reads one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, product
from math import prod
from typing import Any

import dask.array as da
import numpy as np
from dask._task_spec import Task
from dask.highlevelgraph import HighLevelGraph
from dask.tokenize import tokenize

from dmlgather.backends import arrays
from dmlgather.dialects.onnx.gathering import GatherElements
from dmlgather.dialects.problem import TensorType, check_axis
from dmlgather.directml import BufferTensorDesc, DataType, GatherElementsOperatorDesc
from dmlgather.directml.rules.tensors import ELEMENT_LIMIT
from dmlgather.distributed.axis_rules import AxisRule, axis_rule
from dmlgather.distributed.chunk_loads import chunk_loads, loaded
from dmlgather.distributed.chunk_operators import OPERATORS_KEPT, check, check_sizes, check_type, take
from dmlgather.distributed.routing import Chunks, host_indices
from dmlgather.distributed.table_sources import as_table, check_known
from dmlgather.distributed.tasks import empty_like
from dmlgather.eager import execute
from dmlgather.operator import CompiledOperator, compile  # noqa: A004 - the word users know
from dmlgather.plan import OutOfBounds
from dmlgather.policy import Fill
from dmlgather.wording import alternatives


def gather_elements(
    table: Any, indices: Any, *, axis: int = 0, dialect: str = "directml", out_of_bounds: str | Fill | None = None
) -> da.Array:
    """output[c…] = table[c… with the one at `axis` replaced by indices[c…]].

    table: shape [n…]; a dask array, a zarr array, or the path of a .npy file or a zarr store; in one chunk along `axis`.
    indices: NumPy, CuPy or dask, of the same rank and, off the axis, of the same sizes as the table; dialect "onnx" also takes
    smaller ones there. Off the axis they are cut as the table is; along it, a dask array keeps its chunks, each of which loads
    the table's again. dialect: "directml" (an index out of bounds is clamped) or "onnx" (it is an IndexError). out_of_bounds:
    "clamp", "raise", "promise" or a Fill in the place of the dialect's own.

    Returns a dask array of the shape of `indices` and the table's type, with the table's kind of chunks. Chunks of the table
    that give nothing are not loaded.

    Raises TypeError for what is no table and types that the dialect lacks; ValueError for another dialect, an axis that is out of
    range or in several chunks, another rank or other sizes, and an unknown policy; DescriptorError for chunks that DirectML
    cannot describe; under "raise" IndexError, at once, or when it is computed where the indices are a dask array.
    """
    if dialect not in _DIALECTS:
        known = alternatives(map(repr, _DIALECTS))
        raise ValueError(f"dialect is {dialect!r}, which has no gather of elements: expected {known}")
    source = as_table(table)
    at = check_axis("axis", axis, source.ndim, "table")
    lazy = isinstance(indices, da.Array)
    given = indices if lazy else _array(indices)
    if lazy:
        check_known("indices", given)
    rule = axis_rule(dialect, source.shape[at], source.dtype, given.dtype, out_of_bounds, axis=at)
    _DIALECTS[dialect].check(source, given, rule)
    _check_in_one_chunk(source, at)
    if not lazy and (rule.out_of_bounds is OutOfBounds.RAISE or not rule.extent):
        rule.resolve(host_indices(given))
    cut = _cropped(source.chunks, given, at)
    given = given.rechunk(cut) if lazy else da.from_array(given, chunks=cut, asarray=False)
    return _gathered(source, given, Step(dialect, rule, out_of_bounds))


@dataclass(frozen=True, slots=True)
class Step:
    """What is done with every chunk. out_of_bounds: as the caller chose it."""

    dialect: str
    rule: AxisRule
    out_of_bounds: str | Fill | None


def gathered(step: Step, payload: Any, indices: Any, first: tuple[int, ...]) -> Any:
    """A chunk of the output, as the same kind of array as the table's chunk.

    payload: of that chunk, which is loaded here where it has no task of its own; any array of the table's kind where the axis has
    no elements. indices: another payload, not empty. first: where they begin in the whole, for messages. IndexError under RAISE.
    """
    chunk, wanted, rule = loaded(payload), loaded(indices), step.rule
    array, device = arrays.adopt(chunk)
    check_type(array, rule.dtype)
    if not rule.extent:  # no operator reads an axis without elements
        rule.resolve(host_indices(wanted), first)
        shape = wanted.shape
        nothing = empty_like(chunk, (*shape[: rule.axis], 0, *shape[rule.axis + 1 :]))
        return take(nothing, rule.axis, np.zeros(shape[rule.axis], np.int64), rule.fill)
    found, home = arrays.adopt(wanted)
    try:
        return _DIALECTS[step.dialect].run(chunk, arrays.move(found, home, device), step)
    except IndexError:
        rule.resolve(host_indices(wanted), first)  # which names its place in all of the indices
        raise


def descriptor(
    shape: Sequence[int], dtype: Any, indices: Sequence[int], index_dtype: Any, axis: int
) -> GatherElementsOperatorDesc:
    """GATHER_ELEMENTS of a chunk of `shape` by indices of a shape, for types that DirectML has. DescriptorError for a size that
    does not fit into the 32 bits that a descriptor has for it.
    """
    check_sizes("InputTensor", shape, "DML_OPERATOR_GATHER_ELEMENTS")
    data_type, index_type = (DataType[np.dtype(each).name.upper()] for each in (dtype, index_dtype))
    return GatherElementsOperatorDesc(
        input_tensor=BufferTensorDesc(data_type=data_type, sizes=shape),
        indices_tensor=BufferTensorDesc(data_type=index_type, sizes=indices),
        output_tensor=BufferTensorDesc(data_type=data_type, sizes=indices),
        axis=axis,
    )


def _gathered(table: da.Array, indices: da.Array, step: Step) -> da.Array:
    name = f"gather-elements-{tokenize(table.name, indices.name, step)}"
    places = list(product(*(range(len(sizes)) for sizes in indices.chunks)))
    shapes = dict(zip(places, product(*indices.chunks), strict=True))
    firsts = dict(zip(places, product(*([0, *accumulate(sizes)][:-1] for sizes in indices.chunks)), strict=True))
    axis = step.rule.axis
    chunk_of = {place: (*place[:axis], 0, *place[axis + 1 :]) for place in places if 0 not in shapes[place]}
    loads = chunk_loads(table, set(chunk_of.values()) if step.rule.extent else ())
    of_indices = chunk_loads(indices, list(chunk_of))
    tasks: dict[Any, Task] = {}
    for place in places:
        key = (name, *place)
        if place in chunk_of:
            payload = loads.of(chunk_of[place])[0] if step.rule.extent else table._meta
            tasks[key] = Task(key, gathered, step, payload, of_indices.of(place)[0], firsts[place])
        else:
            tasks[key] = Task(key, empty_like, table._meta, shapes[place])
    graph = HighLevelGraph.from_collections(name, tasks, dependencies=[*loads.graph, *of_indices.graph])
    return da.Array(graph, name, indices.chunks, meta=table._meta)


def _array(indices: Any) -> Any:
    """Indices in memory as a NumPy or CuPy array."""
    return host_indices(indices) if isinstance(indices, Sequence) else arrays.adopt(indices)[0]


def _check_in_one_chunk(table: da.Array, axis: int) -> None:
    sizes = table.chunks[axis]
    if len(sizes) > 1:
        shown = ", ".join(map(str, sizes[:4])) + ", …" * (len(sizes) > 4)
        raise ValueError(
            f"table has {len(sizes)} chunks along axis {axis} (sizes {shown}), and elements of any of them may be wanted "
            f"anywhere: expected one; call table.rechunk({{{axis}: -1}}) first, or gather whole rows with distributed.gather"
        )


def _cropped(chunks: Chunks, indices: Any, axis: int) -> Chunks:
    """The chunks of the indices: the table's as far as the indices reach, along the axis their own."""
    along = indices.chunks[axis] if isinstance(indices, da.Array) else (indices.shape[axis],)
    found = [_reaching(sizes, size) for sizes, size in zip(chunks, indices.shape, strict=True)]
    return (*found[:axis], along, *found[axis + 1 :])


def _reaching(sizes: Sequence[int], size: int) -> tuple[int, ...]:
    """Chunk sizes up to a total of `size`; one of 0 where that is 0."""
    begins = [0, *accumulate(sizes)]
    return tuple(min(each, size - begin) for each, begin in zip(sizes, begins, strict=False) if begin < size) or (0,)


@dataclass(frozen=True, slots=True)
class _Dialect:
    """How a dialect gathers elements: what it checks before there are values, and how it runs on a chunk."""

    check: Callable[[da.Array, Any, AxisRule], None]
    run: Callable[[Any, Any, Step], Any]


def _check_onnx(table: da.Array, indices: Any, rule: AxisRule) -> None:
    GatherElements(_type(table), _type(indices), rule.axis)


def _run_onnx(chunk: Any, indices: Any, step: Step) -> Any:
    problem = GatherElements(_type(chunk), _type(indices), step.rule.axis)
    return execute(problem, (chunk, indices), out_of_bounds=step.out_of_bounds)


def _type(array: Any) -> TensorType:
    return TensorType(tuple(array.shape), np.dtype(array.dtype))


def _check_directml(table: da.Array, indices: Any, rule: AxisRule) -> None:
    shapes = f"table has shape {table.shape} and indices have {tuple(indices.shape)}"
    if indices.ndim != table.ndim:
        raise ValueError(f"{shapes}, but GATHER_ELEMENTS takes equal ranks: reshape the indices")
    if any(axis != rule.axis and size != table.shape[axis] for axis, size in enumerate(indices.shape)):
        raise ValueError(
            f"{shapes}, but off the axis ({rule.axis}) GATHER_ELEMENTS takes equal sizes: slice the table there, or use "
            "dialect 'onnx', which takes smaller indices"
        )
    largest = [max(sizes, default=0) for sizes in table.chunks]
    along = indices.chunks[rule.axis] if isinstance(indices, da.Array) else (indices.shape[rule.axis],)
    wanted = [max(along, default=0) if axis == rule.axis else size for axis, size in enumerate(largest)]
    if prod(wanted) > ELEMENT_LIMIT:
        raise ValueError(
            f"a chunk of the output has shape {tuple(wanted)}, {prod(wanted)} elements, but a descriptor has at most "
            f"{ELEMENT_LIMIT}: cut the indices into smaller chunks along axis {rule.axis} (dask.array.from_array), or rechunk "
            "the table"
        )
    if 0 not in largest and 0 not in wanted:
        check(descriptor(largest, table.dtype, wanted, indices.dtype, rule.axis))


def _run_directml(chunk: Any, indices: Any, step: Step) -> Any:
    rule = step.rule
    desc = descriptor(chunk.shape, rule.dtype, indices.shape, indices.dtype, rule.axis)
    operator = _operator(desc, rule.out_of_bounds, rule.fill, rule.dtype, threading.get_ident())
    found = operator(chunk, indices)
    operator.raise_if_bad()
    return found


@lru_cache(OPERATORS_KEPT)
def _operator(
    desc: GatherElementsOperatorDesc, policy: OutOfBounds, fill: bytes, dtype: np.dtype[Any], _thread: int
) -> CompiledOperator:
    """The compiled operator of a thread, since an operator knows of its last call alone whether an index was bad."""
    return compile(desc, out_of_bounds=Fill(np.frombuffer(fill, dtype)[0]) if fill else policy.value)


_DIALECTS: Mapping[str, _Dialect] = {
    "directml": _Dialect(_check_directml, _run_directml),
    "onnx": _Dialect(_check_onnx, _run_onnx),
}
