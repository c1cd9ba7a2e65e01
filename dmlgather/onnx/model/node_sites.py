"""Find the nodes of the family in a model, inside other nodes and local functions as well, with what is known of their inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from dmlgather.dialects.sizes import Sizes
from dmlgather.files import FileError
from dmlgather.onnx.model.constant_folding import Value
from dmlgather.onnx.model.file import ModelFile, infer
from dmlgather.onnx.model.host_arithmetic import DataFlow
from dmlgather.onnx.model.local_functions import FunctionCall, Key, function_graph, function_name
from dmlgather.onnx.model.partial_types import PartialType
from dmlgather.onnx.model.scopes import Scope
from dmlgather.onnx.model.subgraphs import operator_name, subgraphs
from dmlgather.onnx.problems.node_reading import in_family
from dmlgather.onnx.problems.operator_versions import DOMAINS
from dmlgather.wording import printable

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto, OperatorSetIdProto


@dataclass(frozen=True, slots=True)
class NodeValue:
    """An input or output of a node. name: empty for an input that is left out. elements: those that are known, or why none are.
    undefined: why a node cannot read it.
    """

    name: str
    type: PartialType
    elements: Value
    undefined: str | None = None


@dataclass(frozen=True, slots=True)
class NodeSite:
    """A node of the family in a model.

    place: its path, unique in the model. graph: the path of the graph around it. index: its position there. reached: whether a
    run of the model can reach it; none reaches a function that nothing calls. host: whether it is the host's arithmetic.
    """

    place: str
    graph: str
    index: int
    node: NodeProto
    opset: int
    inputs: tuple[NodeValue, ...]
    outputs: tuple[NodeValue, ...]
    reached: bool = True
    host: bool = False

    @property
    def integers(self) -> dict[str, int]:
        """The attributes that are one integer."""
        attributes = self.node.attribute
        return {each.name: each.i for each in attributes if each.HasField("i") and not each.ref_attr_name}

    @property
    def lacks_types(self) -> bool:
        """Whether type or rank of an input is not known, although its name is defined."""
        types = [each.type for each in self.inputs if each.name and not each.undefined]
        return any(each.name is None or (each.dtype is not None and each.shape is None) for each in types)


@dataclass
class ModelContents:
    """The nodes of a model.

    others: the number of nodes outside the family, by operator. remarks: why shapes are missing, by graph. undefined: nodes
    outside the family that read a name that is not defined before: place, name and reason.
    """

    opsets: dict[str, int]
    sites: list[NodeSite] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)
    remarks: dict[str, str] = field(default_factory=dict)
    undefined: list[tuple[str, str, str]] = field(default_factory=list)
    sizes: Sizes = field(default_factory=Sizes)


def find_nodes(file: ModelFile) -> ModelContents:
    """All nodes of a model: the main graph first, then each function once, with what all its calls have in common."""
    visitor = _Visitor(file)
    visitor.visit_model()
    return visitor.contents


class _Visitor:
    def __init__(self, file: ModelFile) -> None:
        self.file, self.model, self.functions = file, file.model, file.functions
        self.calls: dict[Key, FunctionCall] = {}
        self.flow = DataFlow(file.functions)
        self.places: set[str] = set()
        self.reached = True
        """Whether a run can reach the graph that is visited: calls in functions that nothing calls do not count."""
        self.contents = ModelContents(_opsets(self.model.opset_import, self.model.ir_version))

    def visit_model(self) -> None:
        self._outermost(self.model.graph, "", self.model.opset_import, self.file.remark)
        self.flow.add_main(self.model.graph)
        for key, function in self.functions.items():  # callers first, so that all calls are known
            self.reached = key in self.calls
            graph = function_graph(function, self.calls.get(key) or FunctionCall.unknown(function))
            self.functions.add_defaults(graph.node)
            inferred, remark = infer(self.file, graph, function.opset_import)
            self._outermost(inferred, function_name(key), function.opset_import, remark)
            self.flow.add_function(key, inferred)
        host = set(map(id, self.flow.host_nodes()))
        self.contents.sites = [replace(site, host=site.reached and id(site.node) in host) for site in self.contents.sites]

    def _outermost(self, graph: GraphProto, path: str, imports: Sequence[OperatorSetIdProto], remark: str) -> None:
        """A graph that is in no other one. remark: why its shapes could not be inferred."""
        before = len(self.contents.sites)
        self._graph(graph, path, None, _opsets(imports, self.model.ir_version))
        if self.reached and not remark and any(site.lacks_types for site in self.contents.sites[before:]):
            _, remark = infer(self.file, graph, imports, strict=True)
        if remark and not (remark == self.file.limits.late and remark in self.contents.remarks.values()):  # once is enough
            self.contents.remarks[path] = remark

    def _graph(self, graph: GraphProto, path: str, outer: Scope | None, opsets: Mapping[str, int]) -> None:
        scope = Scope(graph, outer, overridable=self.model.ir_version >= 4)
        for index, node in enumerate(graph.node):
            label = printable(node.name) or f"{printable(node.op_type)}_{index}"
            place = f"{path}/{label}" if path else label
            key = self.functions.called(node)
            if key is None and in_family(node):
                if "" not in opsets:
                    where = path or "its main graph"
                    raise FileError(f"states no opset for ONNX's own operators, one of which is {node.op_type} in {where}")
                if len(self.contents.sites) == self.file.most_sites:
                    raise FileError(
                        f"has more than {self.file.most_sites} gathers and slices, which is the limit for a file of its size: "
                        "check parts of the model"
                    )
                unique = self._unique(place, index)
                inputs, outputs = _values(node.input, scope), _values(node.output, scope)
                self.contents.sites.append(NodeSite(unique, path, index, node, opsets[""], inputs, outputs, self.reached))
            else:
                self.contents.others[printable(operator_name(node))] += 1
                reasons = {name: reason for name in node.input if name and (reason := scope.undefined(name))}
                self.contents.undefined += [(place, *pair) for pair in reasons.items()]
            if key is not None and self.reached:
                self._call(key, node, scope)
            elif key is None and "" in opsets:
                scope.fold(node, opsets[""])
            for attribute, inner in subgraphs(node):
                self._graph(inner, f"{place}.{attribute}", scope, opsets)
            scope.visited(node)

    def _unique(self, place: str, index: int) -> str:
        while place in self.places:  # names need not be unique
            place = f"{place}#{index}"
        self.places.add(place)
        return place

    def _call(self, key: Key, node: NodeProto, scope: Scope) -> None:
        inputs = _values(node.input, scope)
        attributes = {attribute.name: None if attribute.ref_attr_name else attribute for attribute in node.attribute}
        call = FunctionCall(tuple(each.type for each in inputs), tuple(each.elements for each in inputs), attributes)
        self.calls[key] = self.calls[key].joined(call) if key in self.calls else call


def _opsets(imports: Iterable[OperatorSetIdProto], ir_version: int) -> dict[str, int]:
    """The imported versions by domain. Before IR version 3 a model could not import any, and meant the first."""
    opsets = {"" if entry.domain in DOMAINS else entry.domain: entry.version for entry in imports}
    return opsets or ({"": 1} if ir_version < 3 else {})


def _values(names: Iterable[str], scope: Scope) -> tuple[NodeValue, ...]:
    return tuple(NodeValue(name, scope.type(name), scope.value(name), scope.undefined(name) if name else None) for name in names)
