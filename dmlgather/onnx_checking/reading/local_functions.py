"""The local functions of a model, and what is known about their inputs in all calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import zip_longest
from typing import TYPE_CHECKING

import numpy as np

from dmlgather.files import FileError
from dmlgather.onnx.problems.operator_versions import DOMAINS
from dmlgather.onnx.problems.partial_types import NOTHING, PartialType, value_of_type
from dmlgather.onnx.problems.subgraphs import all_nodes
from dmlgather.onnx_checking.reading.declarations import without_declarations
from dmlgather.onnx_checking.sizes.values import Unknown, Value, is_known, same
from dmlgather.wording import counted, printable

if TYPE_CHECKING:
    from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto

Key = tuple[str, str, str]
"""Domain, name and overload of a local function."""

MOST_NODES = 1_000_000
"""Limit of nodes after all calls are inlined. Beyond it, shapes are not inferred."""

MOST_DEFAULTS = 16_000_000
"""Limit of bytes of default attributes copied into calls."""


def function_name(key: Key) -> str:
    """Return "domain:Name" or "domain:Name:overload" for messages."""
    return printable(":".join(key if key[2] else key[:2]))


class Functions(Mapping[Key, "FunctionProto"]):
    """The local functions of a model, callers first. Raises FileError if functions call each other in a circle."""

    def __init__(self, functions: Iterable[FunctionProto]) -> None:
        unordered = {_key(function.domain, function.name, function): function for function in functions}
        self._functions = unordered
        callers: dict[Key, set[Key]] = {key: set() for key in unordered}
        for key, function in unordered.items():
            for called in self._calls(function.node):
                callers[called].add(key)
        try:
            self._functions = {key: unordered[key] for key in TopologicalSorter(callers).static_order()}
        except CycleError as error:
            circle = " by ".join(map(function_name, error.args[1]))
            raise FileError(f"has local functions that call each other in a circle: {circle}") from None
        self._without_declarations: dict[Key, FunctionProto] = {}
        self._size: dict[Key, int] = {}
        for key in reversed(self._functions):
            self._size[key] = self.inlined_size(unordered[key].node)

    def __getitem__(self, key: Key) -> FunctionProto:
        return self._functions[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)

    def called(self, node: NodeProto) -> Key | None:
        """Return the key of the local function that a node calls, or None for an operator."""
        key = _key(node.domain, node.op_type, node)
        return key if key in self._functions else None

    def inlined_size(self, nodes: Iterable[NodeProto]) -> int:
        """Return the number of nodes after inlining all calls, at most MOST_NODES + 1."""
        every_node = list(all_nodes(nodes))
        return min(len(every_node) + sum(self._size[key] for key in self._calls(every_node, nested=False)), MOST_NODES + 1)

    def reachable(self, nodes: Iterable[NodeProto]) -> list[FunctionProto]:
        """Return copies of the functions that these nodes call, directly or not, without declared types."""
        keys: dict[Key, None] = {}
        fresh = list(self._calls(nodes))
        while fresh:
            key = fresh.pop()
            if key not in keys:
                keys[key] = None
                fresh += self._calls(self[key].node)
        return [self.without_declarations(key) for key in keys]

    def without_declarations(self, key: Key) -> FunctionProto:
        """Return a cached copy of a function without declared types."""
        if key not in self._without_declarations:
            self._without_declarations[key] = without_declarations(self[key])
        return self._without_declarations[key]

    def add_defaults(self, nodes: Iterable[NodeProto]) -> None:
        """Copy the default attributes of functions into calls without these attributes, up to MOST_DEFAULTS bytes."""
        bytes_left = MOST_DEFAULTS
        for node in all_nodes(nodes):
            key = self.called(node)
            if key is not None:
                present = {attribute.name for attribute in node.attribute}
                added = [default for default in self[key].attribute_proto if default.name not in present]
                bytes_left -= sum(default.ByteSize() for default in added)
                if bytes_left >= 0:
                    node.attribute.extend(added)

    def _calls(self, nodes: Iterable[NodeProto], nested: bool = True) -> Iterator[Key]:
        for node in all_nodes(nodes) if nested else nodes:
            key = self.called(node)
            if key is not None:
                self._check(key, node)
                yield key

    def _check(self, key: Key, node: NodeProto) -> None:
        """Raise FileError if a call has more inputs or outputs than the function. Some versions of ONNX crash at such calls."""
        function = self._functions[key]
        for kind, arguments, parameters in (("input", node.input, function.input), ("output", node.output, function.output)):
            if len(arguments) > len(parameters):
                number = counted(len(arguments), kind)
                raise FileError(f"calls {function_name(key)} with {number}, but the function has {len(parameters)}")


def _key(domain: str, name: str, proto: FunctionProto | NodeProto) -> Key:
    return "" if domain in DOMAINS else domain, name, getattr(proto, "overload", "")  # ONNX 1.16 brought overloads


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """The known arguments of a local function, in one call or common to all calls."""

    types: tuple[PartialType, ...] = ()
    values: tuple[Value, ...] = ()
    attributes: Mapping[str, AttributeProto | None] = field(default_factory=dict)

    @classmethod
    def of(cls, node: NodeProto, types: Sequence[PartialType], values: Sequence[Value | None]) -> FunctionCall:
        """Return the arguments of one call. The value of an omitted input is None."""
        attributes = {attribute.name: None if attribute.ref_attr_name else attribute for attribute in node.attribute}
        return cls(tuple(types), tuple(Unknown("left out") if value is None else value for value in values), attributes)

    @property
    def sizes(self) -> set[str]:
        """Return the names of sizes in the types of the inputs."""
        return {size for type_ in self.types for size in type_.shape or () if isinstance(size, str)}

    @classmethod
    def unknown(cls, function: FunctionProto) -> FunctionCall:
        """Return unknown arguments, for a function without a call."""
        names = (*function.attribute, *(attribute.name for attribute in function.attribute_proto))
        return cls(attributes=dict.fromkeys(names))

    def joined(self, other: FunctionCall) -> FunctionCall:
        """Return the arguments that both calls share."""
        types = zip_longest(self.types, other.types, fillvalue=NOTHING)
        values = zip_longest(self.values, other.values, fillvalue=Unknown("an input that not all calls give"))
        names = dict.fromkeys((*self.attributes, *other.attributes))
        attributes = ((name, self.attributes.get(name), other.attributes.get(name)) for name in names)
        return FunctionCall(
            tuple(one.joined(two) for one, two in types),
            tuple(_joined(one, two) for one, two in values),
            {name: one if one == two else None for name, one, two in attributes},
        )


def _joined(one: Value, two: Value) -> Value:
    if isinstance(one, Unknown):
        return one
    if isinstance(two, Unknown):
        return two
    return one if same(one, two) else Unknown("different in different calls of the function")


def function_graph(function: FunctionProto, call: FunctionCall) -> GraphProto:
    """Build a graph from a local function, with the inputs and attributes of a call."""
    from onnx import GraphProto, numpy_helper

    graph = GraphProto(name=function.name, node=_nodes_of(function, call.attributes))
    inputs = zip_longest(function.input, call.types, call.values)
    for name, type_, value in list(inputs)[: len(function.input)]:
        if is_known(value) and value.dtype.kind in "iu":
            graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(value).reshape(value.shape), name))
        else:
            graph.input.append(value_of_type(name, type_ or NOTHING))
    graph.output.extend(value_of_type(name, NOTHING) for name in function.output)
    graph.value_info.extend(getattr(function, "value_info", ()))  # ONNX 1.17 brought them
    return graph


def _nodes_of(function: FunctionProto, attributes: Mapping[str, AttributeProto | None]) -> list[NodeProto]:
    """Copy a function's nodes. Replace references to the function's attributes by `attributes`.
    If an attribute is None (unknown), references to it stay. If it is missing in `attributes`, they are removed.
    """
    from onnx import GraphProto

    nodes = list(GraphProto(node=function.node).node)
    for node in all_nodes(nodes):
        for number in reversed(range(len(node.attribute))):
            attribute = node.attribute[number]
            reference, name = attribute.ref_attr_name, attribute.name
            if reference and reference not in attributes:
                del node.attribute[number]
            elif reference and (value := attributes[reference]) is not None:
                attribute.CopyFrom(value)
                attribute.name = name
    return nodes
