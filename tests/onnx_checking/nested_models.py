"""Random models with branches, loops, scans and functions, and the same nodes laid flat, so that a run shows every value."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

import numpy as np
from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from tests.onnx.random_models import STEPS, Draft, Value, data

OPSETS = (11, 13, 15, 17, 18, 21)

DOMAIN = "own"
"""The domain of the functions."""

FLAT = "flat/"
"""What the name of a value of an inner graph has before it where the nodes are laid flat, once for each graph around it."""

UNSEEN = " at"
"""What the name of a value ends in that only the nodes laid flat have."""

MOST = 200
"""The most elements of a value."""

Array = np.ndarray[Any, Any]


@dataclass
class NestedDraft(Draft):
    """A graph that grows by nodes, whose indices and shapes are constants. It knows the values of the graph around it.

    functions: those of the model. depth: how many graphs may be inside one another here.
    """

    names: Iterator[int] = field(default_factory=count)
    functions: list[FunctionProto] = field(default_factory=list)
    depth: int = 2
    in_function: bool = False

    def name(self) -> str:
        return f"v{next(self.names)}"

    def fed(self, array: Array) -> str:
        name, tensor = self.name(), numpy_helper.from_array(array)
        if self.in_function or self.rng.random() < 0.3:
            self.nodes.append(helper.make_node("Constant", [], [name], name=f"node of {name}", value=tensor))
        else:
            tensor.name = name
            self.initializers.append(tensor)
        return name

    def add(self, operator: str, inputs: Sequence[str], shape: Sequence[int], dtype: Any, **attributes: Any) -> Value:
        (value,) = self.several(operator, inputs, [(shape, dtype)], **attributes)
        return value

    def several(
        self, operator: str, inputs: Sequence[str], outputs: Sequence[tuple[Sequence[int], Any]], **attributes: Any
    ) -> list[Value]:
        """A node with outputs of these shapes and types."""
        made = [Value(self.name(), tuple(shape), np.dtype(dtype)) for shape, dtype in outputs]
        names = [value.name for value in made]
        self.nodes.append(helper.make_node(operator, inputs, names, name=f"node of {names[0]}", **attributes))
        self.used.update(inputs)
        self.pool += [value for value in made if math.prod(value.shape) <= MOST]
        return made

    def vector(self, *numbers: int) -> str:
        """A constant of int64."""
        return self.fed(np.array(numbers, np.int64))

    def inner(self, pool: Sequence[Value], *, in_function: bool = False) -> NestedDraft:
        """An empty graph inside this one that knows the values of the pool."""
        inside = in_function or self.in_function
        return NestedDraft(
            self.rng, self.opset, list(pool), names=self.names, functions=self.functions, depth=self.depth - 1, in_function=inside
        )

    def grow(self, steps: int) -> None:
        """Take random steps on values of the pool."""
        for _ in range(steps):
            self.rng.choice(NESTED_STEPS if self.depth else PLAIN_STEPS)(self, self.rng.choice(self.pool[-6:]))


def random_nested(rng: random.Random) -> tuple[NestedDraft, dict[str, Value]]:
    """A model of a few nodes as a draft, and its inputs."""
    draft = NestedDraft(rng, rng.choice(OPSETS))
    inputs = {"c": Value("c", (), np.dtype("bool"))}
    for number in range(rng.randint(1, 2)):
        shape = tuple(rng.choice((1, 2, 3, 4)) for _ in range(rng.choice((1, 2, 2, 3, 4))))
        dtype = np.dtype(rng.choice(("float32", "float32", "float32", "int64", "float16", "int32", "uint8", "float64")))
        inputs[f"input{number}"] = value = Value(f"input{number}", shape, dtype)
        draft.pool.append(value)
    draft.grow(rng.randint(2, 8))
    return draft, inputs


# --- steps


def _elementwise(draft: NestedDraft, value: Value) -> None:
    computes = value.dtype.name in ("float32", "float64", "int32", "int64")
    match draft.rng.choice(("Identity", "Abs", "Add", "Mul", "Equal", "Cast", "Cast")):
        case "Cast":
            to = np.dtype(draft.rng.choice(("float32", "float64", "int32", "int64", "uint8", "bool", "float16")))
            draft.add("Cast", [value.name], value.shape, to, to=int(helper.np_dtype_to_tensor_dtype(to)))
        case "Add" if computes:
            draft.add("Add", [value.name, value.name], value.shape, value.dtype)
        case "Mul" if computes:
            more = (2,) + (1,) * len(value.shape)
            draft.add("Mul", [value.name, draft.fed(np.ones(more, value.dtype))], (2, *value.shape), value.dtype)
        case "Equal" if computes:
            draft.add("Equal", [value.name, value.name], value.shape, np.bool_)
        case "Abs" if value.dtype.kind != "b":
            draft.add("Abs", [value.name], value.shape, value.dtype)
        case _:
            draft.add("Identity", [value.name], value.shape, value.dtype)


def _transpose(draft: NestedDraft, value: Value) -> None:
    if axes := draft.rng.sample(range(len(value.shape)), len(value.shape)):
        draft.add("Transpose", [value.name], [value.shape[axis] for axis in axes], value.dtype, perm=axes)


def _concat(draft: NestedDraft, value: Value) -> None:
    if value.shape:
        axis = draft.rng.randrange(len(value.shape))
        shape = [size * (2 if at == axis else 1) for at, size in enumerate(value.shape)]
        draft.add("Concat", [value.name, value.name], shape, value.dtype, axis=axis)


def _unsqueeze(draft: NestedDraft, value: Value) -> None:
    axis = draft.rng.randint(0, len(value.shape))
    shape = [*value.shape[:axis], 1, *value.shape[axis:]]
    if draft.opset >= 13:
        draft.add("Unsqueeze", [value.name, draft.vector(axis)], shape, value.dtype)
    else:
        draft.add("Unsqueeze", [value.name], shape, value.dtype, axes=[axis])


def _split(draft: NestedDraft, value: Value) -> None:
    if value.shape and value.shape[0] % 2 == 0 and value.shape[0] and draft.opset < 18:
        half = (value.shape[0] // 2, *value.shape[1:])
        draft.several("Split", [value.name], [(half, value.dtype)] * 2, axis=0)


def _fixed_reshape(draft: NestedDraft, value: Value) -> None:
    """To a constant shape, which may copy a size, or leave one to follow from the others."""
    shape = [math.prod(value.shape)]
    if shape[0] % 2 == 0 and shape[0]:
        shape = draft.rng.choice(([2, shape[0] // 2], [shape[0] // 2, 1, 2]))
    stated = [-1 if at == 0 and 0 not in shape and draft.rng.random() < 0.3 else size for at, size in enumerate(shape)]
    draft.add("Reshape", [value.name, draft.vector(*stated)], shape, value.dtype)


def _computed_reshape(draft: NestedDraft, value: Value) -> None:
    """To a shape that is computed from the value's own, as exporters write it."""
    if not value.shape or 0 in value.shape:
        return
    rank, at = len(value.shape), draft.rng.randrange(len(value.shape))
    sizes = draft.add("Shape", [value.name], [rank], np.int64)
    size = draft.add("Gather", [sizes.name, draft.vector(at)], [1], np.int64, axis=0)
    rest = math.prod(value.shape) // value.shape[at]
    if draft.rng.random() < 0.5:
        twice = draft.add("Mul", [size.name, draft.vector(2)], [1], np.int64)
        half = draft.add("Div", [twice.name, draft.vector(2)], [1], np.int64)
        size = half
    target = draft.add("Concat", [size.name, draft.vector(-1)], [2], np.int64, axis=0)
    draft.add("Reshape", [value.name, target.name], [value.shape[at], rest], value.dtype)


def _constant(draft: NestedDraft, value: Value) -> None:
    array = data(draft.rng, value.dtype, value.shape)
    name = draft.fed(array)
    if value.dtype.kind in "fiu":
        draft.add("Abs", [name], value.shape, value.dtype)
    else:
        draft.add("Identity", [name], value.shape, value.dtype)


def _expand(draft: NestedDraft, value: Value) -> None:
    if math.prod(value.shape) * 3 <= MOST:
        shape = (3, *value.shape)
        draft.add("Expand", [value.name, draft.vector(3, *(1 for _ in value.shape))], shape, value.dtype)


def _family(draft: NestedDraft, value: Value) -> None:
    draft.rng.choice(STEPS)(draft, value)


# --- inner graphs


def _branch(draft: NestedDraft, value: Value) -> None:
    """An If whose branches give values of one type; the second one's may have another shape."""
    one, functions = draft.inner(draft.pool[-6:]), len(draft.functions)
    one.grow(draft.rng.randint(1, 3))
    result = next((each for each in one.pool if one.nodes and each.name == one.nodes[-1].output[0]), None)
    if result is None:  # nothing was made whose shape is known
        del draft.functions[functions:]
        return
    two = draft.inner([result])
    kind = int(helper.np_dtype_to_tensor_dtype(result.dtype))
    if draft.rng.random() < 0.5:
        other = two.fed(data(draft.rng, result.dtype, result.shape))
        last = two.add("Identity", [other], result.shape, result.dtype)
    else:
        last = two.add("Cast", [value.name], value.shape, result.dtype, to=kind)
    condition = "c" if not draft.in_function and draft.rng.random() < 0.7 else draft.fed(np.array(draft.rng.random() < 0.5))
    graphs = {"then_branch": graph_of(one, [], [result.name]), "else_branch": graph_of(two, [], [last.name])}
    shape = result.shape if result.shape == last.shape else ()
    (made,) = draft.several("If", [condition], [(shape, result.dtype)], **graphs)
    if result.shape != last.shape:
        draft.pool.remove(made)  # whose shape depends on the run


def _loop(draft: NestedDraft, value: Value) -> None:
    """A Loop with a state of one shape, and a value of each iteration."""
    times = draft.rng.choice((1, 2, 3))
    body = draft.inner(draft.pool[-3:])
    number, on, state = Value(body.name(), (), np.dtype("int64")), body.name(), Value(body.name(), value.shape, value.dtype)
    body.pool += [number, state]
    body.grow(draft.rng.randint(1, 3))
    last = body.add("Identity", [state.name], state.shape, state.dtype)
    each = draft.rng.choice(body.pool[-4:])
    seen = body.add("Identity", [each.name], each.shape, each.dtype)
    still = body.add("Identity", [on], [], np.bool_)
    graph = graph_of(body, [number.name, on, state.name], [still.name, last.name, seen.name])
    for each_input, kind in zip(graph.input, (TensorProto.INT64, TensorProto.BOOL), strict=False):
        each_input.CopyFrom(helper.make_tensor_value_info(each_input.name, kind, []))
    count, true = draft.fed(np.array(times)), draft.fed(np.array(True))
    results = [(value.shape, value.dtype), ((times, *each.shape), each.dtype)]
    draft.several("Loop", [count, true, value.name], results, body=graph)


def _scan(draft: NestedDraft, value: Value) -> None:
    """A Scan over the first axis of a value, whose state is another one."""
    if not value.shape or not value.shape[0]:
        return
    begin = draft.rng.choice(draft.pool[-3:])
    body = draft.inner(draft.pool[-3:])
    state, element = Value(body.name(), begin.shape, begin.dtype), Value(body.name(), value.shape[1:], value.dtype)
    body.pool += [state, element]
    body.grow(draft.rng.randint(1, 3))
    last = body.add("Identity", [state.name], state.shape, state.dtype)
    each = draft.rng.choice(body.pool[-4:])
    seen = body.add("Identity", [each.name], each.shape, each.dtype)
    graph = graph_of(body, [state.name, element.name], [last.name, seen.name])
    results = [(begin.shape, begin.dtype), ((value.shape[0], *each.shape), each.dtype)]
    draft.several("Scan", [begin.name, value.name], results, body=graph, num_scan_inputs=1)


def _call(draft: NestedDraft, value: Value) -> None:
    """A call of a function of its own."""
    body = draft.inner([], in_function=True)
    argument = Value(body.name(), value.shape, value.dtype)
    body.pool.append(argument)
    body.grow(draft.rng.randint(1, 3))
    last = body.add("Identity", [body.pool[-1].name], body.pool[-1].shape, body.pool[-1].dtype)
    name = f"F{len(draft.functions)}"
    opsets = [helper.make_opsetid("", draft.opset), helper.make_opsetid(DOMAIN, 1)]
    draft.functions.append(helper.make_function(DOMAIN, name, [argument.name], [last.name], body.nodes, opsets))
    draft.several(name, [value.name], [(last.shape, last.dtype)], domain=DOMAIN)


Step = Callable[[NestedDraft, Value], None]

PLAIN_STEPS: Sequence[Step] = (
    *(_family, _family, _family, _family, _elementwise, _elementwise, _elementwise, _transpose, _concat, _unsqueeze, _split),
    *(_fixed_reshape, _computed_reshape, _constant, _expand),
)
NESTED_STEPS: Sequence[Step] = (*PLAIN_STEPS, _branch, _branch, _loop, _scan, _call)


def graph_of(draft: NestedDraft, inputs: Sequence[str], outputs: Sequence[str]) -> GraphProto:
    """The graph of a draft, in which no type is stated."""
    taken, given = ([ValueInfoProto(name=name) for name in names] for names in (inputs, outputs))
    return helper.make_graph(draft.nodes, "inner", taken, given, draft.initializers)


# --- laid flat


def laid_flat(nodes: Sequence[NodeProto], functions: Mapping[str, FunctionProto]) -> Iterator[NodeProto]:
    """The nodes; behind each that has inner graphs, or calls a function, those of these, once, with FLAT before their names."""
    for node in nodes:
        yield node
        if node.domain == DOMAIN:
            function = functions[node.op_type]
            yield from _inside(function, dict(zip(function.input, node.input, strict=True)), functions)
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                known = {}
                for value, taken in zip(attribute.g.input, _taken(node), strict=True):
                    known[value.name] = f"{FLAT}{value.name}{UNSEEN if value.HasField('type') else ''}"
                    yield from taken(known[value.name])
                for tensor in attribute.g.initializer:
                    yield helper.make_node("Constant", [], [f"{FLAT}{tensor.name}"], value=tensor)
                    known[tensor.name] = f"{FLAT}{tensor.name}"
                yield from _inside(attribute.g, known, functions)


def _taken(node: NodeProto) -> Iterator[Callable[[str], Iterator[NodeProto]]]:
    """For each input of a node's inner graph, nodes that give its first value a name."""
    if node.op_type == "Loop":
        yield lambda name: iter([helper.make_node("Constant", [], [name], value_int=0)])
    states = {"Loop": node.input[1:], "Scan": node.input[:1]}.get(node.op_type, ())
    yield from (partial(_copied, state) for state in states)
    if node.op_type == "Scan":
        yield partial(_first, node.input[1])


def _copied(source: str, name: str) -> Iterator[NodeProto]:
    yield helper.make_node("Identity", [source], [name])


def _first(source: str, name: str) -> Iterator[NodeProto]:
    yield helper.make_node("Constant", [], [f"{name}{UNSEEN}"], value_int=0)
    yield helper.make_node("Gather", [source, f"{name}{UNSEEN}"], [name], axis=0)


def _inside(
    graph: GraphProto | FunctionProto, known: Mapping[str, str], functions: Mapping[str, FunctionProto]
) -> Iterator[NodeProto]:
    """The nodes of an inner graph where these names stand for others."""
    names = {**{name: f"{FLAT}{name}" for name in _made(graph.node)}, **known}
    yield from laid_flat([_renamed(node, names) for node in graph.node], functions)


def _made(nodes: Sequence[NodeProto]) -> Iterator[str]:
    """The names that nodes, and the graphs in them, give to values."""
    for node in nodes:
        yield from node.output
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                yield from (each.name for each in (*attribute.g.input, *attribute.g.initializer))
                yield from _made(attribute.g.node)


def _renamed(node: NodeProto, names: Mapping[str, str]) -> NodeProto:
    copy = NodeProto()
    copy.CopyFrom(node)
    copy.input[:] = [names.get(name, name) for name in node.input]
    copy.output[:] = [names.get(name, name) for name in node.output]
    for attribute in copy.attribute:
        if attribute.type == AttributeProto.GRAPH:
            for value in (*attribute.g.input, *attribute.g.output, *attribute.g.initializer):
                value.name = names.get(value.name, value.name)
            nodes = [_renamed(each, names) for each in attribute.g.node]
            del attribute.g.node[:]
            attribute.g.node.extend(nodes)
    return copy
