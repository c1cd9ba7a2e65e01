"""What the sizes of a model are called: a symbol for each name in the model and for each size without one, and which sizes turned
out to follow from others.
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
"""What some exporters call every size that they do not know."""

GENERATED = re.compile(r"unk__\d+")
"""The names that ONNX's shape inference gives to sizes that it does not know."""


SAMPLES = ((1,), (2, 3, 5), (97, 89, 83), (4096, 1024, 3072))
"""Values of symbols, of which one shows that a number is not what an expression gives for all sizes."""


class ModelSizes:
    """The names of a model's sizes. A name is one of `sizes`; a text, as a file has it, is read as a name once."""

    def __init__(self) -> None:
        self.sizes = Sizes()
        self.origins: dict[str, str] = {}
        """The input of the model that decides a symbol."""
        self.makers: dict[str, SizeMaker | None] = {}
        """The first node that gives a symbol; None where an input states it."""
        self._follows: dict[str, KnownSize] = {}
        self._taken: set[str] = set()
        self._symbols_so_far: set[str] = set()
        self._open: set[str] = set()
        self.stated: set[str] = set()
        """Open symbols that the model has, so that shape inference asked no further."""

    def symbol(self, text: str, where: str = "", found: bool = False) -> str:
        """A new symbol. where: what tells it from others of that text. found: whether it only stands for what is not known, so
        that it may turn out to follow from other sizes.
        """
        own, number = text, 1
        while own in self._taken:
            own = f"{text}@{where}" if number == 1 else f"{text}@{where}#{number}"
            number += 1
        self._taken.add(own)
        name = self.sizes.symbol(own)
        self._symbols_so_far.add(name)
        if found:
            self._open.add(name)
        return name

    def snapshot(self) -> SymbolsSoFar:
        """The symbols that there are now."""
        return SymbolsSoFar(self, frozenset(self._symbols_so_far))

    def note_origin(self, shape: Iterable[Size] | None, tensor: str) -> None:
        """Keep that an input of the model decides the sizes in a shape of which no other one was said to."""
        for size in shape or ():
            if isinstance(size, str):
                for symbol in self.sizes.symbols(size) - self.origins.keys():
                    self.origins[symbol] = tensor

    def decided_by(self, *sizes: object) -> str | None:
        """An input of the model that decides one of the sizes."""
        symbols = (symbol for size in sizes if isinstance(size, str) for symbol in sorted(self.sizes.symbols(size)))
        return next((self.origins[symbol] for symbol in symbols if symbol in self.origins), None)

    def unknown(self, reason: str, *sizes: object) -> Unknown:
        """Return what is not known for a reason that these sizes have."""
        symbols = [symbol for size in sizes if isinstance(size, str) for symbol in self.sizes.symbols(size)]
        from_data = any(maker is not None and maker.from_data for maker in map(self.makers.get, symbols))
        return Unknown(reason, self.decided_by(*sizes), of_sizes=not from_data)

    def is_open(self, size: Size) -> bool:
        """Whether a size may turn out to follow from others."""
        return size is None or (size in self._open and size not in self._follows)

    def resolved(self, size: Size) -> Size:
        """The size that this one turned out to be, or itself."""
        while isinstance(size, str) and size in self._follows:
            size = self._follows[size]
        return size

    def joined(self, known: Size, better: Size) -> Size:
        """What is known of a size by two descriptions of it. A symbol that stood for what was not known is that from then on."""
        known, better = self.resolved(known), self.resolved(better)
        if better is None or known == better or isinstance(known, int):
            return known
        if self.is_open(known):
            if isinstance(known, str) and known not in self._symbols(better):
                self._follows[known] = better
            return better
        return better if isinstance(better, int) else known

    def may_be(self, stated: Size, follows: Size) -> bool:
        """Whether a stated size may be one that follows, whatever the sizes of the inputs are."""
        stated, follows = self.resolved(stated), self.resolved(follows)
        if not isinstance(stated, int) or follows is None or stated == follows:
            return True
        if isinstance(follows, int):
            return False
        if any(map(self.is_open, self._symbols(follows))):
            return self.sizes.compare(follows, "=", stated) is not False
        return all(self._at(follows, sample) in (None, stated) for sample in SAMPLES)

    def _at(self, size: KnownSize, sample: Sequence[int]) -> int | None:
        """The value of a size where its symbols are the numbers of a sample, in turn; None where it has none."""
        try:
            return self.sizes.at(size, dict(zip(sorted(self._symbols(size)), cycle(sample), strict=False)))
        except ZeroDivisionError:
            return None

    def _symbols(self, size: KnownSize) -> frozenset[str]:
        return self.sizes.symbols(size) if isinstance(size, str) else frozenset()


@dataclass(frozen=True)
class SymbolsSoFar:
    """Symbols before a graph inside a node is visited."""

    names: ModelSizes
    symbols: frozenset[str]

    def outside(self, known: PartialType) -> PartialType:
        """The type without the sizes that have symbols of the graph inside."""
        return known.each_size(lambda size: size if self._is_outside(size) else None)

    def _is_outside(self, size: Size) -> bool:
        return not isinstance(size, str) or self.names.sizes.symbols(size) <= self.symbols


class GraphNames:
    """How the sizes in a graph are read.

    path: of the graph. given: the names in its inputs' types that are names already, because its types come from calls.
    """

    def __init__(self, names: ModelSizes, path: str, given: Iterable[str] = ()) -> None:
        self.names, self.path = names, path
        self._read = {name: name for name in given}

    def inside(self, path: str) -> GraphNames:
        """How the sizes in a graph inside it are read when it runs. The names of inputs' sizes are the same there; those that are
        only stated of results may be used again by each branch and iteration for its own.
        """
        inner = GraphNames(self.names, path)
        inner._read = {text: name for text, name in self._read.items() if name not in self.names.stated}
        return inner

    def read(self, declared: PartialType, found: bool = True) -> PartialType:
        """A type as the file has it, with names for its sizes. found: whether it is not the type of an input, so that its sizes
        follow from others. A size that is called "?" counts as unnamed.
        """
        return declared.each_size(lambda size: self._name(size, found) if isinstance(size, str) else size)

    def _name(self, text: str, found: bool) -> str | None:
        if text == UNNAMED:
            return None
        if text not in self._read:
            self._read[text] = self.names.symbol(text, self.path, found)
            if found and not GENERATED.fullmatch(text):
                self.names.stated.add(self._read[text])
        return self._read[text]

    def named(self, tensor: str, known: PartialType) -> PartialType:
        """The type with a symbol for each size that has no name, "tensor[1]", and with what sizes turned out to be."""
        if known.shape is None or all(isinstance(size, int) for size in known.shape):
            return known
        sizes = [
            self.names.symbol(f"{tensor}[{axis}]", self.path or "outer", found=True)
            if size is None
            else self.names.resolved(size)
            for axis, size in enumerate(known.shape)
        ]
        return known.sized(sizes)


def name_sizes(graph: GraphProto) -> None:
    """Name the sizes without a name in the types of a model's inputs, so that shape inference knows where they are found again;
    "?" is the name of none.
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
