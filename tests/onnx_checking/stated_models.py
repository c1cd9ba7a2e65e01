"""Random models that state the types of their values truly, as runs show them, and the same models with one statement changed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from onnx import GraphProto, ModelProto, TypeProto, ValueInfoProto, helper

from tests.onnx.random_models import Value, data
from tests.onnx_checking.nested_models import DOMAIN, FLAT, NestedDraft, graph_of, laid_flat, random_nested
from tests.onnx_checking.sessions import OFF, REFUSALS, session

TYPES = ("float32", "float64", "float16", "int8", "int32", "int64", "uint8", "bool")

Array = np.ndarray[Any, Any]

Size = int | str | None


class Seen(NamedTuple):
    """What runs show of a value: its type, and its shape in each run."""

    dtype: np.dtype[Any]
    shapes: Sequence[tuple[int, ...]]


@dataclass(frozen=True)
class StatedModel:
    """A model in which every type is true. sizes: what the names of its inputs' sizes are in each run. seen: of each value."""

    proto: ModelProto
    sizes: Sequence[Mapping[str, int]]
    seen: Mapping[str, Seen]

    def named(self, tensor: str, axis: int) -> str | None:
        """The name of an input's size that a size of a tensor is in every run."""
        found = [shape[axis] for shape in self.seen[tensor].shapes]
        return next((name for name in self.sizes[0] if [sizes[name] for sizes in self.sizes] == found), None)


class Statement(NamedTuple):
    """What a model states of a value. where: "graph", "inner", "function" or "inner of function".

    role: "value", or "output" or "input" of the graph.
    """

    value: ValueInfoProto
    where: str
    role: str


class Change(NamedTuple):
    """A statement that was changed. kind: "size", "rank", "type", or "number" for a number in place of a named size."""

    tensor: str
    kind: str
    where: str
    role: str
    stated: str


def random_stated(rng: random.Random) -> StatedModel:
    """A model. It states the types of all its values, or of some."""
    while True:
        draft, inputs = random_nested(rng)
        bases: dict[str, int] = {}
        shapes = {name: [_named(rng, size, bases) for size in value.shape] for name, value in inputs.items()}
        with suppress(*REFUSALS):  # of a size that a constant shape does not fit, or a type for which there is no kernel
            return _stated(rng, draft, inputs, shapes, bases)
        with suppress(*REFUSALS):
            return _stated(rng, draft, inputs, {name: value.shape for name, value in inputs.items()}, {})


def _named(rng: random.Random, size: int, bases: dict[str, int]) -> Size:
    """A size of an input, or a name of that size. bases: the sizes of names."""
    name = rng.choice((None, None, "N", "M"))
    return size if name is None or bases.setdefault(name, size) != size else name


def _stated(
    rng: random.Random,
    draft: NestedDraft,
    inputs: Mapping[str, Value],
    shapes: Mapping[str, Sequence[Size]],
    bases: Mapping[str, int],
) -> StatedModel:
    """The model for inputs of these shapes, after runs with several values of the names."""
    sizes = _runs(bases)
    seen = observed(rng, draft, inputs, shapes, sizes)
    graph = graph_of(draft, [], [node.output[0] for node in draft.nodes[-1:]])
    graph.input.extend(_typed(inputs, shapes))
    model = StatedModel(_model(draft, graph), sizes, seen)
    _state(rng, model)
    return model


def _runs(bases: Mapping[str, int]) -> list[Mapping[str, int]]:
    """What the names stand for in each run: as drawn, more, and 1; twice each, as the condition takes turns."""
    more = [{name: base + most + at for at, (name, base) in enumerate(bases.items())} for most in (3, 7)]
    return [sizes for sizes in (bases, *more, dict.fromkeys(bases, 1)) for _ in (True, False)]


def _typed(inputs: Mapping[str, Value], shapes: Mapping[str, Sequence[Size]]) -> list[ValueInfoProto]:
    return [
        helper.make_tensor_value_info(name, int(helper.np_dtype_to_tensor_dtype(value.dtype)), shapes[name])
        for name, value in inputs.items()
    ]


def _model(draft: NestedDraft, graph: GraphProto) -> ModelProto:
    opsets = [helper.make_opsetid("", draft.opset), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=opsets, functions=draft.functions, ir_version=10)


def observed(
    rng: random.Random,
    draft: NestedDraft,
    inputs: Mapping[str, Value],
    shapes: Mapping[str, Sequence[Size]],
    sizes: Sequence[Mapping[str, int]],
) -> dict[str, Seen]:
    """What runs in onnxruntime show of every value; the condition "c" takes turns."""
    nodes = list(laid_flat(draft.nodes, {function.name: function for function in draft.functions}))
    made = [name for node in nodes for name in node.output]
    flat = NestedDraft(draft.rng, draft.opset, nodes=nodes, initializers=draft.initializers)
    graph = graph_of(flat, [], made)
    unnamed = {name: [None if isinstance(size, str) else size for size in shape] for name, shape in shapes.items()}
    graph.input.extend(_typed(inputs, unnamed))
    by_onnxruntime = session(_model(draft, graph), OFF)
    found: list[list[Array]] = []
    for number, values in enumerate(sizes):
        feeds = {
            name: data(rng, value.dtype, [values[size] if isinstance(size, str) else int(size or 0) for size in shapes[name]])
            for name, value in inputs.items()
        }
        feeds["c"] = np.array(number % 2 == 0)
        found.append(by_onnxruntime.run(made, feeds))
    return {
        name.replace(FLAT, ""): Seen(np.asarray(found[0][at]).dtype, [np.asarray(run[at]).shape for run in found])
        for at, name in enumerate(made)
    }


def _state(rng: random.Random, model: StatedModel) -> None:
    """State types, in the model, of most of its values or of few."""
    share = rng.choice((1.0, 1.0, 0.6, 0.2))
    last = model.proto.graph.output[0].name if model.proto.graph.output else ""
    for graph in graphs_of(model.proto.graph):
        main = graph is model.proto.graph
        outputs = {value.name for value in graph.output}
        names = [name for node in graph.node for name in node.output]
        for name in names:
            if name in outputs:
                continue
            if main and rng.random() < 0.2:
                graph.output.add(name=name)
            elif rng.random() < share:
                graph.value_info.append(_true(rng, model, name))
        for value in graph.output:
            if main or rng.random() < share:
                value.CopyFrom(_true(rng, model, value.name, whole=main and value.name == last))
        _state_inputs(rng, model, graph, 0.0 if main else share)
    for function in model.proto.functions:
        outputs = set(function.output)
        names = [name for node in function.node for name in node.output]
        function.value_info.extend(_true(rng, model, name) for name in names if name not in outputs and rng.random() < share)
        for node in function.node:
            for attribute in node.attribute:
                for graph in graphs_of(attribute.g) if attribute.HasField("g") else ():
                    _state_inputs(rng, model, graph, share)
                    for name in (name for each in graph.node for name in each.output):
                        if name not in {value.name for value in graph.output} and rng.random() < share:
                            graph.value_info.append(_true(rng, model, name))


def _state_inputs(rng: random.Random, model: StatedModel, graph: GraphProto, share: float) -> None:
    """State types of values that Loop and Scan hand to their bodies; a Loop's count and condition have theirs."""
    for value in graph.input:
        if not value.HasField("type") and rng.random() < share:
            value.CopyFrom(_true(rng, model, value.name))


def graphs_of(graph: GraphProto) -> Iterator[GraphProto]:
    """The graph, and the graphs in it."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from graphs_of(attribute.g)


def _true(rng: random.Random, model: StatedModel, name: str, *, whole: bool = False) -> ValueInfoProto:
    """A statement about a value that holds in every run; of the whole shape, or of less."""
    seen = model.seen[name]
    kind = int(helper.np_dtype_to_tensor_dtype(seen.dtype))
    if len({len(shape) for shape in seen.shapes}) > 1 or (not whole and rng.random() < 0.1):
        return helper.make_tensor_value_info(name, kind, None)
    shape: list[Size] = []
    for axis, size in enumerate(seen.shapes[0]):
        same = {each[axis] for each in seen.shapes} == {size}
        if same and (whole or rng.random() < 0.95):
            shape.append(size)
        else:
            named = None if same else model.named(name, axis)
            shape.append(rng.choice((named, None, f"{name}_{axis}")))
    return helper.make_tensor_value_info(name, kind, shape)


# --- changes


def statements(model: ModelProto) -> Iterator[Statement]:
    """What a model states of values that nodes give."""
    for graph in graphs_of(model.graph):
        where = "graph" if graph is model.graph else "inner"
        yield from _statements(graph, where)
    for function in model.functions:
        yield from (Statement(value, "function", "value") for value in function.value_info)
        for node in function.node:
            for attribute in node.attribute:
                for graph in graphs_of(attribute.g) if attribute.HasField("g") else ():
                    yield from _statements(graph, "inner of function")


def _statements(graph: GraphProto, where: str) -> Iterator[Statement]:
    made = {name for node in graph.node for name in node.output}
    yield from (Statement(value, where, "value") for value in graph.value_info if value.name in made)
    yield from (Statement(value, where, "output") for value in graph.output if value.name in made and value.HasField("type"))
    if where != "graph":
        yield from (Statement(value, where, "input") for value in graph.input if value.HasField("type"))


def changed(rng: random.Random, model: StatedModel, kind: str) -> tuple[ModelProto, Change] | None:
    """The model with one statement that is not true any more, of a kind that `Change` names; none where none is of this kind."""
    proto = ModelProto()
    proto.CopyFrom(model.proto)
    known = [each for each in statements(proto) if each.value.name in model.seen]
    able = [each for each in known if _change(random.Random(0), model, each.value, kind) is not None]
    if not able:
        return None
    value, where, role = rng.choice(able)
    new = _change(rng, model, value, kind)
    assert new is not None
    value.type.CopyFrom(new)
    return proto, Change(value.name, kind, where, role, _text(new))


def _change(rng: random.Random, model: StatedModel, value: ValueInfoProto, kind: str) -> TypeProto | None:
    """Another type for a value, or none where the statement has nothing of this kind."""
    new = TypeProto()
    new.CopyFrom(value.type)
    tensor, seen = new.tensor_type, model.seen[value.name]
    sizes = tensor.shape.dim
    if kind == "type":
        tensor.elem_type = int(
            helper.np_dtype_to_tensor_dtype(np.dtype(rng.choice([each for each in TYPES if each != seen.dtype.name])))
        )
    elif not tensor.HasField("shape"):
        return None
    elif kind == "rank":
        if sizes and rng.random() < 0.5:
            del sizes[rng.randrange(len(sizes))]
        else:
            sizes.add(dim_value=rng.choice((1, 1, 4)))
    elif kind == "size":
        numbers = [at for at, size in enumerate(sizes) if size.HasField("dim_value")]
        if not numbers:
            return None
        at = rng.choice(numbers)
        size = sizes[at].dim_value
        sizes[at].dim_value = rng.choice([each for each in (1, 2, size + 1, 2 * size + 1, 64) if each != size])
    else:
        named = [at for at in range(len(sizes)) if model.named(value.name, at) is not None]
        if not named:
            return None
        at = rng.choice(named)
        size = seen.shapes[0][at]
        sizes[at].Clear()
        sizes[at].dim_value = rng.choice((1, size, size + 1, 64))
    return new


def _text(kind: TypeProto) -> str:
    tensor = kind.tensor_type
    shape = [size.dim_param or (size.dim_value if size.HasField("dim_value") else "?") for size in tensor.shape.dim]
    return f"{np.dtype(helper.tensor_dtype_to_np_dtype(tensor.elem_type)).name}{shape if tensor.HasField('shape') else '[...]'}"
