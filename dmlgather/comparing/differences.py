"""Differences between the outputs of two devices: the elements, their correct values, and likely causes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends.prepared_call import Lowering
from dmlgather.chunks import chunks
from dmlgather.comparing.hypotheses import explained
from dmlgather.comparing.mismatches import Bits, Difference, IndexRead, Mismatch, Number, Stretch, SuspectedFault
from dmlgather.comparing.reads import OperatorRun, unraveled
from dmlgather.directml import OperatorDesc
from dmlgather.plan import Layout, unravel
from dmlgather.plan.interpreter import origin_of, step_at

MOST_STRETCHES = 100_000

LOOKED_AT = 2**15
"""Size of the random samples in which causes are searched."""

Coordinates = tuple[int, ...]


class Expected(NamedTuple):
    """The correct content of an output element.

    `source`: the coordinates of the input element to copy; None if the fill value is correct. `element`: the correct element;
    None if the operator must raise an error.
    """

    source: Coordinates | None
    element: NDArray[Any] | None
    indices: tuple[IndexRead, ...]


class Tracer:
    """Computes the correct value of an output element from the operator's plan. No device runs.

    The operator is lowered for packed tensors, so that each address in the plan is a row-major number.
    """

    def __init__(
        self, desc: OperatorDesc, lower: Lowering, inputs: Sequence[NDArray[Any]], buffer: NDArray[Any] | None = None
    ) -> None:
        """Lower the operator. `buffer`: the whole buffer of InputTensor, if the caller passed a one-dimensional buffer."""
        self._desc, self._inputs = desc, inputs
        self._layouts = [Layout.packed(desc.tensor(name).sizes) for name in desc.operator.tensors]
        self._plan = lower(self._layouts)
        self.run = OperatorRun(desc, self._plan, inputs, buffer)

    def expected(self, at: Coordinates) -> Expected:
        """Return the correct content of the output element with coordinates `at`."""
        plan, (data, indices, output) = self._plan, (self._layouts[0], self._layouts[1], self._layouts[-1])

        def value_at(address: int) -> int:
            return int(self._inputs[1][unravel(address, indices.sizes)])

        origin = origin_of(plan, step_at(plan, output.address(at)), value_at)
        axes = self._desc.operator.lookup_axes(self._desc)
        read = tuple(
            IndexRead(position=unravel(index.address, indices.sizes), value=index.value, axis=axis, taken_as=index.position)
            for index, axis in zip(origin.indices, axes, strict=True)
        )
        if origin.source is not None:
            place = unravel(origin.source, data.sizes)
            return Expected(place, self._inputs[0][place].reshape(1), read)
        fill = np.frombuffer(plan.fill, self._inputs[0].dtype) if plan.fill else None
        return Expected(None, fill, read)

    def source_of(self, wrong: NDArray[Any], expected: Expected) -> Coordinates | None:
        """Return the coordinates of the only input element with the bits of a wrong output element, or None."""
        if expected.element is None or expected.element.tobytes() == wrong.tobytes():
            return None
        return _only_place(self._inputs[0], int(_patterns(wrong)[0]))


def differences(devices: Sequence[str], outputs: Sequence[NDArray[Any]], trace: Callable[[], Tracer]) -> tuple[Difference, ...]:
    """Return a `Difference` for each output that differs from the first output."""
    first, *others = outputs
    pairs = (_difference((devices[0], device), first, other, trace) for device, other in zip(devices[1:], others, strict=True))
    return tuple(difference for difference in pairs if difference is not None)


class _Pairs(NamedTuple):
    """Elements that differ between two outputs. `numbers`: the row-major numbers of the elements."""

    numbers: NDArray[Any]
    left: NDArray[Any]
    right: NDArray[Any]

    def single(self, at: int) -> _Pairs:
        return _Pairs(*(part[at : at + 1] for part in self))

    def worst(self) -> _Pairs:
        """Return the pair with the largest numeric difference. If several have it, return one with the most differing bits."""
        distance = _distance(self.left, self.right)
        most = np.flatnonzero(distance == distance.max())
        return self.single(int(most[np.argmax(_flipped(self.left[most], self.right[most]))]))

    def rank(self) -> tuple[Any, int]:
        """Return a sort key of the first pair: the numeric difference, then the number of differing bits."""
        return _distance(self.left, self.right)[0].item(), int(_flipped(self.left, self.right)[0])


class _Tally:
    """Collects, chunk by chunk, the number of differing elements, and the runs of consecutive differing elements."""

    def __init__(self) -> None:
        self.differing = self.nans = self.zeros = self.left_out = 0
        self._stretches = [np.empty((0, 2), np.int64)]
        self._listed, self._end = 0, -1

    def add(self, pairs: _Pairs) -> None:
        """Count the differing elements of a chunk. Chunks must be added in row-major order."""
        self.differing += pairs.numbers.size
        if pairs.left.dtype.kind == "f":
            self.nans += int((np.isnan(pairs.left) & np.isnan(pairs.right)).sum())
            self.zeros += int(((pairs.left == 0) & (pairs.right == 0)).sum())
        starts = np.flatnonzero(np.diff(pairs.numbers, prepend=-2) != 1)
        stretches = np.stack([pairs.numbers[starts], np.diff(starts, append=pairs.numbers.size)], axis=1)  # [first, count]
        if stretches[0, 0] == self._end:  # continues the last stretch of the previous chunk
            if not self.left_out:
                self._stretches[-1][-1, 1] += stretches[0, 1]
            stretches = stretches[1:]
        self._end = int(pairs.numbers[-1]) + 1
        room = MOST_STRETCHES - self._listed
        self.left_out += max(len(stretches) - room, 0)
        if len(stretches[:room]):
            self._stretches.append(stretches[:room])
            self._listed += len(stretches[:room])

    def stretches(self, shape: Sequence[int]) -> tuple[Stretch, ...]:
        starts, counts = np.concatenate(self._stretches).T
        places = np.stack(unraveled(starts, shape), axis=1).tolist() if shape else [()] * starts.size
        return tuple(Stretch(first=at, elements=count) for at, count in zip(places, counts.tolist(), strict=True))


def _unequal(left: NDArray[Any], right: NDArray[Any]) -> Iterator[_Pairs]:
    """Yield the differing elements of each chunk that has some."""
    start = 0
    for left_chunk, right_chunk in zip(chunks(left), chunks(right), strict=True):
        unequal = np.flatnonzero(_patterns(left_chunk) != _patterns(right_chunk))
        if unequal.size:
            yield _Pairs(start + unequal, left_chunk.reshape(-1)[unequal], right_chunk.reshape(-1)[unequal])
        start += left_chunk.size


def _difference(
    devices: tuple[str, str], left: NDArray[Any], right: NDArray[Any], trace: Callable[[], Tracer]
) -> Difference | None:
    """Compare two outputs, chunk by chunk to save memory."""
    tally = _Tally()
    first: _Pairs | None = None
    worst: _Pairs | None = None
    for pairs in _unequal(left, right):
        tally.add(pairs)
        first, candidate = first or pairs.single(0), pairs.worst()
        worst = candidate if worst is None or candidate.rank() > worst.rank() else worst
    if first is None or worst is None:
        return None
    tracer = trace()

    def mismatch(pair: _Pairs) -> Mismatch:
        at = unravel(int(pair.numbers[0]), left.shape)
        return _mismatch(devices, at, pair.left, pair.right, tracer)

    return Difference(
        devices=devices,
        differing=tally.differing,
        elements=left.size,
        nan_payloads=tally.nans,
        zero_signs=tally.zeros,
        first=mismatch(first),
        worst=mismatch(worst),
        faults=_suspected(devices, (left, right), tracer.run, tally.differing),
        stretches=tally.stretches(left.shape),
        stretches_left_out=tally.left_out,
    )


def _suspected(
    devices: tuple[str, str], outputs: tuple[NDArray[Any], NDArray[Any]], run: OperatorRun, differing: int
) -> tuple[SuspectedFault, ...]:
    """Return the likely causes of a difference, from random samples. The device with more wrong elements is suspected."""
    generator, size = np.random.default_rng(0), outputs[0].size
    if not run.inputs[0].size:
        return ()
    wrong = _numbered(outputs, np.sort(generator.choice(differing, min(differing, LOOKED_AT), replace=False)))
    sample = np.arange(size) if size <= LOOKED_AT else np.unique(generator.integers(0, size, LOOKED_AT))
    wrong_values = [_patterns(_elements_at(output, wrong)) for output in outputs]
    sample_values = [_patterns(_elements_at(output, sample)) for output in outputs]
    equal = sample_values[0] == sample_values[1]
    correct = run.at(wrong).right
    misses = [int((values != correct).sum()) for values in wrong_values]
    suspect = 0 if misses[0] > misses[1] else 1
    data = run.inputs[0]
    places = np.arange(data.size) if data.size <= LOOKED_AT else generator.integers(0, data.size, LOOKED_AT)
    hypotheses = explained(
        run, (wrong, wrong_values[suspect]), (sample[equal], sample_values[0][equal]), _patterns(_elements_at(data, places))
    )
    return tuple(
        SuspectedFault(
            device=devices[suspect],
            hypothesis=hypothesis.name,
            as_if=hypothesis.words,
            explains=hypothesis.differing,
            looked_at=wrong.size,
            differing=differing,
            contradicted=hypothesis.contradicted,
            equal_looked_at=int(equal.sum()),
        )
        for hypothesis in hypotheses
    )


def _numbered(outputs: tuple[NDArray[Any], NDArray[Any]], ranks: NDArray[Any]) -> NDArray[Any]:
    """Return the row-major numbers of some differing elements. `ranks`: [0, 2] selects the first and the third."""
    numbers, before = [], 0
    for pairs in _unequal(*outputs):
        low, high = np.searchsorted(ranks, (before, before + pairs.numbers.size))
        numbers.append(pairs.numbers[ranks[low:high] - before])
        before += pairs.numbers.size
    return np.concatenate(numbers)


def _elements_at(array: NDArray[Any], numbers: NDArray[Any]) -> NDArray[Any]:
    values: NDArray[Any] = array[tuple(unraveled(numbers, array.shape))]
    return values


def _only_place(data: NDArray[Any], pattern: int) -> Coordinates | None:
    """Return the coordinates of the only element with this bit pattern. Return None if there are several or none."""
    places, start = list[int](), 0
    for chunk in chunks(data):
        places += (start + np.flatnonzero(_patterns(chunk) == pattern)[:2]).tolist()
        if len(places) > 1:
            return None
        start += chunk.size
    return unravel(places[0], data.shape) if places else None


def _mismatch(devices: tuple[str, str], at: Coordinates, left: NDArray[Any], right: NDArray[Any], tracer: Tracer) -> Mismatch:
    expected = tracer.expected(at)
    has_nan = bool(np.isnan(left[0]) or np.isnan(right[0])) if left.dtype.kind == "f" else False
    return Mismatch(
        devices=devices,
        output=at,
        found=(_element(left), _element(right)),
        source=expected.source,
        expected=None if expected.element is None else _element(expected.element),
        indices=expected.indices,
        difference=None if has_nan else _number(_distance(left, right)[0]),
        differing_bits=int(_flipped(left, right)[0]),
        found_sources=(tracer.source_of(left, expected), tracer.source_of(right, expected)),
    )


def _patterns(array: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(array).reshape(-1).view(f"u{array.itemsize}")


def _flipped(left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.uint8]:
    flipped: NDArray[np.uint8] = np.bitwise_count(_patterns(left) ^ _patterns(right))
    return flipped


def _distance(left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    """Return the absolute difference of each pair of elements, exact for integers.

    It is 0 for two NaNs, and infinite for a NaN and a number.
    """
    if left.dtype.kind in "iu":
        wide = [array.astype(f"{array.dtype.kind}8") for array in (left, right)]
        larger, smaller = np.maximum(*wide).view(np.uint64), np.minimum(*wide).view(np.uint64)
        distance: NDArray[Any] = larger - smaller  # exact modulo 2^64: 1 - (-1) is 1 - 0xffff…ff = 2
        return distance
    with np.errstate(all="ignore"):
        floats = [array.astype(np.float64) for array in (left, right)]
        distance = np.abs(floats[0] - floats[1])
    nans = [np.isnan(array) for array in floats]
    distance[np.isnan(distance)] = 0  # two NaNs, or two equal infinities (inf - inf is NaN)
    distance[nans[0] != nans[1]] = np.inf
    return distance


def _element(array: NDArray[Any]) -> Bits:
    return Bits(value=_number(array[0]), bits=array.tobytes()[::-1].hex())


def _number(value: Any) -> Number:
    if value.dtype.kind in "iub":
        return int(value)
    if np.isnan(value):
        return "nan"
    if np.isinf(value):
        return "inf" if value > 0 else "-inf"
    return float(str(value))
