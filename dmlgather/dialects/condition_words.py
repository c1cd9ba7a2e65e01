"""How conditions on sums of sizes are written: "past + seq >= 7"."""

from __future__ import annotations

from collections.abc import Mapping

from dmlgather.dialects.sizes import WORD, KnownSize, Sizes


def sum_of(sizes: Sizes, terms: Mapping[KnownSize, int]) -> str:
    """A sum with its negative terms last: "past + seq - 2*total"."""
    signed = [
        f"{'-' if factor < 0 else '+'} {_term(sizes, name, abs(factor))}"
        for name, factor in sorted(terms.items(), key=lambda term: term[1] < 0)
    ]
    return " ".join(signed).removeprefix("+ ")


def text_of(sizes: Sizes, terms: Mapping[KnownSize, int], more: int) -> str:
    """The condition that a sum and `more` are at least 0, without negative terms: "past + seq >= total + 1"."""
    left = [_term(sizes, name, factor) for name, factor in terms.items() if factor > 0]
    right = [_term(sizes, name, -factor) for name, factor in terms.items() if factor < 0]
    if not left:
        return f"{' + '.join(right)} <= {more}"
    if more > 0 and right:
        left.append(str(more))
    elif more < 0 or not right:
        right.append(str(-more))
    return f"{' + '.join(left)} >= {' + '.join(right)}"


def _term(sizes: Sizes, name: KnownSize, factor: int) -> str:
    quoted = sizes.symbols(name) == {name} and not WORD.fullmatch(str(name))
    return ("" if factor == 1 else f"{factor}*") + (f"'{name}'" if quoted else str(name))
