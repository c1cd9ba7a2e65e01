"""ONNX's Gather, GatherElements, GatherND, Slice, DepthToSpace and SpaceToDepth as functions on arrays, by every opset's rules.

Each function takes NumPy arrays, CuPy arrays, or anything with `__dlpack__`, and runs on the device that they are on. Strings
(NumPy's string types, or objects) run on the CPU. `opset` is the opset in force, as in a model: each operator has its newest
version at or below it.

out_of_bounds: None for ONNX's own rule, an IndexError for a bad index, on a GPU as well; else "clamp", "raise", "promise" or a
Fill. device: None for the device of the arrays; "cpu", "cuda", "cuda:N" or "reference" to run there, wherever they are. out: an
array that is written and returned. TypeError for one of another type or on another device, ValueError for one of another shape,
that is read-only, or that shares memory with an input or between its elements.

`gather.plan(…)`, and likewise for the others, takes (shape, dtype) pairs in the place of arrays and returns the IndexPlan.

`to_directml` returns the descriptors of DirectML for a node. `Backend` is ONNX's interface, for models of these operators; it
needs the package onnx.
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
    {
        "Backend": "backend",
        "depth_to_space": "functions",
        "gather": "functions",
        "gather_elements": "functions",
        "gather_nd": "functions",
        "slice": "functions",
        "space_to_depth": "functions",
        "to_directml": "problems.export",
    },
    extras={"Backend": "onnx"},
)
