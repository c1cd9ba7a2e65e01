"""A stored case passes in the CPU engine, and fails in an engine with an error in one line."""

from __future__ import annotations

import pytest

from tests.cpu_kernels import processors
from tests.cpu_kernels.mutations import MUTATIONS
from tests.cpu_kernels.noticing_cases import Noticing, find, judge
from tests.noticing import BrokenPrograms

PROGRAMS = BrokenPrograms("tests/cpu_kernels/test_broken.py", MUTATIONS, judge, find)


@pytest.mark.heavy
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_engine_is_noticed(name: str) -> None:
    processors.need(Noticing.of(PROGRAMS.case(name)).forced)
    PROGRAMS.check(name)
