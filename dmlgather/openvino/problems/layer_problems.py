"""The problem that a layer of the family is: from its version, the types of its inputs, its constants and its attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dmlgather.dialects.problem import TensorType
from dmlgather.openvino.problems.gather import OpenVINOGather, OpenVINOGatherElements, OpenVINOGatherND
from dmlgather.openvino.problems.operation_versions import OpenVINOProblem, OperationVersion
from dmlgather.openvino.problems.slices import OpenVINOSlice, OpenVINOStridedSlice

PROBLEMS: Mapping[str, type[Any]] = {
    problem.name: problem
    for problem in (OpenVINOGather, OpenVINOGatherElements, OpenVINOGatherND, OpenVINOSlice, OpenVINOStridedSlice)
}
"""The operations of the family, by a layer's type. The fields of a problem have the names of inputs and attributes."""

FAMILY = tuple(PROBLEMS)


def problem_of(
    version: OperationVersion,
    types: Mapping[str, TensorType],
    bounds: Mapping[str, Any],
    attributes: Mapping[str, int | tuple[int, ...]],
) -> OpenVINOProblem:
    """The problem of a layer.

    types: of each of `version.arrays`. bounds: the elements of those of `version.bounds` that the layer has, as host arrays or
    sequences of integers; the axis of Gather may be an integer. attributes: by name, of `version.attributes`. TypeError and
    ValueError where they break a rule of the operation.
    """
    problem: OpenVINOProblem = PROBLEMS[version.operation](**types, **bounds, **attributes, version=version.since)
    return problem
