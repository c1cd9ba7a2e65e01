"""The stand-in for DirectML.h has the documented names, numbers and fields."""

from __future__ import annotations

import re

import pytest

from dmlgather.directml import DataType, DepthSpaceOrder, FeatureLevel
from dmlgather.directml.operator_types import NUMBERS
from tests.directml.pages import PAGES
from tests.directml.test_types import TENSOR_FIELDS
from tests.dump_header.building import LAYOUT

TEXT = (LAYOUT / "DirectML.h").read_text()
STRUCTURES = {
    name: re.findall(r"^    (?:const )?(\w+)(\*?) (\w+);", body, re.MULTILINE)
    for name, body in re.findall(r"^struct (\w+) \{\n(.*?)^\};", TEXT, re.MULTILINE | re.DOTALL)
}


@pytest.mark.parametrize("name", PAGES)
def test_structures_have_the_documented_fields(name: str) -> None:
    page = PAGES[name]
    assert [field for _, _, field in STRUCTURES[f"DML_{name}_OPERATOR_DESC"]] == page.fields
    assert f"DML_OPERATOR_{name} = {page.number}," in TEXT
    before = TEXT[: TEXT.index(f"struct DML_{name}_OPERATOR_DESC")]
    guards = re.findall(r"^#(?:if DML_TARGET_VERSION >= (0x\d+)|(endif))$", before, re.MULTILINE)
    open_guards: list[int] = []
    for level, end in guards:
        open_guards = open_guards[:-1] if end else [*open_guards, int(level, 16)]
    assert max(open_guards, default=0x1000) == page.introduced


def test_tensors_have_the_documented_fields() -> None:
    fields = STRUCTURES["DML_BUFFER_TENSOR_DESC"]
    assert [field for _, _, field in fields] == TENSOR_FIELDS.split(", ")
    assert {field: kind + star for kind, star, field in fields} == {
        "DataType": "DML_TENSOR_DATA_TYPE",
        "Flags": "DML_TENSOR_FLAGS",
        "DimensionCount": "UINT",
        "Sizes": "UINT*",
        "Strides": "UINT*",
        "TotalTensorSizeInBytes": "UINT64",
        "GuaranteedBaseOffsetAlignment": "UINT",
    }


def test_enumerations_count_as_documented() -> None:
    types = re.findall(r"DML_TENSOR_DATA_TYPE_(\w+),", TEXT)
    assert types == [kind.name for kind in DataType][: len(types)]
    assert re.findall(r"DML_DEPTH_SPACE_ORDER_(\w+)[, ]", TEXT) == [order.name for order in DepthSpaceOrder]


# Common values of two sources' enumerations. Bindings of other languages print the numbers.
ANCHORS = {
    "SLICE": 60,
    "GATHER": 67,
    "ELEMENT_WISE_SIGN": 79,
    "GATHER_ND": 108,
    "SLICE1": 111,
    "ADAM_OPTIMIZER": 136,
    "GATHER_ND1": 140,
}


def test_operators_have_their_numbers() -> None:
    assert {name: NUMBERS[f"DML_OPERATOR_{name}"] for name in ANCHORS} == ANCHORS
    assert {name: NUMBERS[f"DML_OPERATOR_{name}"] for name in PAGES} == {name: page.number for name, page in PAGES.items()}
    assert list(NUMBERS.values()) == list(range(1, len(NUMBERS) + 1))


def test_every_level_that_introduced_an_operator_is_compiled() -> None:
    from tests.dump_header.test_compilers import VERSIONS

    assert {page.introduced for page in PAGES.values()} | {max(FeatureLevel)} == {FeatureLevel(version) for version in VERSIONS}
