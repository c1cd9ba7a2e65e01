"""OpenVINO's Gather as a function on arrays."""

from __future__ import annotations

from functools import partial
from typing import Any

from dmlgather.eager import EagerFunction, Request, host_values
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

    data: shape [b…, lead…, axis, trail…], any type of whole bytes. indices: any integer type, shape [b…, i…]. axis: an integer,
    or an array of one integer in host memory. batch_dims: how many b… there are, at most `axis`; negative ones are counted from
    the rank of indices; from version 7 on. version: in 8 negative indices count from the end once, in 1 and 7 they are out of
    range.
    Returns shape [b…, lead…, i…, trail…].

    Raises TypeError for another type and for an axis on a GPU; ValueError for an axis or batch_dims out of range, unequal batch
    dimensions, a scalar `data`, or another version.
    """
    place = axis_of(host_values("axis", axis))
    state = partial(OpenVINOGather, axis=place, batch_dims=batch_dims, version=version)
    return Request(state, {"data": data, "indices": indices}, out_of_bounds, device)
