"""A case of `noticed.json` passes through the CPU engine, and fails on one that is broken in one line."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.cpu_kernels import noticing, processors
from tests.cpu_kernels.mutations import MUTATIONS


@pytest.mark.heavy
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_engine_is_noticed(name: str, tmp_path: Path) -> None:
    search = f"{noticing.SEARCH} {shlex.quote(name)} finds one that does"
    case = noticing.stored(name)
    assert case, f"no case is stored; {search}"
    processors.need(case.forced)
    assert case.notices(MUTATIONS[name], tmp_path), f"the stored case no longer notices; {search}"
