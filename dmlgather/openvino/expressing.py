"""How a DirectML caller would describe an OpenVINO Gather, and where the two differ."""

from __future__ import annotations

from typing import Any

from dmlgather.dialects.exporter import BrokenRuleError, Descriptors
from dmlgather.dialects.problem import whole
from dmlgather.directml import FeatureLevel, Finding, OperatorDesc, Report
from dmlgather.eager import host_values, type_of
from dmlgather.openvino.problems import export
from dmlgather.openvino.problems.gather import OpenVINOGather, axis_of


def to_directml(
    data: Any,
    indices: Any,
    axis: Any,
    batch_dims: int = 0,
    level: str | FeatureLevel = "6_4",
    *,
    version: int = 8,
) -> OperatorDesc | Descriptors | Report:
    """The descriptor a DirectML caller would build for a Gather; or why there is none.

    data, indices: arrays, anything with `shape` and `dtype`, or pairs (shape, dtype). axis, batch_dims, version: as for `gather`.
    level: the feature level to write for.

    Returns one descriptor; a tuple of them, in the order in which they run, where one cannot do it; or a Report of what stands
    against it, `docs/expressing.md` in short: an argument that breaks a rule of the operator, and everything that the level does
    not take. Without batches it is GATHER; with them GATHER_ND1 where the axis follows the batch dimensions, else
    GATHER_ELEMENTS on {batch, lead, axis, trail}, with indices that strides of 0 repeat along lead and trail.

    To run it, bind data to InputTensor, indices to IndicesTensor and a fresh buffer to OutputTensor, as for
    `dmlgather.onnx.to_directml`: packed and padded to TotalTensorSizeInBytes, indices converted to the described type, boolean
    as UINT8, bf16 as UINT16 and the 8-bit floats as UINT8.

    The descriptor gives OpenVINO's elements for indices in range. An index out of range gives zeros in OpenVINO, and the nearest
    element in DirectML; in versions 1 and 7 a negative index is out of range as well, where DirectML counts it from the end from
    level 3_0 on. `differences` says which of that holds. Where it matters, compare the indices with the first and the last valid
    one before they are bound, and select 0 where they lie outside (ELEMENT_WISE_IF on the output).

    Raises ValueError for an unknown level, TypeError for what has no shape and type, and for an axis on a GPU.
    """
    at = FeatureLevel.parse(level)
    try:
        problem = _problem(data, indices, axis, batch_dims, version)
    except BrokenRuleError as error:
        return error.report(f"OpenVINO Gather-{version}", at, expected=f"a call that Gather-{version} allows", peer="OpenVINO")
    found = export.express(problem, at)
    return found if isinstance(found, Report) or len(found) > 1 else found[0]


def differences(data: Any, indices: Any, axis: Any, batch_dims: int = 0, *, version: int = 8) -> tuple[Finding, ...]:
    """Which indices give other elements in the descriptors of `to_directml` than in OpenVINO, and how to mask them.

    Arguments as for `to_directml`. Returns findings of severity warning: EXP201 for indices out of range, and EXP202 for negative
    ones in versions 1 and 7, where the indices are signed.

    Raises TypeError and ValueError as `gather` does.
    """
    try:
        problem = _problem(data, indices, axis, batch_dims, version)
    except BrokenRuleError as error:
        raise error.cause from None
    return tuple(export.differences(problem, problem.data.shape[problem.axis]))


def _problem(data: Any, indices: Any, axis: Any, batch_dims: int, version: int) -> OpenVINOGather:
    version = whole("version", version)
    tensors = type_of("data", data), type_of("indices", indices)
    place = host_values("axis", axis)
    try:
        return OpenVINOGather(*tensors, axis_of(place), batch_dims, version)
    except (TypeError, ValueError) as error:
        raise BrokenRuleError(error) from None
