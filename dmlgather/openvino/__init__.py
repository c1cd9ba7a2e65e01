"""OpenVINO's Gather, GatherElements, GatherND, Slice and StridedSlice, in all their versions, as functions on arrays.

Each function takes NumPy arrays, CuPy arrays, or anything with `__dlpack__`, and runs where they are. Strings (NumPy's string
types, or objects) run on the CPU. An index out of range gives 0 in Gather, and is an error in the others.

out_of_bounds: None for OpenVINO's own rule; else "clamp", "raise", "promise" or a Fill. device: None for where the arrays are;
"cpu", "cuda", "cuda:N" or "reference" to run there, wherever they are. out: an array that is written and returned. TypeError for
one of another type or on another device, ValueError for one of another shape, that is read-only, or that shares memory with an
input or between its elements.

`gather.plan(…)`, and likewise for the others, takes (shape, dtype) pairs instead of arrays and returns the IndexPlan.
`gather.to_directml(…)` returns the DirectML descriptors of a call, and `gather.differences(…)` lists the indices that give other
results there. `to_directml` and `differences` are those of Gather.

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
    {
        "differences": "functions",
        "gather": "functions",
        "gather_elements": "functions",
        "gather_nd": "functions",
        "run_layer": "layer_runner",
        "slice": "functions",
        "strided_slice": "functions",
        "to_directml": "functions",
    },
)
