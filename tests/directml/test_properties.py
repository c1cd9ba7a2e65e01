"""Thousands of random descriptors: legal ones are clean and lower right, broken ones are found under their one code."""

from __future__ import annotations

import json
import random
from math import prod

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dmlgather.directml import (
    CODES,
    BufferTensorDesc,
    DepthToSpace1OperatorDesc,
    FeatureLevel,
    GatherElementsOperatorDesc,
    GatherND1OperatorDesc,
    GatherNDOperatorDesc,
    GatherOperatorDesc,
    OperatorDesc,
    Severity,
    Slice1OperatorDesc,
    SliceOperatorDesc,
    SpaceToDepth1OperatorDesc,
    TensorFlags,
    lower,
    minimum_level,
    parse_descriptor,
    validate,
)
from dmlgather.plan import canonicalise
from tests.directml.buffers import documented, elements, logical, run_reference
from tests.directml.making import Described, make
from tests.directml.writing import OF_FILES
from tests.strategies import BREAKERS, Broken, Problem, broken_descriptors, legal_descriptors, problems

many = settings(max_examples=1300, deadline=None)
some = settings(max_examples=300, deadline=None)
seeds = st.integers(0, 2**63 - 1)
STEPS = [FeatureLevel.parse(level) for level in ("1_0", "2_0", "2_1", "3_0", "4_0", "4_1", "6_4")]


@many
@given(legal_descriptors())
def test_legal_descriptors_have_no_errors(found: Described) -> None:
    report = validate(found.desc, found.level)
    assert report.ok, str(report)
    lowest = minimum_level(found.desc)
    assert lowest is not None
    assert lowest <= found.level
    for level in STEPS:
        assert validate(found.desc, level).ok is (level >= lowest)


@many
@given(problems())
def test_lowering_equals_the_documented_reference(problem: Problem) -> None:
    desc = problem.desc
    tensor = desc.tensor("output_tensor")
    output = np.frombuffer(random.Random(problem.seed).randbytes(tensor.total_bytes), np.uint8).copy()
    before = elements(tensor, output).copy()
    run_reference(desc, problem.inputs, output)
    assert np.array_equal(logical(tensor, output), documented(desc, problem.inputs))
    # Between the described elements nothing is written.
    written = np.zeros(before.size, bool)
    for c in np.ndindex(tensor.sizes):
        written[sum(x * step for x, step in zip(c, tensor.element_strides, strict=True))] = True
    assert np.array_equal(elements(tensor, output)[~written], before[~written])
    assert written.sum() == prod(tensor.sizes)


@many
@given(broken_descriptors())
def test_a_broken_rule_is_found_under_its_code_alone(found: Broken) -> None:
    report = validate(found.desc, found.level)
    assert {finding.code for finding in report.errors} == {found.code}, str(report)
    assert minimum_level(found.desc) is None or found.code in ("DML201", "DML202", "DML203")
    for finding in report.findings:
        assert "\n" not in str(finding)
        assert all((finding.expected, finding.got, finding.remedy, finding.source))


def test_every_error_of_a_descriptor_has_a_breaker() -> None:
    errors = [code for code, row in CODES.items() if row.severity is Severity.ERROR and not code.startswith(OF_FILES)]
    assert list(BREAKERS) == errors


@some
@given(legal_descriptors())
def test_descriptors_survive_json(found: Described) -> None:
    desc, text = found.desc, found.desc.model_dump_json()
    assert json.loads(text)["type"] == desc.operator.type
    for written in (text, text.encode(), json.loads(text), desc.model_dump(), desc.document(), json.dumps(desc.document())):
        assert parse_descriptor(written) == desc
    assert type(desc)(**desc.model_dump()) == type(desc).model_validate_json(text) == desc
    assert "\n" not in str(desc)


def _same(one: OperatorDesc, other: OperatorDesc) -> None:
    assert validate(one).ok, str(validate(one))
    assert validate(other).ok, str(validate(other))
    assert canonicalise(lower(one)) == canonicalise(lower(other))


def _drawn(seed: int, operator: str) -> OperatorDesc:
    return make(random.Random(seed), operator, FeatureLevel.LEVEL_6_4).desc


@some
@given(seeds)
def test_gather_nd_is_gather_nd1_without_batch(seed: int) -> None:
    desc = _drawn(seed, "GATHER_ND")
    fields = {name: getattr(desc, name) for name in GatherNDOperatorDesc.model_fields}
    _same(desc, GatherND1OperatorDesc(**fields, batch_dimension_count=0))


@some
@given(seeds)
def test_slice_is_slice1_with_positive_strides(seed: int) -> None:
    desc = _drawn(seed, "SLICE")
    assert isinstance(desc, SliceOperatorDesc)
    slice1 = Slice1OperatorDesc(
        input_tensor=desc.input_tensor,
        output_tensor=desc.output_tensor,
        input_window_offsets=desc.offsets,
        input_window_sizes=[1 + (size - 1) * step for size, step in zip(desc.sizes, desc.strides, strict=True)],
        input_window_strides=[min(step, 2**31 - 1) for step in desc.strides],
    )
    _same(desc, slice1)


@some
@given(seeds)
def test_depth_to_space_is_space_to_depth_with_swapped_tensors(seed: int) -> None:
    desc = _drawn(seed, "DEPTH_TO_SPACE1")
    assert isinstance(desc, DepthToSpace1OperatorDesc)
    inputs = desc.input_tensor.model_copy(update={"flags": TensorFlags.NONE, "strides": None, "total_tensor_size_in_bytes": None})
    back = SpaceToDepth1OperatorDesc(
        input_tensor=desc.output_tensor, output_tensor=inputs, block_size=desc.block_size, order=desc.order
    )
    there = desc.model_copy(update={"input_tensor": inputs})
    assert validate(back).ok, str(validate(back))
    plan, inverse = lower(there), lower(back)
    assert (plan.in_strides, plan.out_strides, plan.shape) == (inverse.out_strides, inverse.in_strides, inverse.shape)


@some
@given(seeds)
def test_blocks_of_one_element_are_a_slice_of_everything(seed: int) -> None:
    desc = _drawn(seed, "SPACE_TO_DEPTH1")
    output = desc.tensor("input_tensor").model_copy(
        update={"flags": TensorFlags.NONE, "strides": None, "total_tensor_size_in_bytes": None}
    )
    moved = desc.model_copy(update={"output_tensor": output, "block_size": 1})
    whole = SliceOperatorDesc(
        input_tensor=desc.tensor("input_tensor"), output_tensor=output, offsets=(0,) * 4, sizes=output.sizes, strides=(1,) * 4
    )
    _same(moved, whole)


@some
@given(seeds)
def test_gather_of_rows_is_gather_nd_with_one_component(seed: int) -> None:
    rng = random.Random(seed)
    rows, columns, count = (rng.randint(1, 6) for _ in range(3))
    kind = rng.choice(("UINT32", "INT32", "INT64", "UINT64"))
    data = BufferTensorDesc(data_type="FLOAT16", sizes=(1, rows, columns), strides=(0, columns + rng.randrange(3), 1))
    output = BufferTensorDesc(data_type="FLOAT16", sizes=(1, count, columns))
    gather = GatherOperatorDesc(
        input_tensor=data,
        indices_tensor=BufferTensorDesc(data_type=kind, sizes=(1, 1, count)),
        output_tensor=output,
        axis=1,
        index_dimensions=1,
    )
    nd = GatherND1OperatorDesc(
        input_tensor=data,
        indices_tensor=BufferTensorDesc(data_type=kind, sizes=(1, count, 1)),
        output_tensor=output,
        input_dimension_count=2,
        indices_dimension_count=2,
        batch_dimension_count=0,
    )
    _same(gather, nd)


@some
@given(seeds)
def test_gather_is_gather_elements_with_repeated_indices(seed: int) -> None:
    drawn = _drawn(seed, "GATHER_ELEMENTS")
    assert isinstance(drawn, GatherElementsOperatorDesc)
    indices, axis = drawn.indices_tensor, drawn.axis
    rank, count = indices.rank, indices.sizes[axis]
    repeated = BufferTensorDesc(
        data_type=indices.data_type, sizes=indices.sizes, strides=[1 if dim == axis else 0 for dim in range(rank)]
    )
    gather = GatherOperatorDesc(
        input_tensor=drawn.input_tensor,
        indices_tensor=BufferTensorDesc(data_type=indices.data_type, sizes=[1] * (rank - 1) + [count]),
        output_tensor=drawn.output_tensor,
        axis=axis,
        index_dimensions=1,
    )
    _same(drawn.model_copy(update={"indices_tensor": repeated}), gather)


@some
@given(seeds)
def test_gather_with_leading_index_dimensions_is_gather_nd1(seed: int) -> None:
    rng = random.Random(seed)
    batch, rows, columns, count = rng.randint(2, 4), *(rng.randint(1, 5) for _ in range(3))
    data = BufferTensorDesc(data_type="INT8", sizes=(batch, rows, columns))
    output = BufferTensorDesc(data_type="INT8", sizes=(batch, count, columns))
    gather = GatherOperatorDesc(
        input_tensor=data,
        indices_tensor=BufferTensorDesc(data_type="INT32", sizes=(1, batch, count)),
        output_tensor=output,
        axis=1,
        index_dimensions=1,
    )
    nd = GatherND1OperatorDesc(
        input_tensor=data,
        indices_tensor=BufferTensorDesc(data_type="INT32", sizes=(batch, count, 1)),
        output_tensor=output,
        input_dimension_count=3,
        indices_dimension_count=3,
        batch_dimension_count=1,
    )
    _same(gather, nd)
