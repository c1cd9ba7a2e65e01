"""The `plan` twins of ONNX's functions, and what happens to bad indices where a caller overrides ONNX's own rule."""

from __future__ import annotations

import random
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import dmlgather as dg
from dmlgather.backends import cpu
from dmlgather.calls import prepared as kept
from dmlgather.directml import OperatorDesc, lower
from dmlgather.plan import IndexPlan, OutOfBounds, canonicalise
from tests.dialects.binding import LEVELS, composed
from tests.dialects.drafting import seeds
from tests.dialects.outcomes import Array, content
from tests.directml.writing import legal
from tests.gpus import NUMBERS
from tests.onnx.calling import plan, run
from tests.onnx.described import described
from tests.onnx.specification import Call, expected
from tests.onnx.strategies import ROWS, axis_of, bad_indices_call, good_call
from tests.onnx.wide import drawn

ONNX: Any = dg.onnx


def packed(call: Call) -> Call:
    return replace(call, arrays=tuple(np.array(array, order="C") for array in call.arrays))


def any_good_call(seed: int) -> Call:
    rng = random.Random(seed)
    return good_call(rng.getrandbits(63), *rng.choice(ROWS))


@settings(max_examples=200, deadline=None)
@given(seeds)
def test_a_plan_needs_shapes_and_types_alone(seed: int) -> None:
    call = any_good_call(seed)
    found = plan(call)
    assert found == plan(call, *((array.shape, array.dtype) for array in call.arrays))
    assert found == plan(call, *(SimpleNamespace(shape=array.shape, dtype=array.dtype) for array in call.arrays))
    assert found == plan(packed(call))
    assert found.out_of_bounds is OutOfBounds.RAISE or not found.lookups
    moves_blocks = "blocksize" in call.named  # walked with a dimension more for rows, and one for columns
    assert found.elements == expected(call).size
    assert moves_blocks or found.shape == expected(call).shape


def test_types_may_be_names() -> None:
    by_name = ONNX.gather.plan(((3, 4), "bfloat16"), ((2,), "int32"), axis=1)
    ml_dtypes = pytest.importorskip("ml_dtypes")
    assert by_name == ONNX.gather.plan(np.zeros((3, 4), ml_dtypes.bfloat16), np.zeros(2, np.int32), axis=1)
    assert by_name.element_bytes == 2


def test_the_plan_of_packed_arrays_is_what_executes(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared: list[IndexPlan] = []
    original = cpu.prepare

    def prepare(found: IndexPlan) -> Any:
        prepared.append(found)
        return original(found)

    monkeypatch.setattr(cpu, "prepare", prepare)

    @settings(max_examples=100, deadline=None)
    @given(seeds)
    def check(seed: int) -> None:
        call = packed(any_good_call(seed))
        kept.forget()
        prepared.clear()
        run(call)
        assert prepared == [plan(call)]

    check()


def test_a_plan_is_refused_as_the_call_is() -> None:
    with pytest.raises(ValueError, match="axis is 2"):
        ONNX.gather.plan(((3, 4), "float32"), ((2,), "int64"), 2)
    with pytest.raises(TypeError, match="indices has type"):
        ONNX.gather.plan(((3, 4), "float32"), ((2,), "uint8"))
    with pytest.raises(TypeError, match=r"data is of type list, expected an array or a pair \(shape, dtype\)"):
        ONNX.slice.plan([1.0], [0], [1])


F, I64 = "float32", "int64"
PAIRS = [((3, -4), F), (3, F), ((3, 4), "fl32"), ((3, 4), None), ((3, 4.5), F), ((3, None), F), (("n", 4), F)]


@pytest.mark.parametrize("pair", PAIRS)
def test_pairs_that_say_nothing_are_refused_by_name(pair: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"data has shape"):
        ONNX.gather.plan(pair, ((2,), "int64"))


def test_device_plays_no_part_in_a_plan() -> None:
    arguments = (((3, 4), "float32"), ((2,), "int64"))
    assert ONNX.gather.plan(*arguments, device="cuda:7") == ONNX.gather.plan(*arguments)


def by_hand(operator: str, data: list[int], indices: list[int], output: list[int], **fields: Any) -> OperatorDesc:
    return legal(operator, "float32", "int64", *filter(None, (data, indices, output)), **fields)


SAME_AS_DIRECTML: dict[str, tuple[IndexPlan, OperatorDesc]] = {
    "rows": (
        ONNX.gather.plan(((30, 8), F), ((6,), I64), out_of_bounds="clamp"),
        by_hand("GATHER", [30, 8], [1, 6], [6, 8], Axis=0, IndexDimensions=1),
    ),
    "two index dimensions on an inner axis": (
        ONNX.gather.plan(((5, 7, 3), F), ((2, 2), I64), -2, out_of_bounds="clamp"),
        by_hand("GATHER", [1, 5, 7, 3], [1, 1, 2, 2], [5, 2, 2, 3], Axis=2, IndexDimensions=2),
    ),
    "scalar index": (
        ONNX.gather.plan(((5, 7), F), ((), I64), 1, out_of_bounds="clamp"),
        by_hand("GATHER", [5, 7], [1, 1], [1, 5], Axis=1, IndexDimensions=0),
    ),
    "elements": (
        ONNX.gather_elements.plan(((4, 5), F), ((4, 3), I64), 1, out_of_bounds="clamp"),
        by_hand("GATHER_ELEMENTS", [4, 5], [4, 3], [4, 3], Axis=1),
    ),
    "tuples in batches": (
        ONNX.gather_nd.plan(((2, 5, 7), F), ((2, 3, 1), I64), 1, out_of_bounds="clamp"),
        by_hand(
            "GATHER_ND1", [2, 5, 7], [2, 3, 1], [2, 3, 7], InputDimensionCount=3, IndicesDimensionCount=3, BatchDimensionCount=1
        ),
    ),
    "window": (
        ONNX.slice.plan(((9, 8), F), [1, 0], [8, 100], steps=[3, 2], out_of_bounds="clamp"),
        by_hand(
            "SLICE1", [9, 8], [], [3, 4], InputWindowOffsets=[1, 0], InputWindowSizes=[7, 8], InputWindowStrides=[3, 2]
        ),
    ),
    "blocks": (
        ONNX.depth_to_space.plan(((2, 12, 5, 7), F), 2, "CRD", out_of_bounds="clamp"),
        by_hand("DEPTH_TO_SPACE1", [2, 12, 5, 7], [], [2, 3, 10, 14], BlockSize=2, Order="COLUMN_ROW_DEPTH"),
    ),
    "channels": (
        ONNX.space_to_depth.plan(((2, 3, 10, 14), F), 2, out_of_bounds="clamp"),
        by_hand("SPACE_TO_DEPTH1", [2, 3, 10, 14], [], [2, 12, 5, 7], BlockSize=2, Order="DEPTH_COLUMN_ROW"),
    ),
    "backwards": (
        ONNX.slice.plan(((9,), F), [-1], [-100], steps=[-1], out_of_bounds="clamp"),
        by_hand("SLICE1", [9], [], [9], InputWindowOffsets=[0], InputWindowSizes=[9], InputWindowStrides=[-1]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME_AS_DIRECTML)
def test_a_problem_is_the_same_plan_in_both_dialects(name: str) -> None:
    ours, desc = SAME_AS_DIRECTML[name]
    assert canonicalise(ours) == canonicalise(lower(desc))


@settings(max_examples=200, deadline=None)
@given(seeds)
def test_descriptors_compose_to_the_plan_of_the_problem(seed: int) -> None:
    call = drawn(seed, LEVELS[-1])
    assume((call.operator, call.version) != ("Gather", 1))  # whose negative indices are out of range
    found = described(call, LEVELS[-1])
    assume(not isinstance(found, dg.Report))
    assert composed(found) == canonicalise(plan(call, out_of_bounds="clamp"))


@settings(max_examples=100, deadline=None)
@given(seeds)
def test_gather_on_axis_0_is_gather_nd_of_single_components(seed: int) -> None:
    rng = random.Random(seed)
    shape = tuple(rng.randint(1, 5) for _ in range(rng.randint(1, 4)))
    indices = tuple(rng.randint(0, 4) for _ in range(rng.randint(0, 3)))
    gather = ONNX.gather.plan((shape, "int16"), (indices, "int64"))
    nd = ONNX.gather_nd.plan((shape, "int16"), ((*indices, 1), "int64"))
    assert canonicalise(gather) == canonicalise(nd)


def resolved(call: Call) -> tuple[Array, Array]:
    """The indices with each bad one replaced by the nearest good one, and where they were bad: [the indices' shape]."""
    near, bad = np.array(call.indices), np.zeros(call.indices.shape, bool)
    for position in np.ndindex(near.shape):
        size, value = call.data.shape[axis_of(call, position)], int(near[position])
        if value < 0 and (call.operator, call.version) != ("Gather", 1):
            value += size
        bad[position] = not 0 <= value < size
        near[position] = min(max(value, 0), size - 1)
    return near, bad


def filled(call: Call, bad: Array) -> Array:
    """Which output elements a bad index decides: broadcasts to the output's shape."""
    if call.operator == "GatherElements":
        return bad
    if call.operator == "GatherND":
        components = call.indices.shape[-1]
        rest = call.data.ndim - int(call.named.get("batch_dims", 0)) - components
        return bad.any(-1).reshape(call.indices.shape[:-1] + (1,) * rest)
    axis = call.named.get("axis", 0) % call.data.ndim
    return bad.reshape(call.indices.shape + (1,) * (call.data.ndim - axis - 1))


@pytest.mark.parametrize("device", ["cpu", "reference", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_overridden_policies_on_every_device(device: str) -> None:
    @settings(max_examples=200, deadline=None)
    @given(seeds, st.sampled_from((0, 1)))
    def check(seed: int, value: int) -> None:
        call = bad_indices_call(seed)
        assume(device != "cuda" or call.data.dtype in NUMBERS)
        near, bad = resolved(call)
        clamped = expected(replace(call, arrays=(call.data, near)))
        with_fill = clamped.copy()
        with_fill[np.broadcast_to(filled(call, bad), clamped.shape)] = value
        for policy in ("clamp", "promise"):
            assert content(run(call, out_of_bounds=policy, device=device)) == content(clamped), str(call)
        assert content(run(call, out_of_bounds=dg.Fill(value), device=device)) == content(with_fill), str(call)
        if bad.any():
            with pytest.raises(IndexError):
                run(call, out_of_bounds="raise", device=device)

    check()


def test_fill_over_an_axis_without_elements() -> None:
    found = dg.onnx.gather(np.zeros((0, 2), np.int8), np.array([3, 0, -1]), out_of_bounds=dg.Fill(-7))
    assert (found.dtype, found.tolist()) == (np.int8, [[-7, -7]] * 3)


def test_strings_are_clamped_but_not_filled() -> None:
    words = np.array(["a", "b"])
    assert dg.onnx.gather(words, np.array([5, -9]), out_of_bounds="clamp").tolist() == ["b", "a"]
    with pytest.raises(ValueError, match=r"Fill\('x'\)"):
        dg.onnx.gather(words, np.array([5]), out_of_bounds=dg.Fill("x"))
