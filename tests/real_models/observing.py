"""The types, sizes and values of a model's nodes in onnxruntime's runs, compared with dmlgather's bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, helper

import dmlgather as dg
from dmlgather.dialects.problem import TensorType
from dmlgather.directml import FeatureLevel
from dmlgather.onnx.problems.data_types import type_name
from dmlgather.onnx.problems.export import express
from dmlgather.onnx.problems.node_reading import ARRAYS, INPUTS, problem_of
from tests.dialects import binding
from tests.onnx import described
from tests.onnx.calling import FUNCTIONS
from tests.onnx.specification import Call
from tests.real_models.stepping import Activation, SeenNode, Stepper, Value

Array = NDArray[Any]

FEW = 100_000
"""Size of an output up to which the slow device runs, too."""

KEPT = 1024
"""Number of integer elements up to which an input is kept."""


@dataclass(frozen=True)
class SeenCall(Call):
    """A node that ran. `described` decides by DirectML's documents what accepts it."""

    output: Array | None = None

    @property
    def right(self) -> Array:
        assert self.output is not None
        return self.output


@dataclass(frozen=True)
class SeenTensor:
    """A tensor of a run. type: the dialect's name. values: integers, if they are few."""

    type: str
    shape: tuple[int, ...]
    values: tuple[int, ...] | None = None

    @classmethod
    def of(cls, kind: str, array: Array) -> SeenTensor:
        few = array.dtype.kind in "iub" and array.size <= KEPT
        return cls(kind, array.shape, tuple(map(int, array.ravel().tolist())) if few else None)


@dataclass(frozen=True, eq=False)
class NodeRun:
    """A run of a node.

    place: the path of the graph and the position in it. tensors: inputs and output by role. refused: by level, the codes in
    DirectML's documents. forms: by level, the operators of its descriptors, if any. faults: differences from the judge.
    """

    place: tuple[str, int]
    activation: Activation
    tensors: Mapping[str, SeenTensor]
    refused: Mapping[FeatureLevel, set[str]]
    forms: Mapping[FeatureLevel, tuple[str, ...]]
    faults: tuple[str, ...]


class ModelRuns:
    """The runs of a model.

    nodes: each run of each node. sizes: by the graph's run, those of all tensors, as "x[1]", and of the inputs by the model's
    names. executions: runs of plans and of descriptors with compared bits.
    """

    def __init__(self, model: ModelProto, levels: Sequence[FeatureLevel]) -> None:
        self.model, self.levels = model, levels
        self.nodes: list[NodeRun] = []
        self.executions = 0
        self._stepper = Stepper(model, lambda seen: self.nodes.append(self._observed(seen)))
        self.sizes = self._stepper.sizes

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Value]:
        """Run the model once more, and return its outputs."""
        activation = Activation()
        self.sizes[activation] = _input_sizes(self.model, feeds)
        return self._stepper.run(feeds, activation)

    def _observed(self, seen: SeenNode) -> NodeRun:
        call = _call(seen)
        forms, faults = self._exported(seen, call)
        roles = zip((*INPUTS[seen.node.op_type][: len(seen.inputs)], "output"), (*seen.inputs, seen.output), strict=True)
        return NodeRun(
            (seen.graph, seen.index),
            seen.activation,
            {role: SeenTensor.of(type_name(_dtype(each)), each) for role, each in roles if each is not None},
            {level: described.refusals(call, level) for level in binding.LEVELS},
            forms,
            (*faults, *self._computed(call)),
        )

    def _exported(self, seen: SeenNode, call: SeenCall) -> tuple[dict[FeatureLevel, tuple[str, ...]], list[str]]:
        """Return the forms of a node by level, and their faults."""
        forms: dict[FeatureLevel, tuple[str, ...]] = {}
        types = tuple(None if each is None else TensorType(each.shape, _dtype(each)) for each in seen.inputs)
        try:
            problem = problem_of(seen.node, seen.opset, types, seen.inputs)
        except (TypeError, ValueError) as error:
            return forms, [f"onnxruntime runs it, but {error}"]
        faults = []
        for level in self.levels:
            descs, refusals = express(problem, level), described.refusals(call, level)
            if isinstance(descs, dg.Report):
                if not refusals:
                    faults.append(f"to_directml refuses it at {level}; DirectML's documents take it")
                continue
            if refusals:
                faults.append(f"to_directml takes it at {level}; DirectML's documents call for {', '.join(refusals)}")
            forms[level] = tuple(desc.operator.name for desc in descs)
            self.executions += 1
            output = binding.run(descs, **described.bound(call), level=level, device="cpu")
            if output[: call.right.nbytes].tobytes() != call.right.tobytes():
                faults.append(f"its descriptors at {level} give other bits than onnxruntime")
        return forms, faults

    def _computed(self, call: SeenCall) -> list[str]:
        """Return the devices on which a node's plan gives other bits."""
        faults = []
        for device in ("cpu", "reference")[: 2 if call.right.size <= FEW else 1]:
            self.executions += 1
            found = FUNCTIONS[call.operator](*call.arrays, **call.named, opset=call.opset, device=device)
            if not same_bits(found, call.right):
                faults.append(f"its plan gives other bits than onnxruntime on {device}")
        return faults


def _dtype(array: Array) -> np.dtype[Any]:
    return np.dtype(object) if array.dtype.kind in "OUS" else array.dtype


def same_bits(one: Array, two: Array) -> bool:
    if one.shape != two.shape or _dtype(one) != _dtype(two):
        return False
    return one.tolist() == two.tolist() if one.dtype.kind in "OUS" else one.tobytes() == two.tobytes()


def _call(seen: SeenNode) -> SeenCall:
    named: dict[str, Any] = {each.name: helper.get_attribute_value(each) for each in seen.node.attribute}
    named = {name: value.decode() if isinstance(value, bytes) else value for name, value in named.items()}
    roles = dict(zip(INPUTS[seen.node.op_type], seen.inputs, strict=False))
    data, indices = [*(roles.pop(name, None) for name in ARRAYS[seen.node.op_type]), None][:2]
    named |= {name: each for name, each in roles.items() if each is not None}
    if seen.node.op_type == "Slice" and "axes" not in named:
        named["axes"] = np.arange(len(named["starts"]), dtype=getattr(named["starts"], "dtype", np.int64))
    assert data is not None, "only indices are never left out"
    arrays = tuple(_contiguous(each) for each in (data, indices) if each is not None)
    return SeenCall(seen.node.op_type, seen.opset, arrays, named, output=seen.output)


def _contiguous(array: Array) -> Array:
    return np.ascontiguousarray(array).reshape(array.shape)


def _input_sizes(model: ModelProto, feeds: Mapping[str, Array]) -> dict[str, int]:
    """Return the sizes of the model's inputs, by the model's names and as "x[1]"."""
    sizes: dict[str, int] = {}
    for value in model.graph.input:
        if value.name in feeds:
            pairs = zip(value.type.tensor_type.shape.dim, feeds[value.name].shape, strict=False)
            for axis, (dimension, size) in enumerate(pairs):
                sizes[f"{value.name}[{axis}]"] = size
                if dimension.dim_param and dimension.dim_param != "?":
                    sizes[dimension.dim_param] = size
    return sizes
