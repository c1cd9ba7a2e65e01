"""Division by an invariant: one multiply-high, and a shift where numbers are large."""

from __future__ import annotations

LIMIT = 2**31
"""Dividends and divisors are below this."""
NEAR_LIMIT = 2**14
"""Dividends of `odd_magic` are below this, and divisors are this at most."""


def magic(divisor: int) -> tuple[int, int]:
    """The 32-bit multiplier and the shift with which n // divisor == (n * multiplier) >> shift for every 0 <= n < 2**31.

    With shift = 31 + ceil(log2 divisor) and multiplier = ceil(2**shift / divisor), the excess e = multiplier * divisor -
    2**shift is below 2**(shift - 31), so n * e < 2**shift and the quotient never rises; divisor 1 is no special case.
    """
    if not 0 < divisor < LIMIT:
        raise ValueError(f"the divisor is {divisor}, expected 1 … {LIMIT - 1}")
    shift = 31 + (divisor - 1).bit_length()
    return -(-(1 << shift) // divisor), shift


def odd_magic(divisor: int) -> int:
    """The multiplier with which n // divisor == ((2 * n + 1) * multiplier) >> 32 for every 0 <= n < 2**14.

    (2 * n + 1) / (2 * divisor) is at least 1 / (2 * divisor) below the next whole number. With multiplier =
    ceil(2**31 / divisor), the excess e = multiplier * divisor - 2**31 adds (2 * n + 1) * e / (divisor * 2**32), which is less, as
    e < 2**14.
    """
    if not 0 < divisor <= NEAR_LIMIT:
        raise ValueError(f"the divisor is {divisor}, expected 1 … {NEAR_LIMIT}")
    return -(-(1 << 31) // divisor)


def wide_magic(divisor: int) -> tuple[int, int]:
    """The 64-bit multiplier and the shift with which n // divisor == (n * multiplier >> 64) >> shift for every 0 <= n < 2**63.

    As `magic`, with 63 bits instead of 31. Divisor 1 would need a shift to the left.
    """
    if not 1 < divisor < 2**63:
        raise ValueError(f"the divisor is {divisor}, expected 2 … {2**63 - 1}")
    bits = (divisor - 1).bit_length()
    return -(-(1 << (63 + bits)) // divisor), bits - 1
