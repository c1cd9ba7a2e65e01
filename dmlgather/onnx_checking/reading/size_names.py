"""Symbols for the unknown sizes of a model: both sizes with a name in the file, such as "batch", and sizes without. If two
symbols turn out to be the same size, one is replaced by the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING

from dmlgather.onnx.problems.partial_types import PartialType, Size
from dmlgather.onnx_checking.checked_model import SizeMaker
from dmlgather.onnx_checking.sizes.expressions import KnownSize, Sizes
from dmlgather.onnx_checking.sizes.values import Unknown

if TYPE_CHECKING:
    from onnx import GraphProto

UNNAMED = "?"
"""A dim_param that some exporters give to every unknown size, so equal names mean nothing."""

GENERATED = re.compile(r"unk__\d+")
"""Names that ONNX's shape inference makes up for unknown sizes, such as "unk__3"."""


SAMPLES = ((1,), (2, 3, 5), (97, 89, 83), (4096, 1024, 3072))
"""Numbers to put in place of symbols, in turn. An expression that does not always equal a declared number usually differs from
it for one of these samples.
"""


class ModelSizes:
    """The symbols for the unknown sizes of one model. A symbol is provisional if its size may turn out to equal another size,
    such as "data[0]" before the shape of `data` is computed. `sizes`: the expressions of symbols.
    """

    def __init__(self) -> None:
        self.sizes = Sizes()
        self.origins: dict[str, str] = {}
        """For each symbol that occurs in the type of a model input: the name of that input."""
        self.makers: dict[str, SizeMaker | None] = {}
        """For each symbol: the first node with an output of that size. None if a graph input already has the size."""
        self._resolutions: dict[str, KnownSize] = {}
        self._used: set[str] = set()
        self._symbol_names: set[str] = set()
        self._provisional: set[str] = set()
        self.declared: set[str] = set()
        """Provisional symbols for the sizes that a model declares for its values. Shape inference keeps a declared size and
        does not infer it, so these sizes are computed again.
        """

    def symbol(self, text: str, where: str = "", provisional: bool = False) -> str:
        """Make a new symbol. `text`: its name in the file, or a made-up one. `where`: a suffix to distinguish it if another
        symbol has this name. `provisional`: True if the size may turn out to equal another size.
        """
        unique, number = text, 1
        while unique in self._used:
            unique = f"{text}@{where}" if number == 1 else f"{text}@{where}#{number}"
            number += 1
        self._used.add(unique)
        name = self.sizes.symbol(unique)
        self._symbol_names.add(name)
        if provisional:
            self._provisional.add(name)
        return name

    def snapshot(self) -> SymbolSnapshot:
        """Return a record of the symbols that exist at this moment."""
        return SymbolSnapshot(self, frozenset(self._symbol_names))

    def note_origin(self, shape: Iterable[Size] | None, tensor: str) -> None:
        """Record that the shape of a model input decides its symbols. Symbols that already have an origin keep it. `tensor`:
        the name of the input.
        """
        for size in shape or ():
            for symbol in self.sizes.symbols(size) - self.origins.keys():
                self.origins[symbol] = tensor

    def decided_by(self, *sizes: object) -> str | None:
        """Return the name of a model input that decides a symbol in one of these sizes. Return None if no such input is known."""
        symbols = (symbol for size in sizes for symbol in sorted(self.sizes.symbols(size)))
        return next((self.origins[symbol] for symbol in symbols if symbol in self.origins), None)

    def unknown(self, reason: str, *sizes: object) -> Unknown:
        """Make an Unknown for a value that depends on these sizes. `reason`: why it is not known."""
        symbols = [symbol for size in sizes for symbol in self.sizes.symbols(size)]
        from_data = any(maker is not None and maker.from_data for maker in map(self.makers.get, symbols))
        return Unknown(reason, self.decided_by(*sizes), of_sizes=not from_data)

    def is_open(self, size: Size) -> bool:
        """Return True if more may be learnt about a size: it is None, or a provisional symbol that has not been replaced."""
        return size is None or (size in self._provisional and size not in self._resolutions)

    def resolved(self, size: Size) -> Size:
        """Return the size that replaces a provisional symbol. Return any other size unchanged."""
        while isinstance(size, str) and size in self._resolutions:
            size = self._resolutions[size]
        return size

    def joined(self, size: Size, better: Size) -> Size:
        """Choose between two descriptions of the same size: a number is preferred, then a symbol or an expression, and None
        last. If `size` is a provisional symbol, `better` replaces it from now on.
        """
        size, better = self.resolved(size), self.resolved(better)
        if better is None or size == better or isinstance(size, int):
            return size
        if self.is_open(size):
            if isinstance(size, str) and size not in self.sizes.symbols(better):
                self._resolutions[size] = better
            return better
        return better if isinstance(better, int) else size

    def may_be(self, declared: Size, inferred: Size) -> bool:
        """Return False if a declared size contradicts an inferred one. Two numbers must be equal. A declared number contradicts
        an expression that differs from it for some sizes of the model's inputs. In all other cases, return True.
        """
        declared, inferred = self.resolved(declared), self.resolved(inferred)
        if not isinstance(declared, int) or inferred is None or declared == inferred:
            return True
        if isinstance(inferred, int):
            return False
        if any(map(self.is_open, self.sizes.symbols(inferred))):
            return self.sizes.compare(inferred, "=", declared) is not False
        return all(self._at(inferred, sample) in (None, declared) for sample in SAMPLES)

    def _at(self, size: KnownSize, sample: Sequence[int]) -> int | None:
        """Evaluate a symbolic size. `sample`: numbers for its symbols in sorted order; the numbers are repeated if there are
        more symbols. Return None if the size has no integer value, for example after a division by zero.
        """
        try:
            return self.sizes.at(size, dict(zip(sorted(self.sizes.symbols(size)), cycle(sample), strict=False)))
        except ZeroDivisionError:
            return None


@dataclass(frozen=True)
class SymbolSnapshot:
    """The symbols that existed before the nodes of a subgraph were visited. It serves to remove the symbols of the subgraph
    from types that leave it.
    """

    names: ModelSizes
    symbols: frozenset[str]

    def outside(self, type_: PartialType) -> PartialType:
        """Return a copy of a type in which each size with a later symbol becomes None."""
        return type_.each_size(lambda size: size if self.names.sizes.symbols(size) <= self.symbols else None)


class GraphNames:
    """Translates the names of sizes in one graph to symbols. Equal names in different graphs need not mean equal sizes. `path`:
    the path of the graph. `known_names`: names that are symbols already, because the types of the inputs come from the calls of
    a local function.
    """

    def __init__(self, names: ModelSizes, path: str, known_names: Iterable[str] = ()) -> None:
        self.names, self.path = names, path
        self._read = {name: name for name in known_names}

    def inside(self, path: str) -> GraphNames:
        """Return the translation for a subgraph. Names from the inputs' types mean the same sizes there. Names from other
        declared types may mean other sizes, because each branch and iteration may use them differently.
        """
        inner = GraphNames(self.names, path)
        inner._read = {text: name for text, name in self._read.items() if name not in self.names.declared}
        return inner

    def read(self, declared: PartialType, provisional: bool = True) -> PartialType:
        """Return a copy of a type from the file, with symbols in place of the names of sizes. `provisional`: False for types of
        model inputs, because their sizes are not computed from other sizes. A size named "?" becomes None.
        """
        return declared.each_size(lambda size: self._name(size, provisional) if isinstance(size, str) else size)

    def _name(self, text: str, provisional: bool) -> str | None:
        if text == UNNAMED:
            return None
        if text not in self._read:
            self._read[text] = self.names.symbol(text, self.path, provisional)
            if provisional and not GENERATED.fullmatch(text):
                self.names.declared.add(self._read[text])
        return self._read[text]

    def named(self, tensor: str, type_: PartialType) -> PartialType:
        """Give each unknown size in a type a new symbol such as "tensor[1]". Replace symbols that turned out to equal other
        sizes. `tensor`: the name of the value.
        """
        if type_.shape is None or all(isinstance(size, int) for size in type_.shape):
            return type_
        sizes = [
            self.names.symbol(f"{tensor}[{axis}]", self.path or "outer", provisional=True)
            if size is None
            else self.names.resolved(size)
            for axis, size in enumerate(type_.shape)
        ]
        return type_.sized(sizes)


def name_sizes(graph: GraphProto) -> None:
    """Give the unnamed sizes of a model's inputs names such as "data[0]", so that ONNX's shape inference propagates them.
    Remove the name "?" from all sizes.
    """
    for value in (*graph.value_info, *graph.output, *graph.input):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param == UNNAMED:
                dim.ClearField("dim_param")
    texts = {dim.dim_param for value in graph.input for dim in value.type.tensor_type.shape.dim}
    for value in graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            text = f"{value.name}[{axis}]"
            if not dim.dim_param and (not dim.HasField("dim_value") or dim.dim_value < 0) and text not in texts:
                dim.dim_param = text
