"""ONNX Runtime: a model of one node, bound to arrays that exist."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dmlgather.bench.errors import CannotSayError
from dmlgather.bench.kinds import Along, Take, Tuples, View
from dmlgather.bench.peers.peer import Peer, Spelling, Stage
from dmlgather.bench.problem import Array, Problem

_PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}


class OnnxRuntimePeer(Peer):
    """Sequential execution, as many threads in a node as the stage says; on a GPU a stream of its own."""

    name, packages, devices = "onnxruntime", ("onnxruntime", "onnxruntime-gpu", "onnx"), ("cpu", "cuda")
    bounds = "checked on the CPU (an error); on a GPU zeros are written"
    own_clock = True

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        import onnx
        import onnxruntime

        self._onnx, self._ort = onnx, onnxruntime
        if _PROVIDERS[stage.device] not in onnxruntime.get_available_providers():
            raise CannotSayError(f"this build of onnxruntime lacks the {_PROVIDERS[stage.device]}")

    def take(self, problem: Problem, kind: Take, /) -> Iterator[Spelling]:
        """Gather."""
        yield self._bound(problem, "Gather", problem.x, problem.index, axis=kind.axis)

    def along(self, problem: Problem, kind: Along, /) -> Iterator[Spelling]:
        """GatherElements."""
        yield self._bound(problem, "GatherElements", problem.x, problem.index, axis=kind.axis)

    def tuples(self, problem: Problem, _kind: Tuples, /) -> Iterator[Spelling]:
        """GatherND."""
        yield self._bound(problem, "GatherND", problem.x, problem.index)

    def view(self, problem: Problem, kind: View, /) -> Iterator[Spelling]:
        """Slice, or Transpose."""
        order = kind.order
        if order is None:
            raise CannotSayError("ONNX has no strided views")
        if order == tuple(range(len(order))):
            ranges = [place.indices(size) for place, size in zip(kind.slices, kind.shape, strict=True)]
            below = -(2**62)  # before the first element: in ONNX -1 would be the last one
            ends = [below if end < 0 else end for _, end, _ in ranges]
            limits = [[begin for begin, _, _ in ranges], ends, list(range(len(ranges))), [step for _, _, step in ranges]]
            yield self._bound(problem, "Slice", problem.x, constants=limits)
        elif kind.out_shape == kind.shape:
            stored = problem.base.reshape([kind.shape[axis] for axis in order])
            yield self._bound(problem, "Transpose", stored, perm=[int(axis) for axis in np.argsort(order)])
        else:
            raise CannotSayError("a Slice of a Transpose takes two nodes")

    def array(self, result: Any) -> Array:
        """The array it is bound to."""
        return result

    def _bound(
        self, problem: Problem, operator: str, *arrays: Array, constants: list[list[int]] | None = None, **attributes: Any
    ) -> Spelling:
        helper, dtype = self._onnx.helper, self._onnx.helper.np_dtype_to_tensor_dtype
        out = problem.out
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
