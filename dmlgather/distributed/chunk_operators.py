"""Operators on single chunks: how a chunk is described to DirectML, and how rows are taken out of it where it lies."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends import arrays
from dmlgather.backends.devices import CPU, Device
from dmlgather.calls.arguments import Fill
from dmlgather.calls.operator import CompiledOperator, compile  # noqa: A004 - the word users know
from dmlgather.dialects.descriptors import storage_type
from dmlgather.dialects.element_types import BELOW_A_BYTE
from dmlgather.directml import (
    CODES,
    BufferTensorDesc,
    DataType,
    DescriptorError,
    FeatureLevel,
    Finding,
    GatherOperatorDesc,
    OperatorDesc,
    Report,
    validate,
)
from dmlgather.directml.rules.tensors import ELEMENT_LIMIT
from dmlgather.distributed.chunk_grid import replace_axis
from dmlgather.plan import ELEMENT_BYTES, OutOfBounds
from dmlgather.wording import alternatives

OPERATORS_KEPT = 256
"""Compiled operators that a process keeps (least recently used leave first)."""


def gather_descriptor(shape: Sequence[int], dtype: Any, axis: int, count: int) -> GatherOperatorDesc:
    """The GATHER that takes `count` rows along `axis` of a chunk of `shape`; `check` says whether it is valid.

    Indices are INT64, shape [1…, count]. A type that DirectML lacks is described as `word_of` says. TypeError for strings,
    objects, and elements of another size; DescriptorError for a size that does not fit into a descriptor's 32 bits.
    """
    word, parts = word_of(np.dtype(dtype))
    sizes = (*shape, *parts)
    check_sizes("DML_OPERATOR_GATHER", "InputTensor", sizes)
    check_sizes("DML_OPERATOR_GATHER", "OutputTensor", (*sizes[:axis], count))
    data_type = DataType[word.name.upper()]
    return GatherOperatorDesc(
        input_tensor=BufferTensorDesc(data_type=data_type, sizes=sizes),
        indices_tensor=BufferTensorDesc(data_type=DataType.INT64, sizes=(*(1 for _ in sizes[1:]), count)),
        output_tensor=BufferTensorDesc(data_type=data_type, sizes=replace_axis(sizes, axis, count)),
        axis=axis,
        index_dimensions=1,
    )


def judge(desc: OperatorDesc) -> Report:
    """The report of `validate` on the descriptor of a chunk, with remedies that name the table's chunks."""
    report = validate(desc)
    findings = tuple(found.model_copy(update={"remedy": _remedy(found)}) for found in report.findings)
    return report.model_copy(update={"findings": findings})


def check(desc: OperatorDesc) -> None:
    """DescriptorError unless the descriptor of a chunk is valid."""
    judge(desc).raise_for_errors()


def take(chunk: Any, axis: int, rows: NDArray[np.int64], fill: bytes | None = None, dtype: Any = None) -> Any:
    """Rows of a chunk along `axis`, as the same kind of array on the same device.

    chunk: shape [lead…, n, trail…], on the host or a GPU. rows: 0 … n - 1, on the host, any shape [i…]; with `fill`, the bytes of
    one element, n stands for a filled row. dtype: what the elements must be, None for any. Returns [lead…, i…, trail…].

    Raises TypeError for a chunk of another type, of strings or objects, DescriptorError for one that DirectML cannot describe.
    """
    with arrays.in_order([chunk]):
        array, device = arrays.adopt(chunk)
        if dtype is not None:
            check_type(array, np.dtype(dtype))
        shape = replace_axis(array.shape, axis, *rows.shape)
        if 0 in shape:
            return arrays.hand_back(arrays.allocate(device, shape, array.dtype, like=chunk), chunk)
        flat = np.ascontiguousarray(rows, np.int64).reshape(-1)
        if not array.shape[axis] and fill is not None:  # no descriptor has a size of 0: one row that nothing reads
            array, flat = arrays.allocate(device, replace_axis(array.shape, axis, 1), array.dtype), flat + 1
        moved = _gathered(array, device, axis, arrays.move(flat, CPU, device), fill)
        return arrays.hand_back(moved.view(array.dtype).reshape(shape), chunk)


def check_type(chunk: Any, dtype: np.dtype[Any]) -> None:
    """TypeError for a chunk of another type than its array states."""
    if chunk.dtype != dtype:
        raise TypeError(f"a chunk has type {chunk.dtype}, but its array states {dtype}: convert it with .astype")


def _gathered(array: Any, device: Device, axis: int, rows: Any, fill: bytes | None) -> Any:
    """`take` for NumPy and CuPy arrays without sizes of 0, with rows [count]; returns words."""
    word, parts = word_of(array.dtype)
    # Unsigned words can be filled with any bytes; a value that no float can hold would be refused.
    source = as_words(array, word if fill is None else np.dtype(f"u{word.itemsize}"), parts)
    fills = [fill[start : start + word.itemsize] for start in range(0, len(fill), word.itemsize)] if fill else [b""]
    if len(set(fills)) == 1:
        return _run(source, axis, rows, fills[0])
    result = arrays.allocate(device, replace_axis(source.shape, axis, len(rows)), source.dtype)
    for part, each in enumerate(fills):
        _run(source[..., part], axis, rows, each, out=result[..., part])
    return result


def _run(source: Any, axis: int, rows: Any, fill: bytes, out: Any = None) -> Any:
    desc = gather_descriptor(source.shape, source.dtype, axis, len(rows))
    operator = compiled(desc, OutOfBounds.FILL if fill else OutOfBounds.PROMISE, fill)
    return operator(source, rows.reshape(desc.indices_tensor.sizes), out=out)


@lru_cache(OPERATORS_KEPT)
def compiled(
    desc: OperatorDesc, policy: OutOfBounds = OutOfBounds.CLAMP, fill: bytes = b"", _thread: int = 0
) -> CompiledOperator:
    """The compiled operator. fill: the bytes of one element under FILL. _thread: the only thread that uses it; 0 for any."""
    dtype = np.dtype(desc.tensor("input_tensor").data_type.name.lower())
    return compile(desc, out_of_bounds=Fill(np.frombuffer(fill, dtype)[0]) if fill else policy.value)


def word_of(dtype: np.dtype[Any]) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """What elements of a type are moved as: the NumPy type of a word, and the dimensions of words that each element has.

    The type itself where DirectML has it, else the unsigned integer of its size; 16 bytes are two uint64: (2,).
    """
    padded = dtype.name.startswith(BELOW_A_BYTE)  # to a byte, in NumPy's arrays
    found = None if dtype.hasobject else storage_type(np.dtype(f"u{dtype.itemsize}") if padded else dtype)
    if found is None:
        raise TypeError(f"the table has type {dtype}, but only numbers of {alternatives(ELEMENT_BYTES)} bytes are moved")
    return np.dtype(found[0].name.lower()), found[1]


def as_words(array: Any, word: np.dtype[Any], parts: tuple[int, ...]) -> Any:
    """The memory of a NumPy or CuPy array as words; an element of several words adds a last dimension."""
    if not parts:
        return array.view(word)
    if isinstance(array, np.ndarray):  # its `view` needs a contiguous last dimension
        ones = np.lib.stride_tricks.as_strided(array, (*array.shape, 1), (*array.strides, array.itemsize))
        return ones.view(word)
    return type(array)((*array.shape, *parts), word, array.data, (*array.strides, word.itemsize))


def check_sizes(operator: str, tensor: str, sizes: Sequence[int]) -> None:
    """DescriptorError for a size that does not fit into a descriptor's 32 bits."""
    for dimension, size in enumerate(sizes):
        if size > ELEMENT_LIMIT:
            found = CODES["DML108"].finding(
                f"{tensor}.Sizes[{dimension}]",
                expected=f"at most {ELEMENT_LIMIT} elements",
                got=str(size),
                remedy="split the tensor along this dimension",
            )
            found = found.model_copy(update={"remedy": _remedy(found)})
            raise DescriptorError(Report(subject=operator, level=max(FeatureLevel), findings=(found,)))


def _remedy(found: Finding) -> str:
    """The finding's remedy, behind one that names the table's chunks."""
    advice = {
        "DML102": "merge dimensions of the table (table.reshape(…))",
        "DML108": "rechunk the table into smaller chunks (table.rechunk(…))",
    }
    if found.code == "DML108" and found.path.startswith("OutputTensor"):
        return f"lower block_bytes and in_flight_bytes; or {found.remedy}"
    return f"{advice[found.code]}; or {found.remedy}" if found.code in advice else found.remedy
