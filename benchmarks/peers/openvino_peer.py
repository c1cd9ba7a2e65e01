"""OpenVINO: a compiled model of one operation, on tensors over existing arrays."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.kinds import Along, Take, Tuples
from benchmarks.peers.peer import GraphPeer, Spelling, Stage
from benchmarks.workload_arrays import Array, WorkloadArrays


class OpenVinoPeer(GraphPeer):
    """OpenVINO's CPU plugin, tuned for latency, at the inputs' precision."""

    name, packages, devices = "openvino", ("openvino",), ("cpu",)
    bounds = "Gather writes zeros; other operations leave it undefined"
    title = "OpenVINO"

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        if "openvino" not in sys.modules:  # its telemetry would write to the home folder, call a server and fork
            sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type] # openvino then uses a stub
        self._openvino: Any = import_module("openvino")
        self._core = self._openvino.Core()
        self._options = {
            "INFERENCE_NUM_THREADS": stage.threads,
            "PERFORMANCE_HINT": "LATENCY",
            "EXECUTION_MODE_HINT": "ACCURACY",
        }

    def take(self, data: WorkloadArrays, kind: Take, /) -> Iterator[Spelling]:
        yield self._bound(data, "gather", data.x, data.index, constants=[kind.axis])

    def along(self, data: WorkloadArrays, kind: Along, /) -> Iterator[Spelling]:
        yield self._bound(data, "gather_elements", data.x, data.index, axis=kind.axis)

    def tuples(self, data: WorkloadArrays, _kind: Tuples, /) -> Iterator[Spelling]:
        yield self._bound(data, "gather_nd", data.x, data.index)

    def sliced(self, data: WorkloadArrays, starts: list[int], ends: list[int], steps: list[int]) -> Spelling:
        return self._bound(data, "slice", data.x, constants=[starts, ends, steps])

    def transposed(self, data: WorkloadArrays, packed: Array, order: list[int]) -> Spelling:
        return self._bound(data, "transpose", packed, constants=[order])

    def _bound(
        self, data: WorkloadArrays, operation: str, *arrays: Array, constants: list[Any] | None = None, **attributes: Any
    ) -> Spelling:
        openvino, operations = self._openvino, self._openvino.opset13
        parameters = [operations.parameter(list(array.shape), array.dtype) for array in arrays]
        fixed = [operations.constant(np.array(values, np.int64)) for values in constants or ()]
        node = getattr(operations, operation)(*parameters, *fixed, **attributes)
        request = self._core.compile_model(openvino.Model([node], parameters), "CPU", self._options).create_infer_request()
        for number, array in enumerate(arrays):
            request.set_input_tensor(number, openvino.Tensor(array, shared_memory=True))
        request.set_output_tensor(0, openvino.Tensor(data.out, shared_memory=True))

        def run() -> Array:
            request.infer()
            return data.out

        return Spelling(f"opset13.{operation} (set_output_tensor)", run)
