"""Division by multiplication, where it is tightest: near 2^31. The judge is Python's own division."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dmlgather.backends.cuda.magic import LIMIT, magic
from tests.kernels import host

edges = st.one_of(
    st.integers(1, LIMIT - 1),
    st.integers(1, 1000),
    st.integers(0, 31).flatmap(lambda bit: st.integers(max(2**bit - 3, 1), min(2**bit + 3, LIMIT - 1))),
)


@given(edges, st.integers(0, LIMIT - 1))
@example(1, LIMIT - 1)
@example(LIMIT - 1, LIMIT - 1)
@example(LIMIT - 1, LIMIT - 2)
@example(2**30 + 1, LIMIT - 1)
def test_the_kernels_divide_like_python(divisor: int, dividend: int) -> None:
    multiplier, shift = magic(divisor)
    assert multiplier < 2**32
    for n in (dividend, dividend // divisor * divisor, max(dividend // divisor * divisor - 1, 0), LIMIT - 1):
        assert host.library().host_divide(n, multiplier, shift) == n // divisor


@pytest.mark.parametrize("divisor", [0, -1, LIMIT])
def test_a_divisor_out_of_range_is_refused(divisor: int) -> None:
    with pytest.raises(ValueError, match="expected 1 … 2147483647"):
        magic(divisor)
