"""Local functions of a model: which call which, and what all calls of one have in common."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import zip_longest
from typing import TYPE_CHECKING

import numpy as np

from dmlgather.dialects.checked_model import Unknown
from dmlgather.files import FileError
from dmlgather.onnx.model.folding import Value
from dmlgather.onnx.model.nesting import all_nodes, subgraphs
from dmlgather.onnx.problems.operators import DOMAINS
from dmlgather.onnx.problems.partial_types import NOTHING, PartialType, value_of_type
from dmlgather.wording import counted, printable

if TYPE_CHECKING:
    from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto

Key = tuple[str, str, str]
"""What a function is called by: domain, name, overload."""

MOST_NODES = 1_000_000
"""Nodes that a model's calls may stand for: local functions that call others many times can stand for any number."""


def shown(key: Key) -> str:
    """A function as places and messages name it: "domain:Name", with ":overload" where it has one."""
    return printable(":".join(key if key[2] else key[:2]))


class Functions(Mapping[Key, "FunctionProto"]):
    """The local functions of a model, callers before those they call. FileError where they call each other in a circle."""

    def __init__(self, functions: Iterable[FunctionProto]) -> None:
        unordered = {_key(function.domain, function.name, function): function for function in functions}
        self._found = unordered
        callers: dict[Key, set[Key]] = {key: set() for key in unordered}
        for key, function in unordered.items():
            for called in self._calls(function.node):
                callers[called].add(key)
        try:
            self._found = {key: unordered[key] for key in TopologicalSorter(callers).static_order()}
        except CycleError as error:
            circle = " by ".join(map(shown, error.args[1]))
            raise FileError(f"has local functions that call each other in a circle: {circle}") from None
        self._size: dict[Key, int] = {}
        for key in reversed(self._found):
            self._size[key] = self.expanded(unordered[key].node)

    def __getitem__(self, key: Key) -> FunctionProto:
        return self._found[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def called(self, node: NodeProto) -> Key | None:
        """The function that a node calls, or None when it is an operator."""
        key = _key(node.domain, node.op_type, node)
        return key if key in self._found else None

    def expanded(self, nodes: Iterable[NodeProto]) -> int:
        """How many nodes these become when every call is replaced by what the function does."""
        every = list(all_nodes(nodes))
        return len(every) + sum(self._size[key] for key in self._calls(every, nested=False))

    def needed(self, nodes: Iterable[NodeProto]) -> list[FunctionProto]:
        """The functions that these nodes call, and those that they call in turn."""
        keys: dict[Key, None] = {}
        fresh = list(self._calls(nodes))
        while fresh:
            key = fresh.pop()
            if key not in keys:
                keys[key] = None
                fresh += self._calls(self._found[key].node)
        return [self._found[key] for key in keys]

    def _calls(self, nodes: Iterable[NodeProto], nested: bool = True) -> Iterator[Key]:
        for node in all_nodes(nodes) if nested else nodes:
            key = self.called(node)
            if key is not None:
                self._check(key, node)
                yield key

    def _check(self, key: Key, node: NodeProto) -> None:
        """Refuse a call with more inputs or outputs than the function has, beyond which some versions of ONNX read."""
        function = self._found[key]
        for what, given, has in (("input", node.input, function.input), ("output", node.output, function.output)):
            if len(given) > len(has):
                raise FileError(f"calls {shown(key)} with {counted(len(given), what)}, but the function has {len(has)}")


def _key(domain: str, name: str, proto: FunctionProto | NodeProto) -> Key:
    return "" if domain in DOMAINS else domain, name, getattr(proto, "overload", "")  # ONNX 1.16 brought overloads


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """What is known of a function's inputs and attributes. An attribute that is None has no one value for all calls."""

    types: tuple[PartialType, ...] = ()
    values: tuple[Value, ...] = ()
    attributes: Mapping[str, AttributeProto | None] = field(default_factory=dict)

    @classmethod
    def never(cls, function: FunctionProto) -> FunctionCall:
        """For a function that nothing calls."""
        names = (*function.attribute, *(attribute.name for attribute in function.attribute_proto))
        return cls(attributes=dict.fromkeys(names))

    def joined(self, other: FunctionCall) -> FunctionCall:
        """What holds for both calls."""
        types = zip_longest(self.types, other.types, fillvalue=NOTHING)
        values = zip_longest(self.values, other.values, fillvalue=Unknown("an input that not all calls give"))
        names = dict.fromkeys((*self.attributes, *other.attributes))
        return FunctionCall(
            tuple(one.joined(two) for one, two in types),
            tuple(_joined(one, two) for one, two in values),
            {name: _same(self.attributes.get(name), other.attributes.get(name)) for name in names},
        )


def _joined(one: Value, two: Value) -> Value:
    if isinstance(one, Unknown):
        return one
    if isinstance(two, Unknown):
        return two
    same = one.dtype == two.dtype and one.shape == two.shape and one.tobytes() == two.tobytes()
    return one if same else Unknown("different in different calls of the function")


def _same(one: AttributeProto | None, two: AttributeProto | None) -> AttributeProto | None:
    return one if one == two else None


def body(function: FunctionProto, call: FunctionCall) -> GraphProto:
    """What a function does when it is called so, as a graph."""
    from onnx import GraphProto, numpy_helper

    graph = GraphProto(name=function.name, node=function.node)
    _fill(graph.node, call.attributes)
    given = zip_longest(function.input, call.types, call.values)
    for name, known, value in list(given)[: len(function.input)]:
        if isinstance(value, np.ndarray) and value.dtype.kind in "iu":
            graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(value).reshape(value.shape), name))
        else:
            graph.input.append(value_of_type(name, known or NOTHING))
    graph.output.extend(value_of_type(name, NOTHING) for name in function.output)
    graph.value_info.extend(getattr(function, "value_info", ()))  # ONNX 1.17 brought them
    return graph


def _fill(nodes: Iterable[NodeProto], attributes: Mapping[str, AttributeProto | None]) -> None:
    """Put the attributes of a call where the nodes refer to them. One that is not known stays a reference."""
    for node in nodes:
        for number in reversed(range(len(node.attribute))):
            attribute = node.attribute[number]
            wanted, name = attribute.ref_attr_name, attribute.name
            if wanted and wanted not in attributes:
                del node.attribute[number]
            elif wanted and (given := attributes[wanted]) is not None:
                attribute.CopyFrom(given)
                attribute.name = name
        for _, graph in subgraphs(node):
            _fill(graph.node, attributes)
