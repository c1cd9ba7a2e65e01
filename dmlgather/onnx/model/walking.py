"""Walk a model: every node of the family with what is known where it stands, in graphs inside graphs and local functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dmlgather.files import FileError
from dmlgather.onnx.model.file import ModelFile, infer
from dmlgather.onnx.model.folding import Value
from dmlgather.onnx.model.function_defaults import state_defaults
from dmlgather.onnx.model.functions import FunctionCall, Functions, Key, body, shown
from dmlgather.onnx.model.nesting import operator_name, subgraphs
from dmlgather.onnx.model.scopes import Scope
from dmlgather.onnx.problems.nodes import in_family
from dmlgather.onnx.problems.operators import DOMAINS
from dmlgather.onnx.problems.partial_types import PartialType
from dmlgather.wording import printable

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, OperatorSetIdProto


@dataclass(frozen=True, slots=True)
class NodeValue:
    """What is known of a node's input or output. An input that is left out has an empty name. absent: why it cannot be read."""

    name: str
    type: PartialType
    value: Value
    absent: str | None = None


@dataclass(frozen=True, slots=True)
class NodeSite:
    """A node of the family where it stands. place: unique in the model. graph: the path of the graph around it. reached: whether
    it is run, as nothing in a function that nobody calls is.
    """

    place: str
    graph: str
    index: int
    node: NodeProto
    opset: int
    inputs: tuple[NodeValue, ...]
    outputs: tuple[NodeValue, ...]
    reached: bool = True

    @property
    def lacks_types(self) -> bool:
        """Whether type or rank of an input is not known, although there is such a name."""
        given = (one for one in self.inputs if one.name and not one.absent)
        return any(one.type.name is None or (one.type.dtype is not None and one.type.shape is None) for one in given)


@dataclass
class ModelContents:
    """What a model holds. others: nodes outside the family, by operator. remarks: why shapes are missing, by graph. broken: nodes
    outside the family that read a name that is not defined before, by place, with that name and what is wrong with it.
    """

    opsets: dict[str, int]
    sites: list[NodeSite] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)
    remarks: dict[str, str] = field(default_factory=dict)
    broken: list[tuple[str, str, str]] = field(default_factory=list)


def walk(file: ModelFile) -> ModelContents:
    """Everything in a model, the main graph first, then each function once, with what all its calls have in common."""
    walker = _Walker(file.model, file.functions)
    walker.main(file.remark)
    return walker.walked


class _Walker:
    def __init__(self, model: ModelProto, functions: Functions) -> None:
        self.model, self.functions = model, functions
        self.calls: dict[Key, FunctionCall] = {}
        self.places: set[str] = set()
        self.reached = True
        """Whether the model runs what is walked: calls in functions that nothing calls do not count."""
        self.walked = ModelContents(_opsets(model.opset_import, model.ir_version))

    def main(self, remark: str) -> None:
        self._whole(self.model.graph, "", self.model.opset_import, remark)
        for key, function in self.functions.items():  # callers first, so that all calls are known
            self.reached = key in self.calls
            graph = body(function, self.calls.get(key) or FunctionCall.never(function))
            state_defaults(self.functions, graph.node)
            inferred, remark = infer(self.model, graph, function.opset_import, self.functions)
            self._whole(inferred, shown(key), function.opset_import, remark)

    def _whole(self, graph: GraphProto, path: str, imports: Sequence[OperatorSetIdProto], remark: str) -> None:
        """A graph that stands in no other one. remark: why its shapes could not be inferred."""
        before = len(self.walked.sites)
        self._graph(graph, path, None, _opsets(imports, self.model.ir_version))
        if self.reached and not remark and any(site.lacks_types for site in self.walked.sites[before:]):
            _, remark = infer(self.model, graph, imports, self.functions, strict=True)
        if remark:
            self.walked.remarks[path] = remark

    def _graph(self, graph: GraphProto, path: str, outer: Scope | None, opsets: Mapping[str, int]) -> None:
        scope = Scope(graph, outer, overridable=self.model.ir_version >= 4)
        for index, node in enumerate(graph.node):
            key = self.functions.called(node)
            if key is None and in_family(node):
                self._family(node, index, path, scope, opsets)
            else:
                self._other(node, index, path, scope)
            if key is not None and self.reached:
                self._call(key, node, scope)
            elif key is None and "" in opsets:
                scope.fold(node, opsets[""])
            for label, inner in subgraphs(node):
                self._graph(inner, _below(path, f"{_label(node, index)}.{label}"), scope, opsets)
            scope.passed(node)

    def _family(self, node: NodeProto, index: int, path: str, scope: Scope, opsets: Mapping[str, int]) -> None:
        if "" not in opsets:
            raise FileError(
                f"states no opset for ONNX's own operators, one of which is {node.op_type} in {path or 'its main graph'}"
            )
        inputs, outputs = (_given(names, scope) for names in (node.input, node.output))
        self.walked.sites.append(
            NodeSite(self._place(node, index, path), path, index, node, opsets[""], inputs, outputs, self.reached)
        )

    def _other(self, node: NodeProto, index: int, path: str, scope: Scope) -> None:
        self.walked.others[printable(operator_name(node))] += 1
        reasons = {name: reason for name in node.input if name and (reason := scope.absent(name))}
        self.walked.broken += [(_below(path, _label(node, index)), *pair) for pair in reasons.items()]

    def _place(self, node: NodeProto, index: int, path: str) -> str:
        place = _below(path, _label(node, index))
        while place in self.places:  # names need not be unique
            place = f"{place}#{index}"
        self.places.add(place)
        return place

    def _call(self, key: Key, node: NodeProto, scope: Scope) -> None:
        given = _given(node.input, scope)
        attributes = {attribute.name: None if attribute.ref_attr_name else attribute for attribute in node.attribute}
        call = FunctionCall(tuple(one.type for one in given), tuple(one.value for one in given), attributes)
        self.calls[key] = self.calls[key].joined(call) if key in self.calls else call


def _opsets(imports: Iterable[OperatorSetIdProto], ir_version: int) -> dict[str, int]:
    """The imported versions by domain. Before IR version 3 a model could not state any, and meant the first."""
    opsets = {"" if entry.domain in DOMAINS else entry.domain: entry.version for entry in imports}
    return opsets or ({"": 1} if ir_version < 3 else {})


def _given(names: Iterable[str], scope: Scope) -> tuple[NodeValue, ...]:
    return tuple(NodeValue(name, scope.type(name), scope.value(name), scope.absent(name) if name else None) for name in names)


def _below(path: str, step: str) -> str:
    return f"{path}/{step}" if path else step


def _label(node: NodeProto, index: int) -> str:
    return printable(node.name) or f"{printable(node.op_type)}_{index}"
