"""The sweep: the contents of its list, and the judgement of its goals."""

from __future__ import annotations

import random
from dataclasses import asdict

import numpy as np
import pytest

from dmlgather.backends import reference
from dmlgather.directml import lower
from tests.kernels.goals import GOALS, Goals, Miss
from tests.kernels.sweep_cases import INDICES, SINGLE, Batched, sweep_groups
from tests.kernels.traffic_record import OURS, SWEEP, problems, rows_of

GROUPS = {group.name: group for group in sweep_groups()}
SMALL = (
    "channels first: [64, 7, 7, 31].transpose(0, 3, 1, 2)",
    "heads: [8, 1024, 12, 3].transpose(0, 2, 1, 3)",
    "points: [64, 1000, 3][:, ::-1]",
    "rows of 5 in each of 64 batches",
)
"""Layouts that take little time."""


def test_the_sweep_has_many_layouts_of_each_width() -> None:
    """The record names them: `test_the_record_has_every_case`."""
    cases = [case for group in GROUPS.values() for case in group.cases()]
    assert len({case.name for case in cases}) == len(cases) >= 120
    assert {case.element_bytes for case in cases} == {1, 2, 4, 8}
    assert not any(case.plan.empty for case in cases)


def test_batches_pick_different_rows(rng: random.Random) -> None:
    kind = Batched((3, 7, 2), 5)
    data = np.frombuffer(rng.randbytes(3 * 7 * 2), np.uint8).reshape(kind.shape)
    indices = kind.indices(np.random.default_rng(rng.randrange(2**32)))
    out = np.zeros(kind.out_shape, np.uint8)
    reference.run(lower(kind.descriptor("uint8")), data.reshape(-1), indices.reshape(-1), out.reshape(-1))
    assert out.tolist() == np.take_along_axis(data, indices, axis=1).tolist()
    assert all(len(set(row)) == 5 for row in indices[..., 0].tolist())


def test_the_record_states_the_goals() -> None:
    assert SWEEP.record()["goals"] == asdict(GOALS) == {"used": 0.95, "needed": 0.85, "share": 0.95}


def test_the_record_states_the_reasons() -> None:
    reasons = {case.name: case.reason for group in GROUPS.values() for case in group.cases() if case.reason}
    assert {name: row[OURS]["reason"] for name, row in SWEEP.record()["rows"].items() if "reason" in row[OURS]} == reasons
    assert set(reasons.values()) == {INDICES, SINGLE}


@pytest.mark.parametrize("name", SMALL)
def test_small_layouts_match_the_record(name: str) -> None:
    rows, recorded = rows_of(GROUPS[name], plain=False), SWEEP.record()
    known = {row: recorded["rows"][row] for row in rows}
    assert list(problems(rows, recorded | {"rows": known}, SWEEP.remedy)) == []
    assert all(list(rows[row]) == [OURS] for row in rows)


def test_misses_of_goals_are_reported() -> None:
    goals = Goals(used=0.9, needed=0.5, share=0.75)
    cases = {
        "met": {"kernel": "a", "fetched": 2.0, "used": 0.9},
        "fetches": {"kernel": "b", "fetched": 2.01, "used": 1.0},
        "random": {"kernel": "c", "fetched": 3.0, "used": 1.0, "reason": "no order"},
        "stores": {"kernel": "d", "fetched": 1.0, "used": 0.89, "reason": "no order"},
        "both": {"kernel": "e", "fetched": 2.5, "used": 0.5, "reason": "no order"},
    }
    assert goals.misses(cases) == {
        "fetches": Miss(("fetched",), ""),
        "random": Miss(("fetched",), "no order"),
        "stores": Miss(("used",), ""),
        "both": Miss(("fetched", "used"), ""),
    }
    first, *lines = goals.report(cases)
    assert first == (
        "1 of 5 cases (20 %) meet both goals: used is at least 0.9, and 1 / fetched at least 0.5. The aim is 75 %. "
        "1 of the 4 others have a reason."
    )
    assert lines == [
        "  fetches (b): fetched 2.01",
        "  random (c): fetched 3.0; no order",
        "  stores (d): used 0.89",
        "  both (e): fetched 2.5, used 0.5",
    ]
