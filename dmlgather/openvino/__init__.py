"""OpenVINO's Gather, GatherElements, GatherND, Slice and StridedSlice as functions on arrays, in all versions.

The functions take NumPy arrays, CuPy arrays, or anything with `__dlpack__`, and run on the arrays' device. Strings (NumPy's
string types, or objects) run on the CPU. An index out of range gives 0 in Gather, and is an error in the other operations.

`out_of_bounds`: what an index out of range does: "clamp", "raise", "promise" or a Fill. None means OpenVINO's rule. `device`:
where the call runs: "cpu", "cuda", "cuda:N" or "reference". None means the arrays' device. `out`: an array that receives the
result and is returned. A call raises TypeError for an `out` of another type or device; ValueError for an `out` that has another
shape, is read-only, overlaps an input, or overlaps itself.

Each function has three methods that accept pairs (shape, dtype) instead of arrays. `plan` returns the IndexPlan of a call.
`to_directml` returns its DirectML descriptors. `differences` lists the indices that give other results in DirectML. The
functions `to_directml` and `differences` call the methods of `gather`.

`run_layer` runs a layer of an IR file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlgather.package import lazy_names

if TYPE_CHECKING:
    from dmlgather.openvino.functions import (
        differences,
        gather,
        gather_elements,
        gather_nd,
        slice,  # noqa: A004 - the operation's name
        strided_slice,
        to_directml,
    )
    from dmlgather.openvino.layer_runner import run_layer

__all__ = [
    "differences",
    "gather",
    "gather_elements",
    "gather_nd",
    "run_layer",
    "slice",
    "strided_slice",
    "to_directml",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {**dict.fromkeys(__all__, "functions"), "run_layer": "layer_runner"},
)
