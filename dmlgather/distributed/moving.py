"""What moves rows of one chunk: a GATHER descriptor, compiled and run where the chunk lies."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends import arrays
from dmlgather.backends.devices import CPU, Device
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
from dmlgather.operator import CompiledOperator, compile  # noqa: A004 - the word users know
from dmlgather.plan import ELEMENT_BYTES
from dmlgather.policy import Fill
from dmlgather.wording import alternatives

OPERATORS_KEPT = 256
"""Compiled operators that a process keeps (least recently used leave first)."""


def descriptor(shape: Sequence[int], dtype: Any, axis: int, count: int) -> GatherOperatorDesc:
    """The GATHER that takes `count` rows along `axis` of a chunk of `shape`; whether it is a valid one is `check`'s matter.

    Indices are INT64, shape [1…, count]. A type that DirectML lacks is described by the unsigned one of its size, 16 bytes by two
    UINT64 along a last dimension. TypeError for strings, objects, and elements of another size; DescriptorError for a size that
    does not fit into the 32 bits that a descriptor has for it.
    """
    word, parts = carried(np.dtype(dtype))
    sizes = (*shape, *parts)
    check_sizes("InputTensor", sizes)
    check_sizes("OutputTensor", (*sizes[:axis], count))
    data_type = DataType[word.name.upper()]
    return GatherOperatorDesc(
        input_tensor=BufferTensorDesc(data_type=data_type, sizes=sizes),
        indices_tensor=BufferTensorDesc(data_type=DataType.INT64, sizes=(*(1 for _ in sizes[1:]), count)),
        output_tensor=BufferTensorDesc(data_type=data_type, sizes=(*sizes[:axis], count, *sizes[axis + 1 :])),
        axis=axis,
        index_dimensions=1,
    )


def judge(desc: OperatorDesc) -> Report:
    """What `validate` says of the descriptor of a chunk, with what to do about the chunks."""
    report = validate(desc)
    findings = tuple(found.model_copy(update={"remedy": _remedy(found)}) for found in report.findings)
    return report.model_copy(update={"findings": findings})


def check(desc: OperatorDesc) -> None:
    """DescriptorError, which says what to do about the chunks, for a chunk that no descriptor can say."""
    judge(desc).raise_for_errors()


def take(chunk: Any, axis: int, rows: NDArray[np.int64], fill: bytes | None = None, dtype: Any = None) -> Any:
    """Rows of a chunk along `axis`, as the same kind of array on the same device.

    chunk: shape [lead…, n, trail…], on the host or a GPU. rows: 0 … n - 1, on the host, any shape [i…]; with `fill`, the bytes of
    one element, n stands for a filled row. dtype: what the elements must be, None for any. Returns [lead…, i…, trail…].

    Raises TypeError for a chunk of another type, of strings or objects, DescriptorError for one that no descriptor can say.
    """
    array, device = arrays.adopt(chunk)
    if dtype is not None:
        check_type(array, np.dtype(dtype))
    lead, size, trail = array.shape[:axis], array.shape[axis], array.shape[axis + 1 :]
    shape = (*lead, *rows.shape, *trail)
    if 0 in shape:
        return arrays.hand_back(arrays.allocate(device, shape, array.dtype, like=chunk), chunk)
    flat = np.ascontiguousarray(rows, np.int64).reshape(-1)
    if not size and fill is not None:  # no descriptor has a size of 0: one row that nothing reads
        array, flat = arrays.allocate(device, (*lead, 1, *trail), array.dtype), flat + 1
    moved = _gathered(array, device, axis, arrays.move(flat, CPU, device), fill)
    return arrays.hand_back(moved.view(array.dtype).reshape(shape), chunk)


def check_type(chunk: Any, dtype: np.dtype[Any]) -> None:
    """TypeError for a chunk of another type than its array states."""
    if chunk.dtype != dtype:
        raise TypeError(f"a chunk has type {chunk.dtype}, but its array states {dtype}: convert it with .astype")


def _gathered(array: Any, device: Device, axis: int, rows: Any, fill: bytes | None) -> Any:
    """`take` for arrays without sizes of 0 and rows [count], of NumPy or CuPy; the result is one of words."""
    word, parts = carried(array.dtype)
    if fill is None:
        return _run(words(array, word, parts), axis, rows, None)
    source = words(array, np.dtype(f"u{word.itemsize}"), parts)  # whose fill value is the bytes, whatever they mean
    fills = [fill[start : start + word.itemsize] for start in range(0, len(fill), word.itemsize)]
    if len(set(fills)) == 1:
        return _run(source, axis, rows, fills[0])
    result = arrays.allocate(device, (*source.shape[:axis], len(rows), *source.shape[axis + 1 :]), source.dtype)
    for part, each in enumerate(fills):
        _run(source[..., part], axis, rows, each, out=result[..., part])
    return result


def _run(source: Any, axis: int, rows: Any, fill: bytes | None, out: Any = None) -> Any:
    desc = descriptor(source.shape, source.dtype, axis, len(rows))
    return _operator(desc, fill)(source, rows.reshape(desc.indices_tensor.sizes), out=out)


@lru_cache(OPERATORS_KEPT)
def _operator(desc: GatherOperatorDesc, fill: bytes | None) -> CompiledOperator:
    """The compiled operator. fill: the bytes of one element where rows out of range are filled, None where there are none."""
    return compile(desc, out_of_bounds="promise" if fill is None else Fill(int.from_bytes(fill, sys.byteorder)))


def carried(dtype: np.dtype[Any]) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """What elements of a type are moved as: the NumPy type of a word, and the dimensions of words that each one has."""
    padded = dtype.name.startswith(BELOW_A_BYTE)  # to a byte, in NumPy's arrays
    found = None if dtype.hasobject else storage_type(np.dtype(f"u{dtype.itemsize}") if padded else dtype)
    if found is None:
        raise TypeError(f"the table has type {dtype}, but only numbers of {alternatives(ELEMENT_BYTES)} bytes are moved")
    data_type, parts = found
    word = np.dtype(data_type.name.lower())
    return word, parts


def words(array: Any, word: np.dtype[Any], parts: tuple[int, ...]) -> Any:
    """The same memory, of NumPy's or CuPy's array, as words, along a last dimension where an element is several."""
    if not parts:
        return array.view(word)
    if isinstance(array, np.ndarray):  # whose view asks for a last dimension that lies packed
        ones = np.lib.stride_tricks.as_strided(array, (*array.shape, 1), (*array.strides, array.itemsize))
        return ones.view(word)
    return type(array)((*array.shape, *parts), word, array.data, (*array.strides, word.itemsize))


def check_sizes(tensor: str, sizes: Sequence[int], subject: str = "DML_OPERATOR_GATHER") -> None:
    """DescriptorError for a size that does not fit into a descriptor's 32 bits. subject: the operator that would be described."""
    for dimension, size in enumerate(sizes):
        if size > ELEMENT_LIMIT:
            found = CODES["DML108"].finding(
                f"{tensor}.Sizes[{dimension}]",
                expected=f"at most {ELEMENT_LIMIT} elements",
                got=str(size),
                remedy="split the tensor along this dimension",
            )
            found = found.model_copy(update={"remedy": _remedy(found)})
            raise DescriptorError(Report(subject=subject, level=max(FeatureLevel), findings=(found,)))


def _remedy(found: Finding) -> str:
    """What to do about the chunks where a descriptor of one has this finding."""
    advice = {
        "DML102": "merge dimensions of the table (table.reshape(…))",
        "DML108": "rechunk the table into smaller chunks (table.rechunk(…))",
    }
    if found.code == "DML108" and found.path.startswith("OutputTensor"):
        return f"lower block_bytes and in_flight_bytes; or {found.remedy}"
    return f"{advice[found.code]}; or {found.remedy}" if found.code in advice else found.remedy
