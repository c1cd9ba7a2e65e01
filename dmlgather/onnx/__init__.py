"""ONNX's Gather, GatherElements, GatherND and Slice as functions on arrays, after any opset's own rules.

Each function takes NumPy arrays, CuPy arrays, or anything with `__dlpack__`, and runs where they are. Strings (NumPy's string
types, or objects) run on the CPU. `opset` is the opset in force, as in a model: 16 resolves to each operator's newest version
at or below it.

out_of_bounds: None for ONNX's own, IndexError for a bad index, on a GPU as well; else "clamp", "raise", "promise" or a Fill.
device: None for where the arrays are; "cpu", "cuda", "cuda:N" or "reference" to run there, wherever they are.

Each has a twin, `gather.plan(…)`, which takes (shape, dtype) pairs in the place of arrays and returns the IndexPlan.

`to_directml` says how a DirectML caller would describe a node; `Backend` (which needs the onnx package) runs whole models.
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
