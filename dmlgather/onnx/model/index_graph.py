"""An ONNX model as an `IndexGraph`: what it does with indices, at stated sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.dialects.index_graph import IndexGraph, Opaque, Step
from dmlgather.dialects.problem import TensorType
from dmlgather.files import FileError
from dmlgather.onnx.model.node_labels import label, naming
from dmlgather.onnx.model.node_steps import steps_of
from dmlgather.onnx.model.opaque_operators import InnerGraphs, exact_result, opaque_attributes, opaque_name
from dmlgather.onnx.model.sized_model import Place, PlacedNode, SizedModel
from dmlgather.onnx.model.stated_types import Stated
from dmlgather.onnx.model.translated_node import TranslatedNode
from dmlgather.onnx.model.values import is_known
from dmlgather.onnx.problems.node_reading import ARRAYS, in_family
from dmlgather.onnx.problems.operator_versions import DOMAINS

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto


def index_graph(model: ModelProto, inputs: Mapping[str, Stated] | None = None) -> IndexGraph:
    """What a model does with indices. Steps are left out that neither an output nor a node that can raise needs, as
    `IndexGraph.needed` has it.

    inputs: by the name of an input, its shape, its type, or an array; by the name of a size, its number of elements; where the
    type of another value does not follow, also this one's, by its name. Sizes that the model states need no entry.

    Nodes of the family and views are problems; arithmetic on integers is `Elementwise`; calls of functions are inlined, and so is
    the branch of an If whose condition is known. All other nodes are opaque, whole loops and branches as well. What follows from
    constants and sizes alone is a constant.

    Raises ValueError for sizes that are not known, naming every one, and for names and sizes that contradict the model; TypeError
    for another data type than the model's, and for anything but a ModelProto; both, naming the node, for one that breaks a rule
    of its operator, and for a value that is no tensor or whose type is not known.

    >>> from onnx.parser import parse_model
    >>> model = parse_model('''<ir_version: 8, opset_import: ["" : 13]>
    ... rows (float[N,4] table, int64[2] ids) => (float[4,2] y) { t = Gather(table, ids) y = Transpose(t) }''')
    >>> [step.name for step in dg.onnx.index_graph(model, {"N": 10}).steps]
    ["Gather node that gives 't'", "Transpose node that gives 'y'"]
    """
    return translated(model, inputs or {})


def translated(model: ModelProto, inputs: Mapping[str, Stated], known: Mapping[str, TensorProto] | None = None) -> IndexGraph:
    """As `index_graph`. known: the elements of inputs, which are constants of the graph."""
    from onnx import ModelProto

    if not isinstance(model, ModelProto):
        raise TypeError(f"model is of type {type(model).__name__}, expected an onnx.ModelProto, as onnx.load(path) gives")
    try:
        sized = SizedModel(model, inputs, known)
    except FileError as error:
        raise ValueError(f"the model {error}") from None
    return _Translation(sized).graph([value.name for value in model.graph.output]).needed()


class _Translation:
    """A model's nodes as steps."""

    def __init__(self, model: SizedModel) -> None:
        self._model, self._builder = model, GraphBuilder()
        self._values: dict[Place, str] = {}
        for name, tensor in model.stated.inputs.items():
            self._values[Place(model.main, name)] = self._builder.input(name, tensor)

    def graph(self, outputs: list[str]) -> IndexGraph:
        """The graph that gives these of the model's values. A result to which an Identity gives that name has it as its label."""
        results = [self._model.place(self._model.main, name) for name in outputs]
        unread = []
        for placed, needed in self._computed(results):
            try:
                with naming(placed.node):
                    self._translate(placed)
            except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError):  # whatever an unneeded node breaks
                if needed:
                    raise
                unread.append(Step(label(placed.node), Opaque(opaque_name(placed.node)), (), ()))
        built = replace(self._builder.build([self._value(place) for place in results]), unread=tuple(unread))
        made = built.makers
        named = {value: name for value, name in zip(reversed(built.outputs), reversed(outputs), strict=True) if value in made}
        return replace(built, labels={value: name for value, name in named.items() if value not in outputs})

    def _computed(self, results: list[Place]) -> list[tuple[PlacedNode, bool]]:
        """The nodes whose results are not known, in order, and whether they are needed: by these values, or by a node that looks
        up indices, which may raise.
        """
        wanted, found = set(results), []
        for placed in reversed(self._model.nodes):
            looks_up = in_family(placed.node) and "indices" in ARRAYS[placed.node.op_type]
            computed = [place for place in placed.written if self._model.known(place) is None]
            needed = bool(computed) and (looks_up or not wanted.isdisjoint(computed))
            if needed:
                wanted.update(self._read(placed))
            if computed:
                found.append((placed, needed))
        return found[::-1]

    def _read(self, placed: PlacedNode) -> list[Place]:
        """The values that a node reads, those that the graphs inside it read from around it as well."""
        names = [name for name in placed.node.input if name]
        return [self._model.place(placed.scope, name) for name in (*names, *InnerGraphs(placed.node).outside)]

    def _value(self, place: Place) -> str:
        """The name of a value in the graph. ValueError for one that nothing gives."""
        if place not in self._values:
            array = self._model.known(place)
            if array is None:
                raise ValueError(f"{place.name!r} is no tensor that the model gives: sparse initializers are not read")
            self._values[place] = self._builder.constant(array, place.name)
        return self._values[place]

    def _translate(self, placed: PlacedNode) -> None:
        node, scope = placed.node, placed.scope
        read = [self._model.place(scope, name) if name else None for name in node.input]
        for place in read:
            if place is not None and place not in self._values and self._model.known(place) is None:
                self._tensor(place)
        inputs = [None if place is None else self._value(place) for place in read]
        values = []
        for name, value in zip(inputs, [scope.value(name) if name else None for name in node.input], strict=True):
            values.append(value if is_known(value) else None if name is None else self._builder.known(name))
        call = TranslatedNode(node, placed.opset, label(node), self._builder, inputs, values)
        found = steps_of(call) or tuple(self._opaque(placed, call))
        self._values |= {Place(scope, name): value for name, value in zip(node.output, found, strict=True) if name}

    def _opaque(self, placed: PlacedNode, call: TranslatedNode) -> list[str]:
        """Add the step of another operator: its outputs, empty where the node has none."""
        node = placed.node
        names = [name for name in node.output if name]
        types = [self._tensor(Place(placed.scope, name)) for name in names]
        array = exact_result(call)
        if array is not None:
            return [self._builder.constant(array, call.output)]
        rank = call.tensor.rank if call.given(0) else None
        own = opaque_attributes(node, placed.opset, rank, self._model.functions)
        outside = [self._value(self._model.place(placed.scope, name)) for name in InnerGraphs(node).outside]
        inputs = (*(name for name in call.inputs if name is not None), *outside)
        bits = node.op_type == "BitCast" and node.domain in DOMAINS  # which all dialects spell alike
        operator, attributes = ("bitcast", (("to", types[0].dtype.name),)) if bits else (opaque_name(node), own)
        rest = iter(self._builder.opaque(call.name, operator, inputs, types, attributes=attributes, outputs=names))
        return [next(rest) if name else "" for name in node.output]

    def _tensor(self, place: Place) -> TensorType:
        """The type of a value. TypeError for what is no tensor, ValueError where it is not known."""
        known = place.scope.type(place.name)
        if known.kind is not None:
            raise TypeError(f"{place.name!r} is a {known.kind}, but a graph of indices has tensors only")
        shape = tuple(size for size in known.shape or () if isinstance(size, int))
        if known.dtype is None or known.shape is None or len(shape) < len(known.shape):
            shown = "(1, 2)" if known.dtype is not None else "an array of its shape and type"
            raise ValueError(
                f"the type of {place.name!r} is not known, only {known}: its sizes follow when the model runs, or ONNX does not "
                f"know the operator; state it, as in inputs={{{place.name!r}: {shown}}}, or in the model's value_info"
                f"{f'. Shape inference: {self._model.remark}' if self._model.remark else ''}"
            )
        return TensorType(shape, known.dtype)
