"""Descriptors in one line, as JSON and back, and what is said of misspelt fields."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

import dmlgather as dg

X = np.zeros((1000, 384), np.float32)


@pytest.mark.parametrize(
    ("desc", "text"),
    [
        (dg.GatherOperatorDesc.of(X, np.zeros(128, int)), "GATHER axis 0: float32[1000,384], int64[128] -> float32[128,384]"),
        (dg.GatherOperatorDesc.of(X, np.array(7), axis=-1), "GATHER axis 1: float32[1000,384], int64[] -> float32[1,1000]"),
        (dg.GatherNDOperatorDesc.of(X, np.zeros((5, 2), int)), "GATHER_ND: float32[1000,384], int64[5,2] -> float32[1,5]"),
        (
            dg.Slice1OperatorDesc.of(((4,), "int8"), input_window_strides=(-1,)),
            "SLICE1 input_window_offsets {0}, input_window_sizes {4}, input_window_strides {-1}: int8[4] -> int8[4]",
        ),
        (
            dg.SliceOperatorDesc.of(dg.BufferTensorDesc(data_type="UINT8", sizes=(2, 3), strides=(8, 1))),
            "SLICE offsets {0,0}, sizes {2,3}, strides {1,1}: uint8[2,3] strides {8,1} -> uint8[2,3]",
        ),
        (
            dg.DepthToSpace1OperatorDesc.of(((1, 4, 2, 2), "float16"), block_size=2),
            "DEPTH_TO_SPACE1 block_size 2, order DEPTH_COLUMN_ROW: float16[1,4,2,2] -> float16[1,1,4,4]",
        ),
    ],
)
def test_a_descriptor_in_one_line(desc: dg.OperatorDesc, text: str) -> None:
    assert str(desc) == text
    assert repr(desc).startswith(f"{type(desc).__name__}(")


def test_dimensions_that_a_count_wrongly_leaves_out_are_shown() -> None:
    desc = dg.GatherOperatorDesc.of(X, np.zeros((5, 2), int), index_dimensions=2)
    assert str(desc.model_copy(update={"index_dimensions": 1})).startswith(
        "GATHER axis 1, index_dimensions 1: float32[1,1000,384], int64[1,5,2] -> "
    )


def test_json_of_another_operator_is_refused() -> None:
    written = dg.GatherOperatorDesc.of(X, np.zeros(3, int)).model_dump()
    with pytest.raises(ValidationError, match="type is 'DML_OPERATOR_GATHER'; expected 'DML_OPERATOR_GATHER_ELEMENTS'"):
        dg.GatherElementsOperatorDesc.model_validate(written)


FIELDS = {
    "InputTensor": {"DataType": "FLOAT32", "Sizes": [3]},
    "IndicesTensor": {"DataType": "UINT32", "Sizes": [3]},
    "OutputTensor": {"DataType": "FLOAT32", "Sizes": [3]},
    "Axis": 0,
    "IndexDimensions": 1,
}


def renamed(old: str, new: str) -> dict[str, Any]:
    """FIELDS with another name for one."""
    return {new if name == old else name: value for name, value in FIELDS.items()}


@pytest.mark.parametrize(
    ("fields", "sentences"),
    [
        (renamed("Axis", "Axes"), ["Axes\n  is no field; did you mean Axis?"]),
        (renamed("IndexDimensions", "index_dimension"), ["index_dimension\n  is no field; did you mean index_dimensions?"]),
        (renamed("Axis", "Axis") | {"More": 1}, ["More\n  is no field; the fields are InputTensor, IndicesTensor, OutputTensor"]),
        (
            FIELDS | {"InputTensor": {"DataType": "FLOAT32", "Size": [3]}},
            ["InputTensor.Size\n  is no field; did you mean Sizes?"],
        ),
        ({name: FIELDS[name] for name in [*FIELDS][:4]}, ["IndexDimensions\n  is missing"]),
    ],
)
def test_a_field_that_does_not_exist_or_is_missing(fields: dict[str, Any], sentences: list[str]) -> None:
    """Constructing and parsing say the same, once for each fault, in no words of Pydantic's."""
    makers = (partial(dg.GatherOperatorDesc, **fields), partial(dg.parse_descriptor, {"type": "GATHER", "desc": fields}))
    for make in makers:
        with pytest.raises(ValidationError) as caught:
            make()
        text = str(caught.value)
        assert all(sentence in text for sentence in sentences)
        assert text.startswith(f"{len(sentences)} validation error")
        assert not any(words in text for words in ("Field required", "Extra inputs", "errors.pydantic.dev", "input_value"))


def test_values_without_names_are_refused_with_the_names() -> None:
    described: Any = dg.BufferTensorDesc
    with pytest.raises(TypeError, match=r"takes its fields by name \(data_type=, sizes=\), got 2 values"):
        described("float32", (3,))
