"""Arithmetic on integers, and selection, as formulas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from math import prod
from typing import Any

import numpy as np

from dmlgather.dialects.index_arithmetic import arithmetic, computed_in, truths, whole_range
from dmlgather.dialects.index_graph import Elementwise
from dmlgather.equivalence.reading import Reader, Refusal
from dmlgather.equivalence.symbols import Addend, Formula, Guard, Pointwise, Sum, guarded, order, plus, scaled, simplest, total
from dmlgather.equivalence.tables import MOST_POINTS, as_table
from dmlgather.plan.index_function import IndexFunction, within

_COMMUTATIVE = {"add", "multiply", "minimum", "maximum", "and", "or", "equal", "not_equal"}

_EVERYWHERE = -(2**70), 2**70
"""More than the integers of any type."""


def computed(
    reader: Reader, work: Elementwise, sizes: tuple[int, ...], operands: Sequence[Formula], dtypes: Sequence[np.dtype[Any]]
) -> Formula:
    """What a step makes of its operands. dtypes: theirs."""
    if all(dtype.kind in "biu" for dtype in (*dtypes, work.dtype)):
        behind = _behind_guards(reader, work, sizes, operands, dtypes)
        if behind is not None:
            return behind
        found = _integers(reader, work, sizes, [reader.as_sum(operand, sizes) for operand in operands], dtypes)
        if found is not None:
            return simplest(Formula(found))
    if work.operator == "where" and dtypes[1] == dtypes[2] == work.dtype:
        selected = _selected(reader, sizes, operands, dtypes)
        if selected is not None:
            return selected
    if work.operator in _COMMUTATIVE and len(set(dtypes)) == 1:
        operands = sorted(operands, key=order)
    return Formula(Pointwise(work, tuple(dtypes), tuple(operands)))


def _behind_guards(
    reader: Reader, work: Elementwise, sizes: tuple[int, ...], operands: Sequence[Formula], dtypes: Sequence[np.dtype[Any]]
) -> Formula | None:
    """The step on an operand behind guards and on constants: done on the content and on what the guards write; else None."""
    varying = [
        number
        for number, operand in enumerate(operands)
        if operand.guards or not isinstance(operand.content, Sum) or operand.content.addends
    ]
    if len(varying) != 1 or not operands[varying[0]].guards:
        return None
    (number,) = varying
    given = operands[number]

    def of(inner: Formula) -> Formula:
        return computed(reader, work, sizes, [*operands[:number], inner, *operands[number + 1 :]], dtypes)

    guards = []
    for guard in given.guards:
        if not isinstance(guard.fill, int):
            return None
        fill = reader.constant(of(Formula(Sum(guard.fill, (0,) * len(sizes)))), sizes, work.dtype)
        if fill is None:
            return None
        guards.append(Guard(guard.formula, guard.allowed, fill))
    return guarded(of(Formula(given.content)), guards)


def _integers(
    reader: Reader, work: Elementwise, sizes: tuple[int, ...], operands: Sequence[Sum], dtypes: Sequence[np.dtype[Any]]
) -> Sum | None:
    """The step as a sum: known, linear, or a function of what one formula gives. None where it is none of these."""
    values = [reader.tables.known_over(Formula(operand), sizes) for operand in operands]
    arrays = [each.astype(dtype) for each, dtype in zip(values, dtypes, strict=True) if each is not None]
    if len(arrays) == len(values) and prod(np.broadcast_shapes(*(each.shape for each in arrays))) <= MOST_POINTS:
        found = as_table(work.compute(arrays))
        with suppress(OverflowError):
            return None if found is None else reader.tables.table(found)
    if not all(operand.fixed and len(operand.addends) < 2 for operand in operands):
        linear = _linear(reader, work, sizes, operands, dtypes)
        if linear is not None:
            return linear
    functions = [reader.as_function(operand, sizes) for operand in operands]
    sources = {each[1] for each in functions if each is not None}
    if len(sources) != 1:
        return _linear(reader, work, sizes, operands, dtypes)
    given = [
        IndexFunction.constant(operand.offset, *_EVERYWHERE) if each is None else each[0]
        for operand, each in zip(operands, functions, strict=True)
    ]
    result = arithmetic(work, given, dtypes)
    return None if result is None else total(0, (0,) * len(sizes), [Addend(result, sources.pop())])


def _linear(
    reader: Reader, work: Elementwise, sizes: tuple[int, ...], operands: Sequence[Sum], dtypes: Sequence[np.dtype[Any]]
) -> Sum | None:
    """The step as a sum of its operands, where no result can overflow; None where it is no such sum."""
    first, *others = operands
    constant = next((each.offset for each in operands if each.fixed and not each.addends), None)
    match work.operator:
        case "add":
            found = plus(first, others[0])
        case "subtract":
            found = plus(first, scaled(others[0], -1))
        case "negative":
            found = scaled(first, -1)
        case "cast":
            found = first
        case "multiply" if constant is not None:
            found = scaled(next(each for each in operands if not each.fixed or each.addends), constant)
        case _:
            chosen = _decided(reader, work.operator, sizes, operands)
            if chosen is None:
                return None
            found = chosen
    low, high = reader.tables.span(found, sizes)
    for dtype in (computed_in(work, dtypes), work.dtype):
        if dtype.kind not in "biu" or low < whole_range(dtype)[0] or high > whole_range(dtype)[1]:
            return None
    return found


def _decided(reader: Reader, operator: str, sizes: tuple[int, ...], operands: Sequence[Sum]) -> Sum | None:
    """The operand that a step always selects, or the answer that it always gives; None where that depends on elements."""
    if operator == "where":
        low, high = reader.tables.span(operands[0], sizes)
        return operands[1] if low > 0 or high < 0 else operands[2] if low == high == 0 else None
    if operator in ("minimum", "maximum"):
        low, high = reader.tables.span(plus(operands[0], scaled(operands[1], -1)), sizes)
        smaller, larger = operands if operator == "minimum" else operands[::-1]
        return smaller if high <= 0 else larger if low >= 0 else None
    if operator not in _ANSWERS:
        return None
    low, high = reader.tables.span(plus(operands[0], scaled(operands[1], -1)), sizes)
    true, false = _ANSWERS[operator](low, high)
    return Sum(int(true), (0,) * len(sizes)) if true or false else None


_ANSWERS: dict[str, Callable[[int, int], tuple[bool, bool]]] = {
    "less": lambda low, high: (high < 0, low >= 0),
    "less_equal": lambda low, high: (high <= 0, low > 0),
    "greater": lambda low, high: (low > 0, high <= 0),
    "greater_equal": lambda low, high: (low >= 0, high < 0),
    "equal": lambda low, high: (low == high == 0, low > 0 or high < 0),
    "not_equal": lambda low, high: (low > 0 or high < 0, low == high == 0),
}
"""Whether a comparison is always true, and whether it is always false, from the range of the difference of its operands."""


def _selected(
    reader: Reader, sizes: tuple[int, ...], operands: Sequence[Formula], dtypes: Sequence[np.dtype[Any]]
) -> Formula | None:
    """A selection between a value and something else of one value, as guards; None where it is no such selection."""
    condition, one, other = operands
    for truth, value, rest, dtype in ((True, one, other, dtypes[2]), (False, other, one, dtypes[1])):
        refusals = _conditions(reader, condition, sizes, truth)
        fill = None if refusals is None else reader.constant(rest, sizes, dtype)
        if refusals is None or fill is None:
            continue
        if any(not allowed for _, allowed in refusals):
            return rest
        return guarded(value, [Guard(formula, allowed, fill) for formula, allowed in refusals])
    return None


def _conditions(reader: Reader, condition: Formula, sizes: tuple[int, ...], truth: bool) -> list[Refusal] | None:
    """What formulas must give, all together, for a condition to be true, or to be false. None where it is no such condition."""
    content = condition.content
    if isinstance(content, Pointwise) and not condition.guards:
        if content.work.operator == "not":
            return _conditions(reader, content.operands[0], sizes, not truth)
        if content.work.operator == ("and" if truth else "or"):
            found = [_conditions(reader, operand, sizes, truth) for operand in content.operands]
            return None if None in found else [refusal for refusals in found for refusal in refusals or ()]
    each = reader.as_sum(condition, sizes)
    given = reader.as_function(each, sizes)
    if given is None:
        return [] if bool(each.offset) == truth else [(Formula(Sum(0, each.strides)), ())]
    function, source = given
    true, false = truths(function)
    allowed = true if truth else false
    return [] if within(function.domain, allowed) else [(source, allowed)]
