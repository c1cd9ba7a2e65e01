"""ONNX's Gather, GatherElements, GatherND, Slice, DepthToSpace and SpaceToDepth as functions on arrays, for every opset.

The functions take NumPy arrays, CuPy arrays, or anything with `__dlpack__`, and run on the arrays' device. Strings (NumPy's
string types, or objects) run on the CPU. `opset` is the model's opset. It selects the version of the operator.

`out_of_bounds`: what an index out of range does. None means ONNX's rule: IndexError, also on a GPU. Other values: "clamp",
"raise", "promise" or a Fill. `device`: where the call runs: "cpu", "cuda", "cuda:N" or "reference". None means the arrays'
device. `out`: an array that receives the result and is returned. A call raises TypeError for an `out` of another type or
device; ValueError for an `out` that has another shape, is read-only, overlaps an input, or overlaps itself.

Each function has a method `plan`, which returns the IndexPlan of a call. It accepts pairs (shape, dtype) instead of arrays.

`to_directml` returns the DirectML descriptors of a node. `Backend` is ONNX's backend interface for models of these operators.
It needs the package onnx.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlgather.package import lazy_names

if TYPE_CHECKING:
    from dmlgather.onnx.backend import Backend
    from dmlgather.onnx.functions import (
        depth_to_space,
        gather,
        gather_elements,
        gather_nd,
        slice,  # noqa: A004 - the operator's name
        space_to_depth,
    )
    from dmlgather.onnx.problems.export import to_directml

__all__ = [
    "Backend",
    "depth_to_space",
    "gather",
    "gather_elements",
    "gather_nd",
    "slice",
    "space_to_depth",
    "to_directml",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {**dict.fromkeys(__all__, "functions"), "Backend": "backend", "to_directml": "problems.export"},
    extras={"Backend": "onnx"},
)
