"""Brackets of every kind, in each way to run them: NumPy's bits and errors. `ci/heavy index` runs thousands."""

from __future__ import annotations

from functools import partial

import pytest

from tests.chain_count import each_seed
from tests.dialects.brackets import KINDS
from tests.numpy.judged_brackets import check_brackets


@pytest.mark.parametrize("kind", KINDS)
def test_brackets_of_each_kind(kind: str) -> None:
    assert sum(each_seed(partial(check_brackets, kind=kind), 25)) > 5
