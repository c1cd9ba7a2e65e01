"""Where onnxruntime places the nodes of a model beside its DirectML provider: computed beforehand, on the CPU on purpose, or left
to the device; and which nodes on the device are in one part.

The rule for the CPU goes forward, graph by graph: from outputs of Shape and Size, which lie on the CPU, to the nodes all of whose
inputs lie there. Source: `SOURCES["ORT-FALLBACK"]`; of parts `SOURCES["ORT-PARTITION"]`.
"""

from __future__ import annotations

import enum
import math
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from dmlgather.onnx.problems.node_reading import in_family
from dmlgather.onnx.problems.operator_versions import DOMAINS, own_opset, since_of
from dmlgather.onnx.problems.partial_types import NOTHING, PartialType, type_of_tensor, type_of_value
from dmlgather.onnx.problems.subgraphs import operator_name, place_of, subgraphs
from dmlgather.onnx_checking.following.operators import row_of
from dmlgather.onnx_checking.provider.kernels import DIRECTML_TYPES, KERNELS, NEWEST_SHAPE, SMALL, STAYING
from dmlgather.onnx_checking.reading.local_functions import Functions, function_name

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto

    from dmlgather.onnx_checking.reading.file import ModelFile


UNFOLDED = ("Compress", "Dropout", "NonZero")
"""Operators that onnxruntime does not fold, even where all that they read is constant."""


class Home(enum.Enum):
    """Where a node is computed."""

    DEVICE = enum.auto()
    """On DirectML, if it has a kernel there."""
    CPU = enum.auto()
    """On the CPU on purpose."""
    FOLDED = enum.auto()
    """Beforehand: all that it reads is known."""


Key = tuple[str, int]
"""What identifies a node: the path of the graph around it, and its position there."""


@dataclass(frozen=True, slots=True)
class PlacedNode:
    """A node, and where it is computed.

    chain: of a node on the CPU, the operators from a Shape or Size up to it. control: the operator with a graph of its own that
    keeps the nodes of this graph from being fused; empty where there is none. constants: the positions of inputs that are
    constant. inputs: the types of its inputs. fits: whether its shapes are numbers, none of them 0, so that it may be fused.
    """

    key: Key
    node: NodeProto
    home: Home
    chain: tuple[str, ...]
    control: str
    constants: tuple[int, ...]
    inputs: tuple[PartialType, ...]
    fits: bool

    @property
    def may_be_fused(self) -> bool:
        """Whether nothing that is known keeps it from being fused."""
        return self.fits and not self.control and self.home is Home.DEVICE and not _gives_sizes(self.node)


def place(file: ModelFile) -> dict[Key, PlacedNode]:
    """Every node of a model, in order: of the main graph, and of each local function once. Types are those of the file."""
    from onnx import GraphProto

    graphs = [("", file.model.graph, file.model.opset_import)]
    for key, function in file.functions.items():
        graphs.append((function_name(key), GraphProto(node=function.node), function.opset_import))
    found: list[PlacedNode] = []
    for path, graph, opsets in graphs:
        found += _Graph(graph, _Surroundings(path, own_opset(opsets), file.functions, "", ChainMap(), ChainMap())).placed()
    return {each.key: each for each in found}


class _Surroundings(NamedTuple):
    """What is around a graph. path: of the graph. operator: of the node that it is in. types, constants: of the names outside."""

    path: str
    opset: int
    functions: Functions
    operator: str
    types: ChainMap[str, PartialType]
    constants: ChainMap[str, bool]


class _Graph:
    """A graph while its nodes are placed. types, constants: of its names and those around it. chains: of values on the CPU, which
    other graphs do not see.
    """

    def __init__(self, graph: GraphProto, around: _Surroundings) -> None:
        self.graph, self.path, self.around = graph, around.path, around
        own = {value.name: type_of_value(value) for value in (*graph.value_info, *graph.output, *graph.input)}
        own |= {tensor.name: type_of_tensor(tensor) for tensor in graph.initializer}
        self.types = around.types.new_child(own)
        initialized, inputs = {tensor.name for tensor in graph.initializer}, {value.name for value in graph.input}
        self.constants = around.constants.new_child(dict.fromkeys(initialized, True))
        self.replaceable, self.inputs = inputs & initialized, inputs - initialized
        self.chains: dict[str, tuple[str, ...]] = {}
        containing = next((operator_name(node) for node in graph.node if any(subgraphs(node))), "")
        self.control = around.operator or containing

    def placed(self) -> Iterator[PlacedNode]:
        """The nodes of the graph, and of those inside it, in order."""
        for index, node in enumerate(self.graph.node):
            for attribute, body in subgraphs(node):
                around = self.around._replace(
                    path=f"{place_of(self.path, node, index)}.{attribute}", operator=operator_name(node)
                )
                around = around._replace(types=self.types, constants=self.constants)
                yield from _Graph(body, around).placed()
            yield self._placed(node, index)

    def _placed(self, node: NodeProto, index: int) -> PlacedNode:
        constants = tuple(at for at, name in enumerate(node.input) if name in self.constants)
        home, chain = self._home(node), (*self._chain(node), operator_name(node))
        if home is Home.FOLDED:
            self.constants.update(dict.fromkeys(node.output, True))
        elif home is Home.CPU or (len(chain) > 1 and self._has_no_kernel(node)):  # without a kernel, it is on the CPU anyway
            self.chains |= dict.fromkeys(node.output, chain)
        elif _gives_sizes(node) and not self._has_no_kernel(node):
            self.chains |= dict.fromkeys(node.output, chain[-1:])
        shapes = [self._type(name).numbers for name in (*node.input, *node.output) if name]
        fits = all(shape is not None and 0 not in shape for shape in shapes)
        inputs = tuple(map(self._type, node.input))
        chain = chain if home is Home.CPU else ()
        return PlacedNode((self.path, index), node, home, chain, self.control, constants, inputs, fits)

    def _home(self, node: NodeProto) -> Home:
        """Where a node is computed."""
        if any(subgraphs(node)) or self.around.functions.called(node) is not None:
            return Home.DEVICE
        if self._is_folded(node):
            return Home.FOLDED
        kept = _gives_sizes(node) or self._has_no_kernel(node) or not self._chain(node)
        return Home.DEVICE if kept or not self._lies_on_cpu(node) else Home.CPU

    def _is_folded(self, node: NodeProto) -> bool:
        """Whether all that a node reads is known: constants, and of Shape the shape."""
        if node.domain not in DOMAINS or node.op_type in UNFOLDED:
            return False
        names = [name for name in node.input if name]
        if node.op_type == "Shape" and names and self._type(names[0]).numbers is not None:
            return True
        constant = all(name in self.constants for name in names) and self.replaceable.isdisjoint(names)
        return constant and (bool(names) or node.op_type == "Constant")

    def _lies_on_cpu(self, node: NodeProto) -> bool:
        """Whether each input of a node lies on the CPU, and none is read there by a kernel of DirectML in any case."""
        host = KERNELS[node.op_type].host if in_family(node) else row_of(node).host
        for at, name in enumerate(node.input):
            if self._type(name).name in STAYING:
                return False
            if name in self.inputs or (name in self.constants and self._is_small(name)):
                continue
            if name not in self.chains or at in host:
                return False
        return True

    def _is_small(self, name: str) -> bool:
        return math.prod(size for size in self._type(name).shape or () if isinstance(size, int)) <= SMALL

    def _has_no_kernel(self, node: NodeProto) -> bool:
        """Whether DirectML surely has no kernel for a node. Of operators outside the family it is taken to have one."""
        if _gives_sizes(node):
            return version(node, self.around.opset) > NEWEST_SHAPE
        if not in_family(node):
            return False
        known = self._type(node.input[0]).name if node.input else None
        return version(node, self.around.opset) not in KERNELS[node.op_type].since or (known or "float") not in DIRECTML_TYPES

    def _chain(self, node: NodeProto) -> tuple[str, ...]:
        """The chain of the first input that lies on the CPU; empty where none does."""
        return next((self.chains[name] for name in node.input if name in self.chains), ())

    def _type(self, name: str) -> PartialType:
        return self.types.get(name, NOTHING)


def _gives_sizes(node: NodeProto) -> bool:
    return node.op_type in ("Shape", "Size") and node.domain in DOMAINS


def version(node: NodeProto, opset: int) -> int:
    """The version of a node's operator: of Size as of Shape, which changes with it from opset 13 on; 0 before the first."""
    return since_of("Shape" if node.op_type == "Size" else node.op_type, opset) or 0


def parts(placed: Iterable[PlacedNode], fused: Callable[[PlacedNode], bool]) -> dict[Key, int]:
    """The number of the part that each node on the device belongs to. fused: whether a node may be fused with its neighbours.

    A node joins the parts of its inputs that are not closed, which become one. A node that is not fused closes the parts that it
    reads from.
    """
    joined = _Parts()
    made: dict[tuple[str, str], int] = {}
    found: dict[Key, int] = {}
    for each in placed:
        if each.home is Home.FOLDED:
            continue
        graph = each.key[0]
        sources = [made[graph, name] for name in each.node.input if (graph, name) in made]
        own = joined.fused(sources) if fused(each) else joined.alone(sources)
        made |= {(graph, name): own for name in each.node.output if name}
        if each.home is Home.DEVICE:
            found[each.key] = own
    return {key: joined.root(number) for key, number in found.items()}


class _Parts:
    """Parts by number; those that have become one have the same root."""

    def __init__(self) -> None:
        self._parents: list[int] = []
        self._closed: set[int] = set()

    def root(self, number: int) -> int:
        """The part that a part has become."""
        while self._parents[number] != number:
            number = self._parents[number]
        return number

    def alone(self, sources: Iterable[int]) -> int:
        """A part of a node by itself, which closes those that it reads from."""
        self._closed.update(map(self.root, sources))
        own = self._new()
        self._closed.add(own)
        return own

    def fused(self, sources: Iterable[int]) -> int:
        """The part of a node that is fused with those that it reads from."""
        roots = dict.fromkeys(root for source in sources if (root := self.root(source)) not in self._closed)
        if not roots:
            return self._new()
        first, *others = roots
        for other in others:
            self._parents[other] = first
        return first

    def _new(self) -> int:
        self._parents.append(len(self._parents))
        return self._parents[-1]


def numbered(found: Mapping[Key, int], keys: Iterable[Key]) -> dict[Key, int]:
    """The parts of these nodes, numbered from 1 in the order of the nodes."""
    numbers: dict[int, int] = {}
    return {key: numbers.setdefault(found[key], len(numbers) + 1) for key in keys if key in found}
