"""Scopes: the types and the values of the names in a graph, as far as they are known."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence, Set
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dmlgather.onnx.auxiliary import EXTERNAL, location
from dmlgather.onnx.problems.partial_types import MOST_DIMENSIONS, NOTHING, PartialType, type_of_tensor, type_of_value
from dmlgather.onnx.problems.subgraphs import element_count, operator_name
from dmlgather.onnx_checking.contradictions import sure_part, uncontradicted
from dmlgather.onnx_checking.reading.size_names import GraphNames
from dmlgather.onnx_checking.reading.statements import Statements
from dmlgather.onnx_checking.sizes.values import KEPT_ELEMENTS, Unknown, Value, has_names

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto, TensorProto

NOWHERE = "defined nowhere"
"""Why a name that no graph defines has no value."""

OWN = "an output of the same node"
"""Why a node cannot read a name that it defines itself."""

MOST_FOLDED = 100
"""The most nodes in a row of which it is found out whether onnxruntime folds them."""


class Scope:
    """The names of a graph, which hide those of the graphs around it. Nodes are visited in order, and what is found out about
    their outputs is kept.
    """

    def __init__(
        self,
        graph: GraphProto,
        reader: GraphNames,
        outer: Scope | None = None,
        *,
        overridable: bool = False,
        given: Mapping[str, Value] | None = None,
        statements: Statements | None = None,
    ) -> None:
        """reader: how sizes in the graph are read. overridable: whether a caller may replace an initializer that is also an
        input, as from IR version 4 on. given: the values of inputs, as far as they are known. statements: of the outermost graph.
        """
        self.outer, self.reader, self._graph = outer, reader, graph
        self.statements: Statements = statements or (Statements() if outer is None else outer.statements)
        self._own = self.statements.of(graph)
        self.contradicted: dict[str, tuple[PartialType, PartialType]] = {}
        """What is stated of names, and what follows, where these contradict each other."""
        self.kept: dict[str, PartialType] = {}
        """What onnxruntime takes the types of names to be, where that is not what follows."""
        self.first: dict[str, PartialType] = {}
        """What it takes the types of names that are contradicted to be before it folds constants and inlines functions."""
        self.merged: dict[str, PartialType] = {}
        """What onnxruntime merges with what is stated of names."""
        self.results = [value.name for value in graph.output]
        self.types = {value.name: reader.read(type_of_value(value), found=outer is not None) for value in graph.input}
        values = (value for value in (*graph.value_info, *graph.output) if value.HasField("type"))
        found = {value.name: reader.read(type_of_value(value)) for value in values}
        self.types = found | self.types
        self.retyped: bool = outer is not None and outer.retyped
        """Whether the graph's inputs have other types than shape inference of the whole model took them to have."""
        self.better: set[str] = set()
        """Names of which more is known than shape inference of the whole graph found."""
        self.values: dict[str, Value] = {
            name: Unknown(f"computed when the model runs, by {operator_name(node)}", computed=True)
            for node in graph.node
            for name in node.output
        }
        self._doubted: dict[str, tuple[PartialType, bool]] = {}
        """What shape inference took types to be that are known by statements alone, and whether more was known."""
        self.pending = set(self.values)
        """Outputs of nodes that have not been visited yet."""
        inputs = {value.name for value in graph.input}
        self.values |= {name: Unknown("an input of the graph", name if outer is None else None) for name in inputs}
        self.values |= given or {}
        for sparse in graph.sparse_initializer:
            self.types[sparse.values.name] = type_of_tensor(sparse)
            self.values[sparse.values.name] = Unknown("a sparse constant")
        for tensor in graph.initializer:
            replaceable = overridable and tensor.name in inputs
            self.types[tensor.name] = type_of_tensor(tensor)
            default = Unknown("an initializer that is an input as well, so that callers may replace it", tensor.name)
            self.values[tensor.name] = default if replaceable else constant(tensor)
        self._inferred = dict(self.types)
        """What shape inference of the whole model found."""
        self._folded: dict[tuple[str, int], bool] = {}
        """Whether onnxruntime folds a value, by its name and the nodes in a row that it folds."""
        self._believed_ranks: set[str] = set()
        """Names whose rank follows from ranks that are stated alone."""

    @cached_property
    def _givers(self) -> dict[str, NodeProto]:
        return {name: node for node in self._graph.node for name in node.output}

    def type(self, name: str) -> PartialType:
        """What is known of the type of a name. Each of its sizes is a number or has a name."""
        if name in self.types or name in self.values or self.outer is None:
            known = self.types.get(name, NOTHING)
            named = self.reader.named(name, known)
            if named is not known:
                self.types[name] = named
                if any(
                    size is not None and size != other for size, other in zip(known.shape or (), named.shape or (), strict=True)
                ):
                    self.better.add(name)
            return named
        return self.outer.type(name)

    def value(self, name: str) -> Value:
        """The value of a name, or why it is not known."""
        if name in self.values or self.outer is None:
            return self.values.get(name, Unknown(NOWHERE))
        return self.outer.value(name)

    def inputs(self, node: NodeProto) -> tuple[list[PartialType], list[Value | None]]:
        """The types and values of a node's inputs; None as the value of one that is left out."""
        return [self.type(name) for name in node.input], [self.value(name) if name else None for name in node.input]

    def is_better(self, name: str) -> bool:
        """Whether more is known of a name than shape inference of the whole graph found."""
        if name in self.types or name in self.values or self.outer is None:
            return name in self.better
        return self.outer.is_better(name)

    def is_open(self, name: str) -> bool:
        """Whether the type of an output is not known in all parts."""
        known = self.types.get(name, NOTHING)
        if known.kind is not None or known.excessive:
            return False
        return known.dtype is None or known.shape is None or any(map(self.reader.names.is_open, known.shape))

    def is_stated(self, name: str) -> bool:
        """Whether an output has sizes that the model states, but that may follow from others."""
        return name in self._doubted or not self.reader.names.stated.isdisjoint(self.types.get(name, NOTHING).shape or ())

    def undefined(self, name: str) -> str | None:
        """Why the node that is visited now cannot read a name; None where it can."""
        if name in self.values and name not in self.pending:
            return None
        outer = NOWHERE if self.outer is None else self.outer.undefined(name)
        if outer is None or name not in self.values:
            return outer
        return "defined only by a later node"

    def visited(self, node: NodeProto) -> None:
        """Mark the outputs of a node as defined."""
        self.pending.difference_update(node.output)

    def doubt(self, name: str) -> None:
        """Forget what is known of an output by statements alone, until it is settled."""
        if name in self._own.stated or name in self._believed_ranks or self.statements.misled:
            known = self.types.get(name, NOTHING)
            sure = sure_part(known, self.follows(name))
            if sure != known:
                self._doubted[name] = known, name in self.better
                self.types[name] = sure

    def settle(self, name: str) -> None:
        """Keep of what is stated of an output what may be true beside what follows for it."""
        if name not in self._own.stated and name not in self._doubted:
            return
        names = self.reader.names
        follows = self.types[name] = self.types.get(name, NOTHING).merged(self.follows(name), names.joined)
        believed, was_better = self._doubted.pop(name, (NOTHING, True))
        stated = self.reader.read(self._own.stated.get(name, NOTHING))
        if uncontradicted(believed, follows, names.may_be) != believed:
            self.statements.misled = True
        if uncontradicted(stated, follows, names.may_be) != stated:
            self.contradicted[name] = stated, follows
        for known in (NOTHING if self.statements.misled else believed, stated):
            holds = uncontradicted(known, self.types.get(name, NOTHING), names.may_be)
            self.types[name] = holds.merged(self.types.get(name, NOTHING), names.joined)
        if self.types[name] != believed:
            self.better.add(name)
        elif not was_better and isinstance(self.values.get(name), Unknown):
            self.better.discard(name)

    def check_inputs(self, follows: Mapping[str, PartialType]) -> None:
        """Compare what is stated of inputs of the graph with what follows for the first of its runs."""
        for name, known in follows.items():
            stated, names = self.reader.read(self._own.stated.get(name, NOTHING)), self.reader.names
            if uncontradicted(stated, known, names.may_be) != stated:
                self.contradicted[name], self.kept[name] = (stated, known), stated
                believed = self.types.get(name, NOTHING)
                self.types[name] = uncontradicted(believed, known, names.may_be)
                self.statements.misled = self.statements.misled or self.types[name] != believed

    @property
    def unconfirmed(self) -> Set[str]:
        """The values of which something is stated that shape inference alone does not confirm."""
        return self._own.stated.keys()

    def learn_rank(self, name: str, rank: int, believed: bool) -> None:
        """Keep the rank of a value that follows from other ranks. believed: whether some of these are stated alone."""
        self.learn_type(name, PartialType(shape=(None,) * rank))
        self._believed_ranks |= {name} if believed else set()

    def declared(self, name: str) -> PartialType:
        """The type that the graph states of a name, where onnxruntime reads that."""
        read = self.outer is not None or not self.statements.of_function
        return self.reader.read(self._own.declared(name)) if read else NOTHING

    def follows(self, name: str) -> PartialType:
        """The type that shape inference finds without anything that is stated."""
        return self.reader.read(self._own.follows(name))

    def is_kept(self, name: str) -> bool:
        """Whether onnxruntime takes the type of a name to be another one than follows."""
        if name in self.types or name in self.values or self.outer is None:
            return name in self.kept
        return self.outer.is_kept(name)

    def taken_type(self, name: str) -> PartialType:
        """What onnxruntime takes the type of a name to be."""
        if name in self.types or name in self.values or self.outer is None:
            return self.kept.get(name) or self._inferred.get(name, NOTHING)
        return self.outer.taken_type(name)

    def folded(self, name: str, most: int = MOST_FOLDED) -> Value:
        """The value of a name, where onnxruntime computes it before it runs the model. most: the nodes in a row that it folds for
        it; with 1, only constants and shapes.
        """
        return self.value(name) if self._folds(name, most) else Unknown("not folded")

    def _folds(self, name: str, most: int) -> bool:
        """Whether onnxruntime computes a value before it runs the model, by at most so many nodes in a row."""
        if name not in self.types and name not in self.values and self.outer is not None:
            return self.outer._folds(name, most)
        if (name, most) not in self._folded:
            value, node = self.value(name), self._givers.get(name)
            folds = not isinstance(value, Unknown) and not has_names(value) and most > 0
            if folds and node is not None and node.op_type in ("Shape", "Size"):
                folds = self.taken_type(node.input[0]).numbers is not None
            elif folds and node is not None:
                folds = all(self._folds(each, most - 1) for each in node.input if each)
            self._folded[name, most] = folds
        return self._folded[name, most]

    def learn_value(self, name: str, value: Value) -> None:
        """Keep the value of an output, and the type that it has by it."""
        self.values[name] = value
        if isinstance(value, np.ndarray):
            self.learn_type(name, PartialType(None if value.dtype == object else value.dtype, value.shape))
            self.better.add(name)

    def learn_input(self, name: str, known: PartialType) -> None:
        """Keep the type of an input of the graph, whatever is stated of it."""
        self.types[name] = uncontradicted(self.types.get(name, NOTHING), known, self.reader.names.may_be)
        self.learn_type(name, known)

    def learn_type(self, name: str, better: PartialType) -> None:
        """Keep what is known of an output's type by two descriptions of it."""
        known = self.types.get(name, NOTHING)
        merged = known.merged(better, self.reader.names.joined)
        if merged != known:
            self.types[name] = merged
            self.better.add(name)


def attribute_values(node: NodeProto) -> Sequence[Value]:
    """The values of attributes that are tensors, or refer to a function's attributes."""
    return [
        Unknown(f"attribute {attribute.ref_attr_name!r} of the function, which its calls do not all give alike")
        if attribute.ref_attr_name
        else constant(attribute.t)
        for attribute in node.attribute
        if attribute.ref_attr_name or attribute.HasField("t")
    ]


def constant(tensor: TensorProto) -> Value:
    """The elements of a TensorProto, where the model itself holds them and they are few."""
    from onnx import TensorProto as Types
    from onnx import numpy_helper

    missing = left_out(tensor)
    if missing is not None:
        return missing
    if tensor.data_type == Types.STRING:
        return Unknown("a constant of strings")
    try:
        return numpy_helper.to_array(tensor)
    except (TypeError, ValueError, KeyError) as error:
        return Unknown(f"a damaged constant: {error}")


def left_out(tensor: TensorProto) -> Unknown | None:
    """Why the elements of a TensorProto are not looked at, whatever they are; None where they are."""
    if tensor.data_location == EXTERNAL:
        return Unknown(f"stored outside the model, in {location(tensor)}")
    if len(tensor.dims) > MOST_DIMENSIONS:
        return Unknown(f"a constant of {len(tensor.dims)} dimensions")
    if min(tensor.dims, default=0) < 0 or math.prod(size or 1 for size in tensor.dims) > sys.maxsize:
        return Unknown(
            "a damaged constant: no array has its shape"
        )  # NumPy replaces a size of -1, and runs out of memory at others
    if element_count(tensor) > KEPT_ELEMENTS:
        return Unknown(f"a constant of {element_count(tensor)} elements")
    return None
