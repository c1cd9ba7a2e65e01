"""Types that a finding advises in the place of one that a level does not take. Judge: NumPy's safe casts."""

from __future__ import annotations

import re

import numpy as np
import pytest

import dmlgather as dg
from dmlgather.directml import FeatureLevel
from dmlgather.directml.support import row_at

INTEGERS = tuple(f"{sign}INT{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64))


def _taken(level: str) -> tuple[str, ...]:
    row = row_at("GATHER", "InputTensor", FeatureLevel.parse(level))
    assert row is not None
    return tuple(str(data_type) for data_type in row.data_types)


def _remedy(data_type: str, level: str) -> str | None:
    desc = dg.GatherOperatorDesc.of(((1, 1, 5, 4), data_type), ((1, 1, 1, 3), "UINT32"), axis=2)
    report = dg.validate(desc, level)
    return next((each.remedy for each in report.findings if (each.code, each.path) == ("DML201", "InputTensor.DataType")), None)


@pytest.mark.parametrize("level", ["1_0", "2_1", "3_0", "4_1"])
@pytest.mark.parametrize("data_type", INTEGERS)
def test_no_value_is_lost_unawares(data_type: str, level: str) -> None:
    remedy = _remedy(data_type, level)
    if remedy is None:
        assert data_type in _taken(level)
        return
    exact = {each for each in _taken(level) if np.can_cast(data_type.lower(), each.lower(), "safe")}
    with_limit = re.findall(
        r"(\w+) (?:for integers up to \d+|from feature level \w+ on if the values fit|if the values fit)", remedy
    )
    assert set(re.findall(r"\b(?:FLOAT|U?INT)\d+", remedy)) - set(with_limit) == exact
    assert bool(with_limit) is not bool(exact)


def test_limits_of_float32() -> None:
    remedy = _remedy("INT64", "1_0")
    assert remedy is not None
    (limit,) = map(int, re.findall(r"FLOAT32 for integers up to (\d+)", remedy))
    assert (int(np.float32(limit)), int(np.float32(limit + 1))) == (limit, limit)
    ((wider, level),) = re.findall(r"(INT32) from feature level (\w+) on", remedy)
    assert wider in _taken(level)
    assert wider not in _taken("1_0")


@pytest.mark.parametrize("level", ["1_0", "2_1"])
def test_floating_point_numbers_become_no_integers(level: str) -> None:
    assert _remedy("FLOAT64", level) == "use FLOAT32 or FLOAT16, or feature level 4_1 or newer"
