"""One meaning, one canonical plan: OpenVINO's operations, and those of ONNX and DirectML that do the same."""

from __future__ import annotations

import random
from math import prod
from typing import Any

import numpy as np
from hypothesis import assume, given, settings

import dmlgather as dg
from dmlgather.directml import OperatorDesc, lower
from dmlgather.plan import IndexPlan, OutOfBounds, canonicalise
from tests.dialects.binding import LEVELS, composed
from tests.dialects.drafting import seeds
from tests.directml.writing import legal
from tests.openvino.calling import FUNCTIONS
from tests.openvino.described import described, drawn, types

POLICIES: dict[OutOfBounds, Any] = {
    OutOfBounds.FILL: None,  # OpenVINO's own
    OutOfBounds.CLAMP: "clamp",
    OutOfBounds.RAISE: "raise",
    OutOfBounds.PROMISE: "promise",
}


def descriptor(sizes: list[int], index_sizes: list[int], axis: int, dtype: str, index_dtype: str) -> OperatorDesc:
    """GATHER over the same tensors, all of one dimension count, 1s on the left."""
    output = [*sizes[:axis], *index_sizes, *sizes[axis + 1 :]]
    rank = max(len(sizes), len(index_sizes), len(output), 1)
    fields = {"Axis": axis + rank - len(sizes), "IndexDimensions": len(index_sizes)}
    return legal("GATHER", dtype, index_dtype, sizes, index_sizes, output, **fields)


@settings(max_examples=300, deadline=None)
@given(seeds.map(random.Random))
def test_gathers_of_all_dialects_have_one_canonical_plan(rng: random.Random) -> None:
    sizes = [rng.choice((1, 1, 2, 3, 7)) for _ in range(rng.randint(1, 4))]
    index_sizes = [rng.choice((1, 1, 2, 5)) for _ in range(rng.randint(0, 3))]
    axis, dtype = rng.randrange(len(sizes)), rng.choice(("float16", "uint8", "int32", "float64"))
    index_dtype = rng.choice(("int32", "int64"))
    policy = rng.choice(list(POLICIES))
    fill = bytes(np.dtype(dtype).itemsize) if policy is OutOfBounds.FILL else b""
    data, indices = (sizes, dtype), (index_sizes, index_dtype)

    plans: dict[str, IndexPlan] = {
        "OpenVINO": dg.openvino.gather.plan(data, indices, axis, out_of_bounds=POLICIES[policy]),
        "OpenVINO, axis and batch_dims from the end": dg.openvino.gather.plan(
            data, indices, axis - len(sizes), -len(index_sizes), out_of_bounds=POLICIES[policy]
        ),
        "ONNX": dg.onnx.gather.plan(data, indices, axis, out_of_bounds=POLICIES[policy] or dg.Fill(0)),
        "DirectML": lower(descriptor(sizes, index_sizes, axis, dtype, index_dtype), None, policy, fill),
    }
    canonical = {dialect: canonicalise(plan) for dialect, plan in plans.items()}
    assert set(canonical.values()) == {canonical["OpenVINO"]}, canonical
    assert (
        prod(canonical["OpenVINO"].shape) * canonical["OpenVINO"].element_bytes
        == plans["ONNX"].out_extent * np.dtype(dtype).itemsize
    )


def test_unsigned_indices_have_one_plan_in_directml_too() -> None:
    for index_dtype in ("uint32", "uint64"):
        for version in (1, 7, 8):
            ours = dg.openvino.gather.plan(([4, 6], "float32"), ([3], index_dtype), 1, version=version)
            theirs = lower(descriptor([4, 6], [3], 1, "float32", index_dtype), None, OutOfBounds.FILL, bytes(4))
            assert canonicalise(ours) == canonicalise(theirs)


@settings(max_examples=300, deadline=None)
@given(seeds)
def test_descriptors_compose_to_the_plan_of_the_call(seed: int) -> None:
    call = drawn(seed, LEVELS[-1])
    for indices in call.arrays[1:]:
        assume(indices.dtype.itemsize >= 4)  # other types are converted
        assume(call.operation != "Gather" or call.version == 8 or indices.dtype.kind == "u")  # negative ones are out of range
    found = described(call, LEVELS[-1])
    assume(not isinstance(found, dg.Report))
    plan = FUNCTIONS[call.operation].plan(*types(call), **call.named, out_of_bounds="clamp")
    assert composed(found) == canonicalise(plan)


def test_versions_without_negative_indices_have_onnx_1s_plan() -> None:
    pair = (([4, 6], "float32"), ([2, 3], "int64"), 1)
    assert dg.openvino.gather.plan(*pair, version=7) == dg.openvino.gather.plan(*pair, version=1)
    assert dg.openvino.gather.plan(*pair, version=7) == dg.onnx.gather.plan(*pair, opset=1, out_of_bounds=dg.Fill(0))
    assert dg.openvino.gather.plan(*pair, version=7) != dg.openvino.gather.plan(*pair, version=8)


@settings(max_examples=300, deadline=None)
@given(seeds.map(random.Random))
def test_the_other_gathers_and_slices_have_the_plans_of_onnx(rng: random.Random) -> None:
    sizes = [rng.choice((1, 2, 3, 7)) for _ in range(rng.randint(1, 4))]
    dtype, index_dtype = rng.choice(("float16", "uint8", "int32", "float64")), rng.choice(("int32", "int64"))
    data, axis = (sizes, dtype), rng.randrange(len(sizes))

    elements = ([*sizes[:axis], rng.randint(1, 5), *sizes[axis + 1 :]], index_dtype)
    assert dg.openvino.gather_elements.plan(data, elements, axis) == dg.onnx.gather_elements.plan(data, elements, axis)

    tuples = ([*sizes[:axis], rng.randint(1, 3), rng.randint(0, len(sizes) - axis)], "int64")
    onnx = dg.onnx.gather_nd.plan(data, tuples, axis)
    assert dg.openvino.gather_nd.plan(data, tuples, axis) == onnx
    assert canonicalise(dg.openvino.gather_nd.plan(data, tuples, axis, version=5)) == canonicalise(onnx)

    axes = rng.sample(range(len(sizes)), rng.randint(0, len(sizes)))
    starts, ends = ([rng.randint(-9, 9) for _ in axes] for _ in range(2))
    steps = [rng.choice((1, 2, -1, -3)) for _ in axes]
    sliced = canonicalise(dg.onnx.slice.plan(data, starts, ends, axes, steps))
    assert canonicalise(dg.openvino.slice.plan(data, starts, ends, steps, axes)) == sliced

    by_axis = {axis: (*each, step) for axis, *each, step in zip(axes, starts, ends, steps, strict=True)}
    entries = [by_axis.get(axis, (0, 0, 1)) for axis in range(len(sizes))]
    mask = [int(axis not in by_axis) for axis in range(len(sizes))]
    begin, end, strides = (list(column) for column in zip(*entries, strict=True))
    assert canonicalise(dg.openvino.strided_slice.plan(data, begin, end, strides, mask, mask)) == sliced

    shrunk = dg.openvino.strided_slice.plan(
        data, [0] * axis + [-1], [0] * (axis + 1), None, [1] * axis, [1] * axis, None, [0] * axis + [1]
    )
    picked = dg.onnx.slice.plan(data, [-1], [sizes[axis]], [axis])
    assert canonicalise(shrunk) == canonicalise(picked)
