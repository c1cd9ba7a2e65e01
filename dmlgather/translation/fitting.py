"""Index arithmetic: what a target's operator must be given so that it reads what the source reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dmlgather.plan import Lookup, OutOfBounds
from dmlgather.translation.targets import IndexRule, Target

WIDE_UNSIGNED = ("uint32", "uint64")


@dataclass(frozen=True, slots=True)
class Fitted:
    """Indices for the target's operator. valid: the value that says which were in range, where that is needed to fill."""

    value: str
    valid: str | None = None


class Fitter:
    """The indices of some lookups, which lie in one value; with several lookups, in its last dimension."""

    def __init__(self, target: Target, lookups: Sequence[Lookup], source: OutOfBounds, fill: bytes, rule: IndexRule) -> None:
        self.target, self.rule = target, rule
        self.source = OutOfBounds.CLAMP if source is OutOfBounds.PROMISE else source
        self.limits = np.array([lookup.limit for lookup in lookups], object)
        self.wraps = np.array([lookup.wrap for lookup in lookups], object)
        self.kept = rule.keeps(self.source, fill)

    def fitted(self, value: str) -> Fitted:
        """The indices with what must be added, clamped, masked or converted."""
        dtype = self.target.type_of(value).dtype
        signed = dtype.kind == "i"
        wraps = signed and bool(self.wraps.any())
        own_wrap = wraps and self.rule.wraps and (self.wraps == self.limits).all()
        guards = signed and self.rule.wraps and not own_wrap
        clamps = not self.kept and self.source is not OutOfBounds.RAISE
        if clamps and dtype.name in WIDE_UNSIGNED and dtype.name not in self.rule.types:
            return self._clamped_first(value)
        value = self._in_type(value, changes=(wraps and not own_wrap) or (self.kept and guards) or clamps)
        if wraps and not own_wrap:
            value = self._where_negative(value, self._computed("add", value, self._number(value, self.wraps)))
        if not clamps:
            return Fitted(self._guarded(value) if self.kept and guards else value)
        lowest = -self.limits if own_wrap else 0 * self.limits
        clamped = self._clamped(value, lowest, self.limits - 1, signed)
        return Fitted(clamped, self._valid(clamped, value))

    def _clamped_first(self, value: str) -> Fitted:
        """Unsigned indices, clamped in their own type, of which the target then takes what is left. (onnxruntime before 1.32 does
        not clamp every int64.)
        """
        own, greatest = np.iinfo(self.target.type_of(value).dtype), max([1, *self.limits])
        clamped = self._clamped(value, None, np.minimum(self.limits - 1, own.max), signed=False)
        kind = next(name for name in self.rule.types if np.iinfo(name).max >= greatest)
        return Fitted(self.target.cast(clamped, kind), self._valid(clamped, value))

    def _valid(self, clamped: str, value: str) -> str | None:
        """Which indices were in range, for a source that fills."""
        return None if self.source is OutOfBounds.CLAMP else self.target.computed("equal", np.bool_, clamped, value)

    def _guarded(self, value: str) -> str:
        """Negative indices, which the target would count from the end, as indices that it treats as the source treats them."""
        if self.source is OutOfBounds.CLAMP:
            return self._computed("maximum", value, self._number(value, 0))
        return self._where_negative(value, self._number(value, self.limits))

    def _where_negative(self, value: str, other: str) -> str:
        negative = self.target.computed("less", np.bool_, value, self._number(value, 0))
        return self._computed("where", negative, other, value)

    def _clamped(self, value: str, lowest: Any, last: Any, signed: bool) -> str:
        if signed:
            value = self._computed("maximum", value, self._number(value, lowest))
        return self._computed("minimum", value, self._number(value, last))

    def _in_type(self, value: str, *, changes: bool) -> str:
        """The indices in a type that the target takes, and in which the arithmetic that `changes` them does not overflow."""
        dtype = self.target.type_of(value).dtype
        greatest = max([1, *self.limits, *self.wraps])
        if dtype.name in self.rule.types and (not changes or np.iinfo(dtype).max >= greatest):
            return value
        wider = next((name for name in self.rule.types if _holds(np.dtype(name), dtype, greatest)), None)
        if wider is None:  # of uint64 to int64, without the values that are out of range anyway
            value = self._computed("minimum", value, self._number(value, self.limits))
            wider = "int64"
        return self.target.cast(value, wider)

    def _computed(self, operator: str, *values: str) -> str:
        return self.target.computed(operator, self.target.type_of(values[-1]).dtype, *values)

    def _number(self, like: str, value: Any) -> str:
        return self.target.number(value, self.target.type_of(like).dtype)


def _holds(dtype: np.dtype[Any], other: np.dtype[Any], greatest: int) -> bool:
    """Whether a type has every value of another one, and the numbers from -greatest - 1 to `greatest`, or from 0 on."""
    own, given = np.iinfo(dtype), np.iinfo(other)
    return own.min <= given.min and own.max >= max(given.max, greatest)
