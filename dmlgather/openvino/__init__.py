"""OpenVINO's Gather, in its versions 1, 7 and 8, as a function on arrays.

`gather` takes NumPy arrays, CuPy arrays, or anything with `__dlpack__`, and runs where they are. An index out of range gives 0.

out_of_bounds: None for OpenVINO's zeros; else "clamp", "raise", "promise" or a Fill. device: None for where the arrays are;
"cpu", "cuda", "cuda:N" or "reference" to run there, wherever they are.

`gather.plan(…)` takes (shape, dtype) pairs instead of arrays and returns the IndexPlan.

`run_layer` runs a Gather layer of an IR file. `to_directml` translates a Gather to DirectML, and `differences` lists the indices
that give other results there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlgather.lazy import lazy_names

if TYPE_CHECKING:
    from dmlgather.openvino.functions import differences, gather, to_directml
    from dmlgather.openvino.layer_runner import run_layer

__all__ = ["differences", "gather", "run_layer", "to_directml"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {"differences": "functions", "gather": "functions", "run_layer": "layer_runner", "to_directml": "functions"},
)
