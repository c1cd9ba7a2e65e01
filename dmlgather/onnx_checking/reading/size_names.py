"""Symbols for the unknown sizes of a model, whether the file names them ("batch") or not."""

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
"""Some exporters give this dim_param to every unknown size, so equal names mean nothing."""

GENERATED = re.compile(r"unk__\d+")
"""Names that ONNX's shape inference makes up."""


SAMPLES = ((1,), (2, 3, 5), (97, 89, 83), (4096, 1024, 3072))
"""Numbers to try in place of symbols. For one of them, a size usually differs from a wrong declared number."""


class ModelSizes:
    """The symbols for the unknown sizes of one model. A provisional symbol may turn out to equal another size, such as
    "data[0]" before the shape of `data` is computed.
    """

    def __init__(self) -> None:
        self.sizes = Sizes()
        self.origins: dict[str, str] = {}
        """The first model input that has each symbol in its type."""
        self.makers: dict[str, SizeMaker | None] = {}
        """The first node with an output of each size, or None if a graph input already has the size."""
        self._resolutions: dict[str, KnownSize] = {}
        self._used: set[str] = set()
        self._symbol_names: set[str] = set()
        self._provisional: set[str] = set()
        self.declared: set[str] = set()
        """Provisional symbols for declared sizes, to be computed again: shape inference keeps these as they are."""

    def symbol(self, text: str, where: str = "", provisional: bool = False) -> str:
        """Make a new symbol. `where`: a suffix in case another symbol has the name `text`."""
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
        """Return a record of the present symbols."""
        return SymbolSnapshot(self, frozenset(self._symbol_names))

    def note_origin(self, shape: Iterable[Size] | None, tensor: str) -> None:
        """Record that the model input `tensor` decides the symbols in `shape`. Symbols that another input decides stay."""
        for size in shape or ():
            for symbol in self.sizes.symbols(size) - self.origins.keys():
                self.origins[symbol] = tensor

    def decided_by(self, *sizes: object) -> str | None:
        """Return the name of a model input that decides one of these sizes, or None."""
        symbols = (symbol for size in sizes for symbol in sorted(self.sizes.symbols(size)))
        return next((self.origins[symbol] for symbol in symbols if symbol in self.origins), None)

    def unknown(self, reason: str, *sizes: object) -> Unknown:
        """Return an Unknown for a value that depends on these sizes."""
        symbols = [symbol for size in sizes for symbol in self.sizes.symbols(size)]
        from_data = any(maker is not None and maker.from_data for maker in map(self.makers.get, symbols))
        return Unknown(reason, self.decided_by(*sizes), of_sizes=not from_data)

    def is_open(self, size: Size) -> bool:
        """Return True if a size is unknown: None, or a provisional symbol for which no other size was found."""
        return size is None or (size in self._provisional and size not in self._resolutions)

    def resolved(self, size: Size) -> Size:
        """Return the size that replaces a provisional symbol. Other sizes stay."""
        while isinstance(size, str) and size in self._resolutions:
            size = self._resolutions[size]
        return size

    def joined(self, size: Size, better: Size) -> Size:
        """Return the more exact of two values for a size. A number is better than a symbol, and a symbol is better than None.
        If `size` is a provisional symbol, `better` replaces it from now on.
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
        """Return True if a declared size may be right for all sizes of the model's inputs."""
        declared, inferred = self.resolved(declared), self.resolved(inferred)
        if not isinstance(declared, int) or inferred is None or declared == inferred:
            return True
        if isinstance(inferred, int):
            return False
        if any(map(self.is_open, self.sizes.symbols(inferred))):
            return self.sizes.compare(inferred, "=", declared) is not False
        return all(self._at(inferred, sample) in (None, declared) for sample in SAMPLES)

    def _at(self, size: KnownSize, sample: Sequence[int]) -> int | None:
        """Evaluate a size with these numbers for its symbols, or return None if it has no integer value."""
        try:
            return self.sizes.at(size, dict(zip(sorted(self.sizes.symbols(size)), cycle(sample), strict=False)))
        except ZeroDivisionError:
            return None


@dataclass(frozen=True)
class SymbolSnapshot:
    """The symbols that exist at one moment."""

    names: ModelSizes
    symbols: frozenset[str]

    def outside(self, type_: PartialType) -> PartialType:
        """Replace each size with a symbol newer than this snapshot by None."""
        return type_.each_size(lambda size: size if self.names.sizes.symbols(size) <= self.symbols else None)


class GraphNames:
    """The symbols for the size names in one graph. Equal names in different graphs need not mean equal sizes."""

    def __init__(self, names: ModelSizes, path: str, known_names: Iterable[str] = ()) -> None:
        self.names, self.path = names, path
        self._read = {name: name for name in known_names}

    def inside(self, path: str) -> GraphNames:
        """Return the names for a subgraph. Names of declared sizes are left out, because branches may use them differently."""
        inner = GraphNames(self.names, path)
        inner._read = {text: name for text, name in self._read.items() if name not in self.names.declared}
        return inner

    def read(self, declared: PartialType, provisional: bool = True) -> PartialType:
        """Replace the names in a type from the file by symbols. `provisional`: False for model inputs."""
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
        """Give unknown sizes new symbols such as "tensor[1]", and replace resolved symbols."""
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
    """Name unnamed input sizes, such as "data[0]", so that shape inference propagates them."""
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
