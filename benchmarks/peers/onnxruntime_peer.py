"""ONNX Runtime: a model of one node, bound to existing arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.errors import UnsupportedWorkloadError
from benchmarks.kinds import Along, Take, Tuples
from benchmarks.peers.peer import GraphPeer, Spelling, Stage
from benchmarks.workload_arrays import Array, WorkloadArrays

_PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}


class OnnxRuntimePeer(GraphPeer):
    """ONNX Runtime with sequential execution and the stage's threads per node. On a GPU it has its own stream."""

    name, packages, devices = "onnxruntime", ("onnxruntime", "onnxruntime-gpu", "onnx"), ("cpu", "cuda")
    bounds = "checked on the CPU (an error); on a GPU zeros are written"
    own_clock, title, operations = True, "ONNX", "nodes"

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        import onnx
        import onnxruntime

        self._onnx, self._ort = onnx, onnxruntime
        if _PROVIDERS[stage.device] not in onnxruntime.get_available_providers():
            raise UnsupportedWorkloadError(f"this build of onnxruntime lacks the {_PROVIDERS[stage.device]}")

    def take(self, data: WorkloadArrays, kind: Take, /) -> Iterator[Spelling]:
        yield self._bound(data, "Gather", data.x, data.index, axis=kind.axis)

    def along(self, data: WorkloadArrays, kind: Along, /) -> Iterator[Spelling]:
        yield self._bound(data, "GatherElements", data.x, data.index, axis=kind.axis)

    def tuples(self, data: WorkloadArrays, _kind: Tuples, /) -> Iterator[Spelling]:
        yield self._bound(data, "GatherND", data.x, data.index)

    def sliced(self, data: WorkloadArrays, starts: list[int], ends: list[int], steps: list[int]) -> Spelling:
        return self._bound(data, "Slice", data.x, constants=[starts, ends, list(range(len(starts))), steps])

    def transposed(self, data: WorkloadArrays, packed: Array, order: list[int]) -> Spelling:
        return self._bound(data, "Transpose", packed, perm=order)

    def _bound(
        self, data: WorkloadArrays, operator: str, *arrays: Array, constants: list[list[int]] | None = None, **attributes: Any
    ) -> Spelling:
        helper, dtype = self._onnx.helper, self._onnx.helper.np_dtype_to_tensor_dtype
        out = data.out
        names = [f"input{number}" for number in range(len(arrays))]
        fixed = {f"constant{number}": np.array(values, np.int64) for number, values in enumerate(constants or ())}
        graph = helper.make_graph(
            [helper.make_node(operator, [*names, *fixed], ["out"], **attributes)],
            operator,
            [
                helper.make_tensor_value_info(name, dtype(array.dtype), array.shape)
                for name, array in zip(names, arrays, strict=True)
            ],
            [helper.make_tensor_value_info("out", dtype(out.dtype), out.shape)],
            [self._onnx.numpy_helper.from_array(values, name) for name, values in fixed.items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        options = self._ort.SessionOptions()
        options.intra_op_num_threads = self.stage.threads
        session = self._ort.InferenceSession(model.SerializeToString(), options, providers=[_PROVIDERS[self.stage.device]])
        binding = session.io_binding()
        for name, array in zip(names, arrays, strict=True):
            binding.bind_input(name, self.stage.device, 0, array.dtype, array.shape, _address(array))
        binding.bind_output("out", self.stage.device, 0, out.dtype, out.shape, _address(out))

        def run() -> Array:
            session.run_with_iobinding(binding)
            return out

        return Spelling(f"{operator} (io_binding)", run)


def _address(array: Array) -> int:
    return int(array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr)
