"""What rules accept and refuse, the levels that findings name, and the report as a whole."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from dmlgather.directml import (
    CODES,
    OPERATORS,
    SOURCES,
    DescriptorError,
    FeatureLevel,
    minimum_level,
    parse_descriptor,
    validate,
)
from dmlgather.directml.rules.rule import Rule
from dmlgather.directml.rules.shared import OPERATOR_LEVEL, SHARED_RULES, TENSOR_LEVEL_RULES
from dmlgather.directml.rules.tensors import TENSOR_RULES
from tests.directml.writing import OF_FILES, cut, document, found, moved, rows, tensor

LEVELS: list[tuple[dict[str, Any], str, str, str | None]] = [
    (cut(tensor([1] * 4, "INT8"), tensor([1] * 4, "INT8")), "1_0", "DML201", "2_1"),
    (cut(tensor([1] * 4, "INT64"), tensor([1] * 4, "INT64")), "3_1", "DML201", "4_1"),
    (rows(tensor([1] * 4), tensor([1] * 4, "INT64"), tensor([1] * 4)), "2_1", "DML201", "3_0"),
    (rows(tensor([1] * 4), tensor([1] * 4, "FLOAT32"), tensor([1] * 4)), "6_4", "DML201", None),
    (rows(tensor([1] * 5), tensor([1] * 5, "UINT32"), tensor([1] * 5)), "2_1", "DML202", "3_0"),
    (cut(tensor([1] * 3), tensor([1] * 3)), "1_0", "DML202", "3_0"),
    (moved(tensor([1] * 4, "INT64"), tensor([1] * 4, "INT64")), "4_1", "DML201", "5_0"),
    (moved(tensor([1] * 3), tensor([1] * 3)), "6_4", "DML202", None),
    (moved(tensor([1] * 5), tensor([1] * 5)), "6_4", "DML202", None),
    (
        document("GATHER_ELEMENTS", tensor([1] * 4), tensor([1] * 4, "UINT32"), tensor([1] * 4), Axis=0),
        "2_0",
        "DML203",
        "2_1",
    ),
    (
        document("GATHER_ELEMENTS", tensor([1] * 4, "INT64"), tensor([1] * 4, "UINT32"), tensor([1] * 4, "INT64"), Axis=0),
        "2_0",
        "DML203",
        "4_1",
    ),
]


@pytest.mark.parametrize(("written", "level", "code", "accepting"), LEVELS)
def test_a_finding_names_the_lowest_level_that_accepts(
    written: dict[str, Any], level: str, code: str, accepting: str | None
) -> None:
    findings = found(written, level)
    assert {finding.code for finding in findings} == {code}
    for finding in findings:
        assert finding.level == (FeatureLevel.parse(accepting) if accepting else None)
        if accepting:
            assert accepting in finding.remedy
    assert minimum_level(parse_descriptor(written)) == (FeatureLevel.parse(accepting) if accepting else None)


def test_stride_0_is_fine_where_it_does_no_harm() -> None:
    padded = cut(tensor([1, 4], Strides=[0, 1]), tensor([1, 3], Strides=[0, 1]), Offsets=[0, 1])
    repeated = rows(tensor([4, 3], Strides=[0, 1]), tensor([1, 2], "UINT32", Strides=[0, 0]), tensor([2, 3]))
    interleaved = cut(tensor([3, 2]), tensor([3, 2], Strides=[2, 3]))  # not nested, yet no two elements share an address
    for written in (padded, repeated, interleaved):
        assert not found(written)


@pytest.mark.parametrize(
    ("data", "indices", "axis", "count", "codes"),
    [
        ([3, 3], [3, 2], 1, 1, ["DML305"]),
        ([1, 3, 3], [1, 3, 2], 2, 1, ["DML305"]),
        ([1, 3, 3], [3, 1, 2], 2, 1, ["DML304"]),  # reaches Axis
        ([3, 3], [2, 2], 1, 1, ["DML304"]),
        ([3, 4, 5], [3, 4, 2], 2, 1, ["DML305"]),
        ([3, 4, 5], [4, 4, 2], 2, 1, ["DML304"]),
        ([3, 4, 5], [1, 3, 2], 2, 1, ["DML305"]),  # aligned on the left: 3 is a batch, 4 runs freely
        ([3, 4, 5], [1, 4, 2], 2, 1, ["DML304"]),
        ([3, 4, 5], [1, 1, 3], 2, 0, ["DML305"]),
        ([5, 4], [2, 1], 0, 1, ["DML304"]),
    ],
)
def test_batch_reading_of_leading_index_dimensions(
    data: list[int], indices: list[int], axis: int, count: int, codes: list[str]
) -> None:
    sizes = [*data[:axis], *indices[len(indices) - count :], *data[axis + 1 :]]
    output = tensor([1] * (len(data) - len(sizes)) + sizes)
    assert [finding.code for finding in found(rows(tensor(data), tensor(indices, "INT32"), output, axis, count))] == codes


def test_every_finding_of_a_descriptor_is_reported_at_once() -> None:
    written = rows(
        tensor([4, 3], TotalTensorSizeInBytes=40),
        tensor([1, 2], "FLOAT16", GuaranteedBaseOffsetAlignment=3),
        tensor([2, 3], "FLOAT16", Flags="OWNED_BY_DML"),
        axis=2,
    )
    report = validate(parse_descriptor(written), "2_1")
    codes = [finding.code for finding in report.findings]
    assert codes == ["DML106", "DML202", "DML110", "DML201", "DML202", "DML112", "DML202", "DML205", "DML206"]
    with pytest.raises(DescriptorError) as caught:
        report.raise_for_errors()
    message = str(caught.value)
    assert message.startswith("DML_OPERATOR_GATHER at feature level 2_1 has 9 errors:")
    assert all(str(finding) in message for finding in report.errors)
    assert caught.value.report == report
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.report) == (message, report)
    assert type(report).model_validate_json(report.model_dump_json()) == report


def test_a_clean_report() -> None:
    report = validate(parse_descriptor(cut(tensor([1, 1, 4, 4]), tensor([1, 1, 2, 2]))), "1_0")
    report.raise_for_errors()
    assert report.ok
    assert (report.findings, report.errors, report.warnings) == ((), (), ())
    assert str(report) == "DML_OPERATOR_SLICE at feature level 1_0: no findings"


def test_an_unknown_level_is_refused() -> None:
    desc = parse_descriptor(cut(tensor([4]), tensor([4])))
    with pytest.raises(ValueError, match="unknown feature level '9_9'"):
        validate(desc, "9_9")


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=lambda operator: operator.name)
def test_a_rule_needs_no_rule_behind_it(operator: Any) -> None:
    common: tuple[Rule, ...] = (OPERATOR_LEVEL, *TENSOR_RULES, *TENSOR_LEVEL_RULES, *SHARED_RULES)
    rules = (*common, *operator.rules)
    for number, rule in enumerate(rules):
        assert {rule.code, *rule.needs} <= CODES.keys(), rule.code
        assert not set(rule.needs) & {other.code for other in rules[number:]}, rule.code
    assert len({rule.code for rule in rules}) == len(rules)


def test_every_code_of_a_descriptor_has_a_rule() -> None:
    common = (OPERATOR_LEVEL, *TENSOR_RULES, *TENSOR_LEVEL_RULES, *SHARED_RULES)
    rules = [rule for rules in (common, *(operator.rules for operator in OPERATORS.values())) for rule in rules]
    assert {rule.code for rule in rules} == {code for code in CODES if not code.startswith(OF_FILES)}


def test_every_source_has_its_key_explained() -> None:
    for row in CODES.values():
        for key in row.source.split("[")[1:]:
            assert key.split("]")[0] in SOURCES, row.source
