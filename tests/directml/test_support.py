"""The support tables against the tables of DirectML's pages, written here as the differences between levels."""

from __future__ import annotations

import json

import pytest

from dmlgather.directml import OPERATORS, SOURCES, FeatureLevel, support
from dmlgather.directml.fields import wire_name
from dmlgather.directml.support import TABLE, row_at

EIGHT = "FLOAT32 FLOAT16 INT32 INT16 INT8 UINT32 UINT16 UINT8"
MORE = "FLOAT64 INT64 UINT64"
# operator: {level: (data types, index types, fewest dimensions, most dimensions)}; "+" adds to the level before.
PAGES: dict[str, dict[str, tuple[str, str, int, int]]] = {
    "GATHER": {
        "1_0": ("FLOAT32 FLOAT16", "UINT32", 4, 4),
        "2_1": ("+ INT32 INT16 INT8 UINT32 UINT16 UINT8", "+", 4, 4),
        "3_0": ("+", "+ INT64 INT32 UINT64", 1, 8),
        "4_1": (f"+ {MORE}", "+", 1, 8),
    },
    **{
        name: {
            "2_1": (EIGHT, "UINT32", 4, 4),
            "3_0": ("+", "+ INT64 INT32 UINT64", 1, 8),
            "4_1": (f"+ {MORE}", "+", 1, 8),
        }
        for name in ("GATHER_ELEMENTS", "GATHER_ND")
    },
    "GATHER_ND1": {
        "3_0": (EIGHT, "INT64 INT32 UINT64 UINT32", 1, 8),
        "4_1": (f"+ {MORE}", "+", 1, 8),
    },
    "SLICE": {
        "1_0": ("FLOAT32 FLOAT16 INT32 INT16 UINT32 UINT16", "", 4, 5),
        "2_1": ("+ INT8 UINT8", "", 4, 5),
        "3_0": ("+", "", 1, 8),
        "4_1": (f"+ {MORE}", "", 1, 8),
    },
    "SLICE1": {
        "2_1": (EIGHT, "", 4, 5),
        "3_0": ("+", "", 1, 8),
        "4_1": (f"+ {MORE}", "", 1, 8),
    },
    **{name: {"2_1": (EIGHT, "", 4, 4), "5_0": (f"+ {MORE}", "", 4, 4)} for name in ("DEPTH_TO_SPACE1", "SPACE_TO_DEPTH1")},
}


def _grown(before: set[str], entry: str) -> set[str]:
    return before | set(entry[1:].split()) if entry.startswith("+") else set(entry.split())


@pytest.mark.parametrize("name", PAGES)
def test_tables(name: str) -> None:
    data = support(name)
    assert json.loads(json.dumps(data)) == data
    assert data == support(f"DML_OPERATOR_{name}")
    assert data["introduced"] == next(iter(PAGES[name]))
    assert [entry["level"] for entry in data["levels"]] == list(PAGES[name])
    kinds: set[str] = set()
    indices: set[str] = set()
    for entry, (of_data, of_indices, fewest, most) in zip(data["levels"], PAGES[name].values(), strict=True):
        kinds, indices = _grown(kinds, of_data), _grown(indices, of_indices)
        expected = {"InputTensor": kinds, "OutputTensor": kinds} | ({"IndicesTensor": indices} if indices else {})
        assert {tensor: set(row["data_types"]) for tensor, row in entry["tensors"].items()} == expected
        for row in entry["tensors"].values():
            assert row["dimension_counts"] == list(range(fewest, most + 1))
            assert len(set(row["data_types"])) == len(row["data_types"])
            assert row["source"].split("]")[0].removeprefix("[") in SOURCES


@pytest.mark.parametrize("name", PAGES)
def test_a_level_without_a_row_uses_the_row_before_it(name: str) -> None:
    operator = OPERATORS[f"DML_OPERATOR_{name}"]
    for level in FeatureLevel:
        steps = [step for step in PAGES[name] if FeatureLevel.parse(step) <= level]
        row = row_at(operator.name, "InputTensor", level)
        assert (str(row.level) if row else None) == (steps[-1] if steps else None)


def test_every_row_belongs_to_an_operator_and_a_tensor() -> None:
    known = {(operator.name, wire_name(field)) for operator in OPERATORS.values() for field in operator.tensors}
    assert {(row.operator, row.tensor) for row in TABLE} == known
    assert len({(row.operator, row.level, row.tensor) for row in TABLE}) == len(TABLE)


@pytest.mark.parametrize("name", ["SCATTER", "gather", "", "DML_OPERATOR_"])
def test_an_unknown_operator_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(
        ValueError, match="known operators are GATHER, GATHER_ELEMENTS, GATHER_ND, GATHER_ND1, SLICE, SLICE1, DEPTH_TO_SPACE1"
    ):
        support(name)
