"""Attributes of local functions that a call leaves out: they have the function's default, or else are dropped with what refers
to them, so that what refers to them has its own default.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from itertools import count
from typing import TYPE_CHECKING

from dmlgather.onnx.model.functions import Functions, Key
from dmlgather.onnx.model.nesting import all_nodes

if TYPE_CHECKING:
    from onnx import FunctionProto, ModelProto, NodeProto


def state_defaults(functions: Functions, nodes: Iterable[NodeProto]) -> None:
    """Give every call in these nodes, and in the graphs inside them, the defaults of the attributes that it leaves out."""
    for node in all_nodes(nodes):
        key = functions.called(node)
        if key is not None:
            given = {attribute.name for attribute in node.attribute}
            node.attribute.extend(default for default in functions[key].attribute_proto if default.name not in given)


def with_stated_attributes(model: ModelProto) -> ModelProto:
    """A copy of the model whose calls give every attribute that its functions refer to, as inlining them requires.

    A function of which some calls leave out attributes without a default becomes several, one per set that is left out. FileError
    as `Functions`.
    """
    stated = type(model)()
    stated.CopyFrom(model)
    functions = Functions(model.functions)
    variants = _Variants(functions)
    variants.call_from(stated.graph.node)
    stated.ClearField("functions")
    stated.functions.extend(variants.made())
    return stated


class _Variants:
    """Functions without what refers to attributes that calls leave out. Each is made when the first such call is seen."""

    def __init__(self, functions: Functions) -> None:
        self._functions = functions
        self._names = {key[1] for key in functions}
        self._found: dict[tuple[Key, frozenset[str]], FunctionProto] = {}
        self._fresh: list[tuple[FunctionProto, frozenset[str]]] = []

    def made(self) -> list[FunctionProto]:
        while self._fresh:
            function, absent = self._fresh.pop()
            _drop_references(function.node, absent)
            self.call_from(function.node)
        return list(self._found.values())

    def call_from(self, nodes: Iterable[NodeProto]) -> None:
        """Let every call in these nodes call the variant that it needs."""
        state_defaults(self._functions, nodes)
        for node in all_nodes(nodes):
            key = self._functions.called(node)
            if key is not None:
                given = {attribute.name for attribute in node.attribute}
                node.op_type = self._variant(key, frozenset(self._functions[key].attribute) - given).name

    def _variant(self, key: Key, absent: frozenset[str]) -> FunctionProto:
        if (key, absent) not in self._found:
            original = self._functions[key]
            function = type(original)()
            function.CopyFrom(original)
            if absent:
                names = (f"{original.name}_{number}" for number in count(1))
                function.name = next(name for name in names if name not in self._names)
                self._names.add(function.name)
                kept = [name for name in original.attribute if name not in absent]
                function.ClearField("attribute")
                function.attribute.extend(kept)
            self._found[key, absent] = function
            self._fresh.append((function, absent))
        return self._found[key, absent]


def _drop_references(nodes: Iterable[NodeProto], absent: Container[str]) -> None:
    for node in all_nodes(nodes):
        for number in reversed(range(len(node.attribute))):
            if node.attribute[number].ref_attr_name in absent:
                del node.attribute[number]
