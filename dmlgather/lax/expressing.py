"""How a DirectML caller would describe a lax.gather, and where the two differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.dialects.exporter import BrokenRuleError, Descriptors
from dmlgather.directml import FeatureLevel, Finding, OperatorDesc, Report
from dmlgather.eager import host_values, type_of
from dmlgather.lax.problems import export
from dmlgather.lax.problems.calls import gather_call
from dmlgather.lax.problems.gather import LaxGather


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
    """The descriptor a DirectML caller would build for a lax.gather; or why there is none.

    operand, start_indices: arrays, anything with `shape` and `dtype`, or pairs (shape, dtype). dimension_numbers, slice_sizes,
    mode, fill_value: as for `gather`. level: the feature level to write for. constants: {"start_indices": array} where their
    values are known when the descriptor is made; `start_indices` may then be None.

    Returns one descriptor; a tuple of them, in the order in which they run, where one cannot do it; or a Report of what stands
    against it, `docs/expressing.md` in short: a call that breaks a rule of the operator, windows that are neither one element nor
    whole in a dimension where an index says where they start, and everything that the level does not take. The forms:

    - index vectors of one component, without batching dimensions: GATHER along that axis. Components at the end of a vector that
      can only be 0, since their windows are whole, are not counted.
    - one component, batching dimensions, and at most one dimension of positions beside them: GATHER_ELEMENTS.
    - otherwise GATHER_ND1, or GATHER_ND before level 3_0. The views' strides bring operand's dimensions into the order of
      start_index_map, batching dimensions to the front, and the windows of the output to offset_dims.
    - one window whose start is a constant: SLICE1, or SLICE before level 2_1; start_indices are then not bound.

    To run it, bind operand to InputTensor, start_indices to IndicesTensor and a fresh buffer to OutputTensor, as for
    `dmlgather.onnx.to_directml`: packed and padded to TotalTensorSizeInBytes, indices converted to the described type, bool and
    the 8-bit floats as UINT8, bfloat16 as UINT16, complex64 as UINT64, complex128 as two UINT64.

    The descriptor gives JAX's elements for windows that lie inside operand. `differences` says what it does with others.

    Raises ValueError for an unknown level, for other constants, and for one that is not what start_indices is said to be;
    TypeError for what has no shape and type, and for constants on a GPU.
    """
    at = FeatureLevel.parse(level)
    try:
        problem, starts = _stated(
            *(operand, start_indices, dimension_numbers, slice_sizes), mode=mode, fill_value=fill_value, constants=constants
        )
    except BrokenRuleError as error:
        return error.report("JAX lax.gather", at, expected="a call that lax.gather allows", peer="JAX")
    window = None if starts is None else export.at(problem, starts)
    found = export.express(window or problem, at)
    return found if isinstance(found, Report) or len(found) > 1 else found[0]


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
    """Which starts give other elements in the descriptors of `to_directml` than in JAX, and what to do about them.

    Arguments as for `to_directml`. Returns findings of severity warning: EXP201 for starts out of bounds under mode "fill", and
    EXP202 for negative ones where the indices are signed, which JAX never counts from the end. Nothing under "promise_in_bounds"
    and None, and nothing for constants that lie in bounds or become a slice.

    Raises TypeError and ValueError as `gather` does, and as `to_directml` does for constants.
    """
    try:
        problem, starts = _stated(
            *(operand, start_indices, dimension_numbers, slice_sizes), mode=mode, fill_value=fill_value, constants=constants
        )
    except BrokenRuleError as error:
        raise error.cause from None
    if starts is not None and (export.in_bounds(problem, starts) or export.at(problem, starts)):
        return ()
    return tuple(export.differences(problem))


def _stated(
    operand: Any,
    start_indices: Any,
    dimension_numbers: Any,
    slice_sizes: Sequence[int],
    *,
    mode: Any,
    fill_value: Any,
    constants: Mapping[str, Any] | None,
) -> tuple[LaxGather, NDArray[Any] | None]:
    """The problem of a call, and the values of start_indices where they are known."""
    starts = _known(constants or {})
    if start_indices is None and starts is not None:
        start_indices = starts
    data, indices = type_of("operand", operand), type_of("start_indices", start_indices)
    if starts is not None and (starts.shape, starts.dtype) != (indices.shape, indices.dtype):
        raise ValueError(f"start_indices is stated as {indices}, but the constant is {starts.dtype} {list(starts.shape)}")
    try:
        return gather_call(data, indices, dimension_numbers, slice_sizes, mode=mode, fill_value=fill_value), starts
    except (TypeError, ValueError) as error:
        raise BrokenRuleError(error) from None


def _known(constants: Mapping[str, Any]) -> NDArray[Any] | None:
    if others := sorted(constants.keys() - {"start_indices"}):
        raise ValueError(f"constants has {', '.join(map(repr, others))}, expected nothing but 'start_indices'")
    if "start_indices" not in constants:
        return None
    return np.asarray(host_values("start_indices", constants["start_indices"]))
