"""Random cases are legal, cover every operator and type, and stay within the documented behaviour."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.random_cases import RandomCase, random_cases
from conformance.random_descriptors import MAKERS
from dmlgather.directml import FeatureLevel, TensorFlags, lower, validate
from dmlgather.directml.operators import OPERATORS
from dmlgather.plan import packed_strides
from tests.directml.buffers import documented, logical
from tests.directml.pages import PAGES

LEVELS = [FeatureLevel.parse(level) for level in ("1_0", "2_1", "3_0", "4_1", "6_4")]


def drawn(level: FeatureLevel, number: int = 240, seed: int = 1) -> list[RandomCase]:
    return list(random_cases(number, level, seed))


def test_every_operator_has_a_maker() -> None:
    assert set(MAKERS) == {operator.name for operator in OPERATORS.values()}


@pytest.mark.parametrize("level", LEVELS, ids=str)
def test_cases_are_legal_at_their_level_without_a_warning(level: FeatureLevel) -> None:
    for desc, _ in drawn(level):
        report = validate(desc, level=level)
        assert {str(finding.severity) for finding in report.findings} <= {"note"}, str(report)


@pytest.mark.parametrize("level", LEVELS, ids=str)
def test_cases_cover_the_types_and_ranks_of_the_pages(level: FeatureLevel) -> None:
    found: dict[tuple[str, str], set[object]] = {}
    for desc, _ in drawn(level, 2400):
        name = desc.operator.name
        found.setdefault((name, "counts"), set()).add(desc.tensor("input_tensor").rank)
        found.setdefault((name, "data"), set()).add(desc.tensor("input_tensor").data_type.name)
        if "indices_tensor" in desc.operator.inputs:
            found.setdefault((name, "indices"), set()).add(desc.tensor("indices_tensor").data_type.name)
    for name, page in PAGES.items():
        taken = page.at(level)
        for kind in ("counts", "data", "indices"):
            assert found.get((name, kind), set()) == set(getattr(taken, kind)), (name, kind)


@pytest.mark.parametrize(("level", "elements", "indices"), [("2_1", False, False), ("4_0", False, True), ("4_1", True, True)])
def test_64_bit_types_occur_only_at_their_levels(level: str, elements: bool, indices: bool) -> None:
    cases = [desc for desc, _ in drawn(FeatureLevel.parse(level))]
    types = {
        field: {desc.tensor(field).data_type.name for desc in cases if field in desc.operator.tensors}
        for field in ("input_tensor", "indices_tensor")
    }
    assert [any("64" in name for name in types[field]) for field in types] == [elements, indices]


def test_layouts_and_flags_vary() -> None:
    inputs = [desc.tensor("input_tensor") for desc, _ in drawn(LEVELS[-1], 800)]
    assert any(tensor.flags == TensorFlags.OWNED_BY_DML for tensor in inputs)
    assert any(
        0 in [step for size, step in zip(tensor.sizes, tensor.element_strides, strict=True) if size > 1] for tensor in inputs
    )
    assert any(sorted(tensor.element_strides) == list(tensor.element_strides) for tensor in inputs if tensor.elements > 20)
    assert any(tensor.total_bytes > tensor.minimum_bytes for tensor in inputs)
    assert {tensor.guaranteed_base_offset_alignment for tensor in inputs} == {0, 16, 32, 256}
    assert max(tensor.elements for tensor in inputs) > 1000


def test_random_cases_contain_nothing_undocumented() -> None:
    negative = 0
    for desc, inputs in drawn(LEVELS[-1], 800):
        output = desc.tensor("output_tensor")
        assert output.element_strides == packed_strides(output.sizes)
        data = inputs[0]
        if data.dtype.kind == "f":
            tiny = np.finfo(data.dtype).smallest_normal
            assert (np.isfinite(data) & (abs(data) >= tiny)).all()
        if len(inputs) == 2:
            tensor = desc.tensor("indices_tensor")
            values = logical(tensor, inputs[1].view(np.uint8))
            sizes = [desc.tensor("input_tensor").sizes[axis] for axis in desc.operator.lookup_axes(desc)]
            limits = np.array(sizes) if desc.operator.name.startswith("GATHER_ND") else sizes[0]
            assert (values.astype(object) < limits).all()
            assert (values.astype(object) >= -np.array(limits)).all()
            negative += int((values < 0).any())
            assert tensor.flags == TensorFlags.NONE
        assert len(inputs) == len(desc.operator.inputs)
    assert negative > 50


def test_the_documented_pseudocode_takes_the_cases() -> None:
    for desc, inputs in drawn(LEVELS[-1], 160):
        assert documented(desc, tuple(values.view(np.uint8) for values in inputs)).shape == desc.tensor("output_tensor").sizes


def test_a_seed_reproduces_the_cases() -> None:
    first, again, other = (drawn(LEVELS[-1], 40, seed) for seed in (3, 3, 4))
    assert [desc for desc, _ in first] == [desc for desc, _ in again] != [desc for desc, _ in other]
    for left, right in zip(first, again, strict=True):
        assert [values.tobytes() for values in left.inputs] == [values.tobytes() for values in right.inputs]
    assert all(lower(desc).shape for desc, _ in first)
