"""Slices along one axis with symbolic sizes: when they take elements, and what DirectML treats differently."""

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
    """A slice data[start:end:step] along one axis. Negative bounds count from the end."""

    size: KnownSize
    start: KnownSize
    end: KnownSize
    step: int

    def at(self, sizes: Sizes, values: Values) -> Window:
        """Return which elements the slice takes for these values of symbols.

        Raise ZeroDivisionError if a size has no integer value.
        """
        return window(sizes.at(self.size, values), sizes.at(self.start, values), sizes.at(self.end, values), self.step)

    def symbols(self, sizes: Sizes) -> frozenset[str]:
        """Return the symbols in the size, the start and the end."""
        return sizes.symbols(self.size) | sizes.symbols(self.start) | sizes.symbols(self.end)

    def constraints(self, sizes: Sizes) -> Iterator[Constraint]:
        """Yield constraints for cases that may differ in DirectML: the slice takes several elements, omits some, or both."""
        symbols, crossings = self.symbols(sizes), tuple(self._crossings())
        for several, partial in ((True, False), (False, True), (True, True)):

            def met(values: Values, several: bool = several, partial: bool = partial) -> bool:
                count = self.at(sizes, values).count
                return (count > 1 or not several) and (count < sizes.at(self.size, values) or not partial)

            yield Constraint(symbols, met, crossings)

    def _crossings(self) -> Iterator[Crossing]:
        """Yield boundaries at which the formula for the element count may change.

        There, two of 0, the size, the start and the end are equal, or one step apart.
        """
        size, start, end = (self.size,), (self.start,), (self.end,)
        step = abs(self.step)
        for offset in sorted({0, step, step + 1, -step, -step - 1}):  # a bound like floor(N/2) reaches one of them exactly
            yield Crossing(size, start, offset)
            yield Crossing(size, end, offset)
            yield Crossing(size, (), offset)
            yield Crossing(start, (), offset)
            yield Crossing(end, (), offset)
            yield Crossing(size + start, (), offset)
            yield Crossing(size + end, (), offset)
            yield Crossing(start, end, offset)
            yield Crossing(size + start, end, offset)
            yield Crossing(size + end, start, offset)


def nonempty(axis: SlicedAxis, common: Conditions, within: bool = True) -> Iterator[Conditions]:
    """Yield conditions under which the slice is not empty: one set for each combination of signs of start and end.
    `common`: conditions to include. They must require a size of at least 1.
    `within`: True to require, where possible, that symbolic bounds lie within the axis.
    """
    not_negative = [common.holds((bound,), ()) for bound in (axis.start, axis.end)]
    candidates = [(True, False) if sign is None else (sign,) for sign in not_negative]
    for from_front, to_front in product(*candidates):
        conditions = common.joined()
        for bound, positive in ((axis.start, from_front), (axis.end, to_front)):
            conditions.require(*(((bound,), ()) if positive else ((), (bound,), 1)))
        (_forwards if axis.step > 0 else _backwards)(axis, conditions, from_front, to_front)
        if within:
            _keep_within(axis, conditions, from_front, to_front)
        yield conditions


def _forwards(axis: SlicedAxis, conditions: Conditions, from_front: bool, to_front: bool) -> None:
    """Require that a slice with a positive step is not empty.
    `from_front`: True if the start is 0 or more. `to_front`: True if the end is 0 or more.
    """
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
    """Require that a slice with a negative step is not empty. The parameters are the same as in `_forwards`."""
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
        conditions.require((), size + end, 1)  # start becomes 0, so end must lie before element 0
    else:
        conditions.require(start, end, 1)


def _keep_within(axis: SlicedAxis, conditions: Conditions, from_front: bool, to_front: bool) -> None:
    """Require that symbolic bounds lie within the axis. A bound that cannot lie there stays unrestricted."""
    backwards = int(axis.step < 0)
    for bound, positive, before_front in ((axis.start, from_front, 0), (axis.end, to_front, backwards)):
        if isinstance(bound, str):
            within = ((axis.size,), (bound,), backwards) if positive else ((axis.size, bound), (), -before_front)
            restricted = conditions.joined()
            restricted.require(*within)
            if restricted.tightened() is not None:
                conditions.require(*within)
