"""The support tables against the tables of DirectML's pages."""

from __future__ import annotations

import json

import pytest

from dmlgather.directml import OPERATORS, SOURCES, FeatureLevel, support
from dmlgather.directml.fields import wire_name
from dmlgather.directml.support import TABLE, row_at
from tests.directml.pages import PAGES


@pytest.mark.parametrize("name", PAGES)
def test_tables(name: str) -> None:
    data = support(name)
    assert json.loads(json.dumps(data)) == data
    assert data == support(f"DML_OPERATOR_{name}")
    steps = PAGES[name].steps
    assert data["introduced"] == str(PAGES[name].introduced)
    assert [entry["level"] for entry in data["levels"]] == list(map(str, steps))
    for entry, step in zip(data["levels"], steps.values(), strict=True):
        expected = {"InputTensor": step.data, "OutputTensor": step.data} | (
            {"IndicesTensor": step.indices} if step.indices else {}
        )
        assert {tensor: sorted(row["data_types"]) for tensor, row in entry["tensors"].items()} == {
            tensor: sorted(kinds) for tensor, kinds in expected.items()
        }
        for row in entry["tensors"].values():
            assert row["dimension_counts"] == step.counts
            assert row["source"].split("]")[0].removeprefix("[") in SOURCES


@pytest.mark.parametrize("name", PAGES)
def test_a_level_without_a_row_uses_the_row_before_it(name: str) -> None:
    for level in FeatureLevel:
        steps = [step for step in PAGES[name].steps if step <= level]
        row = row_at(name, "InputTensor", level)
        assert (row.level if row else None) == (steps[-1] if steps else None)


def test_every_row_belongs_to_an_operator_and_a_tensor() -> None:
    known = {(operator.name, wire_name(field)) for operator in OPERATORS.values() for field in operator.tensors}
    assert {(row.operator, row.tensor) for row in TABLE} == known
    assert len({(row.operator, row.level, row.tensor) for row in TABLE}) == len(TABLE)


@pytest.mark.parametrize("name", ["SCATTER", "gather", "", "DML_OPERATOR_"])
def test_an_unknown_operator_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(ValueError, match=f"known operators are {', '.join(PAGES)}$"):
        support(name)
