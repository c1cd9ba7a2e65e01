"""Runs DirectML operators on single chunks, on the chunk's device."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends import arrays
from dmlgather.backends.devices import CPU, Device
from dmlgather.calls.arguments import Fill
from dmlgather.calls.operator import CompiledOperator, compile  # noqa: A004 - the public name
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


def gather_descriptor(shape: Sequence[int], dtype: Any, axis: int, count: int) -> GatherOperatorDesc:
    """Return the GATHER descriptor that copies `count` rows of a chunk as words (`word_of`). It is not validated."""
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
    """Validate the descriptor of a chunk. The report's remedies say how to rechunk the table."""
    report = validate(desc)
    findings = tuple(finding.model_copy(update={"remedy": _remedy(finding)}) for finding in report.findings)
    return report.model_copy(update={"findings": findings})


def check(desc: OperatorDesc) -> None:
    """Raise DescriptorError unless the descriptor of a chunk is valid."""
    judge(desc).raise_for_errors()


def take(chunk: Any, axis: int, rows: NDArray[np.int64], fill: bytes | None = None, dtype: Any = None) -> Any:
    """Copy rows of a chunk along `axis`, on its device. The result has shape [lead…, i…, trail…].

    `chunk`: shape [lead…, n, trail…]. `rows`: row numbers from 0 to n - 1, with shape [i…]. `fill`: the bytes of one element.
    If it is given, row number n gives a row of fill values. `dtype`: the type that the chunk must have.
    """
    with arrays.in_order([chunk]):
        array, device = arrays.adopt(chunk)
        if dtype is not None:
            check_type(array, np.dtype(dtype))
        shape = replace_axis(array.shape, axis, *rows.shape)
        if 0 in shape:
            return arrays.hand_back(arrays.allocate(device, shape, array.dtype, like=chunk), chunk)
        flat = np.ascontiguousarray(rows, np.int64).reshape(-1)
        if not array.shape[axis] and fill is not None:  # a descriptor has no size 0: use one row that no index reads
            array, flat = arrays.allocate(device, replace_axis(array.shape, axis, 1), array.dtype), flat + 1
        moved = _gathered(array, device, axis, arrays.move(flat, CPU, device), fill)
        return arrays.hand_back(moved.view(array.dtype).reshape(shape), chunk)


def check_type(chunk: Any, dtype: np.dtype[Any]) -> None:
    """Raise TypeError unless a chunk has the type that its dask array states."""
    if chunk.dtype != dtype:
        raise TypeError(f"a chunk has type {chunk.dtype}, but its array states {dtype}: convert it with .astype")


def _gathered(array: Any, device: Device, axis: int, rows: Any, fill: bytes | None) -> Any:
    """Gather rows of a NumPy or CuPy array that is not empty. Return the elements as words (`word_of`)."""
    word, parts = word_of(array.dtype)
    # Fill takes any bytes as an unsigned integer, but refuses some as a float.
    source = as_words(array, word if fill is None else np.dtype(f"u{word.itemsize}"), parts)
    fill_words = [fill[start : start + word.itemsize] for start in range(0, len(fill), word.itemsize)] if fill else [b""]
    if len(set(fill_words)) == 1:
        return _run(source, axis, rows, fill_words[0])
    result = arrays.allocate(device, replace_axis(source.shape, axis, len(rows)), source.dtype)
    for part, fill_word in enumerate(fill_words):
        _run(source[..., part], axis, rows, fill_word, out=result[..., part])
    return result


def _run(source: Any, axis: int, rows: Any, fill: bytes, out: Any = None) -> Any:
    desc = gather_descriptor(source.shape, source.dtype, axis, len(rows))
    operator = compiled(desc, OutOfBounds.FILL if fill else OutOfBounds.PROMISE, fill)
    return operator(source, rows.reshape(desc.indices_tensor.sizes), out=out)


@lru_cache(OPERATORS_KEPT)
def compiled(
    desc: OperatorDesc, policy: OutOfBounds = OutOfBounds.CLAMP, fill: bytes = b"", _thread: int = 0
) -> CompiledOperator:
    """Return the compiled operator for a descriptor, from a cache.

    `fill`: the bytes of one element. `_thread`: id of the only thread that uses the operator; 0 if threads share it.
    """
    dtype = np.dtype(desc.tensor("input_tensor").data_type.name.lower())
    return compile(desc, out_of_bounds=Fill(np.frombuffer(fill, dtype)[0]) if fill else policy.value)


def word_of(dtype: np.dtype[Any]) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Return the type of the words that elements are moved as, and the shape of one element in words.

    Types that DirectML has are moved unchanged. Other elements are moved as unsigned integers. One element is one word, with
    shape (), but 16 bytes are two uint64 words, with shape (2,). Raises TypeError for strings, objects, and other sizes.
    """
    padded = dtype.name.startswith(BELOW_A_BYTE)  # NumPy stores an int4 in a byte
    storage = None if dtype.hasobject else storage_type(np.dtype(f"u{dtype.itemsize}") if padded else dtype)
    if storage is None:
        raise TypeError(f"the table has type {dtype}, but only numbers of {alternatives(ELEMENT_BYTES)} bytes are moved")
    return np.dtype(storage[0].name.lower()), storage[1]


def as_words(array: Any, word: np.dtype[Any], parts: tuple[int, ...]) -> Any:
    """View a NumPy or CuPy array as words of `word_of`. Several words per element make one more dimension."""
    if not parts:
        return array.view(word)
    if isinstance(array, np.ndarray):  # ndarray.view needs a contiguous last dimension
        ones = np.lib.stride_tricks.as_strided(array, (*array.shape, 1), (*array.strides, array.itemsize))
        return ones.view(word)
    return type(array)((*array.shape, *parts), word, array.data, (*array.strides, word.itemsize))


def check_sizes(operator: str, tensor: str, sizes: Sequence[int]) -> None:
    """Raise DescriptorError for a size of more than 32 bits."""
    for dimension, size in enumerate(sizes):
        if size > ELEMENT_LIMIT:
            finding = CODES["DML108"].finding(
                f"{tensor}.Sizes[{dimension}]",
                expected=f"at most {ELEMENT_LIMIT} elements",
                got=str(size),
                remedy="split the tensor along this dimension",
            )
            finding = finding.model_copy(update={"remedy": _remedy(finding)})
            raise DescriptorError(Report(subject=operator, level=max(FeatureLevel), findings=(finding,)))


def _remedy(finding: Finding) -> str:
    """Return advice on a finding: how to rechunk the table if that helps, then the remedy of the finding."""
    advice = {
        "DML102": "merge dimensions of the table (table.reshape(…))",
        "DML108": "rechunk the table into smaller chunks (table.rechunk(…))",
    }
    if finding.code == "DML108" and finding.path.startswith("OutputTensor"):
        return f"lower block_bytes and in_flight_bytes; or {finding.remedy}"
    return f"{advice[finding.code]}; or {finding.remedy}" if finding.code in advice else finding.remedy
