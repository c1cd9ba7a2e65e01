"""Walk a model: every node of the family with what is known where it stands, in graphs inside graphs and local functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dmlgather.dialects.onnx.model.file import ModelFile, infer
from dmlgather.dialects.onnx.model.functions import Call, Functions, Key, body, shown
from dmlgather.dialects.onnx.model.nesting import operator_name, subgraphs
from dmlgather.dialects.onnx.model.scopes import Scope, Value
from dmlgather.dialects.onnx.nodes import in_family
from dmlgather.dialects.onnx.operators import DOMAINS
from dmlgather.dialects.onnx.partial import PartialType
from dmlgather.files import FileError
from dmlgather.wording import printable

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, OperatorSetIdProto


@dataclass(frozen=True, slots=True)
class Given:
    """What is known of a node's input or output. An input that is left out has an empty name."""

    name: str
    type: PartialType
    value: Value


@dataclass(frozen=True, slots=True)
class Site:
    """A node of the family where it stands. place: unique in the model. graph: the path of the graph around it."""

    place: str
    graph: str
    index: int
    node: NodeProto
    opset: int
    inputs: tuple[Given, ...]
    outputs: tuple[Given, ...]


@dataclass
class Walked:
    """What a model holds. others: nodes outside the family, by operator. remarks: why shapes are missing, by graph."""

    opsets: dict[str, int]
    sites: list[Site] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)
    remarks: dict[str, str] = field(default_factory=dict)


def walk(file: ModelFile) -> Walked:
    """Everything in a model, the main graph first, then each function once, with what all its calls have in common."""
    walker = _Walker(file.model, file.functions)
    walker.main(file.remark)
    return walker.walked


class _Walker:
    def __init__(self, model: ModelProto, functions: Functions) -> None:
        self.model, self.functions = model, functions
        self.calls: dict[Key, Call] = {}
        self.places: set[str] = set()
        self.walked = Walked(_opsets(model.opset_import, model.ir_version))

    def main(self, remark: str) -> None:
        self._remark("", remark)
        self._graph(self.model.graph, "", None, self.walked.opsets)
        for key, function in self.functions.items():  # callers first, so that all calls are known
            graph = body(function, self.calls.get(key) or Call.never(function))
            opsets = _opsets(function.opset_import, self.model.ir_version)
            inferred, remark = infer(self.model, graph, function.opset_import, self.functions)
            self._remark(shown(key), remark)
            self._graph(inferred, shown(key), None, opsets)

    def _remark(self, graph: str, remark: str) -> None:
        if remark:
            self.walked.remarks[graph] = remark

    def _graph(self, graph: GraphProto, path: str, outer: Scope | None, opsets: Mapping[str, int]) -> None:
        scope = Scope(graph, outer, overridable=self.model.ir_version >= 4)
        for index, node in enumerate(graph.node):
            key = self.functions.called(node)
            if key is None and in_family(node):
                self._family(node, index, path, scope, opsets)
            else:
                self.walked.others[printable(operator_name(node))] += 1
            if key is not None:
                self._call(key, node, scope)
            elif "" in opsets:
                scope.fold(node, opsets[""])
            for label, inner in subgraphs(node):
                self._graph(inner, _below(path, f"{_label(node, index)}.{label}"), scope, opsets)

    def _family(self, node: NodeProto, index: int, path: str, scope: Scope, opsets: Mapping[str, int]) -> None:
        if "" not in opsets:
            raise FileError(
                f"states no opset for ONNX's own operators, one of which is {node.op_type} in {path or 'its main graph'}"
            )
        inputs, outputs = (_given(names, scope) for names in (node.input, node.output))
        self.walked.sites.append(Site(self._place(node, index, path), path, index, node, opsets[""], inputs, outputs))

    def _place(self, node: NodeProto, index: int, path: str) -> str:
        place = _below(path, _label(node, index))
        while place in self.places:  # names need not be unique
            place = f"{place}#{index}"
        self.places.add(place)
        return place

    def _call(self, key: Key, node: NodeProto, scope: Scope) -> None:
        given = _given(node.input, scope)
        attributes = {attribute.name: None if attribute.ref_attr_name else attribute for attribute in node.attribute}
        call = Call(tuple(one.type for one in given), tuple(one.value for one in given), attributes)
        self.calls[key] = self.calls[key].joined(call) if key in self.calls else call


def _opsets(imports: Iterable[OperatorSetIdProto], ir_version: int) -> dict[str, int]:
    """The imported versions by domain. Before IR version 3 a model could not state any, and meant the first."""
    opsets = {"" if entry.domain in DOMAINS else entry.domain: entry.version for entry in imports}
    return opsets or ({"": 1} if ir_version < 3 else {})


def _given(names: Iterable[str], scope: Scope) -> tuple[Given, ...]:
    return tuple(Given(name, scope.type(name), scope.value(name)) for name in names)


def _below(path: str, step: str) -> str:
    return f"{path}/{step}" if path else step


def _label(node: NodeProto, index: int) -> str:
    return printable(node.name) or f"{printable(node.op_type)}_{index}"
