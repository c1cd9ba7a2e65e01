"""Which elements two devices wrote differently, where they come from, and what may be the cause."""

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

LISTED = 100_000
"""Stretches of elements that differ which are listed."""

LOOKED_AT = 2**15
"""Elements that differ, and others, which hypotheses about their cause have to explain; and elements of InputTensor that say how
common a value is.
"""

Coordinates = tuple[int, ...]


class Expected(NamedTuple):
    """What belongs at an output element: coordinates in InputTensor (None: the fill value), the element, the indices read."""

    source: Coordinates | None
    element: NDArray[Any] | None
    indices: tuple[IndexRead, ...]


class Tracer:
    """Finds for any output element of one operator run what belongs there.

    It follows the plan over packed tensors, where an offset and coordinates determine each other, and executes nothing.
    """

    def __init__(
        self, desc: OperatorDesc, lower: Lowering, inputs: Sequence[NDArray[Any]], buffer: NDArray[Any] | None = None
    ) -> None:
        """inputs: the logical tensors, of shape Sizes and any strides, in the descriptor's order. buffer: InputTensor as it lies
        in memory, [count], where it was given as a buffer.
        """
        self._desc, self._inputs = desc, inputs
        self._layouts = [Layout.packed(desc.tensor(name).sizes) for name in desc.operator.tensors]
        self._plan = lower(self._layouts)
        self.run = OperatorRun(desc, self._plan, inputs, buffer)

    def expected(self, at: Coordinates) -> Expected:
        """What belongs at the output's coordinates `at`."""
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

    def source_of(self, found: NDArray[Any], expected: Expected) -> Coordinates | None:
        """Coordinates in InputTensor of the only element that has the bits of a wrong one. found: shape [1]."""
        if expected.element is None or expected.element.tobytes() == found.tobytes():
            return None
        return _only_place(self._inputs[0], int(_patterns(found)[0]))


def differences(devices: Sequence[str], outputs: Sequence[NDArray[Any]], trace: Callable[[], Tracer]) -> tuple[Difference, ...]:
    """How each further device's output differs from the first one's, bit for bit.

    outputs: one per device, of shape Sizes and the tensor's type. trace: called for each device whose output differs.
    """
    first, *others = outputs
    found = (_difference((devices[0], device), first, other, trace) for device, other in zip(devices[1:], others, strict=True))
    return tuple(difference for difference in found if difference is not None)


class _Pairs(NamedTuple):
    """Elements that differ, at least one: their numbers in row-major order, and what each device wrote; all [pairs]."""

    numbers: NDArray[Any]
    left: NDArray[Any]
    right: NDArray[Any]

    def one(self, at: int) -> _Pairs:
        """The pair at a position."""
        return _Pairs(*(part[at : at + 1] for part in self))

    def worst(self) -> _Pairs:
        """The worst pair, as `Difference.worst` orders them."""
        apart = _apart(self.left, self.right)
        most = np.flatnonzero(apart == apart.max())
        return self.one(int(most[np.argmax(_flipped(self.left[most], self.right[most]))]))

    def rank(self) -> tuple[Any, int]:
        """How bad the first pair is: of two, the larger is worse."""
        return _apart(self.left, self.right)[0].item(), int(_flipped(self.left, self.right)[0])


class _Tally:
    """Counts of elements that differ, and where they stand."""

    def __init__(self) -> None:
        self.differing = self.nans = self.zeros = self.left_out = 0
        self._stretches = [np.empty((0, 2), np.int64)]
        self._listed, self._end = 0, -1

    def add(self, pairs: _Pairs) -> None:
        """Count further elements that differ."""
        self.differing += pairs.numbers.size
        if pairs.left.dtype.kind == "f":
            self.nans += int((np.isnan(pairs.left) & np.isnan(pairs.right)).sum())
            self.zeros += int(((pairs.left == 0) & (pairs.right == 0)).sum())
        starts = np.flatnonzero(np.diff(pairs.numbers, prepend=-2) != 1)
        found = np.stack([pairs.numbers[starts], np.diff(starts, append=pairs.numbers.size)], axis=1)
        if found[0, 0] == self._end:
            if not self.left_out:
                self._stretches[-1][-1, 1] += found[0, 1]
            found = found[1:]
        self._end = int(pairs.numbers[-1]) + 1
        room = LISTED - self._listed
        self.left_out += max(len(found) - room, 0)
        if len(found[:room]):
            self._stretches.append(found[:room])
            self._listed += len(found[:room])

    def stretches(self, shape: Sequence[int]) -> tuple[Stretch, ...]:
        """The stretches that are listed. shape: of the output."""
        starts, counts = np.concatenate(self._stretches).T
        places = np.stack(unraveled(starts, shape), axis=1).tolist() if shape else [()] * starts.size
        return tuple(Stretch(first=at, elements=count) for at, count in zip(places, counts.tolist(), strict=True))


def _unequal(left: NDArray[Any], right: NDArray[Any]) -> Iterator[_Pairs]:
    """The elements that differ, chunk by chunk, where there are any."""
    start = 0
    for one, other in zip(chunks(left), chunks(right), strict=True):
        unequal = np.flatnonzero(_patterns(one) != _patterns(other))
        if unequal.size:
            yield _Pairs(start + unequal, one.reshape(-1)[unequal], other.reshape(-1)[unequal])
        start += one.size


def _difference(
    devices: tuple[str, str], left: NDArray[Any], right: NDArray[Any], trace: Callable[[], Tracer]
) -> Difference | None:
    """How `right` differs from `left`; None where it does not. Chunk by chunk, so that it takes little memory."""
    tally = _Tally()
    first: _Pairs | None = None
    worst: _Pairs | None = None
    for pairs in _unequal(left, right):
        tally.add(pairs)
        first, found = first or pairs.one(0), pairs.worst()
        worst = found if worst is None or found.rank() > worst.rank() else worst
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
    """What may be wrong, as far as elements that chance chooses prove it. differing: how many elements differ."""
    chance, size = np.random.default_rng(0), outputs[0].size
    if not run.inputs[0].size:
        return ()
    wrong = _numbered(outputs, np.sort(chance.choice(differing, min(differing, LOOKED_AT), replace=False)))
    some = np.arange(size) if size <= LOOKED_AT else np.unique(chance.integers(0, size, LOOKED_AT))
    values = [tuple(_patterns(_at(output, numbers)) for output in outputs) for numbers in (wrong, some)]
    equal = values[1][0] == values[1][1]
    belongs = run.at(wrong).right
    misses = [int((each != belongs).sum()) for each in values[0]]
    which = 0 if misses[0] > misses[1] else 1
    data = run.inputs[0]
    places = np.arange(data.size) if data.size <= LOOKED_AT else chance.integers(0, data.size, LOOKED_AT)
    found = explained(run, (wrong, values[0][which]), (some[equal], values[1][0][equal]), _patterns(_at(data, places)))
    return tuple(
        SuspectedFault(
            device=devices[which],
            hypothesis=each.name,
            as_if=each.words,
            explains=each.differing,
            looked_at=wrong.size,
            differing=differing,
            contradicted=each.contradicted,
            equal_looked_at=int(equal.sum()),
        )
        for each in found
    )


def _numbered(outputs: tuple[NDArray[Any], NDArray[Any]], ranks: NDArray[Any]) -> NDArray[Any]:
    """The numbers of elements that differ, by their rising ranks among all that do."""
    found, before = [], 0
    for pairs in _unequal(*outputs):
        low, high = np.searchsorted(ranks, (before, before + pairs.numbers.size))
        found.append(pairs.numbers[ranks[low:high] - before])
        before += pairs.numbers.size
    return np.concatenate(found)


def _at(array: NDArray[Any], numbers: NDArray[Any]) -> NDArray[Any]:
    """Elements by their numbers in row-major order, shape [numbers]."""
    found: NDArray[Any] = array[tuple(unraveled(numbers, array.shape))]
    return found


def _only_place(data: NDArray[Any], pattern: int) -> Coordinates | None:
    """The coordinates of the only element with these bits; None where none has, or several have."""
    places, start = list[int](), 0
    for chunk in chunks(data):
        places += (start + np.flatnonzero(_patterns(chunk) == pattern)[:2]).tolist()
        if len(places) > 1:
            return None
        start += chunk.size
    return unravel(places[0], data.shape) if places else None


def _mismatch(devices: tuple[str, str], at: Coordinates, left: NDArray[Any], right: NDArray[Any], tracer: Tracer) -> Mismatch:
    expected = tracer.expected(at)
    unlike = bool(np.isnan(left[0]) or np.isnan(right[0])) if left.dtype.kind == "f" else False
    return Mismatch(
        devices=devices,
        output=at,
        found=(_element(left), _element(right)),
        source=expected.source,
        expected=None if expected.element is None else _element(expected.element),
        indices=expected.indices,
        difference=None if unlike else _number(_apart(left, right)[0]),
        differing_bits=int(_flipped(left, right)[0]),
        found_sources=(tracer.source_of(left, expected), tracer.source_of(right, expected)),
    )


def _patterns(array: NDArray[Any]) -> NDArray[Any]:
    """The elements as unsigned integers of the same bits, shape [elements]."""
    return np.ascontiguousarray(array).reshape(-1).view(f"u{array.itemsize}")


def _flipped(left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.uint8]:
    """Number of differing bits of each pair."""
    flipped: NDArray[np.uint8] = np.bitwise_count(_patterns(left) ^ _patterns(right))
    return flipped


def _apart(left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    """The absolute difference of each pair: exact for integers (uint64), float64 for floats. It is 0 for two NaNs, and infinite
    for a NaN and a number.
    """
    if left.dtype.kind in "iu":
        wide = [array.astype(f"{array.dtype.kind}8") for array in (left, right)]
        larger, smaller = np.maximum(*wide).view(np.uint64), np.minimum(*wide).view(np.uint64)
        apart: NDArray[Any] = larger - smaller  # of two's complements, modulo 2^64
        return apart
    with np.errstate(all="ignore"):
        floats = [array.astype(np.float64) for array in (left, right)]
        apart = np.abs(floats[0] - floats[1])
    nans = [np.isnan(array) for array in floats]
    apart[np.isnan(apart)] = 0  # also of two equal infinities, which differ in no bit and are not asked for
    apart[nans[0] != nans[1]] = np.inf
    return apart


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
