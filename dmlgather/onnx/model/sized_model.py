"""A model at stated sizes: its nodes in order with calls inlined, and the types and values of all that they read and write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from dmlgather.onnx.auxiliary import initializer
from dmlgather.onnx.model.control_flow import taken_branch
from dmlgather.onnx.model.file import MOST_SITES, ModelFile, infer, strip
from dmlgather.onnx.model.inference_process import InferenceLimits
from dmlgather.onnx.model.local_functions import MOST_NODES, Functions
from dmlgather.onnx.model.node_requests import NodeRequests
from dmlgather.onnx.model.operators import compute, row_of
from dmlgather.onnx.model.partial_types import PartialType, is_known, type_of_value, value_of_type
from dmlgather.onnx.model.propagation import Propagation
from dmlgather.onnx.model.scopes import Scope, left_out
from dmlgather.onnx.model.shape_inference import HIDDEN
from dmlgather.onnx.model.size_names import GraphNames, ModelSizes
from dmlgather.onnx.model.stated_types import Stated, StatedTypes, read_stated
from dmlgather.onnx.model.subgraphs import all_nodes, naming, subgraphs
from dmlgather.onnx.problems.node_reading import check_by_schema, same_version
from dmlgather.onnx.problems.operator_versions import DOMAINS, own_opset

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto


@dataclass(frozen=True)
class Place:
    """A value: the scope that it belongs to, and its name there."""

    scope: Scope
    name: str


@dataclass(frozen=True, eq=False)
class PlacedNode:
    """A node that runs once whenever the model runs. opset: in force for it. scope: the names that it reads and writes."""

    node: NodeProto
    opset: int
    scope: Scope

    @property
    def written(self) -> list[Place]:
        """Its outputs that have names."""
        return [Place(self.scope, name) for name in self.node.output if name]


class SizedModel:
    """A model whose inputs have stated sizes.

    stated: the types of its inputs, and what else was stated. functions: which graphs inside nodes may call. nodes: in order; the
    branch of an If whose condition is known stands in the place of the If. main: the names of the model's own graph. remark: why
    shapes could not be inferred at once; empty when they were.
    """

    def __init__(self, model: ModelProto, inputs: Mapping[str, Stated], known: Mapping[str, TensorProto] | None = None) -> None:
        """known: inputs whose elements are known, as if they were constants of the model. Raises as `index_graph`, and FileError
        for functions that call each other in a circle.
        """
        self.functions = Functions(model.functions)
        if self.functions.inlined_size(model.graph.node) > MOST_NODES:
            raise ValueError(f"the model has more than {MOST_NODES} nodes when the functions that it calls are inlined")
        opset = own_opset(model.opset_import)
        inlined = list(self.functions.inlined(model.graph, opset))
        for node, own in inlined:
            for inner in all_nodes([node]):
                with naming(inner):
                    if self.functions.called(inner) is None:
                        check_by_schema(inner, own)
                        _check_version(inner, own, opset)
        _check_names([node for node, _ in inlined], {value.name for value in (*model.graph.input, *model.graph.initializer)})
        # From IR version 4 on, callers may replace an initializer that is also an input.
        fixed = set(known or ()) | ({tensor.name for tensor in model.graph.initializer} if model.ir_version < 4 else set())
        declared = {value.name: type_of_value(value) for value in model.graph.input if value.name not in fixed}
        self.stated = read_stated(declared, {name for node, _ in inlined for name in node.output if name}, inputs)
        self._declared = {
            value.name: self.stated.sized(type_of_value(value)) for value in (*model.graph.value_info, *model.graph.output)
        }
        tensors = {tensor.name: tensor for tensor in model.graph.initializer} | {**(known or {})}
        self._tensors = {name: tensor for name, tensor in tensors.items() if name not in declared}
        self._sparse = {tensor.values.name for tensor in model.graph.sparse_initializer}
        self.nodes: list[PlacedNode] = []
        self._values: dict[Place, NDArray[Any]] = {}
        self._same: dict[Place, Place] = {}
        lean = _lean(model, inlined, opset, self.stated, self._tensors.values())
        limits = InferenceLimits.of_file(lean.ByteSize())
        graph, self.remark = infer(ModelFile(lean, self.functions, limits, MOST_SITES), lean.graph, lean.opset_import)
        self._propagation = Propagation(NodeRequests(limits, lean.ir_version))
        self.main = Scope(graph, GraphNames(ModelSizes(), ""))
        for node, own in inlined:
            self._visit(node, own, self.main, runs=True)

    def place(self, scope: Scope, name: str) -> Place:
        """The value that a name in a scope stands for."""
        while scope.outer is not None and name not in scope.values and name not in scope.types:
            scope = scope.outer
        place = Place(scope, name)
        return self._same.get(place, place)

    def known(self, place: Place) -> NDArray[Any] | None:
        """The elements of a constant, and of what is computed of constants and of sizes to the same bits everywhere."""
        if place.scope is self.main and place.name in self._tensors and place not in self._values:
            self._values[place] = initializer(self._tensors[place.name])
        return self._values.get(place)

    def _visit(self, node: NodeProto, opset: int, scope: Scope, *, runs: bool) -> None:
        """Find out what follows for a node's outputs. runs: whether every run of the model runs it, so that it is kept."""
        with naming(node):
            for name in node.input:
                reason = scope.undefined(name) if name else None
                if name in self._sparse:
                    reason = "a sparse initializer, which is not read: state it as a dense one"
                if reason is not None:
                    raise ValueError(f"input {name!r} is {reason}")
            for name in node.output:
                given = scope is self.main and (name in self.stated.inputs or name in self._tensors)
                if name and (given or name not in scope.pending):
                    raise ValueError(f"output {name!r} is also an input, an initializer, or given by another node")
            own = node.domain in DOMAINS
            taken = taken_branch(node, scope)
            inside = {}
            for label, graph in subgraphs(node) if own and node.op_type == "If" else ():
                if taken in (None, label):
                    inside[label] = self._branch(graph, opset, scope, runs=runs and taken is not None)
            self._propagation.visit(node, opset, scope, inside)
            if taken is not None and runs:
                results = (self.place(inside[taken], result) for result in inside[taken].results)
                self._same |= dict(zip((Place(scope, name) for name in node.output), results, strict=True))
                return
            self._learn_types(node, opset, scope)
            if own and node.op_type == "Constant":
                self._values[Place(scope, node.output[0])] = compute(node, max(opset, 9), ())
            elif own:
                self._learn_values(node, scope)
        if runs:
            self.nodes.append(PlacedNode(node, opset, scope))

    def _branch(self, graph: GraphProto, opset: int, outer: Scope, *, runs: bool) -> Scope:
        """The names of a branch of an If, once its nodes are visited."""
        scope = Scope(graph, outer.reader.inside(outer.reader.path), outer)
        if runs:
            self._values |= {Place(scope, tensor.name): initializer(tensor) for tensor in graph.initializer}
        for node in graph.node:
            self._visit(node, opset, scope, runs=runs)
        return scope

    def _learn_types(self, node: NodeProto, opset: int, scope: Scope) -> None:
        """Ask ONNX about outputs whose types are open; where it does not know, take what is stated and what the model says."""
        if (
            any(scope.is_open(name) for name in node.output if name)
            and node.domain in DOMAINS
            and not any(True for _ in subgraphs(node))
        ):
            answer = self._propagation.requests.ask(node, opset, *scope.inputs(node))
            for name, known in answer.types.items():
                scope.learn_type(name, known)
        for name in node.output if scope is self.main else ():
            for better in (self.stated.others.get(name), self._declared.get(name)):
                if better is not None and scope.is_open(name):
                    scope.learn_type(name, better)
            stated, found = self.stated.others.get(name), scope.type(name)
            if stated is not None and (found.shape != stated.shape or stated.dtype not in (None, found.dtype)):
                raise ValueError(f"inputs says that {name!r} is {stated}, but it is {found}")

    def _learn_values(self, node: NodeProto, scope: Scope) -> None:
        """Keep the outputs that are computed of constants and sizes to the same bits everywhere."""
        found = {Place(scope, name): scope.value(name) for name in node.output if name}
        if not all(map(is_known, found.values())):
            return
        row = row_of(node)
        exact = row.exact or all(value.dtype.kind in "biu" for value in found.values())  # type: ignore[union-attr]
        if row.from_types or (exact and all(self.known(self.place(scope, name)) is not None for name in node.input if name)):
            self._values |= found  # type: ignore[arg-type] # all are known


def _check_version(node: NodeProto, own: int, opset: int) -> None:
    """ValueError for a node of a function whose operator is another one in the model's opset: onnxruntime takes that one."""
    if own != opset and node.domain in DOMAINS and not same_version(node.op_type, own, opset):
        raise ValueError(
            f"its function imports opset {own}, in which {node.op_type} is another operator than in the model's {opset}"
        )


def _check_names(nodes: Sequence[NodeProto], seen: set[str]) -> None:
    """ValueError where a graph inside a node gives a constant or a result the name of a value around it, one of `seen`. ONNX
    forbids that, and libraries read one or the other.
    """
    for node in nodes:
        with naming(node):
            for label, graph in subgraphs(node):
                constants, results = ({tensor.name for tensor in graph.initializer}, _results(graph.node))
                if both := sorted(seen & (constants | results)):
                    raise ValueError(f"{label} gives {both[0]!r} again, which is the name of a value around it: rename it there")
                new = (constants | {value.name for value in graph.input} | results) - seen
                seen |= new - results
                _check_names(graph.node, seen)
                seen -= new
        seen |= _results([node])


def _results(nodes: Iterable[NodeProto]) -> set[str]:
    return {name for node in nodes for name in node.output if name}


def _lean(
    model: ModelProto, nodes: Sequence[tuple[NodeProto, int]], opset: int, stated: StatedTypes, constants: Iterable[TensorProto]
) -> ModelProto:
    """A copy of a model whose calls are inlined, with stated inputs and these constants, without the values of large ones and
    the types of results, which follow. Nodes of other opsets than the model's are hidden from shape inference.
    """
    from onnx import GraphProto, ModelProto, TensorProto, ValueInfoProto

    graph = GraphProto(name=model.graph.name, node=[node for node, _ in nodes])
    lean = ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    for node, (_, own) in zip(graph.node, nodes, strict=True):
        if own != opset:
            node.domain = HIDDEN
    if any(own != opset for _, own in nodes):
        lean.opset_import.add(domain=HIDDEN, version=1)
    graph.input.extend(value_of_type(name, PartialType(known.dtype, known.shape)) for name, known in stated.inputs.items())
    for tensor in constants:
        small = left_out(tensor) is None
        graph.initializer.append(tensor if small else TensorProto(name=tensor.name, dims=tensor.dims, data_type=tensor.data_type))
    graph.output.extend(ValueInfoProto(name=value.name) for value in model.graph.output)
    lean.graph.CopyFrom(graph)
    strip(lean)
    return lean
