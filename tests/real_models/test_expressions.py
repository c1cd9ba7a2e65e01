"""Sizes and conditions in reports have the values that Python computes."""

from __future__ import annotations

import pytest

from tests.real_models.expressions import evaluate

SIZES = {"N": 7, "NN": 2, "seq": 5, "x[1]": 3, "d.0": 4, "batch-size": 6, "unk__3 + 1": 9}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("N", 7),
        ("N + NN", 9),
        ("2*N - 1", 13),
        ("floor(N/2) + 1", 4),
        ("ceiling(N/2)", 4),
        ("-floor(-N/2)", 4),
        ("max(N, seq)*min(2, seq)", 14),
        ("mod(N, 4)", 3),
        ("N**2", 49),
        ("Abs(seq - N)", 2),
        ("x[1] + d.0", 7),
        ("'batch-size' + 1", 7),
        ("unk__3 + 1", 9),
        ("1 <= N <= 7", True),
        ("N = 7", True),
        ("N = NN", False),
        ("seq <= 4", False),
        ("floor(seq/2) >= 3", False),
        ("M", None),
        ("N + M", None),
        ("x[0]", None),
        ("N.real", None),
        ("exit()", None),
    ],
)
def test_expressions_of_reports_are_evaluated(text: str, expected: int | bool | None) -> None:
    assert evaluate(text, SIZES) == expected
