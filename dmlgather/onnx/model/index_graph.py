"""An ONNX model as an `IndexGraph`: what it does with indices, at stated sizes."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.dialects.element_types import exact_text
from dmlgather.dialects.graph_arrays import GraphArithmetic, GraphArray, OpaqueError
from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.dialects.index_graph import IndexGraph, Opaque, Step
from dmlgather.dialects.problem import TensorType
from dmlgather.files import FileError
from dmlgather.onnx.model.local_functions import Functions
from dmlgather.onnx.model.operator_rows import OperatorRow
from dmlgather.onnx.model.operators import compute, row_of
from dmlgather.onnx.model.partial_types import is_known
from dmlgather.onnx.model.sized_model import Place, PlacedNode, SizedModel
from dmlgather.onnx.model.stated_types import Stated
from dmlgather.onnx.model.subgraphs import all_nodes, label, naming, operator_name, subgraphs
from dmlgather.onnx.model.translated_node import TranslatedNode
from dmlgather.onnx.problems.node_reading import ARRAYS, in_family, problem_of
from dmlgather.onnx.problems.operator_versions import DOMAINS

if TYPE_CHECKING:
    from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto


MOST_ELEMENTS = 2**20
"""Elements of a constant that is computed, at most."""

_draws = count(1)


def opaque_attributes(node: NodeProto, opset: int, rank: int | None, functions: Functions) -> tuple[Hashable, ...]:
    """What decides the results of a node besides its operator and its inputs: equal for two nodes that compute the same.

    opset: of ONNX's own domain. rank: of the first input, None where it is not known. functions: which the graphs inside the node
    may call. Attributes with their default are left out; a graph is a digest that names of values do not change. A node that
    draws random numbers has something that no other one has.
    """
    defaults, version = _schema(node, opset)
    rank = None if node.op_type == "OneHot" else rank  # its axis is one of the output
    given = {each.name: _on_axis(each.name, _value(each), rank) for each in node.attribute}
    found = {name: value for name, value in given.items() if value != _on_axis(name, defaults.get(name), rank)}
    if version is not None and not row_of(node).one_version:
        found["version"] = version
    if any(True for _ in subgraphs(node)):
        graphs = InnerGraphs(node)
        called = functions.reachable([node])
        found |= graphs.digests | {"opset": opset, "functions": tuple(map(_digest, called))}
    if "" in node.input[: last_named(node.input)] or len(node.output) > 1:
        found["present"] = (tuple(map(bool, node.input)), tuple(map(bool, node.output)))
    if any(row_of(inner).random for inner in _all_run(node, functions)):
        found["draw"] = next(_draws)
    return tuple(sorted(found.items()))


def exact_result(call: TranslatedNode) -> NDArray[Any] | None:
    """What a node gives of known floating-point numbers; None where an input is not known, where runtimes may round the result
    differently, and where it is large.
    """
    ieee, inputs = row_of(call.node).ieee, [None if name is None else call.graph.known(name) for name in call.inputs]
    known = [array for array in inputs if array is not None and array.dtype in (np.float32, np.float64)]
    if ieee is None or len(known) < len(inputs) or not call.broadcasts:
        return None
    if math.prod(np.broadcast_shapes(*(array.shape for array in known))) > MOST_ELEMENTS:
        return None
    with np.errstate(all="ignore"):
        result = np.asarray(ieee(*known))
    return None if np.isnan(result).any() else result  # whose payload IEEE 754 leaves open


def opaque_name(node: NodeProto) -> str:
    """The name of an operator in lower case, with its domain: "onnx.conv", "com.example.attention"."""
    return f"onnx.{node.op_type}".lower() if node.domain in DOMAINS else operator_name(node).lower()


def last_named(names: Sequence[str]) -> int:
    """The number of values up to the last one that has a name."""
    return max((number for number, name in enumerate(names, 1) if name), default=0)


def _all_run(node: NodeProto, functions: Functions) -> Iterator[NodeProto]:
    """The node, all nodes inside it, and those of the functions that these call."""
    yield from all_nodes([node])
    for function in functions.reachable([node]):
        yield from all_nodes(function.node)


def _schema(node: NodeProto, opset: int) -> tuple[Mapping[str, Hashable], int | None]:
    """The defaults of a node's attributes, and the version of its operator; nothing where ONNX does not know it."""
    from onnx import defs

    domain = "" if node.domain in DOMAINS else node.domain
    try:
        schema = defs.get_schema(node.op_type, opset, domain) if not domain else defs.get_schema(node.op_type, domain)
    except defs.SchemaError:
        return {}, None
    values = ((name, each.default_value) for name, each in schema.attributes.items())
    return {name: _value(value) for name, value in values if value.type}, schema.since_version


def _value(attribute: AttributeProto) -> Hashable:
    """The value of an attribute that holds no graph, as something that can be compared by value."""
    from onnx import AttributeProto, helper

    if attribute.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS):
        return None
    value = helper.get_attribute_value(attribute)
    if attribute.type in (AttributeProto.FLOAT, AttributeProto.FLOATS):
        return tuple(map(_float, value)) if attribute.type == AttributeProto.FLOATS else _float(value)
    return tuple(map(_plain, value)) if isinstance(value, Sequence) and not isinstance(value, bytes) else _plain(value)


def _float(value: float) -> Hashable:
    """The number; a text for NaNs and -0.0, which == does not tell from themselves or from 0."""
    return exact_text(value) if math.isnan(value) or (value == 0 and math.copysign(1, value) < 0) else value


def _plain(value: Any) -> Hashable:
    from onnx import TensorProto

    from dmlgather.onnx.auxiliary import tensor

    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, TensorProto):
        array = tensor(value)
        content = repr(array.tolist()).encode() if array.dtype.hasobject else array.tobytes()
        return str(array.dtype), array.shape, hashlib.sha256(content).hexdigest()
    if hasattr(value, "SerializeToString"):
        return _digest(value)
    return value  # type: ignore[no-any-return] # an integer


def _on_axis(name: str, value: Hashable, rank: int | None) -> Hashable:
    """An axis counted from the front; other values as they are."""
    return value + rank if name == "axis" and isinstance(value, int) and value < 0 and rank is not None else value


def _digest(message: Any) -> str:
    return hashlib.sha256(message.SerializeToString(deterministic=True)).hexdigest()


class InnerGraphs:
    """The graphs in the attributes of a node, under names that follow from their structure: equal for two nodes whose graphs
    differ in names and comments.

    outside: the names that they read from the graphs around the node, each with its number, in the order in which they read them
    first. digests: of each graph, by its label.
    """

    def __init__(self, node: NodeProto) -> None:
        from onnx import NodeProto

        self.outside: dict[str, int] = {}
        self._numbers = count()
        copy = NodeProto()
        copy.CopyFrom(node)
        self.digests: dict[str, Hashable] = {}
        for name, graph in subgraphs(copy):
            self._rename(graph, {})
            self.digests[name] = _digest(graph)

    def _rename(self, graph: GraphProto, names: Mapping[str, str]) -> None:
        own = dict(names)
        _without_comments(graph)
        for value in graph.input:
            value.name = self._new(value.name, own)
        for tensor in graph.initializer:
            tensor.name = own.get(tensor.name) or self._new(tensor.name, own)
        for sparse in graph.sparse_initializer:
            sparse.values.name = self._new(sparse.values.name, own)
        for node in graph.node:
            node.input[:] = [self._read(name, own) for name in node.input]
            for _, inner in subgraphs(node):
                self._rename(inner, own)
            node.output[:] = [self._new(name, own) if name else "" for name in node.output]
        for value in graph.output:
            value.name = self._read(value.name, own)

    def _new(self, name: str, own: dict[str, str]) -> str:
        own[name] = f"inner {next(self._numbers)}"
        return own[name]

    def _read(self, name: str, own: Mapping[str, str]) -> str:
        if not name or name in own:
            return own.get(name, "")
        return f"outer {self.outside.setdefault(name, len(self.outside))}"


def _without_comments(graph: GraphProto) -> None:
    """Drop what says nothing about the results of a graph and its nodes."""
    graph.name = ""
    for field in ("value_info", "metadata_props", "quantization_annotation"):
        graph.ClearField(field)
    for message in (graph, *graph.input, *graph.initializer, *graph.output, *graph.node):
        message.doc_string = ""
    for node in graph.node:
        node.name = ""
        node.ClearField("metadata_props")
        attributes = sorted(node.attribute, key=lambda each: each.name)
        del node.attribute[:]
        node.attribute.extend(attributes)


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


def steps_of(call: TranslatedNode) -> tuple[str, ...] | None:
    """Add the steps of a node to its graph: the names of the values that its outputs are; None, with nothing added, for a node of
    another operator, and where what decides the shape of its result is not known.

    Raises TypeError and ValueError for a node that breaks a rule of its operator's version.
    """
    if in_family(call.node):
        return _family(call)
    row = row_of(call.node)
    if not row.steps or call.opset < row.since:
        return None
    if row.step is not None:
        return row.step(call)
    return _computed(call, row) if row.moves == () else _moved(call, row)


def _family(call: TranslatedNode) -> tuple[str, ...] | None:
    """A gather, a slice, or a block permutation; None where bounds of a slice are not known."""
    arrays = len(ARRAYS[call.node.op_type])
    values = [None, *call.values[1:]] if call.node.op_type == "Slice" else [None] * len(call.inputs)
    if any(call.given(number) and value is None for number, value in enumerate(values[arrays:], arrays)):
        return None
    problem = problem_of(call.node, call.opset, call.types, values)
    inputs = [name for name in call.inputs[:arrays] if name is not None]
    return (call.graph.problem(call.name, problem, *inputs, output=call.output),)


def _moved(call: TranslatedNode, row: OperatorRow) -> tuple[str, ...] | None:
    """The row on values of the graph; None where another input is not known."""
    inputs: list[Any] = []
    for number, name in enumerate(call.inputs):
        moved = row.moves is None or number in row.moves
        inputs.append(call.values[number] if name is None or not moved else GraphArray.of(call.graph, name))
        if name is not None and inputs[-1] is None:
            return None
    found = compute(call.node, call.opset, inputs)
    if not isinstance(found, list):
        return (found.written(call.name, call.output),)
    written = zip(call.node.output, found, strict=True)
    return tuple(each.written(f"{call.name}: {name!r}", name) if name else "" for name, each in written)


def _computed(call: TranslatedNode, row: OperatorRow) -> tuple[str, ...] | None:
    """The row on values of the graph; None for floating-point numbers, which a graph does not compute with."""
    if row.elements is None or not (row.any_type or (call.integers and call.broadcasts)):
        return None
    attributes = {each.name: each.i for each in call.node.attribute if each.HasField("i")}
    arithmetic = GraphArithmetic(call.graph, call.name, call.output, attributes=attributes)
    try:
        return (arithmetic.written(row.elements(arithmetic, *call.inputs)),)
    except OpaqueError:
        return None
