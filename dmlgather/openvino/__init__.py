"""OpenVINO's Gather, in its versions 1, 7 and 8, as a function on arrays.

It takes NumPy arrays, CuPy arrays, or anything with `__dlpack__`, and runs where they are. An index out of range gives zeros.

out_of_bounds: None for OpenVINO's own zeros; else "clamp", "raise", "promise" or a Fill. device: None for where the arrays are;
"cpu", "cuda", "cuda:N" or "reference" to run there, wherever they are.

The twin `gather.plan(…)` takes (shape, dtype) pairs in the place of arrays and returns the IndexPlan.

`run_layer` runs a Gather layer as an IR file has it. `to_directml` says how a DirectML caller would describe a Gather, and
`differences` which indices mean something else there.
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
