"""Axes of a slice whose size and bounds need not be known: when something is left of them, and which sizes make a difference."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from dmlgather.dialects.windows import Window, window
from dmlgather.directml.rules.tensors import ELEMENT_LIMIT
from dmlgather.onnx_checking.sizes.conditions import Conditions
from dmlgather.onnx_checking.sizes.expressions import KnownSize, Sizes
from dmlgather.onnx_checking.sizes.size_search import Constraint, Crossing, Values


@dataclass(frozen=True)
class SlicedAxis:
    """One axis of a slice, as `window` takes it. step: a number other than 0."""

    size: KnownSize
    start: KnownSize
    end: KnownSize
    step: int

    def at(self, sizes: Sizes, values: Values) -> Window:
        """What is taken, for values of the symbols. ZeroDivisionError where a size has no value."""
        return window(sizes.at(self.size, values), sizes.at(self.start, values), sizes.at(self.end, values), self.step)

    def symbols(self, sizes: Sizes) -> frozenset[str]:
        """The symbols of the size and the bounds."""
        return sizes.symbols(self.size) | sizes.symbols(self.start) | sizes.symbols(self.end)

    def constraints(self, sizes: Sizes) -> Iterator[Constraint]:
        """What makes a difference to DirectML: a second element, as the step matters then; elements that are left out; both."""
        symbols, crossings = self.symbols(sizes), tuple(self._crossings())
        for several, partial in ((True, False), (False, True), (True, True)):

            def met(values: Values, several: bool = several, partial: bool = partial) -> bool:
                count = self.at(sizes, values).count
                return (count > 1 or not several) and (count < sizes.at(self.size, values) or not partial)

            yield Constraint(symbols, met, crossings)

    def _crossings(self) -> Iterator[Crossing]:
        """Where a bound passes the size or the other bound, or there is room for another step."""
        size, start, end = (self.size,), (self.start,), (self.end,)
        step = abs(self.step)
        for more in sorted({0, step, step + 1, -step, -step - 1}):  # a bound that is halved passes one of them
            yield Crossing(size, start, more)
            yield Crossing(size, end, more)
            yield Crossing(size, (), more)
            yield Crossing(start, (), more)
            yield Crossing(end, (), more)
            yield Crossing(size + start, (), more)
            yield Crossing(size + end, (), more)
            yield Crossing(start, end, more)
            yield Crossing(size + start, end, more)
            yield Crossing(size + end, start, more)


def nonempty(axis: SlicedAxis, given: Conditions, within: bool = True) -> Iterator[Conditions]:
    """The given conditions with those under which the axis leaves something, for each combination of signs of its bounds.

    given: with the condition that the size is at least 1. within: whether bounds that are no numbers must lie within the size,
    so that they are not clamped; those that cannot are clamped all the same.
    """
    known = [given.holds((bound,), ()) for bound in (axis.start, axis.end)]
    signs = [(True, False) if sign is None else (sign,) for sign in known]
    for from_front, to_front in product(*signs):
        conditions = given.joined()
        for bound, positive in ((axis.start, from_front), (axis.end, to_front)):
            conditions.require(*(((bound,), ()) if positive else ((), (bound,), 1)))
        (_forwards if axis.step > 0 else _backwards)(axis, conditions, from_front, to_front)
        if within:
            _keep_within(axis, conditions, from_front, to_front)
        yield conditions


def _forwards(axis: SlicedAxis, conditions: Conditions, from_front: bool, to_front: bool) -> None:
    """For positive steps. from_front, to_front: whether start and end are not negative."""
    size, start, end = (axis.size,), (axis.start,), (axis.end,)
    if from_front and to_front:
        conditions.require(size, start, 1)
        conditions.require(end, start, 1)
    elif from_front:
        conditions.require(size + end, start, 1)
    elif to_front:
        conditions.require(end, size + start, 1)
        conditions.require(end, (), 1)
    else:
        conditions.require(end, start, 1)
        conditions.require(size + end, (), 1)


def _backwards(axis: SlicedAxis, conditions: Conditions, from_front: bool, to_front: bool) -> None:
    """For negative steps, as `_forwards`."""
    size, start, end = (axis.size,), (axis.start,), (axis.end,)
    if from_front and to_front:
        conditions.require(start, end, 1)
        conditions.require(size, end, 2)
    elif from_front:
        conditions.require((), end, 2)
        conditions.require(start, size + end, 1)
    elif to_front:
        conditions.require(size + start, end, 1)
    elif conditions.holds(start, end, 1) is False or (isinstance(axis.start, int) and axis.start < -ELEMENT_LIMIT):
        conditions.require((), size + end, 1)  # start is clamped to the first element, and end before it
    else:
        conditions.require(start, end, 1)


def _keep_within(axis: SlicedAxis, conditions: Conditions, from_front: bool, to_front: bool) -> None:
    """Require of bounds that are no numbers that they lie within the size, unless they cannot."""
    backwards = int(axis.step < 0)
    for bound, positive, before in ((axis.start, from_front, 0), (axis.end, to_front, backwards)):
        if isinstance(bound, str):
            within = ((axis.size,), (bound,), backwards) if positive else ((axis.size, bound), (), -before)
            with_it = conditions.joined()
            with_it.require(*within)
            if with_it.tightened() is not None:
                conditions.require(*within)
