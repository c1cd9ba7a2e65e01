"""jax.lax.gather as a function on arrays, with its DirectML descriptors, and the differences from DirectML."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.calls.arguments import Fill, host_values, type_of
from dmlgather.calls.eager import EagerFunction, Request
from dmlgather.dialects.exporter import Descriptors
from dmlgather.directml import FeatureLevel, Finding, OperatorDesc, Report
from dmlgather.lax.problems import export
from dmlgather.lax.problems.gather import LaxGather


@EagerFunction
def gather(
    operand: Any,
    start_indices: Any,
    dimension_numbers: Any,
    slice_sizes: Sequence[int] | int,
    *,
    unique_indices: bool = False,  # noqa: ARG001 - JAX's signature; not needed here
    indices_are_sorted: bool = False,  # noqa: ARG001 - JAX's signature; not needed here
    mode: Any = None,
    fill_value: Any = None,
    out: Any = None,
    out_of_bounds: str | Fill | None = None,
    device: str | None = None,
    stream: Any = None,
) -> Request:
    """Return a window of `operand` for each index vector of `start_indices`, like jax.lax.gather.

    `operand`: an array of shape [n…] and any type of JAX.
    `start_indices`: an array of shape [i…, components] and type int8 … uint64. Its last dimension holds the index vectors.
    `dimension_numbers`: a GatherDimensionNumbers of dmlgather or JAX.
    `slice_sizes`: the window's size in each dimension of `operand`. If `operand` has rank 1, one integer is allowed.
    `unique_indices`, `indices_are_sorted`: ignored.
    `mode`: what happens to a window that is partly out of bounds; a name, or a member of JAX's GatherScatterMode. "clip" moves
    the window into bounds. "fill" and "drop" fill the whole window with `fill_value`. With "promise_in_bounds" or None, the
    caller promises that all windows are in bounds; a call then runs like "clip".
    `fill_value`: a number, cast by NumPy's rules. None means NaN, the smallest signed integer, the largest unsigned integer, or
    True.

    The result has shape [i…], with the window's sizes inserted at offset_dims, and the array type of `operand`. Unlike JAX,
    "fill" compares indices at full width: 2^32 + 1 is out of bounds, but JAX reads element 1 for it. Negative indices never
    count from the end.

    `out`: an array of NumPy, CuPy or PyTorch that receives the result and is returned; None for a new array.
    `out_of_bounds`: "clamp", "raise", "promise" or a Fill, which replaces the rule of `mode`.
    `device`: where the call runs: "cpu", "cuda", "cuda:N" or "reference". None means the arrays' device.
    `stream`: the GPU stream of the call, as for compiled operators.

    Raises TypeError for unsupported types and, like JAX, for shapes that do not fit together; ValueError for an unknown mode,
    for indices that are not integers, and for an `out` that has another shape than the result or overlaps an input; IndexError
    for a bad index under "raise".

    >>> rows = dg.lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
    >>> dg.lax.gather(np.array([[1, 2], [3, 4]]), np.array([[1], [0]]), rows, slice_sizes=(1, 2)).tolist()
    [[3, 4], [1, 2]]
    """
    attributes = {"dimension_numbers": dimension_numbers, "slice_sizes": slice_sizes, "mode": mode, "fill_value": fill_value}
    problem = partial(LaxGather.from_call, **attributes)
    return Request(problem, {"operand": operand, "start_indices": start_indices}, out_of_bounds, device, out, stream=stream)


def to_directml(
    operand: Any,
    start_indices: Any,
    dimension_numbers: Any,
    slice_sizes: Sequence[int],
    level: str | FeatureLevel = "6_4",
    *,
    mode: Any = None,
    fill_value: Any = None,
    constants: Mapping[str, Any] | None = None,
) -> OperatorDesc | Descriptors | Report:
    """Return the DirectML descriptor of a lax.gather, or a report of why it has none.

    `operand`, `start_indices`: arrays, anything with `shape` and `dtype`, or pairs (shape, dtype). `dimension_numbers`,
    `slice_sizes`, `mode`, `fill_value`: the arguments of `gather`. `level`: DirectML's feature level, such as "6_4".
    `constants`: {"start_indices": array} if the values of start_indices are known. Then the argument `start_indices` may be
    None.

    Returns one descriptor, or a tuple of descriptors in the order of execution. If the level cannot express the call, returns a
    Report: its findings name the limit of the level, or a broken rule of the operator (`docs/expressing.md`). The descriptors
    are:

    - GATHER, if index vectors have one component and there are no batching dimensions. Trailing
      components with a window as large as the dimension are not counted, because they can only be 0.
    - GATHER_ELEMENTS, if index vectors have one component, windows have one element, there are batching dimensions, and at most
      one other dimension of start_indices is larger than 1.
    - Otherwise GATHER_ND1, or GATHER_ND before level 3_0. Strides bring operand's dimensions into the order of start_index_map,
      batching dimensions to the front, and the output's windows to offset_dims.
    - If a window is larger than one element and smaller than its dimension, a SLICE1 or SLICE before one of these operators. The
      slice repeats the operand, so that windows do not overlap. EXP110 reports a copy that has too many elements.
    - If there is one window and its start is constant, only SLICE1, or SLICE before level 2_1. It has no start_indices.

    To run a descriptor, bind operand to InputTensor, start_indices to IndicesTensor and a new buffer to OutputTensor. The
    buffers are contiguous and padded to TotalTensorSizeInBytes. Convert the indices to the described type. Bind bool and 8-bit
    floats as UINT8, bfloat16 as UINT16, complex64 as UINT64, and complex128 as two UINT64. For windows in bounds, DirectML then
    gives JAX's result. `differences` describes the other windows.

    Raises ValueError for an unknown level, for other constants, and for a constant with another shape or type than
    start_indices; TypeError for an argument without shape and type, and for constants on a GPU.

    >>> rows = dg.lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
    >>> desc = dg.lax.to_directml(((5, 2), "float32"), ((3, 1), "int32"), rows, (1, 2))
    >>> desc.operator.name, desc.output_tensor.sizes
    ('GATHER', (3, 2))
    """
    feature_level = FeatureLevel.parse(level)
    problem, starts = _call(operand, start_indices, constants, dimension_numbers, slice_sizes, mode=mode, fill_value=fill_value)
    return export.EXPORTER.to_directml(lambda: export.with_known_starts(problem(), starts), feature_level, "JAX", "lax.gather")


def differences(
    operand: Any,
    start_indices: Any,
    dimension_numbers: Any,
    slice_sizes: Sequence[int],
    *,
    mode: Any = None,
    fill_value: Any = None,
    constants: Mapping[str, Any] | None = None,
) -> tuple[Finding, ...]:
    """Return warnings about starts for which the descriptors of `to_directml` give other results than JAX.

    Takes the arguments of `to_directml`. EXP201: starts out of bounds in mode "fill". EXP202: negative starts of a signed
    type; DirectML may count them from the end, JAX never does. There are no warnings in the modes "promise_in_bounds" and None,
    for constant starts in bounds, and for a gather that becomes a slice.

    Raises the TypeErrors and ValueErrors of `gather`, and the errors of `to_directml` for constants.

    >>> rows = dg.lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
    >>> [finding.code for finding in dg.lax.differences(((5, 2), "float32"), ((3, 1), "int32"), rows, (1, 2), mode="fill")]
    ['EXP201', 'EXP202']
    """
    problem, starts = _call(operand, start_indices, constants, dimension_numbers, slice_sizes, mode=mode, fill_value=fill_value)
    return export.EXPORTER.differences(problem(), starts)


def _call(
    operand: Any, start_indices: Any, constants: Mapping[str, Any] | None, *attributes: Any, **keywords: Any
) -> tuple[Callable[[], LaxGather], NDArray[Any] | None]:
    """Return two values: a function that makes the call's problem, and the values of start_indices (None if unknown).

    The function has no arguments. It raises an error if the call breaks a rule of the operator.
    """
    if others := sorted((constants or {}).keys() - {"start_indices"}):
        raise ValueError(f"constants has {', '.join(map(repr, others))}, expected nothing but 'start_indices'")
    starts = None
    if constants:
        starts = np.asarray(host_values("start_indices", constants["start_indices"]))
        start_indices = starts if start_indices is None else start_indices
    data, indices = type_of("operand", operand), type_of("start_indices", start_indices)
    if starts is not None and (starts.shape, starts.dtype) != (indices.shape, indices.dtype):
        raise ValueError(f"start_indices is {indices}, but the constant is {starts.dtype} {list(starts.shape)}")
    return partial(LaxGather.from_call, data, indices, *attributes, **keywords), starts
