"""OpenVINO: a compiled model of one operation, on tensors over arrays that exist."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import numpy as np

from dmlgather.bench.errors import CannotSayError
from dmlgather.bench.kinds import Along, Take, Tuples, View
from dmlgather.bench.peers.peer import Peer, Spelling, Stage
from dmlgather.bench.problem import Array, Problem


class OpenVinoPeer(Peer):
    """The CPU plugin, tuned for latency, computing at the inputs' precision."""

    name, packages, devices = "openvino", ("openvino",), ("cpu",)
    bounds = "Gather writes zeros; other operations leave it undefined"

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        if "openvino" not in sys.modules:  # else the import writes into the home directory, calls a server and forks
            sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type] # openvino takes its own stub instead
        self._openvino: Any = import_module("openvino")
        self._core = self._openvino.Core()
        self._options = {
            "INFERENCE_NUM_THREADS": stage.threads,
            "PERFORMANCE_HINT": "LATENCY",
            "EXECUTION_MODE_HINT": "ACCURACY",
        }

    def take(self, problem: Problem, kind: Take, /) -> Iterator[Spelling]:
        """Gather-8."""
        yield self._bound(problem, "gather", problem.x, problem.index, constants=[kind.axis])

    def along(self, problem: Problem, kind: Along, /) -> Iterator[Spelling]:
        """GatherElements-6."""
        yield self._bound(problem, "gather_elements", problem.x, problem.index, axis=kind.axis)

    def tuples(self, problem: Problem, _kind: Tuples, /) -> Iterator[Spelling]:
        """GatherND-8."""
        yield self._bound(problem, "gather_nd", problem.x, problem.index)

    def view(self, problem: Problem, kind: View, /) -> Iterator[Spelling]:
        """Slice-8, or Transpose-1."""
        order = kind.order
        if order is None:
            raise CannotSayError("OpenVINO has no strided views")
        if order == tuple(range(len(order))):
            ranges = [place.indices(size) for place, size in zip(kind.slices, kind.shape, strict=True)]
            ends = [-(2**31) if end < 0 else end for _, end, _ in ranges]  # before the first element
            limits = [[begin for begin, _, _ in ranges], ends, [step for _, _, step in ranges]]
            yield self._bound(problem, "slice", problem.x, constants=limits)
        elif kind.out_shape == kind.shape:
            stored = problem.base.reshape([kind.shape[axis] for axis in order])
            yield self._bound(problem, "transpose", stored, constants=[[int(axis) for axis in np.argsort(order)]])
        else:
            raise CannotSayError("a Slice of a Transpose takes two operations")

    def array(self, result: Any) -> Array:
        """The array it writes to."""
        return result

    def _bound(
        self, problem: Problem, operation: str, *arrays: Array, constants: list[Any] | None = None, **attributes: Any
    ) -> Spelling:
        openvino, operations = self._openvino, self._openvino.opset13
        parameters = [operations.parameter(list(array.shape), array.dtype) for array in arrays]
        fixed = [operations.constant(np.array(values, np.int64)) for values in constants or ()]
        node = getattr(operations, operation)(*parameters, *fixed, **attributes)
        request = self._core.compile_model(openvino.Model([node], parameters), "CPU", self._options).create_infer_request()
        for number, array in enumerate(arrays):
            request.set_input_tensor(number, openvino.Tensor(array, shared_memory=True))
        request.set_output_tensor(0, openvino.Tensor(problem.out, shared_memory=True))

        def run() -> Array:
            request.infer()
            return problem.out

        return Spelling(f"opset13.{operation} (set_output_tensor)", run)
