"""Likely causes of a wrong output: a table of hypotheses, and their test against the output that a device wrote.

A hypothesis states a fault, such as "indices are cut to 32 bits", and predicts the wrong values that it causes. It is reported
if the output has these values, and if this is unlikely to be chance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from math import log2, prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dmlgather.comparing.reads import (
    Numbers,
    OperatorRun,
    Prediction,
    Reads,
    Resolve,
    along,
    clamped,
    exchanged,
    filled,
    unraveled,
)
from dmlgather.directml import validate
from dmlgather.directml.validation import lower
from dmlgather.plan import Layout, packed_strides

POISON = 0xA5
"""Device number n fills its output with the byte `POISON - n`, so that unwritten elements differ."""

POISONED_DEVICES = 4
""""not written" knows the fill bytes of this many devices."""

LEAST_SHARE = 0.9
"""A hypothesis needs this share of right predictions for differing elements."""

LEAST_HITS = 2
"""A hypothesis must explain this many differing elements."""

LEAST_EVIDENCE = 20.0
"""In bits. By chance, one of a million (2**20) wrong hypotheses has 20 bits."""

MOST_REPORTED = 3
"""If more hypotheses than this explain equally many elements, none is reported."""

MOVES = (1, 2, 3, 4, 5, 6, 7, *(1 << bits for bits in range(3, 31)))
"""Distances that "output is moved" tries."""

Rule = Callable[[Reads], Iterator[tuple[str, Prediction]]]


class Hypothesis(NamedTuple):
    """A kind of fault, and the wrong values that it causes.

    `rule`: yields pairs of a text and a prediction. The text completes the words "as if". Several predictions may have the same
    text: an index that is too high by 1 may be clamped, wrap around or read the next row.
    """

    name: str
    rule: Rule


def _shifted(reads: Reads) -> Iterator[tuple[str, Prediction]]:
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
                moved_indices = [
                    index + step * (indexed == axis) for index, indexed in zip(reads.indices, reads.axes, strict=True)
                ]
                yield words, reads.elements(reads.resolved(reads.policy, moved_indices), reads.fill)


def _modulo(index: Numbers, size: int, _: int) -> Numbers:
    return index % size


def _zero(index: Numbers, size: int, wrap: int) -> Numbers:
    return np.maximum(filled(index, size, wrap), 0)


def _clipped_to_start(index: Numbers, size: int, _: int) -> Numbers:
    return np.clip(index, 0, size - 1)


def _sent_to_end(index: Numbers, size: int, _: int) -> Numbers:
    return np.where((index < 0) | (index >= size), size - 1, index)


WRONG_RULES: tuple[tuple[str, Resolve], ...] = (
    ("an index out of range were clamped", clamped),
    ("an index out of range were taken modulo the size of its dimension", _modulo),
    ("an index out of range were 0", _zero),
    ("a negative index did not count from the end", _clipped_to_start),
    ("a negative index did not count from the end", _sent_to_end),
)
"""Pairs of a text after "as if", and a wrong treatment of indices out of range."""


def _resolved(reads: Reads) -> Iterator[tuple[str, Prediction]]:
    for words, resolve in WRONG_RULES if reads.run.plan.lookups else ():
        yield words, reads.elements(reads.resolved(resolve))


def _zeroed(reads: Reads) -> Iterator[tuple[str, Prediction]]:
    if reads.run.plan.lookups:
        zero = np.zeros(1, reads.fill.dtype)
        yield "an index out of range gave 0", reads.elements(reads.resolved(filled), zero)


def _truncated(reads: Reads) -> Iterator[tuple[str, Prediction]]:
    for bits in (32, 16):
        truncated = [(index.astype(f"i{bits // 8}").astype(np.int64)) for index in reads.indices]
        if truncated:
            words = f"each index were cut to {bits} bits"
            yield words, reads.elements(reads.resolved(reads.policy, truncated), reads.fill)


def _along_another(reads: Reads) -> Iterator[tuple[str, Prediction]]:
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
                other_reads = Reads(OperatorRun(desc, plan, run.inputs), reads.numbers)
                yield words, other_reads.elements(other_reads.source, other_reads.fill)


def _exchanged_input(reads: Reads) -> Iterator[tuple[str, Prediction]]:
    sizes = reads.run.data.sizes
    for first, second in combinations([axis for axis, size in enumerate(sizes) if size > 1], 2):
        words = f"InputTensor lay in memory with dimensions {first} and {second} exchanged"
        strides = packed_strides(exchanged(sizes, first, second))
        yield words, reads.kept(along(reads.place, exchanged(strides, first, second)))
        yield f"dimensions {first} and {second} of InputTensor had each other's size", reads.kept(along(reads.place, strides))


def _exchanged_output(reads: Reads) -> Iterator[tuple[str, Prediction]]:
    sizes = reads.run.output.sizes
    strides = packed_strides(sizes)
    for first, second in combinations([axis for axis, size in enumerate(sizes) if size > 1], 2):
        place = exchanged(unraveled(reads.numbers, exchanged(sizes, first, second)), first, second)
        words = f"OutputTensor lay in memory with dimensions {first} and {second} exchanged"
        yield words, _right(Reads(reads.run, along(place, strides)))


def _moved_output(reads: Reads) -> Iterator[tuple[str, Prediction]]:
    sizes, place = reads.run.output.sizes, reads.output
    for axis, (size, stride) in enumerate(zip(sizes, packed_strides(sizes), strict=True)):
        for step in (sign * step for step in MOVES if step <= size // 2 for sign in (1, -1)):
            words = f"OutputTensor were moved by {step} along dimension {axis}"
            position = place[axis] - step
            rolled = _right(Reads(reads.run, reads.numbers + (position % size - place[axis]) * stride))
            inside = (position >= 0) & (position < size)
            yield words, rolled
            yield words, Prediction(rolled.patterns, inside, rolled.copied & inside)


def _packed(reads: Reads) -> Iterator[tuple[str, Prediction]]:
    data, output, buffer = reads.run.data, reads.run.output, reads.run.buffer
    if buffer is not None and data.element_strides != packed_strides(data.sizes):
        packed = Reads(OperatorRun(reads.run.desc, reads.run.plan, [buffer, *reads.run.inputs[1:]]), reads.numbers)
        yield "InputTensor were packed, and had no Strides", packed.elements(reads.source, reads.fill)
    if output.element_strides != packed_strides(output.sizes):
        address = along(reads.output, output.element_strides)
        right, inside = _right(reads.run.at(address)), address < prod(output.sizes)
        yield "OutputTensor were packed, and had no Strides", Prediction(right.patterns, inside, right.copied & inside)


def _unwritten(reads: Reads) -> Iterator[tuple[str, Prediction]]:
    for byte in (0, *(POISON - rank for rank in range(POISONED_DEVICES))):
        pattern = np.frombuffer(bytes([byte]) * reads.fill.itemsize, reads.fill.dtype)
        words = f"they were not written, and held {'zeros' if not byte else f'bytes {byte:#x}'} before"
        yield words, reads.elements(np.full(reads.source.shape, -1), pattern)


def _right(reads: Reads) -> Prediction:
    return reads.elements(reads.source, reads.fill)


HYPOTHESES = (
    Hypothesis("index or position is off by one", _shifted),
    Hypothesis("another rule for indices", _resolved),
    Hypothesis("0 for an index out of range", _zeroed),
    Hypothesis("indices are cut", _truncated),
    Hypothesis("another dimension", _along_another),
    Hypothesis("another layout of the input", _exchanged_input),
    Hypothesis("another layout of the output", _exchanged_output),
    Hypothesis("output is moved", _moved_output),
    Hypothesis("strides are ignored", _packed),
    Hypothesis("not written", _unwritten),
)


@dataclass(frozen=True)
class Explained:
    """A fault that explains an output.

    `words`: the fault as a text after "as if". `differing`: the number of wrong elements that the fault predicts exactly.
    `contradicted`: the number of right elements that the fault would make wrong.
    """

    name: str
    words: str
    differing: int
    contradicted: int


def explained(
    run: OperatorRun, differing: tuple[Numbers, NDArray[Any]], right: tuple[Numbers, NDArray[Any]], sample: NDArray[Any]
) -> list[Explained]:
    """Return the faults that explain a wrong output best. Return none if the evidence is weak, or too many faults explain it.

    `differing`, `right`: the row-major numbers of wrong and of right output elements, each with the bit patterns of the
    elements. `sample`: the bit patterns of some input elements.
    """
    numbers, written = (np.concatenate([wrong, correct]) for wrong, correct in zip(differing, right, strict=True))
    reads, wrong = run.at(numbers), differing[0].size
    best: dict[str, Explained] = {}
    frequencies = _Frequencies(sample)
    for hypothesis in HYPOTHESES:
        for words, prediction in hypothesis.rule(reads):
            hits = prediction.known & (prediction.patterns == written)
            hit_count, predicted = int(hits[:wrong].sum()), int(prediction.known[:wrong].sum())
            if (
                hit_count < LEAST_HITS
                or predicted < wrong / 2
                or hit_count < LEAST_SHARE * predicted
                or frequencies.evidence(written[:wrong][hits[:wrong]], prediction.copied[:wrong][hits[:wrong]]) < LEAST_EVIDENCE
            ):
                continue
            candidate = Explained(hypothesis.name, words, hit_count, int((prediction.known & ~hits)[wrong:].sum()))
            if words not in best or _cost(candidate) < _cost(best[words]):
                best[words] = candidate
    least = min(map(_cost, best.values()), default=0)
    equals = [candidate for candidate in best.values() if _cost(candidate) == least]
    return equals if len(equals) <= MOST_REPORTED else []


def _cost(candidate: Explained) -> int:
    return candidate.contradicted - candidate.differing


class _Frequencies:
    """How often each bit pattern occurs in a sample of the input. Frequent patterns are weak evidence."""

    def __init__(self, sample: NDArray[Any]) -> None:
        self._patterns, self._counts = np.unique(sample, return_counts=True)
        self._size = sample.size

    def evidence(self, hits: NDArray[Any], copied: NDArray[np.bool_]) -> float:
        """Return the evidence for a fault, in bits: minus log2 of the probability that the right predictions are chance.

        `hits`: the bit patterns that were predicted correctly. `copied`: True for each prediction that is a copy of an input
        element.

        A pattern that occurs in the input counts once. If 1 in 1,024 elements has it, it gives log2(1024) = 10 bits. For a
        constant that does not occur in the input, each hit counts with all bits: two hits of 32 bits give 2 * 32 = 64 bits.
        """
        patterns, first, counts = np.unique(hits, return_index=True, return_counts=True)
        at = np.minimum(np.searchsorted(self._patterns, patterns), max(self._patterns.size - 1, 0))
        in_sample = self._patterns[at] == patterns
        frequency = np.where(in_sample, self._counts[at], 1)
        copies = sum(log2(self._size / int(count)) for count in frequency[in_sample | copied[first]])
        return copies + 8 * hits.itemsize * int(counts[~in_sample & ~copied[first]].sum())
