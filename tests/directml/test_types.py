"""Enumerations, field order and field types against directml.h; what may be written for them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from dmlgather.directml import (
    OPERATORS,
    BufferTensorDesc,
    DataType,
    DepthSpaceOrder,
    DepthToSpace1OperatorDesc,
    FeatureLevel,
    GatherOperatorDesc,
    Slice1OperatorDesc,
    TensorFlags,
    operator_named,
    parse_descriptor,
    validate,
)
from dmlgather.directml.fields import wire_name
from dmlgather.directml.types import RELEASES
from dmlgather.plan import IndexType
from tests.directml.examples import EXAMPLES
from tests.directml.pages import PAGES

# DML_TENSOR_DATA_TYPE, in the order of the header's numbers, with bytes per element (0: not whole).
TYPES = (
    "UNKNOWN 0, FLOAT32 4, FLOAT16 2, UINT32 4, UINT16 2, UINT8 1, INT32 4, INT16 2, INT8 1, FLOAT64 8, UINT64 8, INT64 8, "
    "UINT4 0, INT4 0"
)
LEVELS = "1_0 2_0 2_1 3_0 3_1 4_0 4_1 5_0 5_1 5_2 6_0 6_1 6_2 6_3 6_4"
ENORMOUS = pytest.param(10**5000, id="10**5000")  # has more digits than Python prints
TENSOR_FIELDS = "DataType, Flags, DimensionCount, Sizes, Strides, TotalTensorSizeInBytes, GuaranteedBaseOffsetAlignment"


def test_data_types() -> None:
    listed = [entry.split() for entry in TYPES.split(", ")]
    assert [(kind.name, kind.value) for kind in DataType] == [(name, number) for number, (name, _) in enumerate(listed)]
    for name, width in listed:
        if width == "0":
            with pytest.raises(ValueError, match=name):
                _ = DataType[name].bytes
        else:
            assert DataType[name].bytes == int(width)


def test_orders_between_depth_and_space() -> None:
    assert [(order.name, order.value) for order in DepthSpaceOrder] == [("DEPTH_COLUMN_ROW", 0), ("COLUMN_ROW_DEPTH", 1)]
    document = next(example for example in EXAMPLES if example.operator == "SPACE_TO_DEPTH1").document
    for written in ("COLUMN_ROW_DEPTH", "DML_DEPTH_SPACE_ORDER_COLUMN_ROW_DEPTH", 1, DepthSpaceOrder.COLUMN_ROW_DEPTH):
        assert getattr(parse_descriptor({**document, "desc": {**document["desc"], "Order": written}}), "order", None) == 1
    with pytest.raises(ValidationError, match=r"(?s)expected one of DEPTH_COLUMN_ROW \(0\), COLUMN_ROW_DEPTH \(1\)"):
        parse_descriptor({**document, "desc": {**document["desc"], "Order": 2}})


def test_index_types() -> None:
    assert {kind.name: kind.index_type for kind in DataType if kind.index_type} == {each.name: each for each in IndexType}


def test_feature_levels() -> None:
    assert [(str(level), level.value) for level in FeatureLevel] == [
        (name, int(name[0]) << 12 | int(name[2]) << 8) for name in LEVELS.split()
    ]


@pytest.mark.parametrize(
    "written",
    [
        *(
            *("3_1", "3.1", "LEVEL_3_1", "DML_FEATURE_LEVEL_3_1", "LEVEL_3.1", " 3_1 ", "0x3100", 0x3100, 3.1),
            FeatureLevel.LEVEL_3_1,
        ),
        *("DirectML 1.5", "DirectML 1.5.0", "directml 1.5.1", "DirectML-1.5.0"),
    ],
)
def test_a_level_is_written_in_several_ways(written: Any) -> None:
    assert FeatureLevel.parse(written) is FeatureLevel.LEVEL_3_1


@pytest.mark.parametrize("written", ["3.2", "7_0", "v3_0", "0x3110", "0x31000", "", 3, 3.2, None, True, ENORMOUS])
def test_an_unknown_level_is_refused_with_the_known_ones(written: Any) -> None:
    with pytest.raises(ValueError, match=r"unknown feature level .*1_0, 2_0, .*, 6_4$"):
        FeatureLevel.parse(written)


def test_a_bare_number_is_a_level_and_never_a_version() -> None:
    assert FeatureLevel.parse("1.0") is FeatureLevel.parse("DirectML 1.0") is FeatureLevel.LEVEL_1_0
    assert FeatureLevel.parse("2.1") is FeatureLevel.LEVEL_2_1
    with pytest.raises(ValueError, match=r"unknown feature level '1\.8'; .*, 6_4; DirectML 1\.8 has level 5_0$"):
        FeatureLevel.parse("1.8")


@pytest.mark.parametrize("written", ["DirectML 1.14", "DirectML 1.2.0", "DirectML 2.0"])
def test_an_unknown_version_is_refused_with_the_known_ones(written: str) -> None:
    with pytest.raises(ValueError, match=r"unknown version of DirectML .*; known versions are 1\.0, 1\.1, 1\.4, .*, 1\.15, and"):
        FeatureLevel.parse(written)


# DirectML's version history: versions, level, first Windows.
HISTORY = """
1.0.0 1_0 18362
1.1.0 2_0 19041
1.4.0 3_0
1.5.0 3_1
1.6.0 4_0 22000
1.7.0 4_1
1.8.0 5_0 22621
1.9.0 5_1
1.10.0 5_2
1.11.0 6_0
1.12.0 6_1
1.13.0 6_2
1.13.1 6_2 26100
1.15.0 6_4
1.15.4 6_4
"""


def test_releases_have_the_levels_of_the_version_history() -> None:
    rows = [line.split() for line in HISTORY.strip().splitlines()]
    for version, level, *build in rows:
        assert str(FeatureLevel.parse(f"DirectML {version}")) == level
        (release,) = (each for each in RELEASES if each.version == version.rpartition(".")[0])
        assert all(f"build {number}" in release.windows for number in build)
        assert release.redistributable == (version not in {"1.0.0", "1.1.0"})
    assert sum(bool(release.windows) for release in RELEASES) == sum(len(row) == 3 for row in rows)


def test_operators_and_their_fields() -> None:
    assert {operator.name for operator in OPERATORS.values()} == set(PAGES)
    for name, page in PAGES.items():
        operator = OPERATORS[f"DML_OPERATOR_{name}"]
        assert (operator.value, operator.introduced) == (page.number, page.introduced)
        assert [field.alias for field in operator.desc.model_fields.values()] == page.fields
        tensors = [field for field in page.fields if field.endswith("Tensor")]
        assert [wire_name(field) for field in operator.tensors] == tensors
        assert operator.desc.operator is operator
        assert operator_named(name) is operator_named(operator.type) is operator
    assert [field.alias for field in BufferTensorDesc.model_fields.values()] == TENSOR_FIELDS.split(", ")


def test_every_field_has_its_docstring_in_the_json_schema() -> None:
    for operator in OPERATORS.values():
        schema = operator.desc.model_json_schema()
        properties = {**schema["properties"], **schema["$defs"]["BufferTensorDesc"]["properties"]}
        for name, entry in properties.items():
            assert len(entry["description"]) > 20, name
            assert entry.get("title", name) == name
        assert schema["additionalProperties"] is False
    strides = Slice1OperatorDesc.model_json_schema()["properties"]["InputWindowStrides"]["items"]
    assert (strides["minimum"], strides["maximum"]) == (-(2**31), 2**31 - 1)


@pytest.mark.parametrize("written", ["INT64", "DML_TENSOR_DATA_TYPE_INT64", 11, np.uint8(11), DataType.INT64])
def test_a_data_type_is_written_in_several_ways(written: Any) -> None:
    assert BufferTensorDesc(data_type=written, sizes=(1,)).data_type is DataType.INT64


@pytest.mark.parametrize(
    ("written", "meant"), [("UINT_32", "UINT32"), ("Int64", "INT64"), ("DML_TENSOR_DATA_TYPE_FLOT16", "FLOAT16")]
)
def test_a_misspelt_data_type_is_refused_with_the_one_meant(written: str, meant: str) -> None:
    with pytest.raises(ValidationError, match=f"'{written}' is no DataType; did you mean {meant}\\?") as caught:
        BufferTensorDesc(data_type=written, sizes=(1,))
    assert "FLOAT64" not in str(caught.value)


@pytest.mark.parametrize("written", ["i3", "11", 14, -1, True, 11.0, [11], ENORMOUS])
def test_an_unknown_data_type_is_refused_with_the_known_ones(written: Any) -> None:
    with pytest.raises(ValidationError, match=r"(?s)expected one of UNKNOWN \(0\), FLOAT32 \(1\), .*INT4 \(13\)"):
        BufferTensorDesc(data_type=written, sizes=(1,))


@pytest.mark.parametrize(
    "written", ["OWNED_BY_DML", "DML_TENSOR_FLAG_OWNED_BY_DML", ["NONE", "OWNED_BY_DML"], 1, "NONE | OWNED_BY_DML"]
)
def test_flags_are_written_in_several_ways(written: Any) -> None:
    assert BufferTensorDesc(data_type=1, sizes=(1,), flags=written).flags is TensorFlags.OWNED_BY_DML


@pytest.mark.parametrize("written", ["DML", 2, -1, True, 1.0, ""])
def test_an_unknown_flag_is_refused_with_the_known_ones(written: Any) -> None:
    with pytest.raises(ValidationError, match=r"expected one of NONE \(0\), OWNED_BY_DML \(1\)"):
        BufferTensorDesc(data_type=1, sizes=(1,), flags=written)


@pytest.mark.parametrize("entry", [1.0, "1", True, None, -1, 2**32, ENORMOUS, np.float32(1), np.bool_(True), [1]])
def test_a_size_of_the_wrong_kind_is_refused(entry: Any) -> None:
    with pytest.raises(ValidationError) as caught:
        BufferTensorDesc(data_type=1, sizes=(3, entry))
    assert caught.value.errors()[0]["loc"] == ("sizes", 1)


@pytest.mark.parametrize("sizes", ["12", b"12", {1, 2}, 3, None, np.ones((2, 2), int), np.ones(2)])
def test_sizes_of_the_wrong_kind_are_refused(sizes: Any) -> None:
    with pytest.raises(ValidationError):
        BufferTensorDesc(data_type=1, sizes=sizes)


@pytest.mark.parametrize("sizes", [[2, 3], (2, 3), np.array([2, 3], np.uint16), [np.int64(2), 3], range(2, 4)])
def test_integers_of_any_kind_are_exact_ints(sizes: Any) -> None:
    found = BufferTensorDesc(data_type=1, sizes=sizes).sizes
    assert found == (2, 3)
    assert {type(size) for size in found} == {int}


def test_limits_of_the_integer_fields() -> None:
    widest = BufferTensorDesc(data_type=1, sizes=(2**32 - 1,), total_tensor_size_in_bytes=2**64 - 1)
    assert widest.total_bytes == 2**64 - 1
    with pytest.raises(ValidationError):
        BufferTensorDesc(data_type=1, sizes=(1,), total_tensor_size_in_bytes=2**64)
    with pytest.raises(ValidationError):
        BufferTensorDesc(data_type=1, sizes=(1,), guaranteed_base_offset_alignment=2**32)
    document = next(example for example in EXAMPLES if example.operator == "SLICE1").document
    for stride in (-(2**31), 2**31 - 1):
        document["desc"]["InputWindowStrides"][2] = stride
        assert parse_descriptor(document).model_dump()["InputWindowStrides"][2] == stride
    for stride in (-(2**31) - 1, 2**31):
        document["desc"]["InputWindowStrides"][2] = stride
        with pytest.raises(ValidationError):
            parse_descriptor(document)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"axis": "1"}, 'axis\n  expected an integer, got "1"'),
        ({"IndexDimensions": 2.5}, "index_dimensions\n  expected an integer, got 2.5"),
        ({"input_tensor": None}, "input_tensor\n  must not be null"),
        ({"axes": 1}, "axes\n  is no field; the fields are input_tensor, indices_tensor, output_tensor, axis"),
    ],
)
def test_a_copy_refuses_what_the_constructor_refuses(change: dict[str, Any], message: str) -> None:
    desc = GatherOperatorDesc.of(((4, 3), "FLOAT32"), ((2,), "INT32"))
    with pytest.raises(ValidationError, match=re.escape(message)):
        desc.model_copy(update=change)


def test_a_copy_takes_both_kinds_of_names_and_lists() -> None:
    desc = GatherOperatorDesc.of(((4, 3), "FLOAT32"), ((2,), "INT32"))
    other = GatherOperatorDesc.of(((4, 3), "FLOAT32"), ((2,), "INT32"), axis=1)
    assert desc.model_copy(update={"Axis": 1, "output_tensor": other.output_tensor}) == other
    assert desc.input_tensor.model_copy(update={"sizes": [4, 3]}) == desc.input_tensor
    assert desc.model_copy() == desc == desc.model_copy(deep=True)


def test_names_of_both_kinds_and_no_others() -> None:
    wire = BufferTensorDesc.model_validate({"DataType": "INT8", "Sizes": [2], "TotalTensorSizeInBytes": 4})
    assert wire == BufferTensorDesc(data_type="INT8", sizes=[2], total_tensor_size_in_bytes=4)
    assert wire.model_dump_json().startswith('{"DataType":"INT8","Flags":"NONE","DimensionCount":1,"Sizes":[2]')
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        BufferTensorDesc.model_validate({"DataType": "INT8", "Sizes": [2], "Size": 4})
    with pytest.raises(ValidationError, match="frozen"):
        wire.sizes = (3,)  # type: ignore[misc]


@pytest.mark.parametrize(
    "written",
    [
        {"Type": "BUFFER", "DataType": "INT8", "Sizes": [2]},
        {"Type": "DML_TENSOR_TYPE_BUFFER", "Desc": {"DataType": "INT8", "Sizes": [2]}},
        {"DataType": "INT8", "Sizes": [2], "DimensionCount": None, "Strides": None, "TotalTensorSizeInBytes": None},
    ],
)
def test_dxdispatch_forms_of_a_tensor(written: dict[str, Any]) -> None:
    assert BufferTensorDesc.model_validate(written) == BufferTensorDesc(data_type="INT8", sizes=(2,), dimension_count=1)


def test_onnx_s_names_of_orders_are_answered_with_directml_s() -> None:
    tensor = BufferTensorDesc(data_type="FLOAT32", sizes=(1, 4, 2, 2))
    fields = {"input_tensor": tensor, "output_tensor": tensor, "block_size": 1}
    for name, meant in (("DCR", "DEPTH_COLUMN_ROW"), ("CRD", "COLUMN_ROW_DEPTH")):
        with pytest.raises(ValidationError, match=f"'{name}' is ONNX's name; DirectML's is {meant}"):
            DepthToSpace1OperatorDesc.model_validate({**fields, "order": name})


@pytest.mark.parametrize(
    "written",
    [
        {"Type": "INVALID", "DataType": "INT8", "Sizes": [2]},
        {"Type": 1, "DataType": "INT8", "Sizes": [2]},
        {"Type": True, "DataType": "INT8", "Sizes": [2]},
        {"Type": "BUFFER", "Desc": [1]},
        {"Type": "BUFFER", "Desc": {"DataType": "INT8", "Sizes": [2]}, "Sizes": [2]},
    ],
)
def test_other_forms_of_a_tensor_are_refused(written: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="BUFFER"):
        BufferTensorDesc.model_validate(written)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (
            {"type": "DML_OPERATOR_SCATTER", "desc": {}},
            "known operators are GATHER, GATHER_ELEMENTS, GATHER_ND, ",
        ),
        ({"type": "DML_OPERATOR_GATHER"}, "(?s)5 validation errors.*IndexDimensions\n  is missing"),
        ({"type": "DML_OPERATOR_GATHER", "desc": {}, "Desc": {}}, "expected .*desc.* got the keys"),
        ("models/gather.json", r"expected .*, got the path 'models/gather.json': pass pathlib.Path\(…\).read_text\(\)$"),
        ("C:\\x.jsonl", r"got the path 'C:.*x.jsonl': pass pathlib"),
        ("gather.json\n", "got the path"),
        ("gather", "as JSON: Expecting value"),
        ('{"type": "DML_OPERATOR_GATHER", "type": 1}', "as JSON: the key 'type' appears twice in one object"),
        ("{", "expected .*desc.* as JSON: .*line 1 column 2"),
        (b"\xff", "expected .*desc.* as JSON: .*0xff"),
        ("[]", "expected .*type.* got a value of type list"),
        ({"desc": {}}, r"expected .*type.* got the keys \['desc'\], without 'type'"),
        ({"type": "DML_OPERATOR_GATHER", "desc": {}}, "(?s)Axis\n  is missing"),
        ({"type": ["GATHER"], "desc": {}}, "unknown operator"),
        ([], "expected .*type.* got a value of type list"),
    ],
)
def test_documents_that_are_no_descriptor(written: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_descriptor(written)


def test_a_count_that_was_never_set_is_not_said_to_be_0() -> None:
    tensor = BufferTensorDesc(data_type=1, sizes=(), dimension_count=0xCDCDCDCD)
    found = validate(EXAMPLES[1].desc.model_copy(update={"input_tensor": tensor})).errors
    (finding,) = (error for error in found if error.path == "InputTensor.DimensionCount")
    assert finding.expected == "1 … 8, the number of Sizes"
    assert "never set" in finding.remedy


def test_a_stated_count_may_be_wrong_and_is_a_finding() -> None:
    tensor = BufferTensorDesc(data_type=1, sizes=(2, 3), dimension_count=7)
    desc = EXAMPLES[1].desc.model_copy(update={"input_tensor": tensor})
    (finding,) = validate(desc).errors
    assert (finding.code, finding.path, finding.expected, finding.got) == (
        *("DML101", "InputTensor.DimensionCount", "2, the number of Sizes", "7"),
    )


def test_a_windows_in_place_of_a_level_is_answered_with_levels() -> None:
    with pytest.raises(ValueError, match=r"Windows 10 1903 has 1_0, Windows 10 2004 has 2_0, Windows 11 21H2 has 4_0"):
        FeatureLevel.parse("Windows 10 1903")


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("1.8", "; DirectML 1.8 has level 5_0"),
        ("1.15.4", "; DirectML 1.15 has level 6_4"),
        ("1.8.0", "; DirectML 1.8 has level 5_0"),
        ("DML 1.8", "; DirectML 1.8 has level 5_0"),
        ("DirectML 1.14.1", "; DirectML 1.14 has level 6_2 or higher, as 1.13 has it"),
        (
            "onnxruntime-directml 1.20",
            "of DirectML in onnxruntime-directml, and their levels",
        ),
        ("9.9", "6_4"),
        ("DirectML 7.1", "1.15, and their patches"),
        ("newest", "6_4"),
    ],
)
def test_a_version_in_place_of_a_level_is_answered_with_it(written: str, hint: str) -> None:
    with pytest.raises(ValueError, match=f"{re.escape(hint)}$"):
        FeatureLevel.parse(written)
