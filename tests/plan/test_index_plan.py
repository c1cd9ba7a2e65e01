"""Plans that the constructor refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dmlgather.plan import IndexType, OutOfBounds
from tests.backends.shapes import gather

ROWS = gather((5, 4), (3,)).plan


def with_lookup(**changes: Any) -> dict[str, Any]:
    return {"lookups": (replace(ROWS.lookups[0], **changes),)}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"in_extent": 19}, r"reaches input elements 0 … 19, the input has 0 … 18"),
        ({"out_extent": 11}, r"reaches output elements 0 … 11, the output has 0 … 10"),
        ({"index_extent": 2}, r"reaches index tensor elements 0 … 2, the index tensor has 0 … 1"),
        ({"in_offset": -1}, r"reaches input elements -1"),
        (with_lookup(limit=6), r"reaches input elements 0 … 23"),
        (with_lookup(in_stride=-4), r"reaches input elements -16"),
        (with_lookup(index_strides=(1,)), r"index_strides has 1 entries, shape has 2"),
        (with_lookup(limit=-1), r"limit -1"),
        ({"index_type": IndexType.UINT64}, r"wrap is 5 for the unsigned type UINT64"),
        ({"index_type": None}, r"index_type is None with 1 lookups"),
        ({"in_strides": (1,)}, r"in_strides has 1 entries, shape has 2"),
        ({"shape": (-3, 4)}, r"negative size"),
        ({"element_bytes": 3}, r"element_bytes is 3, expected one of"),
        ({"out_strides": (0, 1)}, r"to one address"),
        ({"fill": b"\0" * 4}, r"fill has 4 bytes, expected 0 under CLAMP"),
        ({"out_of_bounds": OutOfBounds.FILL, "fill": b"\0"}, r"fill has 1 bytes, expected 4 under FILL"),
    ],
)
def test_a_plan_that_contradicts_itself_cannot_be_built(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(ROWS, **changes)


@pytest.mark.parametrize("policy", [OutOfBounds.CLAMP, OutOfBounds.PROMISE])
def test_clamping_into_an_empty_axis_is_refused(policy: OutOfBounds) -> None:
    plan = replace(ROWS, **with_lookup(limit=0), out_of_bounds=policy)
    with pytest.raises(ValueError, match="axis of size 0 while the output has 12 elements"):
        plan.check_limits()
    replace(plan, shape=(0, 4)).check_limits()
    replace(plan, out_of_bounds=OutOfBounds.RAISE).check_limits()


def test_a_plan_prints_its_shape_policy_and_lookups() -> None:
    text = str(ROWS)
    assert "shape [3, 4] of 4-byte elements, CLAMP" in text
    assert "INT64 [3] offset 0, strides [1, 0]; values 0 … 4, wrap 5, in stride 4" in text


def test_a_plan_is_comparable_and_hashable() -> None:
    assert replace(ROWS) == ROWS
    assert hash(replace(ROWS)) == hash(ROWS)
