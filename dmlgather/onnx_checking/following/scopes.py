"""Scopes: what is known about the types and values of the names in a graph."""

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
from dmlgather.onnx_checking.contradictions import confirmed_part, consistent_part
from dmlgather.onnx_checking.reading.declarations import Declarations
from dmlgather.onnx_checking.reading.size_names import GraphNames
from dmlgather.onnx_checking.sizes.values import KEPT_ELEMENTS, Unknown, Value, has_names

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto, TensorProto

NOWHERE = "defined nowhere"

LATER, LATER_IN_MAIN = "defined only by a later node", "defined only by a later node of the main graph"

STORED_OUTSIDE = "stored outside the model"

OWN = "an output of the same node"

MOST_FOLDED = 100
"""Limit of chained nodes to follow. A longer chain counts as not folded by onnxruntime."""


class Scope:
    """The known types and values of the names in a graph, and in the outer graphs."""

    def __init__(
        self,
        graph: GraphProto,
        reader: GraphNames,
        outer: Scope | None = None,
        *,
        overridable: bool = False,
        input_values: Mapping[str, Value] | None = None,
        declarations: Declarations | None = None,
    ) -> None:
        """Read the graph. `overridable`: True if callers may replace initializers that are also inputs (IR version 4 and
        later).
        """
        self.outer, self.reader, self._graph = outer, reader, graph
        self.declarations: Declarations = declarations or (Declarations() if outer is None else outer.declarations)
        self._own = self.declarations.of(graph)
        self.contradicted: dict[str, tuple[PartialType, PartialType]] = {}
        """Names with contradictory types: the declared and the inferred type."""
        self.runtime_types: dict[str, PartialType] = {}
        """The types that onnxruntime uses, if they differ from the inferred types."""
        self.first_runtime_types: dict[str, PartialType] = {}
        """The types that onnxruntime uses before it folds constants and inlines functions."""
        self.runtime_inferred: dict[str, PartialType] = {}
        """The types that onnxruntime infers, before it merges them with the declared ones."""
        self.results = [value.name for value in graph.output]
        self.types = {value.name: reader.read(type_of_value(value), provisional=outer is not None) for value in graph.input}
        values = (value for value in (*graph.value_info, *graph.output) if value.HasField("type"))
        declared_types = {value.name: reader.read(type_of_value(value)) for value in values}
        self.types = declared_types | self.types
        self.retyped: bool = outer is not None and outer.retyped
        """True if ONNX's inference of the whole model knew other input types, so its results may not hold."""
        self.improved: set[str] = set()
        """Names about which more is known now than after ONNX's inference of the whole graph."""
        self.values: dict[str, Value] = {
            name: Unknown(f"computed when the model runs, by {operator_name(node)}", computed=True)
            for node in graph.node
            for name in node.output
        }
        self._withdrawn: dict[str, tuple[PartialType, bool]] = {}
        """Removed types that rely on declarations, and True if the name was in `improved`."""
        self.pending = set(self.values)
        """Outputs of nodes that have not been visited yet."""
        inputs = {value.name for value in graph.input}
        self.values |= {name: Unknown("an input of the graph", name if outer is None else None) for name in inputs}
        self.values |= input_values or {}
        for sparse in graph.sparse_initializer:
            self.types[sparse.values.name] = type_of_tensor(sparse)
            self.values[sparse.values.name] = Unknown("a sparse constant")
        for tensor in graph.initializer:
            replaceable = overridable and tensor.name in inputs
            self.types[tensor.name] = type_of_tensor(tensor)
            default = Unknown("an initializer that is an input as well, so that callers may replace it", tensor.name)
            self.values[tensor.name] = default if replaceable else constant(tensor)
        self._graph_types = dict(self.types)
        """The types that ONNX's inference of the whole model found."""
        self._folded: dict[tuple[str, int], bool] = {}
        self._unconfirmed_ranks: set[str] = set()
        """Names with a rank that follows only from declared ranks."""

    @cached_property
    def _producers(self) -> dict[str, NodeProto]:
        return {name: node for node in self._graph.node for name in node.output}

    def _of(self, name: str) -> Scope:
        return self if name in self.types or name in self.values or self.outer is None else self.outer._of(name)

    def type(self, name: str) -> PartialType:
        """Return the known type of a name. Each unknown size gets a new symbol."""
        scope = self._of(name)
        type_ = scope.types.get(name, NOTHING)
        named = scope.reader.named(name, type_)
        if named is not type_:
            scope.types[name] = named
            pairs = zip(type_.shape or (), named.shape or (), strict=True)
            if any(size is not None and size != better for size, better in pairs):
                scope.improved.add(name)
        return named

    def value(self, name: str) -> Value:
        """Return the value of a name, or an Unknown."""
        if name in self.values or self.outer is None:
            return self.values.get(name, Unknown(NOWHERE))
        return self.outer.value(name)

    def inputs(self, node: NodeProto) -> tuple[list[PartialType], list[Value | None]]:
        """Return the types and values of a node's inputs. The value of an omitted input is None."""
        return [self.type(name) for name in node.input], [self.value(name) if name else None for name in node.input]

    def is_improved(self, name: str) -> bool:
        """Return True if more is known now than after ONNX's inference of the whole graph."""
        return name in self._of(name).improved

    def is_open(self, name: str) -> bool:
        """Return True if the data type or a size of a node's output is unknown."""
        type_ = self.types.get(name, NOTHING)
        if type_.kind is not None or type_.excessive:
            return False
        return type_.dtype is None or type_.shape is None or any(map(self.reader.names.is_open, type_.shape))

    def is_declared(self, name: str) -> bool:
        """Return True if the known type of an output has sizes that are only declared. Computed sizes may replace them."""
        return name in self._withdrawn or not self.reader.names.declared.isdisjoint(self.types.get(name, NOTHING).shape or ())

    def is_output(self, name: str) -> bool:
        """Return True for an output of the graph."""
        return any(value.name == name for value in self._graph.output)

    def undefined(self, name: str) -> str | None:
        """Return the reason why the current node cannot read a name, or None if it can."""
        if name in self.values and name not in self.pending:
            return None
        outer = NOWHERE if self.outer is None else self.outer.undefined(name)
        if outer is None or name not in self.values:
            return outer
        return LATER if self.outer is not None or self.declarations.of_function else LATER_IN_MAIN

    def visited(self, node: NodeProto) -> None:
        """Record that later nodes can read the outputs of this node."""
        self.pending.difference_update(node.output)

    def withdraw_declared(self, name: str) -> None:
        """Hide unconfirmed facts about an output until `restore_declared` is called. Inference must not use them."""
        if name in self._own.unconfirmed or name in self._unconfirmed_ranks or self.declarations.misled:
            type_ = self.types.get(name, NOTHING)
            confirmed = confirmed_part(type_, self.inferred(name))
            if confirmed != type_:
                self._withdrawn[name] = type_, name in self.improved
                self.types[name] = confirmed

    def restore_declared(self, name: str) -> None:
        """Restore what `withdraw_declared` removed from a type, except facts that contradict the inferred type."""
        if name not in self._own.unconfirmed and name not in self._withdrawn:
            return
        names = self.reader.names
        inferred = self.types[name] = self.types.get(name, NOTHING).merged(self.inferred(name), names.joined)
        unconfirmed, was_improved = self._withdrawn.pop(name, (NOTHING, True))
        declared = self.reader.read(self._own.unconfirmed.get(name, NOTHING))
        if consistent_part(unconfirmed, inferred, names.may_be) != unconfirmed:
            self.declarations.misled = True
        if consistent_part(declared, inferred, names.may_be) != declared:
            self.contradicted[name] = declared, inferred
        for candidate in (NOTHING if self.declarations.misled else unconfirmed, declared):
            consistent = consistent_part(candidate, self.types.get(name, NOTHING), names.may_be)
            self.types[name] = consistent.merged(self.types.get(name, NOTHING), names.joined)
        if self.types[name] != unconfirmed:
            self.improved.add(name)
        elif not was_improved and isinstance(self.values.get(name), Unknown):
            self.improved.discard(name)

    def check_inputs(self, inferred_types: Mapping[str, PartialType]) -> None:
        """Compare the declared types of a subgraph's inputs with the types of the values in the first iteration."""
        for name, inferred_type in inferred_types.items():
            declared, names = self.reader.read(self._own.unconfirmed.get(name, NOTHING)), self.reader.names
            if consistent_part(declared, inferred_type, names.may_be) != declared:
                self.contradicted[name], self.runtime_types[name] = (declared, inferred_type), declared
                current = self.types.get(name, NOTHING)
                self.types[name] = consistent_part(current, inferred_type, names.may_be)
                self.declarations.misled = self.declarations.misled or self.types[name] != current

    @property
    def unconfirmed(self) -> Set[str]:
        """Return the names with a declared type that shape inference did not confirm."""
        return self._own.unconfirmed.keys()

    def learn_rank(self, name: str, rank: int, unconfirmed: bool) -> None:
        """Store a rank. `unconfirmed`: True if it was inferred from ranks that are only declared."""
        self.learn_type(name, PartialType(shape=(None,) * rank))
        self._unconfirmed_ranks |= {name} if unconfirmed else set()

    def declared(self, name: str) -> PartialType:
        """Return the declared type of a name. NOTHING if onnxruntime ignores it: in a local function, outside of subgraphs."""
        is_read = self.outer is not None or not self.declarations.of_function
        return self.reader.read(self._own.declared(name)) if is_read else NOTHING

    def inferred(self, name: str) -> PartialType:
        """Return the type that ONNX's shape inference finds without declarations."""
        return self.reader.read(self._own.inferred(name))

    def has_runtime_type(self, name: str) -> bool:
        """Return True if onnxruntime uses another type than the inferred one."""
        return name in self._of(name).runtime_types

    def runtime_type(self, name: str) -> PartialType:
        """Return the type that onnxruntime uses for a name."""
        scope = self._of(name)
        return scope.runtime_types.get(name) or scope._graph_types.get(name, NOTHING)

    def folded(self, name: str, most: int = MOST_FOLDED) -> Value:
        """Return a value if onnxruntime's constant folding finds it, else an Unknown. `most`: the longest chain of nodes."""
        return self.value(name) if self._folds(name, most) else Unknown("not folded")

    def _folds(self, name: str, most: int) -> bool:
        """Return True if onnxruntime's constant folding finds a value. `most`: the longest chain of nodes."""
        scope = self._of(name)
        if (name, most) not in scope._folded:
            value, node = scope.value(name), scope._producers.get(name)
            folds = not isinstance(value, Unknown) and not has_names(value) and most > 0
            if folds and node is not None and node.op_type in ("Shape", "Size"):
                folds = scope.runtime_type(node.input[0]).numbers is not None
            elif folds and node is not None:
                folds = all(scope._folds(each, most - 1) for each in node.input if each)
            scope._folded[name, most] = folds
        return scope._folded[name, most]

    def learn_value(self, name: str, value: Value) -> None:
        """Store the value of an output, and its type."""
        self.values[name] = value
        if isinstance(value, np.ndarray):
            self.learn_type(name, PartialType(None if value.dtype == object else value.dtype, value.shape))
            self.improved.add(name)

    def learn_input(self, name: str, type_: PartialType) -> None:
        """Store the type of a graph input, and remove declarations that contradict it."""
        self.types[name] = consistent_part(self.types.get(name, NOTHING), type_, self.reader.names.may_be)
        self.learn_type(name, type_)

    def learn_type(self, name: str, other: PartialType) -> None:
        """Merge another type into the known type of an output."""
        type_ = self.types.get(name, NOTHING)
        merged = type_.merged(other, self.reader.names.joined)
        if merged != type_:
            self.types[name] = merged
            self.improved.add(name)


def attribute_values(node: NodeProto) -> Sequence[Value]:
    """Return the values of a node's tensor attributes. References to the function's attributes are Unknown."""
    return [
        Unknown(f"attribute {attribute.ref_attr_name!r} of the function, which its calls do not all give alike")
        if attribute.ref_attr_name
        else constant(attribute.t)
        for attribute in node.attribute
        if attribute.ref_attr_name or attribute.HasField("t")
    ]


def constant(tensor: TensorProto) -> Value:
    """Return the elements of a tensor. Return an Unknown if they are in an external file, too many or damaged."""
    from onnx import TensorProto as Types
    from onnx import numpy_helper

    missing = why_ignored(tensor)
    if missing is not None:
        return missing
    if tensor.data_type == Types.STRING:
        return Unknown("a constant of strings")
    try:
        return numpy_helper.to_array(tensor)
    except (TypeError, ValueError, KeyError) as error:
        return Unknown(f"a damaged constant: {error}")


def why_ignored(tensor: TensorProto) -> Unknown | None:
    """Return an Unknown if the elements of a tensor are in an external file, too many or damaged. Otherwise return None."""
    if tensor.data_location == EXTERNAL:
        return Unknown(f"{STORED_OUTSIDE}, in {location(tensor)}")
    if len(tensor.dims) > MOST_DIMENSIONS:
        return Unknown(f"a constant of {len(tensor.dims)} dimensions")
    if min(tensor.dims, default=0) < 0 or math.prod(size or 1 for size in tensor.dims) > sys.maxsize:
        # With such sizes, NumPy would compute another shape or run out of memory.
        return Unknown("a damaged constant: no array has its shape")
    if element_count(tensor) > KEPT_ELEMENTS:
        return Unknown(f"a constant of {element_count(tensor)} elements")
    return None
