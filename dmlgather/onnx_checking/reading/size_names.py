"""Names of a model's sizes. Names in the model and unnamed sizes become symbols. Some symbols turn out to equal other sizes."""

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
"""The name that some exporters give to every unknown size."""

GENERATED = re.compile(r"unk__\d+")
"""Names that ONNX's shape inference gives to unknown sizes."""


SAMPLES = ((1,), (2, 3, 5), (97, 89, 83), (4096, 1024, 3072))
"""Sample values of symbols. If an expression does not always equal a declared number, some sample usually shows it."""


class ModelSizes:
    """The sizes of a model. A size with a text in the model gets a name in `sizes` when the text is first read."""

    def __init__(self) -> None:
        self.sizes = Sizes()
        self.origins: dict[str, str] = {}
        """The model input that decides a symbol."""
        self.makers: dict[str, SizeMaker | None] = {}
        """The first node that makes a symbol; None if an input has it."""
        self._resolutions: dict[str, KnownSize] = {}
        self._used: set[str] = set()
        self._symbol_names: set[str] = set()
        self._provisional: set[str] = set()
        self.declared: set[str] = set()
        """Provisional symbols for declared sizes. Shape inference keeps a declared size and does not infer it."""

    def symbol(self, text: str, where: str = "", provisional: bool = False) -> str:
        """Return a new symbol for a text. `where`: distinguishes it from other symbols with this text. `provisional`: True for
        an unknown size that may turn out to equal other sizes.
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
        """Return the symbols that exist now."""
        return SymbolSnapshot(self, frozenset(self._symbol_names))

    def note_origin(self, shape: Iterable[Size] | None, tensor: str) -> None:
        """Record a model input as the origin of the symbols in a shape that have no origin yet."""
        for size in shape or ():
            for symbol in self.sizes.symbols(size) - self.origins.keys():
                self.origins[symbol] = tensor

    def decided_by(self, *sizes: object) -> str | None:
        """Return a model input that decides one of the sizes, or None if no such input is known."""
        symbols = (symbol for size in sizes for symbol in sorted(self.sizes.symbols(size)))
        return next((self.origins[symbol] for symbol in symbols if symbol in self.origins), None)

    def unknown(self, reason: str, *sizes: object) -> Unknown:
        """Return an Unknown for a reason about these sizes."""
        symbols = [symbol for size in sizes for symbol in self.sizes.symbols(size)]
        from_data = any(maker is not None and maker.from_data for maker in map(self.makers.get, symbols))
        return Unknown(reason, self.decided_by(*sizes), of_sizes=not from_data)

    def is_open(self, size: Size) -> bool:
        """Return True if a size is unknown or may turn out to equal other sizes."""
        return size is None or (size in self._provisional and size not in self._resolutions)

    def resolved(self, size: Size) -> Size:
        """Return the size that `size` turned out to equal, or `size` itself."""
        while isinstance(size, str) and size in self._resolutions:
            size = self._resolutions[size]
        return size

    def joined(self, size: Size, better: Size) -> Size:
        """Return the better of two names or numbers for one size. A provisional symbol that is not returned is resolved to the
        result.
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
        """Return True if a declared size may equal an inferred size for all sizes of the inputs."""
        declared, inferred = self.resolved(declared), self.resolved(inferred)
        if not isinstance(declared, int) or inferred is None or declared == inferred:
            return True
        if isinstance(inferred, int):
            return False
        if any(map(self.is_open, self.sizes.symbols(inferred))):
            return self.sizes.compare(inferred, "=", declared) is not False
        return all(self._at(inferred, sample) in (None, declared) for sample in SAMPLES)

    def _at(self, size: KnownSize, sample: Sequence[int]) -> int | None:
        """Return the value of a size if its symbols have the numbers in `sample` in turn. None if it then has no value."""
        try:
            return self.sizes.at(size, dict(zip(sorted(self.sizes.symbols(size)), cycle(sample), strict=False)))
        except ZeroDivisionError:
            return None


@dataclass(frozen=True)
class SymbolSnapshot:
    """The symbols that existed before a graph inside a node was visited."""

    names: ModelSizes
    symbols: frozenset[str]

    def outside(self, type_: PartialType) -> PartialType:
        """Return the type with None for each size that has later symbols."""
        return type_.each_size(lambda size: size if self.names.sizes.symbols(size) <= self.symbols else None)


class GraphNames:
    """Names for the sizes in a graph. `path`: the path of the graph. `known_names`: names in the inputs' types that `names`
    already has, because the types come from calls.
    """

    def __init__(self, names: ModelSizes, path: str, known_names: Iterable[str] = ()) -> None:
        self.names, self.path = names, path
        self._read = {name: name for name in known_names}

    def inside(self, path: str) -> GraphNames:
        """Return the names for a graph inside this graph. Names of sizes of inputs mean the same sizes there. Declared names of
        results may mean other sizes, because each branch and iteration may use them differently.
        """
        inner = GraphNames(self.names, path)
        inner._read = {text: name for text, name in self._read.items() if name not in self.names.declared}
        return inner

    def read(self, declared: PartialType, provisional: bool = True) -> PartialType:
        """Return a type of the file with symbols for its names of sizes. `provisional`: True if the sizes may be computed from
        other sizes, as sizes of inputs are not. A size named "?" counts as unnamed.
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
        """Return the type with resolved sizes, and with a symbol such as "tensor[1]" for each unnamed size."""
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
    """Name the unnamed sizes in the types of a model's inputs, so that shape inference propagates them. Sizes named "?" lose
    that name.
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
