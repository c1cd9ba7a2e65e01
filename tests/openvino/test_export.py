"""OpenVINO's Gather as DirectML descriptors: what comes out validates, and gives the bits of the page when it runs."""

from __future__ import annotations

import random
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dmlgather as dg
from dmlgather.directml import FeatureLevel
from tests.dialects import binding
from tests.dialects.binding import LEVELS, held, listed
from tests.dialects.drafting import random_bits, seeds, sizes_within
from tests.directml.pages import PAGES
from tests.openvino import specification
from tests.openvino.examples import EXAMPLES
from tests.openvino.specification import INTEGERS, NAMES, Array, Call

levels = st.sampled_from(LEVELS)


def drawn(seed: int) -> Call:
    """The call of a seed, of up to ten dimensions, with indices in range."""
    rng = random.Random(seed)
    version = rng.choice((1, 7, 8, 8))
    sizes = sizes_within(rng, rng.choice((1, 2, 3, 3, 4, 4, 5, 7, 10)), 64)
    axis = rng.randrange(len(sizes))
    batch = rng.randint(0, axis) if version > 1 else 0
    moved = sizes_within(rng, rng.choice((0, 1, 1, 2, 3, 6)), 12) if sizes[axis] else [0]
    index_dtype = np.dtype(rng.choice(INTEGERS))
    lowest = -sizes[axis] if version == 8 and index_dtype.kind == "i" else 0
    shape = (*sizes[:batch], *moved)
    values = [rng.randint(lowest, sizes[axis] - 1) for _ in range(prod(shape))]
    data = random_bits(rng, np.dtype(rng.choice(list(NAMES))), tuple(sizes))
    shown = rng.choice((batch, batch - len(shape))) if version > 1 and shape else batch
    return Call(version, data, np.array(values, index_dtype).reshape(shape), axis, shown, seed=seed)


def counted(call: Call) -> tuple[int, int]:
    """axis and batch_dims from the front."""
    batch = call.batch_dims + (call.indices.ndim if call.batch_dims < 0 else 0)
    return call.axis % call.data.ndim, batch


def operator(call: Call, level: FeatureLevel) -> str:
    axis, batch = counted(call)
    if prod(call.data.shape[:batch]) == 1:
        return "GATHER"
    return "GATHER_ND1" if axis == batch and level >= FeatureLevel.LEVEL_3_0 else "GATHER_ELEMENTS"


def refusal(call: Call, level: FeatureLevel) -> str | None:
    """The code that DirectML's documents call for at `level`; None where it takes the call."""
    if any(0 in array.shape for array in (call.data, call.indices)):
        return "EXP102"
    name = operator(call, level)
    if name != "GATHER" and level < FeatureLevel.LEVEL_2_1:
        return "EXP106"
    return None if held(call.data.dtype)[0] in PAGES[name].at(level).data else "DML201"


def described(call: Call, level: FeatureLevel | str) -> Any:
    data, indices = ((array.shape, array.dtype) for array in (call.data, call.indices))
    return dg.openvino.to_directml(data, indices, call.axis, call.batch_dims, level, version=call.version)


def bound(call: Call) -> dict[str, Any]:
    """What descriptors of a call are bound to."""
    return {"data": call.data, "indices": call.indices, "sizes": np.array(call.data.shape[call.axis], np.int64)}


def run(call: Call, expected: Array) -> Array:
    """What a call's descriptor gives at the newest level, in the place of that result."""
    buffer = binding.run(listed(described(call, "6_4")), **bound(call), level=LEVELS[-1], device="cpu")
    return buffer[: expected.nbytes].view(expected.dtype).reshape(expected.shape)


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(seeds, levels)
def test_what_is_returned_validates_and_gives_the_bits_of_the_page(seed: int, level: FeatureLevel) -> None:
    call = drawn(seed)
    found, code = described(call, level), refusal(call, level)
    if code is not None:
        assert isinstance(found, dg.Report), found
        assert {finding.code for finding in found.findings} == {code}, str(found)
        assert (found.level, found.subject.startswith(("OpenVINO Gather-", "DML_OPERATOR_"))) == (level, True)
        return
    assert isinstance(found, dg.OperatorDesc), str(found)
    assert found.operator.name == operator(call, level)
    binding.check(found, level, specification.expected(call), **bound(call))


@pytest.mark.parametrize("example", EXAMPLES[:-1], ids=lambda one: one.name)
@pytest.mark.parametrize("level", LEVELS[2:], ids=str)
def test_the_worked_examples_of_the_page(example: Any, level: FeatureLevel) -> None:
    data, indices, output = example.arrays()
    call = Call(8, data, indices, example.axis, example.batch_dims)
    binding.check(described(call, level), level, output, **bound(call))


def test_seven_examples_are_six_and_one_that_differs() -> None:
    """What example 7 shows is what DirectML does not do, and what `differences` says."""
    example = EXAMPLES[-1]
    data, indices, output = example.arrays()
    call = Call(8, data, indices, example.axis, example.batch_dims)
    found = run(call, output)
    (finding,) = dg.openvino.differences(data, indices, 0)
    assert finding.code == "EXP201"
    assert finding.expected == "indices from -5 to 4"
    outside = (indices < -5) | (indices > 4)
    assert outside.tolist() == [False, True, True]
    assert (np.where(outside, 0, found) == output).all()
    assert not (found == output).all()


@settings(max_examples=200, deadline=None)
@given(seeds)
def test_masking_what_differences_says_gives_the_bits_of_the_page(seed: int) -> None:
    """Indices of any value: the mask that the finding's bounds make is all there is between DirectML and OpenVINO."""
    rng, call = random.Random(seed), drawn(seed)
    size = call.data.shape[call.axis]
    limits = np.iinfo(call.indices.dtype)
    wild = [max(limits.min, min(limits.max, rng.randint(-3 * size, 3 * size))) for _ in range(call.indices.size)]
    indices = np.array(wild, call.indices.dtype).reshape(call.indices.shape)
    call = Call(call.version, call.data, indices, call.axis, call.batch_dims, seed=seed)
    found = described(call, "6_4")
    if isinstance(found, dg.Report):
        assert refusal(call, LEVELS[-1]) == "EXP102"
        return
    findings = dg.openvino.differences(call.data, indices, call.axis, call.batch_dims, version=call.version)
    first, last = (int(word) for word in findings[0].expected.removeprefix("indices from ").split(" to "))
    expected = specification.expected(call)
    got, wide = run(call, expected), indices.astype(np.int64)
    axis, batch = counted(call)
    lead, trail = (1,) * (axis - batch), (1,) * (call.data.ndim - axis - 1)
    mask = ((wide < first) | (wide > last)).reshape((*indices.shape[:batch], *lead, *indices.shape[batch:], *trail))
    got[np.broadcast_to(mask, got.shape)] = np.zeros((), got.dtype)
    assert got.tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("version", "kind", "codes"),
    [(8, "int64", ["EXP201"]), (8, "uint8", ["EXP201"]), (7, "int32", ["EXP201", "EXP202"]), (1, "uint32", ["EXP201"])],
)
def test_differences_of_each_version(version: int, kind: str, codes: list[str]) -> None:
    found = dg.openvino.differences(((5, 2), "float32"), ((3,), kind), 0, version=version)
    assert [finding.code for finding in found] == codes
    assert {finding.severity for finding in found} == {dg.Severity.WARNING}
    signed = version == 8 and kind.startswith("int")
    assert found[0].expected == ("indices from -5 to 4" if signed else "indices from 0 to 4")


def test_arguments_are_arrays_or_pairs_and_the_axis_may_be_an_array() -> None:
    data, indices = np.zeros((2, 5, 3), np.float32), np.zeros((2, 4), np.int32)
    pairs = ((2, 5, 3), "float32"), ((2, 4), "int32")
    found = dg.openvino.to_directml(data, indices, np.array([1], np.uint8), -1)
    assert found == dg.openvino.to_directml(*pairs, -2, 1, "6_4", version=7)
    assert isinstance(found, dg.GatherND1OperatorDesc)
    assert (found.batch_dimension_count, found.indices_tensor.sizes) == (1, (2, 4, 1))


def test_gather_elements_repeats_indices_by_strides_of_0() -> None:
    found = dg.openvino.to_directml(((2, 3, 2, 7, 4), "float16"), ((2, 5, 6), "int64"), 3, 1)
    assert isinstance(found, dg.GatherElementsOperatorDesc)
    assert (found.input_tensor.sizes, found.axis) == ((2, 6, 7, 4), 2)
    assert (found.indices_tensor.sizes, found.indices_tensor.strides) == ((2, 6, 30, 4), (30, 0, 1, 0))
    assert (found.output_tensor.sizes, found.output_tensor.strides) == ((2, 6, 30, 4), None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"axis": 4}, "axis is 4, but data has rank 2: expected -2 … 1"),
        ({"axis": np.array([0, 1])}, r"axis has shape (2,), expected a scalar or one dimension of one element"),
        ({"batch_dims": 1}, "batch_dims is 1, but axis counted from the front is 0: expected batch_dims <= axis"),
        ({"data": ((5, 2), "complex64")}, "data has type complex64"),
        ({"version": 9}, "version is 9, expected 1, 7 or 8"),
    ],
)
def test_a_call_that_breaks_a_rule_has_a_report(change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"data": ((5, 2), "float32"), "indices": ((3,), "int64"), "axis": 0} | change
    report = dg.openvino.to_directml(**arguments)
    assert isinstance(report, dg.Report)
    (finding,) = report.findings
    assert finding.code == "EXP101"
    assert message in finding.got
    with pytest.raises((TypeError, ValueError)) as raised:
        dg.openvino.differences(**arguments)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"level": "7_0"}, ValueError, "unknown feature level '7_0'"),
        ({"version": "8"}, TypeError, "version is '8' of type str, expected an integer"),
        ({"data": [1, 2]}, TypeError, "data is of type list, expected an array or a pair"),
    ],
)
def test_a_caller_that_contradicts_itself_gets_an_exception(change: dict[str, Any], kind: type[Exception], message: str) -> None:
    arguments: dict[str, Any] = {"data": ((5, 2), "float32"), "indices": ((3,), "int64"), "axis": 0} | change
    with pytest.raises(kind, match=message):
        dg.openvino.to_directml(**arguments)
