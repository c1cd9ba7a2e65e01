"""jax.lax.gather as functions: run it, describe it for DirectML, tell where the two differ."""

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
    unique_indices: bool = False,  # noqa: ARG001 - a promise that nothing here needs
    indices_are_sorted: bool = False,  # noqa: ARG001 - as above
    mode: Any = None,
    fill_value: Any = None,
    out: Any = None,
    out_of_bounds: str | Fill | None = None,
    device: str | None = None,
    stream: Any = None,
) -> Request:
    """A window of `operand` per index vector of `start_indices`.

    operand: shape [n…], of any type of JAX's. start_indices: shape [i…, components], any of the eight integer types.
    dimension_numbers: a GatherDimensionNumbers, dmlgather's or JAX's. slice_sizes: the window's size in each dimension of
    operand, in elements; one integer where operand has one dimension. unique_indices, indices_are_sorted: accepted and ignored.
    mode: "clip" moves a window inside; "fill" and "drop" write `fill_value` to a whole window that is not inside;
    "promise_in_bounds" and None promise that every window is inside, and run as "clip"; a GatherScatterMode of JAX works too.
    fill_value: one number, cast as NumPy casts; None for NaN, the least signed integer, the greatest unsigned one, True.
    Indices are compared at their full width: 2^32 + 1 is out of bounds, where JAX's fill mode reads element 1. Negative indices
    never count from the end. Returns shape [i…] with the window's sizes at offset_dims, as the kind of array that operand is.

    out: an array of NumPy, CuPy or PyTorch that is written and returned; None for a new one. out_of_bounds: None for the mode's
    own; else "clamp", "raise", "promise" or a Fill, in its place. device: None for where the arrays are; "cpu", "cuda", "cuda:N"
    or "reference" to run there, wherever they are. stream: of a GPU, as of a compiled operator.

    Raises TypeError for shapes that do not go together, in JAX's order, and for other types; ValueError for another mode, for
    indices that are no integers, and for an `out` of another shape or over an input; IndexError for a bad index under "raise".

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
    """The DirectML descriptor for a lax.gather, or a report of why there is none.

    operand, start_indices: arrays, anything with `shape` and `dtype`, or pairs (shape, dtype). dimension_numbers, slice_sizes,
    mode, fill_value: as for `gather`. level: the feature level to write for. constants: {"start_indices": array} where their
    values are known when the descriptor is made; `start_indices` may then be None.

    Returns one descriptor; a tuple, in the order in which they run, where one cannot do it; or a Report whose findings say which
    rule of the operator the call breaks, or what the level does not take (`docs/expressing.md`). The descriptors:

    - index vectors of one component, without batching dimensions: GATHER along that axis. Trailing components that can only be 0,
      since their windows are whole, do not count.
    - one component, batching dimensions, and at most one other dimension of index vectors: GATHER_ELEMENTS.
    - otherwise GATHER_ND1, or GATHER_ND before level 3_0. Strides bring operand's dimensions into the order of start_index_map,
      batching dimensions to the front, and the windows of the output to offset_dims.
    - windows that are neither one element nor whole: one of these, after a SLICE1 or SLICE that repeats operand, so that windows
      lie apart. EXP110 says where that takes too many elements.
    - one window whose start is a constant: SLICE1, or SLICE before level 2_1, without start_indices.

    To run it, bind operand to InputTensor, start_indices to IndicesTensor and a fresh buffer to OutputTensor, as for
    `dmlgather.onnx.to_directml`: packed and padded to TotalTensorSizeInBytes, indices converted to the described type, bool and
    the 8-bit floats as UINT8, bfloat16 as UINT16, complex64 as UINT64, complex128 as two UINT64. Windows inside operand then have
    JAX's elements; `differences` says which other windows do not.

    Raises ValueError for an unknown level, for other constants, and for one whose shape or type is not that of start_indices;
    TypeError for what has no shape and type, and for constants on a GPU.

    >>> rows = dg.lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
    >>> desc = dg.lax.to_directml(((5, 2), "float32"), ((3, 1), "int32"), rows, (1, 2))
    >>> desc.operator.name, desc.output_tensor.sizes
    ('GATHER', (3, 2))
    """
    at = FeatureLevel.parse(level)
    call, starts = _call(operand, start_indices, constants, dimension_numbers, slice_sizes, mode=mode, fill_value=fill_value)
    return export.EXPORTER.to_directml(lambda: export.with_known_starts(call(), starts), at, "JAX", "lax.gather")


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
    """The starts for which the descriptors of `to_directml` give other elements than JAX, and what to do about them.

    Arguments as for `to_directml`. Returns findings of severity warning: EXP201 for starts out of bounds under mode "fill", and
    EXP202 for negative starts of a signed type, which JAX never counts from the end. None under "promise_in_bounds" and None,
    and none for constants that lie in bounds or become a slice.

    Raises TypeError and ValueError as `gather` does, and as `to_directml` does for constants.

    >>> rows = dg.lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
    >>> [finding.code for finding in dg.lax.differences(((5, 2), "float32"), ((3, 1), "int32"), rows, (1, 2), mode="fill")]
    ['EXP201', 'EXP202']
    """
    call, starts = _call(operand, start_indices, constants, dimension_numbers, slice_sizes, mode=mode, fill_value=fill_value)
    return export.EXPORTER.differences(call(), starts)


def _call(
    operand: Any, start_indices: Any, constants: Mapping[str, Any] | None, *attributes: Any, **keywords: Any
) -> tuple[Callable[[], LaxGather], NDArray[Any] | None]:
    """What makes the problem, and the values of start_indices where they are known. Other arguments: of `LaxGather.from_call`.

    Arguments of the wrong kind raise here; those that break the operator's rules raise when the problem is made.
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
