"""Where onnxruntime with its DirectML provider runs nodes: constant folding, CPU on purpose, or a part of the device's graph.

The nodes of a graph are placed in order. The outputs of Shape and Size are on the CPU. A node is placed on the CPU if all its
inputs are there. Sources: `SOURCES["ORT-FALLBACK"]`, and for the parts `SOURCES["ORT-PARTITION"]`.
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
from dmlgather.onnx_checking.following.operators import entry_of
from dmlgather.onnx_checking.provider.kernels import DIRECTML_TYPES, KERNELS, NEWEST_SHAPE, SMALL, STAYING
from dmlgather.onnx_checking.reading.local_functions import Functions, function_name

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto

    from dmlgather.onnx_checking.reading.file import ModelFile


UNFOLDED = ("Compress", "Dropout", "NonZero")
"""Operators that onnxruntime does not fold, even if all inputs are constant."""


class Home(enum.Enum):
    """Where onnxruntime computes a node."""

    DEVICE = enum.auto()
    """On DirectML, if it has a kernel."""
    CPU = enum.auto()
    """On the CPU on purpose, although DirectML may have a kernel."""
    FOLDED = enum.auto()
    """In constant folding, before other nodes are placed."""


Key = tuple[str, int]
"""The path of a node's graph, and the node's position there."""


@dataclass(frozen=True, slots=True)
class PlacedNode:
    """A node, and where onnxruntime runs it.
    `chain`: for a node on the CPU, the operators from a Shape or Size up to this node, such as ("Shape", "Gather").
    `control`: the operator with a subgraph, such as "If", that prevents fusion; or empty.
    `fits`: True if all sizes of inputs and outputs are numbers other than 0. Otherwise the node cannot be fused.
    """

    key: Key
    proto: NodeProto
    home: Home
    chain: tuple[str, ...]
    control: str
    constants: tuple[int, ...]
    inputs: tuple[PartialType, ...]
    fits: bool

    @property
    def may_be_fused(self) -> bool:
        """Return True if nothing is known to prevent fusion."""
        return self.fits and not self.control and self.home is Home.DEVICE and not _gives_sizes(self.proto)


def place(file: ModelFile) -> dict[Key, PlacedNode]:
    """Find where onnxruntime runs each node of the main graph, then of each local function."""
    from onnx import GraphProto

    graphs = [("", file.model.graph, file.model.opset_import)]
    for key, function in file.functions.items():
        graphs.append((function_name(key), GraphProto(node=function.node), function.opset_import))
    nodes: list[PlacedNode] = []
    for path, graph, opsets in graphs:
        nodes += _Graph(graph, _Surroundings(path, own_opset(opsets), file.functions, "", ChainMap(), ChainMap())).placed()
    return {node.key: node for node in nodes}


class _Surroundings(NamedTuple):
    """The facts that a graph inherits from outer graphs. `operator`: the operator that contains the graph, such as "If"."""

    path: str
    opset: int
    functions: Functions
    operator: str
    types: ChainMap[str, PartialType]
    constants: ChainMap[str, bool]


class _Graph:
    """A graph during placement. `chains`: for each value on the CPU, the operators from a Shape or Size up to it."""

    def __init__(self, graph: GraphProto, around: _Surroundings) -> None:
        self.graph, self.path, self.around = graph, around.path, around
        own_types = {value.name: type_of_value(value) for value in (*graph.value_info, *graph.output, *graph.input)}
        own_types |= {tensor.name: type_of_tensor(tensor) for tensor in graph.initializer}
        self.types = around.types.new_child(own_types)
        initialized, inputs = {tensor.name for tensor in graph.initializer}, {value.name for value in graph.input}
        self.constants = around.constants.new_child(dict.fromkeys(initialized, True))
        self.replaceable, self.inputs = inputs & initialized, inputs - initialized
        self.chains: dict[str, tuple[str, ...]] = {}
        containing = next((operator_name(node) for node in graph.node if any(subgraphs(node))), "")
        self.control = around.operator or containing

    def placed(self) -> Iterator[PlacedNode]:
        """Yield the nodes of the graph and its subgraphs, in order."""
        for index, node in enumerate(self.graph.node):
            for attribute, body in subgraphs(node):
                path, operator = f"{place_of(self.path, node, index)}.{attribute}", operator_name(node)
                around = self.around._replace(path=path, operator=operator, types=self.types, constants=self.constants)
                yield from _Graph(body, around).placed()
            yield self._placed(node, index)

    def _placed(self, node: NodeProto, index: int) -> PlacedNode:
        constants = tuple(at for at, name in enumerate(node.input) if name in self.constants)
        home, chain = self._home(node), (*self._chain(node), operator_name(node))
        if home is Home.FOLDED:
            self.constants.update(dict.fromkeys(node.output, True))
        elif home is Home.CPU or (len(chain) > 1 and self._has_no_kernel(node)):  # a node without a kernel is on the CPU anyway
            self.chains |= dict.fromkeys(node.output, chain)
        elif _gives_sizes(node) and not self._has_no_kernel(node):
            self.chains |= dict.fromkeys(node.output, chain[-1:])
        shapes = [self._type(name).numbers for name in (*node.input, *node.output) if name]
        fits = all(shape is not None and 0 not in shape for shape in shapes)
        inputs = tuple(map(self._type, node.input))
        chain = chain if home is Home.CPU else ()
        return PlacedNode((self.path, index), node, home, chain, self.control, constants, inputs, fits)

    def _home(self, node: NodeProto) -> Home:
        if any(subgraphs(node)) or self.around.functions.called(node) is not None:
            return Home.DEVICE
        if self._is_folded(node):
            return Home.FOLDED
        kept = _gives_sizes(node) or self._has_no_kernel(node) or not self._chain(node)
        return Home.DEVICE if kept or not self._lies_on_cpu(node) else Home.CPU

    def _is_folded(self, node: NodeProto) -> bool:
        """Return True if onnxruntime folds the node: it reads only constants, or is a Shape of a tensor with known sizes."""
        if node.domain not in DOMAINS or node.op_type in UNFOLDED:
            return False
        names = [name for name in node.input if name]
        if node.op_type == "Shape" and names and self._type(names[0]).numbers is not None:
            return True
        constant = all(name in self.constants for name in names) and self.replaceable.isdisjoint(names)
        return constant and (bool(names) or node.op_type == "Constant")

    def _lies_on_cpu(self, node: NodeProto) -> bool:
        """Return True if all inputs are on the CPU.

        Return False if DirectML's kernel reads one of them on the CPU, unless it is a small constant or an input of the graph.
        """
        host = KERNELS[node.op_type].host if in_family(node) else entry_of(node).host
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
        """Return True if DirectML certainly has no kernel. This is known only for gathers, slices, Shape and Size."""
        if _gives_sizes(node):
            return version(node, self.around.opset) > NEWEST_SHAPE
        if not in_family(node):
            return False
        data_type = self._type(node.input[0]).name if node.input else None
        return version(node, self.around.opset) not in KERNELS[node.op_type].since or (data_type or "float") not in DIRECTML_TYPES

    def _chain(self, node: NodeProto) -> tuple[str, ...]:
        """Return the entry in `chains` of the first input that has one, or ()."""
        return next((self.chains[name] for name in node.input if name in self.chains), ())

    def _type(self, name: str) -> PartialType:
        return self.types.get(name, NOTHING)


def _gives_sizes(node: NodeProto) -> bool:
    return node.op_type in ("Shape", "Size") and node.domain in DOMAINS


def version(node: NodeProto, opset: int) -> int:
    """Return the version of a node's operator, or 0.

    For Size, return the version of Shape: from opset 19 on, both have the same versions.
    """
    return since_of("Shape" if node.op_type == "Size" else node.op_type, opset) or 0


def parts(placed: Iterable[PlacedNode], fused: Callable[[PlacedNode], bool]) -> dict[Key, int]:
    """Split the nodes on the device into partitions, as onnxruntime does. Return the partition of each node.
    A fused node joins the open partitions that it reads from. These become one partition.
    Any other node is a partition of its own. It closes the partitions that it reads from: no later node can join them.
    """
    disjoint = _Parts()
    producers: dict[tuple[str, str], int] = {}
    part_of: dict[Key, int] = {}
    for node in placed:
        if node.home is Home.FOLDED:
            continue
        graph = node.key[0]
        sources = [producers[graph, name] for name in node.proto.input if (graph, name) in producers]
        part = disjoint.fused(sources) if fused(node) else disjoint.alone(sources)
        producers |= {(graph, name): part for name in node.proto.output if name}
        if node.home is Home.DEVICE:
            part_of[node.key] = part
    return {key: disjoint.root(number) for key, number in part_of.items()}


class _Parts:
    """The partitions of a graph as disjoint sets (union-find). Reports call a partition a part."""

    def __init__(self) -> None:
        self._parents: list[int] = []
        self._closed: set[int] = set()

    def root(self, number: int) -> int:
        """Return the number of the merged partition that contains this one."""
        while self._parents[number] != number:
            number = self._parents[number]
        return number

    def alone(self, sources: Iterable[int]) -> int:
        """Return a new, closed partition for one node. Close the partitions in `sources`, too."""
        self._closed.update(map(self.root, sources))
        own = self._new()
        self._closed.add(own)
        return own

    def fused(self, sources: Iterable[int]) -> int:
        """Return the partition for a fused node: the open partitions in `sources`, merged, or else a new partition."""
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


def numbered(part_of: Mapping[Key, int], keys: Iterable[Key]) -> dict[Key, int]:
    """Return the partitions of these nodes, renumbered from 1 in the order of `keys`."""
    numbers: dict[int, int] = {}
    return {key: numbers.setdefault(part_of[key], len(numbers) + 1) for key in keys if key in part_of}
