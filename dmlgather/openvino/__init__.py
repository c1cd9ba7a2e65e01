"""OpenVINO's Gather, in its versions 1, 7 and 8, as a function on arrays.

It takes NumPy arrays, CuPy arrays, or anything with `__dlpack__`, and runs where they are. An index out of range gives zeros.

out_of_bounds: None for OpenVINO's own zeros; else "clamp", "raise", "promise" or a Fill. device: None for where the arrays are;
"cpu", "cuda", "cuda:N" or "reference" to run there, wherever they are.

The twin `gather.plan(…)` takes (shape, dtype) pairs in the place of arrays and returns the IndexPlan.

`run_layer` runs a Gather layer as an IR file has it. `to_directml` says how a DirectML caller would describe a Gather, and
`differences` which indices mean something else there.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from dmlgather.dialects.openvino.gathering import Gather, axis_of
from dmlgather.eager import EagerFunction, Request, host_values
from dmlgather.openvino.describing import differences, to_directml
from dmlgather.openvino.layers import run_layer
from dmlgather.policy import Fill

__all__ = ["differences", "gather", "run_layer", "to_directml"]


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
    state = partial(Gather, axis=place, batch_dims=batch_dims, version=version)
    return Request(state, {"data": data, "indices": indices}, out_of_bounds, device)
