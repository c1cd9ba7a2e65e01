"""lax.gather as DirectML descriptors: what comes out validates, and gives the elements of JAX's page when it runs."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

import dmlgather as dg
from dmlgather.dialects.problem import TensorType
from dmlgather.directml import FeatureLevel
from dmlgather.lax import GatherDimensionNumbers
from dmlgather.lax.problems.export import EXPORTER
from dmlgather.lax.problems.gather import LaxGather
from dmlgather.plan import overlaps
from tests.dialects import binding
from tests.dialects.binding import LEVELS, listed
from tests.dialects.drafting import seeds
from tests.lax.random_windows import Windows, check, drawn, refusals

levels = st.sampled_from(LEVELS)


def problem(case: Windows) -> LaxGather:
    data, indices = (TensorType(array.shape, array.dtype) for array in (case.operand, case.starts))
    return LaxGather.from_call(data, indices, case.numbers, case.sizes, mode=case.mode, fill_value=None)


@pytest.mark.slow
@settings(max_examples=350, deadline=None)
@given(seeds, levels)
def test_what_is_returned_validates_and_gives_the_elements_of_the_page(seed: int, level: FeatureLevel) -> None:
    case = drawn(seed, level)
    certain, possible = refusals(case, level)
    found = case.described(level)
    if not isinstance(found, dg.Report):
        assert not certain, found
        check(case, found, level)
        return
    codes = {finding.code for finding in found.findings}
    assert codes == certain or (len(codes) == 1 and codes <= possible), str(found)
    assert (found.subject == "JAX lax.gather") is (codes != {"DML201"})
    for finding in found.findings:
        assert finding.severity == "error"
        assert "\n" not in str(finding)
        assert finding.path.split("[")[0].split(".")[0] in (
            *("", "operand", "start_indices", "slice_sizes", "output", "operand_batching_dims"),
            *("InputTensor", "OutputTensor"),
        )


@settings(max_examples=100, deadline=None)
@given(seeds, levels)
def test_one_window_of_known_start_is_a_slice(seed: int, level: FeatureLevel) -> None:
    case = drawn(seed, level, partial=0.4)
    starts = case.starts[(slice(0, 1),) * (case.starts.ndim - 1)]
    shape = list(case.operand.shape)
    for ours, _ in zip(case.numbers.operand_batching_dims, case.numbers.start_indices_batching_dims, strict=True):
        shape[ours] = min(shape[ours], 1)
    operand = case.operand[tuple(map(slice, shape))]
    one = Windows(operand, starts, case.numbers, case.sizes, case.mode)
    found = one.described(level, constants={"start_indices": starts})
    if isinstance(found, dg.Report):
        assert {finding.code for finding in found.findings} <= {"EXP102", "DML201"}, str(found)
        return
    assert {desc.operator.name for desc in listed(found)} <= {"SLICE", "SLICE1"}
    check(one, found, level)
    assert dg.lax.differences(*one.arguments, mode=case.mode, constants={"start_indices": starts}) == ()


@settings(max_examples=150, deadline=None)
@given(seeds)
def test_with_unsigned_indices_under_clip_descriptor_and_gather_are_one_plan(seed: int) -> None:
    case = drawn(seed, LEVELS[-1], partial=0)
    kind = "uint32" if seed % 2 else "uint64"
    case = Windows(case.operand, case.starts.astype(kind), case.numbers, case.sizes, "clip")
    found = case.described("6_4")
    if not isinstance(found, dg.OperatorDesc):
        empty = any(0 in shape for shape in (case.operand.shape, case.starts.shape[:-1], case.expected().shape))
        assert empty or isinstance(found, tuple), str(found)
        return
    layouts = {name: found.tensor(name).layout() for name in found.operator.tensors}
    lowered = found.operator.lower(found, layouts)
    assert dg.canonicalise(lowered) == dg.canonicalise(problem(case).plan())


@settings(max_examples=100, deadline=None)
@given(seeds)
def test_repetitions_and_the_gather_from_them_compose_to_the_plan_of_the_windows(seed: int) -> None:
    case = drawn(seed, LEVELS[-1], partial=0.6)
    case = Windows(case.operand, case.starts.astype("uint32"), case.numbers, case.sizes, "clip")
    found = case.described("6_4")
    if isinstance(found, dg.Report) or len(listed(found)) == 1:
        return
    repeat, gather = (
        desc.operator.lower(desc, {name: desc.tensor(name).layout() for name in desc.operator.tensors}) for desc in listed(found)
    )
    assert dg.canonicalise(dg.compose(gather, repeat)) == dg.canonicalise(problem(case).plan())


@settings(max_examples=100, deadline=None)
@given(seeds, levels)
def test_the_lowest_level_is_the_first_that_takes_it(seed: int, level: FeatureLevel) -> None:
    stated = problem(drawn(seed, level))
    takes = [each for each in LEVELS if not isinstance(EXPORTER.express(stated, each), dg.Report)]
    found = EXPORTER.lowest(stated)
    if found is None:
        assert not takes
        return
    assert takes == LEVELS[LEVELS.index(found[0]) :]
    assert EXPORTER.express(stated, found[0]) == found[1]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(seeds)
def test_the_page_says_what_jax_does(seed: int) -> None:
    case = drawn(seed, LEVELS[-1], partial=0.2)
    if 0 in case.starts.shape[:-1] or 0 in case.operand.shape:
        return
    operand = np.random.default_rng(seed).random(case.operand.shape, np.float32)
    case = Windows(operand, case.starts.astype(np.int32), case.numbers, case.sizes, case.mode)
    theirs = lax.GatherDimensionNumbers(
        *(getattr(case.numbers, name) for name in ("offset_dims", "collapsed_slice_dims", "start_index_map")),
        *(getattr(case.numbers, name) for name in ("operand_batching_dims", "start_indices_batching_dims")),
    )
    found = np.asarray(lax.gather(case.operand, jax.numpy.asarray(case.starts), theirs, case.sizes, mode=case.mode))
    assert found.tobytes() == case.expected().tobytes()


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(seeds, levels)
def test_partial_windows_give_jaxs_elements_where_starts_are_too_large(seed: int, level: FeatureLevel) -> None:
    case = drawn(seed, level, partial=0.6)
    rng = np.random.default_rng(seed)
    operand = rng.integers(-(2**31), 2**31, case.operand.shape, np.int32)
    case = Windows(operand, rng.integers(0, 8, case.starts.shape, np.int32), case.numbers, case.sizes, "clip")
    found = case.described(level)
    if isinstance(found, dg.Report):
        assert {finding.code for finding in found.findings} <= {"EXP102", "EXP104", "EXP106", "DML201"}, str(found)
        return
    numbers = lax.GatherDimensionNumbers(**dataclasses.asdict(case.numbers))
    expected = np.asarray(lax.gather(operand, case.starts, numbers, case.sizes, mode="clip"))
    binding.check(found, level, expected, data=operand, indices=case.starts, sizes=np.array(0))


ROWS = GatherDimensionNumbers((1,), (0,), (0,))
WINDOWS = GatherDimensionNumbers((1,), (), (0,))
ROWS_OF_SEVEN = GatherDimensionNumbers((1, 2), (), (0,))


def test_a_partial_window_is_read_from_repetitions_of_the_operand() -> None:
    repeat, gather = listed(dg.lax.to_directml(((8,), "float32"), ((5, 1), "int32"), WINDOWS, (3,)))
    assert isinstance(repeat, dg.Slice1OperatorDesc)
    assert (repeat.input_tensor.sizes, repeat.input_tensor.strides) == ((3, 8), (0, 1))
    assert (repeat.output_tensor.sizes, repeat.output_tensor.strides) == ((3, 8), None)
    assert isinstance(gather, dg.GatherOperatorDesc)
    # Start p and offset j lie in repetition j at p + j.
    assert (gather.input_tensor.sizes, gather.input_tensor.strides) == ((6, 3), (1, 9))
    assert (gather.axis, gather.output_tensor.sizes) == (0, (5, 3))


def test_a_window_with_fewer_starts_than_elements_has_a_repetition_per_start() -> None:
    repeat, gather = listed(dg.lax.to_directml(((8, 2), "float32"), ((5, 1), "int32"), ROWS_OF_SEVEN, (7, 2)))
    assert repeat.tensor("output_tensor").sizes == (2, 8, 2)
    # Start p lies in repetition p, at the row p.
    assert (gather.tensor("input_tensor").sizes, gather.tensor("input_tensor").strides) == ((2, 7, 2), (18, 2, 1))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("shape", [(6,), (3, 6), (2, 3, 6)])
@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_no_two_elements_share_an_address_but_by_strides_of_0(shape: tuple[int, ...], size: int, level: FeatureLevel) -> None:
    axis = len(shape) - 1
    numbers = GatherDimensionNumbers(tuple(range(1, len(shape) + 1)), (), (axis,))
    found = listed(dg.lax.to_directml((shape, "float32"), ((4, 1), "int32"), numbers, (*shape[:-1], size), level))
    assert [desc.operator.name for desc in found][1:] == ["GATHER"]
    for tensor in (desc.tensor(name) for desc in found for name in desc.operator.tensors):
        strides = zip(tensor.sizes, tensor.element_strides, strict=True)
        sizes, steps = zip(*((size if step else 1, step) for size, step in strides), strict=True)
        assert overlaps(sizes, steps) is False


def test_rows_are_a_gather() -> None:
    found = dg.lax.to_directml(((30522, 384), "float32"), ((128, 1), "int32"), ROWS, (1, 384), "1_0")
    assert isinstance(found, dg.GatherOperatorDesc)
    assert found.input_tensor.sizes == (1, 1, 30522, 384)
    assert found.indices_tensor.sizes == (1, 1, 1, 128)
    assert found.indices_tensor.data_type.name == "UINT32"
    assert (found.axis, found.index_dimensions) == (2, 1)


def test_components_in_another_order_are_a_permuted_view() -> None:
    numbers = GatherDimensionNumbers((), (0, 1), (1, 0))
    found = dg.lax.to_directml(((5, 7), "float32"), ((3, 2), "int64"), numbers, (1, 1), "6_4")
    assert isinstance(found, dg.GatherND1OperatorDesc)
    assert (found.input_tensor.sizes, found.input_tensor.strides) == ((7, 5), (1, 7))


def test_a_window_in_front_of_the_positions_is_a_permuted_output() -> None:
    numbers = GatherDimensionNumbers((0,), (0, 1), (0, 1))
    found = dg.lax.to_directml(((5, 7, 4), "float32"), ((3, 2), "int64"), numbers, (1, 1, 4), "6_4")
    assert isinstance(found, dg.GatherND1OperatorDesc)
    assert (found.output_tensor.sizes, found.output_tensor.strides) == ((1, 3, 4), (0, 1, 3))


def test_batching_dimensions_move_to_the_front() -> None:
    numbers = GatherDimensionNumbers((2,), (0,), (0,), (1,), (1,))
    found = dg.lax.to_directml(((5, 2, 4), "float32"), ((3, 2, 1), "int64"), numbers, (1, 1, 4), "6_4")
    assert isinstance(found, dg.GatherND1OperatorDesc)
    assert found.batch_dimension_count == 1
    assert (found.input_tensor.sizes, found.input_tensor.strides) == ((2, 5, 4), (4, 8, 1))
    assert (found.indices_tensor.sizes, found.indices_tensor.strides) == ((2, 3, 1), (1, 2, 0))
    assert (found.output_tensor.sizes, found.output_tensor.strides) == ((2, 3, 4), (4, 8, 1))


def test_take_along_an_axis_is_gather_elements() -> None:
    numbers = GatherDimensionNumbers((), (1,), (1,), (0,), (0,))
    found = dg.lax.to_directml(((4, 6), "float32"), ((4, 3, 1), "int32"), numbers, (1, 1), "6_4")
    assert isinstance(found, dg.GatherElementsOperatorDesc)
    assert (found.input_tensor.sizes, found.indices_tensor.sizes, found.axis) == ((4, 6), (4, 3), 1)


@pytest.mark.parametrize("mode", ["clip", "promise_in_bounds", None, "fill"])
def test_a_known_start_out_of_bounds_moves_inside_unless_it_is_filled(mode: str | None) -> None:
    numbers, data = GatherDimensionNumbers((0,), (), (0,)), ((8,), "float32")
    for start, first in ((-2, 0), (3, 3), (7, 5)):
        found = dg.lax.to_directml(data, None, numbers, (3,), mode=mode, constants={"start_indices": np.array([start])})
        if mode == "fill" and start != first:
            assert [desc.operator.name for desc in listed(found)] == ["SLICE1", "GATHER"]
            continue
        assert isinstance(found, dg.Slice1OperatorDesc)
        assert (found.input_window_offsets, found.input_window_sizes) == ((first,), (3,))
