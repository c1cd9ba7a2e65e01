"""OpenVINO's Gather as functions: run it, describe it for DirectML, tell where the two differ."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from dmlgather.dialects.exporter import Descriptors
from dmlgather.dialects.problem import whole
from dmlgather.directml import FeatureLevel, Finding, OperatorDesc, Report
from dmlgather.eager import EagerFunction, Request, host_values, type_of
from dmlgather.openvino.problems import export
from dmlgather.openvino.problems.gather import OpenVINOGather, axis_of
from dmlgather.policy import Fill


@EagerFunction
def gather(
    data: Any,
    indices: Any,
    axis: Any,
    batch_dims: int = 0,
    *,
    version: int = 8,
    out_of_bounds: str | Fill | None = None,
    device: str | None = None,
) -> Request:
    """Gather: output[b…, lead…, i…, trail…] = data[b…, lead…, indices[b…, i…], trail…], 0 where the index is out of range.

    data: shape [b…, lead…, axis, trail…], any type of whole bytes. indices: shape [b…, i…], any integer type. axis: an integer,
    or an array of one integer in host memory. batch_dims: the number of b…, at most `axis`; a negative one counts from the rank
    of indices; 0 in version 1. version: 1, 7 or 8; in 8 a negative index counts from the end, in 1 and 7 it is out of range.
    Returns shape [b…, lead…, i…, trail…].

    Raises TypeError for another type and for an axis on a GPU; ValueError for an axis or batch_dims out of range, unequal batch
    dimensions, a scalar `data`, or another version.

    >>> dg.openvino.gather(np.array([10, 20, 30]), np.array([2, -1, 5]), axis=0).tolist()
    [30, 30, 0]
    """
    place = axis_of(host_values("axis", axis))
    problem = partial(OpenVINOGather, axis=place, batch_dims=batch_dims, version=version)
    return Request(problem, {"data": data, "indices": indices}, out_of_bounds, device)


def to_directml(
    data: Any,
    indices: Any,
    axis: Any,
    batch_dims: int = 0,
    level: str | FeatureLevel = "6_4",
    *,
    version: int = 8,
) -> OperatorDesc | Descriptors | Report:
    """The DirectML descriptor for a Gather, or a report of why there is none.

    data, indices: arrays, anything with `shape` and `dtype`, or pairs (shape, dtype). axis, batch_dims, version: as for `gather`.
    level: the feature level to write for.

    Returns one descriptor; a tuple, in the order in which they run, where one cannot do it; or a Report whose findings say which
    rule of the operator the call breaks, or what the level does not take (`docs/expressing.md`). Without batches the descriptor
    is GATHER; with batches GATHER_ND1 where the axis follows the batch dimensions, else GATHER_ELEMENTS on
    {batch, lead, axis, trail}, with indices that strides of 0 repeat along lead and trail.

    To run it, bind data to InputTensor, indices to IndicesTensor and a fresh buffer to OutputTensor, as for
    `dmlgather.onnx.to_directml`: packed and padded to TotalTensorSizeInBytes, indices converted to the described type, boolean
    as UINT8, bf16 as UINT16 and the 8-bit floats as UINT8. Indices in range then give OpenVINO's elements; `differences` says
    which other indices do not.

    Raises ValueError for an unknown level, TypeError for what has no shape and type, and for an axis on a GPU.

    >>> desc = dg.openvino.to_directml(((5, 2), "float32"), ((3,), "int64"), axis=0)
    >>> desc.operator.name, desc.output_tensor.sizes
    ('GATHER', (3, 2))
    """
    at = FeatureLevel.parse(level)
    call = _call(data, indices, axis, batch_dims, version)
    return export.EXPORTER.to_directml(call, at, "OpenVINO", f"Gather-{version}")


def differences(data: Any, indices: Any, axis: Any, batch_dims: int = 0, *, version: int = 8) -> tuple[Finding, ...]:
    """The indices for which the descriptors of `to_directml` give other elements than OpenVINO, and how to mask them.

    Arguments as for `to_directml`. Returns findings of severity warning: EXP201 for indices out of range, where OpenVINO gives 0
    and DirectML the nearest element; EXP202 for negative indices of a signed type in versions 1 and 7, which DirectML counts from
    the end from level 3_0 on. To mask them, compare the indices with the first and the last valid one, and select 0 in the output
    (ELEMENT_WISE_IF).

    Raises TypeError and ValueError as `gather` does.

    >>> [finding.expected for finding in dg.openvino.differences(((5, 2), "float32"), ((3,), "int64"), axis=0)]
    ['indices from -5 to 4']
    """
    problem = _call(data, indices, axis, batch_dims, version)()
    return tuple(export.differences(problem, problem.data.shape[problem.axis]))


def _call(data: Any, indices: Any, axis: Any, batch_dims: int, version: int) -> Callable[[], OpenVINOGather]:
    """What makes the problem. Arguments of the wrong kind raise here; those that break the operator's rules raise there."""
    version = whole("version", version)
    types = type_of("data", data), type_of("indices", indices)
    place = host_values("axis", axis)
    return lambda: OpenVINOGather(*types, axis_of(place), batch_dims, version)
