"""Hypotheses about how a device is wrong, as a table; and which of them its output proves.

A hypothesis says what a device would have written in the place of what belongs there. It is named where these values were
found, and where so many distinct ones are hardly found by chance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from math import log2, prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dmlgather.comparing.reads import Found, Numbers, OperatorRun, Reads, Resolve, along, clamped, exchanged, filled, unraveled
from dmlgather.directml import validate
from dmlgather.directml.validation import lower
from dmlgather.plan import Layout, packed_strides

POISON = 0xA5
"""Every byte of the first device's output before a run, and less one on each further device, so that an element that no
device writes differs as well."""

POISONS = 4
"""Devices whose poison is looked for."""

SHARE = 0.9
"""Share of the elements looked at that a hypothesis has to explain, of those of which it says what they hold: at least half."""

LEAST = 2
"""Elements that a hypothesis has to explain."""

PROOF = 20.0
"""Bits of evidence that it takes: by chance, one hypothesis in a million has as many."""

TOLD = 3
"""Hypotheses that explain the same and are told; where more do, none is."""

Rule = Callable[[Reads], Iterator[tuple[str, Found]]]


class Hypothesis(NamedTuple):
    """A row of the table. name: in reports. rule: yields what a device would have found, and the words for it behind "as if". One
    form of words may come with several outcomes, such as at the end of a dimension.
    """

    name: str
    rule: Rule


# One function for each hypothesis.


def _shifted(reads: Reads) -> Iterator[tuple[str, Found]]:
    sizes, place = reads.run.data.sizes, reads.place
    strides = packed_strides(sizes)
    for axis, size in enumerate(sizes):
        for step, how in ((1, "higher"), (-1, "lower")) if size > 1 else ():
            words = f"the {'index' if axis in reads.axes else 'position'} along dimension {axis} were 1 {how}"
            address = along(place, strides)
            yield words, reads.kept(address + step * strides[axis])
            for moved in (np.clip(place[axis] + step, 0, size - 1), (place[axis] + step) % size):
                yield words, reads.kept(address + (moved - place[axis]) * strides[axis])
            if axis in reads.axes:
                moved_indices = [index + step * (each == axis) for index, each in zip(reads.indices, reads.axes, strict=True)]
                yield words, reads.elements(reads.resolved(reads.policy, moved_indices), reads.fill)


def _modulo(index: Numbers, size: int, _: int) -> Numbers:
    return index % size


def _first(index: Numbers, size: int, wrap: int) -> Numbers:
    return np.maximum(filled(index, size, wrap), 0)


def _held_at_start(index: Numbers, size: int, _: int) -> Numbers:
    return np.clip(index, 0, size - 1)


def _held_at_end(index: Numbers, size: int, _: int) -> Numbers:
    return np.where((index < 0) | (index >= size), size - 1, index)


OUTSIDE: tuple[tuple[str, Resolve], ...] = (
    ("an index out of range were clamped", clamped),
    ("an index out of range were taken modulo the size of its dimension", _modulo),
    ("an index out of range were 0", _first),
    ("a negative index did not count from the end", _held_at_start),
    ("a negative index did not count from the end", _held_at_end),
)
"""What a device may make of an index, and the words."""


def _resolved(reads: Reads) -> Iterator[tuple[str, Found]]:
    for words, resolve in OUTSIDE if reads.run.plan.lookups else ():
        yield words, reads.elements(reads.resolved(resolve))


def _zeroed(reads: Reads) -> Iterator[tuple[str, Found]]:
    if reads.run.plan.lookups:
        zero = np.zeros(1, reads.fill.dtype)
        yield "an index out of range gave 0", reads.elements(reads.resolved(filled), zero)


def _cut(reads: Reads) -> Iterator[tuple[str, Found]]:
    for bits in (32, 16):
        cut = [(index.astype(f"i{bits // 8}").astype(np.int64)) for index in reads.indices]
        if cut:
            yield f"each index were cut to {bits} bits", reads.elements(reads.resolved(reads.policy, cut), reads.fill)


def _along_another(reads: Reads) -> Iterator[tuple[str, Found]]:
    run, sizes = reads.run, reads.run.data.sizes
    if len(reads.axes) != 1:
        return
    (axis,), (lookup,), strides = reads.axes, run.plan.lookups, packed_strides(sizes)
    for other, size in enumerate(sizes):
        if other == axis or size < 2:
            continue
        words = f"the indices went along dimension {other} of InputTensor, not {axis}"
        place = exchanged(reads.place, axis, other)
        yield words, reads.kept(along(place, strides))
        place[axis] = np.clip(place[axis], 0, sizes[axis] - 1)
        place[other] = clamped(reads.indices[0], size, size if lookup.wrap else 0)
        yield words, reads.kept(along(place, strides))
        if hasattr(run.desc, "axis"):
            desc = run.desc.model_copy(update={"axis": other})
            if validate(desc).ok:
                layouts = {name: Layout.packed(desc.tensor(name).sizes) for name in desc.operator.tensors}
                plan = lower(desc, layouts, run.plan.out_of_bounds, run.plan.fill)
                there = Reads(OperatorRun(desc, plan, run.inputs), reads.numbers)
                yield words, there.elements(there.source, there.fill)


def _exchanged_input(reads: Reads) -> Iterator[tuple[str, Found]]:
    sizes = reads.run.data.sizes
    for one, other in combinations([axis for axis, size in enumerate(sizes) if size > 1], 2):
        words = f"InputTensor lay in memory with dimensions {one} and {other} exchanged"
        strides = packed_strides(exchanged(sizes, one, other))
        yield words, reads.kept(along(reads.place, exchanged(strides, one, other)))
        yield f"dimensions {one} and {other} of InputTensor had each other's size", reads.kept(along(reads.place, strides))


def _exchanged_output(reads: Reads) -> Iterator[tuple[str, Found]]:
    sizes = reads.run.output.sizes
    strides = packed_strides(sizes)
    for one, other in combinations([axis for axis, size in enumerate(sizes) if size > 1], 2):
        place = exchanged(unraveled(reads.numbers, exchanged(sizes, one, other)), one, other)
        found = _right(Reads(reads.run, along(place, strides)))
        yield f"OutputTensor lay in memory with dimensions {one} and {other} exchanged", found


def _packed(reads: Reads) -> Iterator[tuple[str, Found]]:
    data, output, buffer = reads.run.data, reads.run.output, reads.run.buffer
    if buffer is not None and data.element_strides != packed_strides(data.sizes):
        held = Reads(OperatorRun(reads.run.desc, reads.run.plan, [buffer, *reads.run.inputs[1:]]), reads.numbers)
        yield "InputTensor were packed, and had no Strides", held.elements(reads.source, reads.fill)
    if output.element_strides != packed_strides(output.sizes):
        address = along(reads.output, output.element_strides)
        found, inside = _right(reads.run.at(address)), address < prod(output.sizes)
        yield "OutputTensor were packed, and had no Strides", Found(found.patterns, inside, found.copied & inside)


def _unwritten(reads: Reads) -> Iterator[tuple[str, Found]]:
    for byte in (0, *(POISON - rank for rank in range(POISONS))):
        pattern = np.frombuffer(bytes([byte]) * reads.fill.itemsize, reads.fill.dtype)
        words = f"they were not written, and held {'zeros' if not byte else f'bytes {byte:#x}'} before"
        yield words, reads.elements(np.full(reads.source.shape, -1), pattern)


def _right(reads: Reads) -> Found:
    return reads.elements(reads.source, reads.fill)


HYPOTHESES = (
    Hypothesis("index or position is off by one", _shifted),
    Hypothesis("another rule for indices", _resolved),
    Hypothesis("0 for an index out of range", _zeroed),
    Hypothesis("indices are cut", _cut),
    Hypothesis("another dimension", _along_another),
    Hypothesis("another layout of the input", _exchanged_input),
    Hypothesis("another layout of the output", _exchanged_output),
    Hypothesis("strides are ignored", _packed),
    Hypothesis("not written", _unwritten),
)


# Which of them the values prove.


@dataclass(frozen=True)
class Explained:
    """A hypothesis, and how far it goes. differing: elements looked at that it explains. contradicted: of those that are right,
    how many would be wrong by it.
    """

    name: str
    words: str
    differing: int
    contradicted: int


def explained(
    run: OperatorRun, differing: tuple[Numbers, NDArray[Any]], right: tuple[Numbers, NDArray[Any]], seen: NDArray[Any]
) -> list[Explained]:
    """Return the hypotheses that explain most, one or a few that explain alike; none where nothing is proven.

    differing, right: output elements that are wrong, and that are right, by number in row-major order, and the patterns that the
    device wrote. seen: patterns of elements of InputTensor, all of them or some that chance chose.
    """
    numbers, found = (np.concatenate([one, other]) for one, other in zip(differing, right, strict=True))
    reads, wrong = run.at(numbers), differing[0].size
    best: dict[str, Explained] = {}
    commons = _Commons(seen)
    for hypothesis in HYPOTHESES:
        for words, guess in hypothesis.rule(reads):
            hits = guess.known & (guess.patterns == found)
            count, said = int(hits[:wrong].sum()), int(guess.known[:wrong].sum())
            if (
                count < LEAST
                or said < wrong / 2
                or count < SHARE * said
                or commons.evidence(found[:wrong][hits[:wrong]], guess.copied[:wrong][hits[:wrong]]) < PROOF
            ):
                continue
            one = Explained(hypothesis.name, words, count, int((guess.known & ~hits)[wrong:].sum()))
            if words not in best or _missed(one) < _missed(best[words]):
                best[words] = one
    least = min(map(_missed, best.values()), default=0)
    alike = [one for one in best.values() if _missed(one) == least]
    return alike if len(alike) <= TOLD else []


def _missed(one: Explained) -> int:
    """Return how many elements a hypothesis misses, but for a constant."""
    return one.contradicted - one.differing


class _Commons:
    """How common the elements of InputTensor are."""

    def __init__(self, seen: NDArray[Any]) -> None:
        self._patterns, self._counts = np.unique(seen, return_counts=True)
        self._size = seen.size

    def evidence(self, found: NDArray[Any], copied: NDArray[np.bool_]) -> float:
        """Return how unlikely it is that elements are found by chance, in bits. An element of InputTensor counts once, by how
        rare it is; a constant that InputTensor lacks counts wherever it is.
        """
        patterns, first, counts = np.unique(found, return_index=True, return_counts=True)
        at = np.minimum(np.searchsorted(self._patterns, patterns), max(self._patterns.size - 1, 0))
        held = self._patterns[at] == patterns
        often = np.where(held, self._counts[at], 1)
        rare = sum(log2(self._size / int(each)) for each in often[held | copied[first]])
        return rare + 8 * found.itemsize * int(counts[~held & ~copied[first]].sum())
