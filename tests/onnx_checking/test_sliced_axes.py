"""Conditions under which a slice is not empty, compared with the slice itself at many sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dmlgather.dialects.windows import window
from dmlgather.onnx_checking.sizes.conditions import Conditions
from dmlgather.onnx_checking.sizes.expressions import KnownSize, Sizes
from dmlgather.onnx_checking.sizes.ranges import Range
from dmlgather.onnx_checking.sizes.sliced_axes import SlicedAxis, nonempty

BOUNDS = st.integers(-9, 9) | st.sampled_from([2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 2**63 - 2, -(2**63) + 1])
STEPS = st.sampled_from([1, 2, 5, -1, -3, 2**63 - 1, -(2**63)])


def _sign_combinations(sizes: Sizes, axis: SlicedAxis) -> list[Conditions]:
    given_conditions = Conditions(sizes)
    given_conditions.require((axis.size,), (), 1)
    return [combination for combination in nonempty(axis, given_conditions) if not combination.never]


def _read(texts: Sequence[str]) -> Callable[[Mapping[str, int]], bool]:
    """The judge's own reading of conditions, by their printed words."""
    code = compile(" and ".join(texts).replace(" = ", " == ") or "True", "conditions", "eval")
    functions = {"min": min, "max": max, "floor": lambda value: value // 1}
    return lambda values: bool(eval(code, functions, dict(values)))


@given(BOUNDS, BOUNDS, STEPS)
def test_numbers_as_bounds(start: int, end: int, step: int) -> None:
    """The conditions are exact."""
    combinations = _sign_combinations(Sizes(), SlicedAxis("N", start, end, step))
    found = Range(1, 0)
    if combinations:
        (combination,) = combinations
        assert not combination.inequalities
        found = combination.ranges["N"]
    ends = [end for end in (found.low, found.high) if end is not None]
    for size in {*range(1, 40), *(end + more for end in ends for more in (-1, 0, 1) if 1 <= end + more < 2**32)}:
        taken = window(size, start, end, step).count > 0
        assert taken is (found.low <= size and (found.high is None or size <= found.high)), size


@pytest.mark.parametrize(
    ("start", "end", "step", "texts"),
    [
        (0, 2**63 - 1, 1, ["N >= 1"]),
        (65, 2**63 - 1, 1, ["N >= 66"]),
        (-64, 2**63 - 1, 1, ["N >= 1"]),
        (3, -3, 1, ["N >= 7"]),
        (-5, 3, 1, ["1 <= N <= 7"]),
        (5, 5, 1, None),
        (-1, -(2**63), -1, ["N >= 1"]),
    ],
)
def test_numbers_by_hand(start: int, end: int, step: int, texts: list[str] | None) -> None:
    combinations = _sign_combinations(Sizes(), SlicedAxis("N", start, end, step))
    assert [_texts(combination) for combination in combinations] == ([] if texts is None else [texts])


def _texts(conditions: Conditions) -> list[str]:
    return [each.text for each in conditions.stated()]


def _expressions(sizes: Sizes) -> Iterator[KnownSize]:
    """Sizes and bounds as models compute them."""
    n, m = sizes.symbol("N"), sizes.symbol("M")
    yield from (n, m, -2, 0, 3, 2**63 - 1, -(2**63))
    operations: list[tuple[str, tuple[KnownSize, ...]]] = [
        *(("add", pair) for pair in ((n, 1), (n, m), (n, -5))),
        *(("subtract", pair) for pair in ((m, n), (4, n))),
        *(("negate", (each,)) for each in (n, m)),
        *(("multiply", pair) for pair in ((n, 2), (m, 3))),
        *(("floor_divide", pair) for pair in ((n, 2), (m, 3))),
        *(("minimum", pair) for pair in ((n, 7), (m, n))),
        *(("maximum", pair) for pair in ((n, 3), (m, n))),
    ]
    for operation, operands in operations:
        size = sizes.compute(operation, *operands)
        assert size is not None
        yield size


SIZES = Sizes()
EXPRESSIONS = list(_expressions(SIZES))


@pytest.mark.slow
@settings(max_examples=300)
@given(st.sampled_from(EXPRESSIONS), st.sampled_from(EXPRESSIONS), st.sampled_from(EXPRESSIONS), st.sampled_from([1, 2, -1, -3]))
def test_expressions_as_bounds(size: KnownSize, start: KnownSize, end: KnownSize, step: int) -> None:
    """Under the conditions something is left."""
    sizes, axis = SIZES, SlicedAxis(size, start, end, step)
    combinations = _sign_combinations(sizes, axis)
    hold = [_read(_texts(combination)) for combination in combinations]
    some = False
    for n, m in product(range(12), repeat=2):
        values = {"N": n, "M": m}
        found = sizes.at(size, values)
        count = axis.at(sizes, values).count if found > 0 else 0
        holds = any(each(values) for each in hold)
        assert not holds or count > 0, values
        some |= holds
    assume(some)


@pytest.mark.parametrize(
    ("axis", "texts"),
    [
        (SlicedAxis(512, 0, "N", 1), ["1 <= N <= 512"]),
        (SlicedAxis(512, -2, 2**63 - 1, 1), []),
        (SlicedAxis("M", 0, "N", 1), ["M >= 1", "N >= 1", "M >= N"]),
        (SlicedAxis("M + N", "M", "M + N", 1), ["N >= 1"]),
        (SlicedAxis("N", "N - 5", "N", 1), ["N >= 5"]),
        (SlicedAxis("N", "-N", 2**63 - 1, 2), ["N >= 1"]),
        (SlicedAxis(512, 0, "min(7, N)", 1), ["N >= 1"]),
        (SlicedAxis(512, 0, "floor(N/2)", 1), ["2 <= N <= 1025"]),
        (SlicedAxis("N", -1, "-N - 1", -1), ["N >= 1"]),
        (SlicedAxis("M + N", 0, -1, 1), ["M + N >= 2"]),
        (SlicedAxis("min(M, N)", 0, 4, 1), ["M >= 1", "N >= 1"]),
        (SlicedAxis("M*N", 0, 4, 1), ["M >= 1", "N >= 1"]),
    ],
)
def test_conditions_by_hand(axis: SlicedAxis, texts: list[str]) -> None:
    SIZES.compute("subtract", SIZES.compute("negate", "N") or 0, 1)
    SIZES.compute("multiply", "M", "N")
    first = _sign_combinations(SIZES, axis)[0]
    assert sorted(_texts(first)) == sorted(texts)
