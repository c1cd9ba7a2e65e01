"""Runs DirectML descriptors on chunked tables, which may have more elements than a descriptor allows."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np

from dmlgather.calls.arguments import Fill
from dmlgather.dialects.element_types import conversion
from dmlgather.directml import (
    BufferTensorDesc,
    FeatureLevel,
    GatherElementsOperatorDesc,
    GatherNDOperatorDesc,
    GatherOperatorDesc,
    OperatorDesc,
    Slice1OperatorDesc,
    SliceOperatorDesc,
    validate,
)
from dmlgather.directml.shapes import gather_batch
from dmlgather.distributed.chunked_elements import gather_elements
from dmlgather.distributed.chunked_gather import gather
from dmlgather.distributed.chunked_slice import sliced, windows_of
from dmlgather.distributed.routing import host_indices
from dmlgather.distributed.table_sources import as_table, result_array

OF_ONE_DEVICE = frozenset({"DML108"})
"""Codes of limits that each chunk must keep, but not the whole table."""


def run(
    desc: OperatorDesc,
    table: Any,
    indices: Any = None,
    *,
    level: str | FeatureLevel = "6_4",
    out_of_bounds: str | Fill | None = None,
) -> da.Array:
    """Return the result of `dmlgather.compile(desc, …)(table, indices)` for a table that is larger than a device or a machine.

    `desc`: a GATHER, GATHER_ELEMENTS, SLICE or SLICE1 that is valid at `level`. However, its tensors may have more than 2^32 -
    1 elements. The arrays must have the described data types and sizes, but may lack leading dimensions of size 1. Strides in
    the descriptor are ignored.
    `table`: shape InputTensor.Sizes; a dask, zarr or NumPy array, or the path of a .npy file or a zarr store.
    `indices`: shape IndicesTensor.Sizes; a NumPy, CuPy or dask array; None for slices.
    `out_of_bounds`: what an index out of bounds does: "clamp", "raise", "promise" or a Fill. None means DirectML's rule, which
    clamps.

    The result is a dask array of shape OutputTensor.Sizes, with chunks of the table's array library.

    Raise DescriptorError for a descriptor that is not valid. Raise ValueError for other operators, for other shapes, and for a
    GATHER with batch dimensions. Raise TypeError for other data types. Also raise the errors of `gather`, `gather_elements` and
    `slice`.

    >>> import dask.array as da
    >>> source, output = (dg.BufferTensorDesc(data_type="INT64", sizes=(size,)) for size in (10, 3))
    >>> desc = dg.SliceOperatorDesc(input_tensor=source, output_tensor=output, offsets=(1,), sizes=(3,), strides=(4,))
    >>> dg.distributed.run(desc, da.arange(10, chunks=4)).compute()
    array([1, 5, 9])
    """
    _check_descriptor(desc, level)
    source = _as_described("table", desc.tensor("input_tensor"), as_table(table))
    if isinstance(desc, SliceOperatorDesc | Slice1OperatorDesc):
        if indices is not None:
            raise TypeError(f"{desc.operator.name} takes no indices, got {type(indices).__name__}: leave them out")
        return result_array(sliced(source, windows_of(desc)))
    if indices is None:
        raise TypeError(f"{desc.operator.name} takes indices of shape {desc.tensor('indices_tensor').sizes}, got none")
    index_array = indices if isinstance(indices, da.Array) else host_indices(indices)
    index_array = _as_described("indices", desc.tensor("indices_tensor"), index_array)
    if isinstance(desc, GatherElementsOperatorDesc):
        return gather_elements(source, index_array, axis=desc.axis, out_of_bounds=out_of_bounds)
    assert isinstance(desc, GatherOperatorDesc)
    index_array = index_array[(0,) * (index_array.ndim - desc.index_dimensions)]
    return _right_aligned(gather(source, index_array, axis=desc.axis, out_of_bounds=out_of_bounds), source.ndim)


def _check_descriptor(desc: OperatorDesc, level: str | FeatureLevel) -> None:
    report = validate(desc, level=level)
    findings = tuple(finding for finding in report.findings if finding.code not in OF_ONE_DEVICE)
    report.model_copy(update={"findings": findings}).raise_for_errors()
    operator = desc.operator.name
    if isinstance(desc, GatherNDOperatorDesc):
        raise ValueError(
            f"{operator} indexes several dimensions at once, but a chunked table is indexed along one: merge these dimensions "
            "with table.reshape(…), merge the indices with numpy.ravel_multi_index, and use GATHER; or call dmlgather.compile on "
            "a table of one chunk"
        )
    if not isinstance(desc, GatherOperatorDesc | GatherElementsOperatorDesc | SliceOperatorDesc | Slice1OperatorDesc):
        raise ValueError(
            f"{operator} does not run on chunked tables: call dmlgather.compile on a table of one chunk; or reshape the dask "
            f"array so that the blocks of {operator} have their own dimensions, and transpose it"
        )
    if isinstance(desc, GatherOperatorDesc) and (batch := gather_batch(desc)):
        with_input, dimension = batch[0]
        raise ValueError(
            f"IndicesTensor.Sizes[{dimension}] = {desc.indices_tensor.sizes[dimension]} makes dimension {with_input} of "
            f"InputTensor a batch dimension (IndexDimensions = {desc.index_dimensions}), which a chunked table must not have: "
            "gather for each index of this dimension, or use GATHER_ELEMENTS"
        )


def _as_described(name: str, tensor: BufferTensorDesc, array: Any) -> Any:
    """Check the shape and data type of an array. Return it with the described rank, and with bool as UINT8."""
    dtype = np.dtype(tensor.data_type.name.lower())
    missing = tensor.rank - array.ndim
    if (1,) * missing + tuple(array.shape) != tensor.sizes:
        raise ValueError(f"{name} has shape {tuple(array.shape)}, expected {tensor.sizes}, the Sizes that the descriptor states")
    array = array[(None,) * missing] if missing else array
    if array.dtype == np.bool_ and dtype == np.uint8:
        return array.view(dtype)
    if array.dtype != dtype:
        raise TypeError(
            f"{name}: expected {dtype} elements (the descriptor says {tensor.data_type.name}), got {array.dtype}; "
            f"{conversion(array.dtype, dtype, indices=name == 'indices')}"
        )
    return array


def _right_aligned(result: da.Array, rank: int) -> da.Array:
    """Return `result` with `rank` dimensions, like DirectML's output, by removing or adding leading dimensions of size 1."""
    surplus = result.ndim - rank
    return result_array(result[(0,) * surplus] if surplus > 0 else result[(None,) * -surplus]) if surplus else result
