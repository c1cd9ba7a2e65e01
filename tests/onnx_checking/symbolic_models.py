"""Random models whose inputs have sizes that are not known: bounds of slices follow from sizes, branches depend on them."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from tests.onnx.specification import Call
from tests.peers.onnxruntime import ONNXRUNTIME

Size = int | str | None

OPSETS = (1, 6, 7, 9, 10, 11, 13, 15, 17, 21, 24)

SYMBOLS = ("N", "M", "K")

FAR = (2**31 - 1, 2**63 - 1, -(2**31), -(2**63))


def _sliced_to(end: int, step: int) -> Call:
    return Call("Slice", 13, (np.zeros(1),), {"starts": [0], "ends": [end], "steps": [step]})


class Tensor(NamedTuple):
    """A tensor of the graph, of floating point."""

    name: str
    rank: int


@dataclass
class Draft:
    """A graph that grows by nodes. sizes: names of tensors int64[1] that are computed from sizes, or are constants."""

    rng: random.Random
    opset: int
    inputs: dict[str, tuple[int, list[Size]]] = field(default_factory=dict)
    tensors: list[Tensor] = field(default_factory=list)
    sizes: list[str] = field(default_factory=list)
    nodes: list[NodeProto] = field(default_factory=list)
    initializers: list[TensorProto] = field(default_factory=list)
    names: int = 0

    def name(self) -> str:
        self.names += 1
        return f"v{self.names}"

    def constant(self, values: Any) -> str:
        name = self.name()
        self.initializers.append(numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    def add(self, operator: str, inputs: Sequence[str], **attributes: Any) -> str:
        name = self.name()
        self.nodes.append(helper.make_node(operator, inputs, [name], name=f"{operator}_{name}", **attributes))
        return name

    def bound(self, step: int) -> str:
        """A bound of a slice, of int64[1]."""
        if self.sizes and self.rng.random() < 0.6:
            return self.rng.choice(self.sizes)
        far = [end for end in FAR if ONNXRUNTIME.known_fault(_sliced_to(end, step)) is None]
        return self.constant([self.rng.choice((0, 0, 1, 2, 3, -1, -2, 5, *far))])

    def input(self, kind: int, shape: list[Size]) -> str:
        name = f"x{len(self.inputs)}"
        self.inputs[name] = (kind, shape)
        return name


@dataclass(frozen=True)
class SymbolicModel:
    """A model as a function of its sizes. inputs: data type and shape by name."""

    inputs: Mapping[str, tuple[int, Sequence[Size]]]
    nodes: Sequence[NodeProto]
    initializers: Sequence[TensorProto]
    opset: int

    @property
    def symbols(self) -> list[str]:
        """The symbols of the inputs; "x0[1]" for a size without a name."""
        found = [size or f"{name}[{axis}]" for name, (_, shape) in self.inputs.items() for axis, size in enumerate(shape)]
        return list(dict.fromkeys(each for each in found if isinstance(each, str)))

    def shape(self, name: str, values: Mapping[str, int]) -> list[int]:
        """The shape of an input for values of the symbols."""
        sizes = [size or f"{name}[{axis}]" for axis, size in enumerate(self.inputs[name][1])]
        return [size if isinstance(size, int) else values[size] for size in sizes]

    def proto(self, values: Mapping[str, int] | None = None, outputs: Sequence[str] | None = None) -> ModelProto:
        """The model, with numbers for its sizes where they are given. outputs: by default the last node's."""
        inputs = [
            helper.make_tensor_value_info(name, kind, shape if values is None else self.shape(name, values))
            for name, (kind, shape) in self.inputs.items()
        ]
        results = [helper.make_empty_tensor_value_info(name) for name in outputs or self.nodes[-1].output]
        graph = helper.make_graph(self.nodes, "graph", inputs, results, self.initializers)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)


def symbolic_model(seed: int) -> SymbolicModel:
    """A model of several nodes."""
    rng = random.Random(seed)
    draft = Draft(rng, rng.choice(OPSETS))
    for _ in range(rng.randint(1, 2)):
        shape: list[Size] = [_size(rng) for _ in range(rng.choice((1, 2, 3, 4, 4)))]
        draft.tensors.append(Tensor(draft.input(TensorProto.FLOAT, shape), len(shape)))
    steps = rng.randint(3, 10)
    while len(draft.nodes) < steps:
        rng.choice(STEPS)(draft, rng.choice(draft.tensors))
    return SymbolicModel(draft.inputs, draft.nodes, draft.initializers, draft.opset)


def _size(rng: random.Random) -> Size:
    return rng.choice((rng.randint(1, 5), *SYMBOLS, *SYMBOLS, None))


def _one_size(draft: Draft, tensor: Tensor) -> None:
    """A size of a tensor, of int64[1]."""
    shape = draft.add("Shape", [tensor.name])
    draft.sizes.append(draft.add("Gather", [shape, draft.constant([draft.rng.randrange(tensor.rank)])]))


def _arithmetic(draft: Draft, tensor: Tensor) -> None:
    if draft.opset < 7 or not draft.sizes:
        return _one_size(draft, tensor)
    operator = draft.rng.choice(("Add", "Sub", "Mul", "Div", "Add", "Min", "Max", "Neg"))
    if operator in ("Min", "Max") and draft.opset < 12:
        return None
    one = draft.rng.choice(draft.sizes)
    other = draft.rng.choice((draft.rng.choice(draft.sizes), draft.constant([draft.rng.randint(1, 6)])))
    if operator == "Div":  # a size may be 0, and what a division by it gives is not defined
        other = draft.constant([draft.rng.randint(1, 6)])
    draft.sizes.append(draft.add(operator, [one] if operator == "Neg" else [one, other]))
    return None


def _slice(draft: Draft, tensor: Tensor) -> None:
    axes = draft.rng.sample(range(tensor.rank), draft.rng.randint(1, min(2, tensor.rank)))
    name = _sliced(draft, draft.add, tensor, axes)
    draft.tensors.append(Tensor(name, tensor.rank))


def _sliced(draft: Draft, add: Callable[..., str], tensor: Tensor, axes: Sequence[int]) -> str:
    if draft.opset < 10:
        bounds = {name: [draft.rng.choice((0, 0, 1, -1, 4, -3, 2**31 - 1)) for _ in axes] for name in ("starts", "ends")}
        return add("Slice", [tensor.name], axes=list(axes), **bounds)
    steps = [draft.rng.choice((1, 1, 1, 2, -1)) for _ in axes]
    parts = [[draft.bound(step) for step in steps] for _ in range(2)]
    starts, ends = (part[0] if len(part) == 1 else draft.add("Concat", part, axis=0) for part in parts)
    return add("Slice", [tensor.name, starts, ends, draft.constant(list(axes)), draft.constant(steps)])


def _if(draft: Draft, tensor: Tensor) -> None:
    """Two branches that slice in different ways, by a size."""
    if draft.opset < 13 or not draft.sizes:
        return
    operator = draft.rng.choice(("Equal", "Less", "Greater"))
    condition = draft.add(operator, [draft.rng.choice(draft.sizes), draft.constant([draft.rng.randint(1, 4)])])
    branches = {}
    for name in ("then_branch", "else_branch"):
        nodes: list[NodeProto] = []

        def add(operator: str, inputs: Sequence[str], nodes: list[NodeProto] = nodes, **attributes: Any) -> str:
            output = draft.name()
            nodes.append(helper.make_node(operator, inputs, [output], name=f"{operator}_{output}", **attributes))
            return output

        output = _sliced(draft, add, tensor, [draft.rng.randrange(tensor.rank)])
        branches[name] = helper.make_graph(nodes, name, [], [helper.make_empty_tensor_value_info(output)])
    draft.tensors.append(Tensor(draft.add("If", [condition], **branches), tensor.rank))


def _gather(draft: Draft, tensor: Tensor) -> None:
    axis = draft.rng.randrange(tensor.rank)
    if draft.rng.random() < 0.5:
        indices, rank = draft.constant([draft.rng.choice((0, 0, 1, 2)) for _ in range(2)]), 1
    else:
        shape = [_size(draft.rng) for _ in range(draft.rng.randrange(3))]
        indices, rank = draft.input(TensorProto.INT64, shape), len(shape)
    draft.tensors.append(Tensor(draft.add("Gather", [tensor.name, indices], axis=axis), tensor.rank - 1 + rank))
    if not draft.tensors[-1].rank:
        draft.tensors.pop()


def _gather_elements(draft: Draft, tensor: Tensor) -> None:
    known = draft.inputs.get(tensor.name)
    if draft.opset < 11 or known is None:
        return
    axis = draft.rng.randrange(tensor.rank)
    shape = [
        draft.rng.choice((size, size, _size(draft.rng))) if at != axis else _size(draft.rng) for at, size in enumerate(known[1])
    ]
    indices = draft.input(TensorProto.INT64, shape)
    draft.tensors.append(Tensor(draft.add("GatherElements", [tensor.name, indices], axis=axis), tensor.rank))


def _gather_nd(draft: Draft, tensor: Tensor) -> None:
    known = draft.inputs.get(tensor.name)
    if draft.opset < 12 or known is None:
        return
    batch = draft.rng.randrange(min(2, tensor.rank))
    tuple_size = draft.rng.randint(1, tensor.rank - batch)
    shape = [*known[1][:batch], *(_size(draft.rng) for _ in range(draft.rng.randint(1, 2))), tuple_size]
    indices = draft.input(TensorProto.INT64, shape)
    draft.add("GatherND", [tensor.name, indices], batch_dims=batch)


def _blocks(draft: Draft, tensor: Tensor) -> None:
    if tensor.rank == 4:
        operator = draft.rng.choice(("DepthToSpace", "SpaceToDepth"))
        draft.tensors.append(Tensor(draft.add(operator, [tensor.name], blocksize=draft.rng.randint(1, 2)), 4))


def _move(draft: Draft, tensor: Tensor) -> None:
    """Something that changes sizes or their order."""
    if draft.rng.random() < 0.5:
        perm = draft.rng.sample(range(tensor.rank), tensor.rank)
        draft.tensors.append(Tensor(draft.add("Transpose", [tensor.name], perm=perm), tensor.rank))
    else:
        axis = draft.rng.randrange(tensor.rank)
        draft.tensors.append(Tensor(draft.add("Concat", [tensor.name, tensor.name], axis=axis), tensor.rank))


STEPS: Sequence[Callable[[Draft, Tensor], None]] = (
    *(_one_size, _arithmetic, _arithmetic, _slice, _slice, _slice),
    *(_if, _gather, _gather_elements, _gather_nd, _blocks, _move),
)
