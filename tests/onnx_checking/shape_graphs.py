"""Random models that compute with the sizes of their inputs, as exporters write them."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto, helper, numpy_helper

INPUTS: Mapping[str, Sequence[int | str | None]] = {"X": ("N", 4, "M"), "Y": ("N", None), "V": ("?", "M", 1)}
"""The inputs, float, with their declared sizes."""

Array = np.ndarray[Any, Any]


@dataclass
class ShapeDraft:
    """A model while it is drawn. scalars, vectors: names of int64 tensors, vectors with their lengths; tensors: names of other
    tensors, with their ranks.
    """

    rng: random.Random
    nodes: list[NodeProto] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    scalars: list[str] = field(default_factory=list)
    vectors: dict[str, int] = field(default_factory=dict)
    tensors: dict[str, int] = field(default_factory=lambda: {name: len(shape) for name, shape in INPUTS.items()})
    reals: list[str] = field(default_factory=list)

    def constant(self, values: Any, dtype: Any = np.int64) -> str:
        """An initializer."""
        name = f"c{len(self.constants)}"
        self.constants[name] = np.array(values, dtype)
        return name

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """A node with one output, whose name is returned."""
        name = f"{operator}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], name=name, **attributes))
        return name

    def scalar(self) -> str:
        """A scalar that there is, or a constant."""
        if self.scalars and self.rng.random() < 0.8:
            return self.rng.choice(self.scalars)
        return self.constant(self.rng.choice((-3, -1, 0, 1, 2, 3, 5)))

    def bound(self) -> str:
        """A vector of one element, for a slice."""
        return self.add("Unsqueeze", self.scalar(), self.constant([0]))

    def small(self) -> str:
        """A scalar from 0 to 6."""
        return self.add("Min", self.add("Max", self.scalar(), self.constant(0)), self.constant(6))

    def tensor(self) -> tuple[str, int]:
        """A tensor that there is, and its rank."""
        name = self.rng.choice(list(self.tensors))
        return name, self.tensors[name]

    def vector(self) -> str:
        """A vector that there is, or the shape of a tensor."""
        if not self.vectors:
            _shape(self)
        return self.rng.choice(list(self.vectors))


def _shape(draft: ShapeDraft) -> None:
    name, rank = draft.tensor()
    if rank:
        draft.vectors[draft.add("Shape", name)] = rank


def _size(draft: ShapeDraft) -> None:
    draft.scalars.append(draft.add("Size", draft.tensor()[0]))


def _pick(draft: ShapeDraft) -> None:
    vector = draft.vector()
    at = draft.rng.randrange(-draft.vectors[vector], draft.vectors[vector])
    draft.scalars.append(draft.add("Gather", vector, draft.constant(at)))


def _arithmetic(draft: ShapeDraft) -> None:
    operator = draft.rng.choice(("Add", "Sub", "Mul", "Min", "Max", "Add", "Sub"))
    draft.scalars.append(draft.add(operator, draft.scalar(), draft.scalar()))


def _quotient(draft: ShapeDraft) -> None:
    divisor = draft.rng.choice((-3, -2, 2, 3, 4))
    operator, attributes = draft.rng.choice((("Div", {}), ("Mod", {}), ("Mod", {"fmod": 1})))
    by = draft.constant(divisor) if draft.rng.random() < 0.7 else draft.add("Max", draft.scalar(), draft.constant(1))
    draft.scalars.append(draft.add(operator, draft.scalar(), by, **attributes))


def _unary(draft: ShapeDraft) -> None:
    draft.scalars.append(draft.add(draft.rng.choice(("Neg", "Abs")), draft.scalar()))


def _real(draft: ShapeDraft) -> None:
    value = draft.add("Cast", draft.scalar(), to=1)
    for _ in range(draft.rng.randrange(3)):
        operator = draft.rng.choice(("Mul", "Add", "Div", "Sub"))
        value = draft.add(operator, value, draft.constant(draft.rng.choice((0.5, 2.0, 1.5, -0.25, 4.0)), np.float32))
    draft.reals.append(value)
    if draft.rng.random() < 0.8:
        rounded = draft.add(draft.rng.choice(("Floor", "Ceil", "Identity")), value)
        draft.scalars.append(draft.add("Cast", rounded, to=7))


def _compare(draft: ShapeDraft) -> None:
    relation = draft.rng.choice(("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"))
    condition = draft.add(relation, draft.scalar(), draft.scalar())
    if draft.rng.random() < 0.3:
        condition = draft.add("Not", condition)
    draft.scalars.append(draft.add("Where", condition, draft.scalar(), draft.scalar()))


def _concat(draft: ShapeDraft) -> None:
    number = draft.rng.randint(1, 3)
    parts = [draft.bound() for _ in range(number)]
    if draft.rng.random() < 0.3:
        parts.append(vector := draft.vector())
        number += draft.vectors[vector]
    draft.vectors[draft.add("Concat", *parts, axis=0)] = number


def _move(draft: ShapeDraft) -> None:
    vector = draft.vector()
    length = draft.vectors[vector]
    kind = draft.rng.choice(
        ("Slice", "Gather", "ScatterElements", "Reverse", "Where", "Transpose", "Split", "ReduceProd", "Tile")
    )
    if kind == "Slice":
        start = draft.rng.randrange(length)
        cut = draft.add("Slice", vector, draft.constant([start]), draft.constant([length]), draft.constant([0]))
        draft.vectors[cut] = length - start
    elif kind == "Gather":
        at = [draft.rng.randrange(-length, length) for _ in range(draft.rng.randint(1, 3))]
        draft.vectors[draft.add("Gather", vector, draft.constant(at))] = len(at)
    elif kind == "ScatterElements":
        place = draft.constant([draft.rng.randrange(length)])
        draft.vectors[draft.add("ScatterElements", vector, place, draft.bound())] = length
    elif kind == "Reverse":
        bounds = (draft.constant([-1]), draft.constant([-(2**63) + 1]), draft.constant([0]), draft.constant([-1]))
        draft.vectors[draft.add("Slice", vector, *bounds)] = length
    elif kind == "Where":
        condition = draft.add("Equal", vector, draft.constant([draft.rng.choice((-1, 1, 4))]))
        draft.vectors[draft.add("Where", condition, draft.bound(), vector)] = length
    elif kind == "Transpose":
        pair = draft.add("Unsqueeze", vector, draft.constant([0]))
        draft.vectors[draft.add("Reshape", draft.add("Transpose", pair, perm=[1, 0]), draft.constant([-1]))] = length
    elif kind == "Split" and length > 1:
        name = f"split_{len(draft.nodes)}"
        lengths = draft.constant([1, length - 1])
        draft.nodes.append(helper.make_node("Split", [vector, lengths], [f"{name}a", f"{name}b"], axis=0))
        draft.vectors |= {f"{name}a": 1, f"{name}b": length - 1}
    elif kind == "ReduceProd":
        draft.scalars.append(draft.add("ReduceProd", vector, keepdims=0, axes=[0]))
    elif kind == "Tile" and length < 4:
        draft.vectors[draft.add("Tile", vector, draft.constant([2]))] = 2 * length


def _cut(draft: ShapeDraft) -> None:
    name, rank = draft.tensor()
    if rank:
        axis = draft.constant([draft.rng.randrange(rank)])
        step = draft.constant([draft.rng.choice((1, 1, 1, 2, 3))])
        draft.tensors[draft.add("Slice", name, draft.bound(), draft.bound(), axis, step)] = rank


def _reshape(draft: ShapeDraft) -> None:
    name, rank = draft.tensor()
    sizes = draft.add("Shape", name)
    if rank < 2:
        return
    first = draft.add("Gather", sizes, draft.constant([draft.rng.randrange(rank)]))
    target = draft.rng.choice((["a", "b"], ["b", "a"], ["0", "b"], ["b"], ["a", "b", "one"]))
    parts = {"a": first, "b": draft.constant([-1]), "0": draft.constant([0]), "one": draft.constant([1])}
    draft.tensors[draft.add("Reshape", name, draft.add("Concat", *(parts[each] for each in target), axis=0))] = len(target)


def _make(draft: ShapeDraft) -> None:
    number = draft.rng.randint(1, 2)
    parts = [draft.add("Unsqueeze", draft.small(), draft.constant([0])) for _ in range(number)]
    sizes = draft.add("Concat", *parts, axis=0)
    if draft.rng.random() < 0.5:
        draft.tensors[draft.add("ConstantOfShape", sizes)] = number
    else:
        draft.tensors[draft.add("Expand", draft.constant(1.0, np.float32), sizes)] = number


def _join(draft: ShapeDraft) -> None:
    name, rank = draft.tensor()
    if rank:
        axis = draft.rng.randrange(rank)
        other = draft.add("Slice", name, draft.constant([0]), draft.bound(), draft.constant([axis]))
        draft.tensors[draft.add("Concat", name, other, axis=axis)] = rank


def _enlarge(draft: ShapeDraft) -> None:
    name, rank = draft.tensor()
    if 0 < rank <= 2:
        small = draft.add("Unsqueeze", draft.small(), draft.constant([0]))
        zeros = [draft.constant([0])] * (rank - 1)
        ones = [draft.constant([1])] * (rank - 1)
        if draft.rng.random() < 0.5:
            pads = draft.add("Concat", small, *zeros, draft.constant([1]), *zeros, axis=0)
            draft.tensors[draft.add("Pad", name, pads)] = rank
        else:
            draft.tensors[draft.add("Tile", name, draft.add("Concat", small, *ones, axis=0))] = rank


def _count(draft: ShapeDraft) -> None:
    step = draft.constant(draft.rng.choice((1, 1, 2)))
    draft.tensors[draft.add("Range", draft.constant(draft.rng.choice((0, 0, 1))), draft.small(), step)] = 1


def _pass(draft: ShapeDraft) -> None:
    name, rank = draft.tensor()
    if rank:
        kind = draft.rng.choice(("Relu", "Transpose", "Unsqueeze", "NonZero"))
        if kind == "Unsqueeze":
            draft.tensors[draft.add(kind, name, draft.constant([0]))] = rank + 1
        elif kind == "NonZero":
            draft.tensors[draft.add(kind, name)] = 2
        elif kind == "Transpose" or draft.nodes:
            draft.tensors[draft.add("Transpose" if kind == "Transpose" else "Identity", name)] = rank


def _branch(draft: ShapeDraft) -> None:
    condition = draft.add("Equal", draft.scalar(), draft.constant(draft.rng.choice((0, 1, 4))))
    name = f"If_{len(draft.nodes)}"
    one, two = draft.scalar(), draft.scalar()
    then = _graph([helper.make_node("Add", [one, two], [f"{name}_then"])], f"{name}_then")
    otherwise = _graph([helper.make_node("Sub", [one, two], [f"{name}_else"])], f"{name}_else")
    draft.nodes.append(helper.make_node("If", [condition], [name], name=name, then_branch=then, else_branch=otherwise))
    draft.scalars.append(name)


def _loop(draft: ShapeDraft) -> None:
    name, more = f"Loop_{len(draft.nodes)}", draft.scalar()
    body = _graph(
        [
            helper.make_node("Add", [f"{name}_in", more], [f"{name}_sum"]),
            helper.make_node("Identity", [f"{name}_on"], [f"{name}_still"]),
            helper.make_node("Add", [f"{name}_sum", f"{name}_i"], [f"{name}_scan"]),
        ],
        *(f"{name}_still", f"{name}_sum", f"{name}_scan"),
    )
    for each, kind in ((f"{name}_i", 7), (f"{name}_on", 9), (f"{name}_in", 7)):
        body.input.append(helper.make_tensor_value_info(each, kind, []))
    times = draft.constant(draft.rng.choice((0, 1, 3))) if draft.rng.random() < 0.7 else draft.small()
    draft.nodes.append(helper.make_node("Loop", [times, "", draft.scalar()], [name, f"{name}_all"], name=name, body=body))
    draft.scalars.append(name)
    draft.tensors[f"{name}_all"] = 1


def _graph(nodes: Sequence[NodeProto], *outputs: str) -> GraphProto:
    kinds = [helper.make_tensor_value_info(each, 9 if each.endswith("_still") else 7, []) for each in outputs]
    return helper.make_graph(list(nodes), "inner", [], kinds)


STEPS: Sequence[Callable[[ShapeDraft], None]] = (
    *(_shape, _shape, _size, _pick, _pick, _pick, _arithmetic, _arithmetic, _quotient, _unary, _real, _compare),
    *(_concat, _move, _move, _cut, _cut, _reshape, _make, _join, _enlarge, _count, _pass, _branch, _loop),
)


def random_shape_graph(seed: int) -> ModelProto:
    """A model of opset 17 whose outputs are all its values."""
    draft = ShapeDraft(random.Random(seed))
    for _ in range(draft.rng.randint(6, 30)):
        draft.rng.choice(STEPS)(draft)
    inputs = [helper.make_tensor_value_info(name, 1, shape) for name, shape in INPUTS.items()]
    constants = [numpy_helper.from_array(value, name) for name, value in draft.constants.items()]
    outputs = [ValueInfoProto(name=name) for node in draft.nodes for name in node.output]
    graph = helper.make_graph(draft.nodes, "shapes", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def random_inputs(seed: int) -> dict[str, Array]:
    """Inputs of sizes from 1 on, of which the equally named are equal."""
    rng = np.random.default_rng(seed)
    n, m, other, last = (int(size) for size in rng.integers(1, 9, 4))
    shapes = {"X": (n, 4, m), "Y": (n, other), "V": (last, m, 1)}
    return {name: rng.integers(0, 2, shape).astype(np.float32) for name, shape in shapes.items()}
