"""ONNX's Gather, GatherElements, GatherND and Slice as functions on arrays, with the rules of every opset.

Each function takes NumPy arrays, CuPy arrays, or anything with `__dlpack__`, and runs on the device that they are on. Strings
(NumPy's string types, or objects) run on the CPU. `opset` is the opset in force, as in a model: each operator has its newest
version at or below it.

out_of_bounds: None for ONNX's own rule, an IndexError for a bad index, on a GPU as well; else "clamp", "raise", "promise" or a
Fill. device: None for the device of the arrays; "cpu", "cuda", "cuda:N" or "reference" to run there, wherever they are.

`gather.plan(…)`, and likewise for the others, takes (shape, dtype) pairs in the place of arrays and returns the IndexPlan.

`to_directml` returns the descriptors of DirectML for a node. `Backend` runs whole models; it needs the package onnx.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlgather.lazy import lazy_names

if TYPE_CHECKING:
    from dmlgather.onnx.backend import Backend
    from dmlgather.onnx.functions import gather, gather_elements, gather_nd, slice  # noqa: A004 - the operator's name
    from dmlgather.onnx.problems.export import to_directml

__all__ = ["Backend", "gather", "gather_elements", "gather_nd", "slice", "to_directml"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Backend": "backend",
        "gather": "functions",
        "gather_elements": "functions",
        "gather_nd": "functions",
        "slice": "functions",
        "to_directml": "problems.export",
    },
    extras={"onnx": "onnx"},
)
