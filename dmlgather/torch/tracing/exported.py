"""Exported programs of PyTorch: their inputs, constants and outputs, and runs of them that can be watched."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from dmlgather.torch.tracing.nodes import is_tensor, library, number, plain
from dmlgather.wording import counted

LOOKUPS = (
    "index.Tensor",
    "index_select.default",
    "gather.default",
    "take.default",
    "take_along_dim.default",
    "embedding.default",
)
"""The operators that look up indices, and raise for bad ones."""


@dataclass(frozen=True)
class ExportedGraph:
    """A program without operators that write into their inputs.

    program: torch's ExportedProgram. inputs: the placeholders of the user's arguments, one for each leaf of their tree.
    constants: the tensors of the other placeholders, by name. outputs: the nodes that the user gets, or constants, one for each
    leaf, `results` in number; then those that a run writes into buffers and inputs.
    """

    program: Any
    inputs: tuple[Any, ...]
    constants: Mapping[str, Any]
    outputs: tuple[Any, ...]
    results: int

    @classmethod
    def of(cls, source: Any, example: Sequence[Any], dynamic_shapes: Any = None) -> ExportedGraph:
        """Of a module, a function or an ExportedProgram. TypeError for anything else, and for dynamic_shapes of a program."""
        torch = library()
        program = source
        if isinstance(program, torch.export.ExportedProgram):
            if dynamic_shapes is not None:
                raise TypeError("an ExportedProgram states its dynamic shapes: leave dynamic_shapes out")
        elif isinstance(source, type):
            raise TypeError(f"source is the class {source.__name__}, expected an object of it: {source.__name__}(…)")
        elif callable(source):
            apart = torch.utils._pytree.tree_map_only(torch.Tensor, _apart, tuple(example))
            program = torch.export.export(_module(torch, source), apart, dynamic_shapes=dynamic_shapes)
        else:
            raise TypeError(f"source is of type {type(source).__name__}, expected a module, a function or an ExportedProgram")
        if any(_mutates(node) for node in program.graph.nodes):
            lines = {node.name: node.meta.get("stack_trace") for node in program.graph.nodes}
            with warnings.catch_warnings(), _lookups_kept(torch):
                warnings.filterwarnings("ignore", ".*LeafSpec", FutureWarning)  # PyTorch warns of itself
                program = program.run_decompositions({})
            for node in program.graph.nodes:
                node.meta.setdefault("stack_trace", next((lines[name] for name in _origins(node) if lines.get(name)), None))
        return cls._read(program)

    @classmethod
    def _read(cls, program: Any) -> ExportedGraph:
        kinds = library().export.graph_signature
        nodes = {node.name: node for node in program.graph.nodes}
        user, constants = [], {}
        for spec in program.graph_signature.input_specs:
            name = getattr(spec.arg, "name", "")
            if spec.kind == kinds.InputKind.USER_INPUT:
                user.append(nodes[name])
            elif spec.kind in (kinds.InputKind.PARAMETER, kinds.InputKind.BUFFER, kinds.InputKind.CONSTANT_TENSOR):
                held = program.state_dict if spec.target in program.state_dict else program.constants
                constants[name] = held[spec.target]
            else:
                raise TypeError(f"{name} is a {spec.kind.name}, but only tensors are read")
        (returned,) = nodes["output"].args
        pairs = list(zip(program.graph_signature.output_specs, returned, strict=True))
        own = [node for spec, node in pairs if spec.kind == kinds.OutputKind.USER_OUTPUT]
        others = [node for spec, node in pairs if spec.kind != kinds.OutputKind.USER_OUTPUT]
        return cls(program, tuple(user), constants, (*own, *others), len(own))

    @property
    def nodes(self) -> Iterator[Any]:
        """Those that compute, in order."""
        return (node for node in self.program.graph.nodes if node.op not in ("placeholder", "output"))

    def leaves(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The leaves of the user's arguments. TypeError for another tree than was exported, and for what is no array."""
        pytree = library().utils._pytree
        leaves, tree = pytree.tree_flatten((tuple(args), dict(kwargs)))
        expected = self.program.call_spec.in_spec
        if len(leaves) != len(self.inputs) or (expected is not None and tree != expected):
            shown = (" ".join(str(each).split()) for each in (tree, expected))
            raise TypeError("the arguments form {}, but {} was exported: export the program again for others".format(*shown))
        for node, leaf in zip(self.inputs, leaves, strict=True):
            if is_tensor(node.meta.get("val")) and not hasattr(leaf, "shape"):
                raise TypeError(f"{node.name} is of type {type(leaf).__name__}, expected a tensor, or another array")
        return list(leaves)

    def returned(self, leaves: Sequence[Any]) -> Any:
        """What the program returns, of its leaves."""
        return library().utils._pytree.tree_unflatten(leaves, self.program.call_spec.out_spec)

    def number_of(self, node: Any, leaves: Sequence[Any]) -> Any:
        """What a program returns that is no tensor: a size, or a constant."""
        if not hasattr(node, "meta"):
            return node
        return plain(node, self.solved(leaves))

    def values(self, example: Sequence[Any]) -> dict[Any, int]:
        """The values of the symbols for arguments as `example`; as exported where there are none.

        TypeError for tensors of another type; ValueError for sizes that do not fit the program, and where no example is known.
        """
        if not example:
            if self.program.example_inputs is None:
                raise ValueError("the program holds no example: pass one, such as trace(program, *arguments)")
            args, kwargs = self.program.example_inputs
        else:
            args, kwargs = example, {}
        leaves = self.leaves(args, kwargs)
        for node, leaf in zip(self.inputs, leaves, strict=True):
            if is_tensor(leaf) and is_tensor(node.meta.get("val")) and leaf.dtype != node.meta["val"].dtype:
                raise TypeError(f"{node.name} is {leaf.dtype}, but the program was exported for {node.meta['val'].dtype}")
        return self.solved(leaves)

    def solved(self, leaves: Sequence[Any]) -> dict[Any, int]:
        """The values of the symbols for leaves of these sizes. ValueError for sizes that do not fit the program."""
        found: dict[Any, int] = {}
        pairs = [(node, leaf) for node, leaf in zip(self.inputs, leaves, strict=True) if hasattr(leaf, "shape")]
        for node, leaf in pairs:
            rank = len(node.meta["val"].shape)
            if len(leaf.shape) != rank:
                text = f"{node.name} has {counted(len(leaf.shape), 'dimension')}, but the program was exported for {rank}"
                raise ValueError(text)
        sizes = [
            (node, axis, size, int(given))
            for node, leaf in pairs
            for axis, (size, given) in enumerate(zip(node.meta["val"].shape, leaf.shape, strict=True))
        ]
        for _, _, size, given in sizes:
            if not isinstance(size, int):
                _solve(size.node.expr, given, found)
        for node, axis, size, given in sizes:
            expected = number(size, found)
            if expected != given:
                raise ValueError(f"{node.name} has size {given} in dimension {axis}, but the program was exported for {expected}")
        return found


def _solve(expression: Any, given: int, found: dict[Any, int]) -> None:
    """Note the value of the symbol of an expression a · s + b."""
    if len(expression.free_symbols) != 1:
        return
    (symbol,) = expression.free_symbols
    constant = expression.subs(symbol, 0)
    factor = expression.subs(symbol, 1) - constant
    if symbol not in found and factor != 0 and (given - constant) % factor == 0:
        found[symbol] = int((given - constant) / factor)


def _apart(tensor: Any) -> Any:
    """A copy with the layout of a tensor, in memory of its own.

    PyTorch's exporter takes tensors that share memory, also with a parameter or a buffer of the module, for one input.
    """
    return deepcopy(tensor.detach()).requires_grad_(tensor.requires_grad)


def _module(torch: Any, source: Callable[..., Any]) -> Any:
    if isinstance(source, torch.nn.Module):
        return source
    module = torch.nn.Module()
    module.forward = source
    try:
        inspect.signature(source)
    except ValueError:  # of a function written in C
        module.forward = lambda *args: source(*args)  # noqa: PLW0108 - which has a signature
    return module


@contextmanager
def _lookups_kept(torch: Any) -> Iterator[None]:
    """While PyTorch rewrites a program, it drops no node that raises for a bad index, though nothing reads its result."""
    lasting = torch.fx.node._side_effectful_functions
    names = (name.split(".") for name in LOOKUPS)
    added = {getattr(getattr(torch.ops.aten, name), overload) for name, overload in names} - lasting
    lasting |= added
    try:
        yield
    finally:
        lasting -= added


def _mutates(node: Any) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and bool(schema.is_mutable)


def _origins(node: Any) -> Iterator[str]:
    """The names of the nodes that a node was made of."""
    sources = list(node.meta.get("from_node") or ())
    while sources:
        source = sources.pop(0)
        yield source.name
        sources += source.from_node or ()


def ranges(program: Any) -> Iterator[tuple[Any, int, int | None]]:
    """The symbols of a program, with the smallest and the largest value; None where there is no largest."""
    for symbol, known in program.range_constraints.items():
        low, high = (int(bound) if bound.is_Integer else None for bound in (known.lower, known.upper))
        yield symbol, max(low or 0, 0), high
