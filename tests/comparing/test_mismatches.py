"""Where and how a wrong device differs: judged by the documented reference over positions, and by Python's own arithmetic."""

from __future__ import annotations

import json
import random
from fractions import Fraction
from math import inf, isinf, isnan, prod
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings

import dmlgather as dg
from dmlgather.backends.cuda.driver import DeviceError
from dmlgather.chunks import CHUNK
from dmlgather.comparing.comparison import default_devices
from dmlgather.comparing.mismatches import Mismatch
from tests.cli.command import process
from tests.comparing.wrong import spoil
from tests.directml.buffers import logical
from tests.strategies import Problem, problems


def apart(left: Any, right: Any) -> Any:
    """The numeric difference of two Python numbers: infinite for a NaN and a number, 0 for two NaNs."""
    if isinstance(left, float) and (isnan(left) or isnan(right)):
        return 0 if isnan(left) and isnan(right) else inf
    if isinstance(left, float) and (isinf(left) or isinf(right)):
        return 0 if left == right else inf
    return abs(Fraction(left) - Fraction(right))


def _stretches(numbers: list[int]) -> list[tuple[int, int]]:
    """Rising numbers as first ones and counts of those that follow each other."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and sum(found[-1]) == number:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((number, 1))
    return found


@settings(max_examples=150, deadline=None)
@given(problems())
def test_a_wrong_device_is_described_as_documented(problem: Problem) -> None:
    desc, rng = problem.desc, random.Random(problem.seed)
    tensor = desc.tensor("output_tensor")
    width = tensor.data_type.bytes
    places = [tuple(map(int, np.unravel_index(flat, tensor.sizes))) for flat in range(prod(tensor.sizes))]
    chosen = sorted(rng.sample(places, min(len(places), rng.randint(1, 5))))
    flips = {at: rng.randrange(1, 2 ** (8 * width)) for at in chosen}
    addresses = {sum(a * b for a, b in zip(at, tensor.element_strides, strict=True)): bits for at, bits in flips.items()}
    with pytest.MonkeyPatch.context() as monkeypatch:
        spoil(monkeypatch, addresses)
        monkeypatch.setattr("dmlgather.chunks.CHUNK", rng.choice([1, 2, 5, CHUNK]))  # outputs are compared in chunks
        monkeypatch.setattr("dmlgather.comparing.differences.MOST_STRETCHES", listed := rng.choice([1, 3, 100]))
        found = dg.compare(desc, *problem.inputs, devices=("cpu", "reference"), buffers=True)

    sizes = desc.tensor("input_tensor").sizes
    inputs = [logical(desc.tensor(name), buffer) for name, buffer in zip(desc.operator.inputs, problem.inputs, strict=True)]
    sources = desc.operator.reference(desc, np.arange(prod(sizes)).reshape(sizes), *inputs[1:])
    right = {at: inputs[0][np.unravel_index(sources[at], sizes)].tobytes() for at in chosen}
    wrong = {at: (int.from_bytes(right[at], "little") ^ flips[at]).to_bytes(width, "little") for at in chosen}
    kind = tensor.data_type.name.lower()

    def number(raw: bytes) -> Any:
        return np.frombuffer(raw, kind)[0].item()

    def rank(at: Any) -> Any:
        return apart(number(right[at]), number(wrong[at])), flips[at].bit_count()

    def check(mismatch: Mismatch, at: Any) -> None:
        assert (mismatch.output, mismatch.devices) == (at, ("cpu", "reference"))
        assert mismatch.source == tuple(map(int, np.unravel_index(sources[at], sizes)))
        assert mismatch.bits == (right[at][::-1].hex(), wrong[at][::-1].hex())
        assert mismatch.expected == mismatch.found[0]
        assert mismatch.differing_bits == flips[at].bit_count()
        for told, raw in zip(mismatch.found, (right[at], wrong[at]), strict=True):
            value = number(raw)
            assert np.array(told.value, kind).tobytes() == raw or isnan(value)
            assert (told.value == "nan") == (isinstance(value, float) and isnan(value))
        assert [index.axis for index in mismatch.indices] == list(desc.operator.lookup_axes(desc))
        for index in mismatch.indices:
            assert index.value == int(inputs[1][index.position])
            assert index.taken_as == mismatch.source[index.axis]

    (difference,) = found.differences
    assert (found.equal, found.differing, found.elements, difference.differing) == (False, len(chosen), len(places), len(chosen))
    check(difference.first, chosen[0])
    stretches = _stretches([places.index(at) for at in chosen])
    told = [(places.index(each.first), each.elements) for each in difference.stretches]
    assert (told, difference.stretches_left_out) == (stretches[:listed], max(len(stretches) - listed, 0))
    pairs = [(number(right[at]), number(wrong[at])) for at in chosen if kind.startswith("float")]
    assert difference.nan_payloads == sum(isnan(one) and isnan(other) for one, other in pairs)
    assert difference.zero_signs == sum(one == other == 0 for one, other in pairs)
    worst = max(rank(at) for at in chosen)
    at = difference.worst.output
    assert at in chosen
    check(difference.worst, at)
    if isinstance(worst[0], Fraction) and kind in ("float32", "float64"):  # the difference is rounded to a float64
        assert float(rank(at)[0]) == pytest.approx(float(worst[0]), rel=1e-15)
    else:
        assert rank(at) == worst
        assert at == min(place for place in chosen if rank(place) == worst)


GATHER = dg.GatherOperatorDesc(
    input_tensor=dg.BufferTensorDesc(data_type="FLOAT32", sizes=(5, 2)),
    indices_tensor=dg.BufferTensorDesc(data_type="INT64", sizes=(1, 4)),
    output_tensor=dg.BufferTensorDesc(data_type="FLOAT32", sizes=(4, 2)),
    axis=0,
    index_dimensions=1,
)
TABLE = np.arange(10, dtype=np.float32).reshape(5, 2)


def test_a_comparison_is_shown_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    spoil(monkeypatch, {2: 0x00800000, 5: 0x80000000, 7: 0x7F800000})
    found = dg.compare(GATHER, TABLE, np.array([[0, -1, 7, 4]]), devices=("cpu", "reference"))
    assert str(dg.compare(GATHER, TABLE, np.repeat([0, -1, 7, 4], 2)[::2], devices=("cpu", "reference"))) == str(found)
    with pytest.raises(TypeError, match="takes 2 input arrays"):
        dg.compare(GATHER, TABLE, np.array([0]), np.array([0]), devices=("cpu", "reference"))
    assert str(found) == (
        "3 of 8 elements differ between cpu and reference\n"
        "  first: OutputTensor[1, 0], which should come from InputTensor[4, 0] = 8 (0x41000000), by IndicesTensor[0, 1] = -1, "
        "which means 4 along dimension 0, is 8 (0x41000000) on cpu and 16 (0x41800000) on reference\n"
        "  worst: OutputTensor[2, 1], which should come from InputTensor[4, 1] = 9 (0x41100000), by IndicesTensor[0, 2] = 7, "
        "which means 4 along dimension 0, is 9 (0x41100000) on cpu and -9 (0xc1100000) on reference; "
        "difference 18, 1 differing bit\n"
        "  more places: `stretches` in --json or --output FILE\n"
        "  cause: none of the known faults (outputs that were made from other inputs look like this, too)"
    )
    assert not found


@pytest.mark.parametrize(("given", "named"), [({"against": "gpu.npy"}, "against"), ({}, "desc")])
def test_a_path_in_the_place_of_an_array_is_named(given: dict[str, Any], named: str) -> None:
    desc: Any = GATHER if given else "gather.json"
    with pytest.raises(TypeError, match=rf"^{named} is the path '\w+\.\w+': pass "):
        dg.compare(desc, TABLE, np.array([[0, 1, 2, 3]]), devices=("cpu",), **given)


@pytest.mark.parametrize(
    ("kind", "right", "flips", "worst", "difference"),
    [
        # Two NaNs differ in bits alone, a number and a NaN infinitely; -0 and 0 are no distance apart.
        ("FLOAT32", [0x7FC00000, 0x7FC00000], [0x1, 0x7], 1, None),
        ("FLOAT32", [0x7FC00000, 0x3F800000], [0x3FFFFF, 0x00800000], 1, 0.5),
        ("FLOAT32", [0x7F7FFFFF, 0x3F800000], [0x80000000, 0x7FC00000 ^ 0x3F800000], 1, None),
        ("FLOAT32", [0x00000000, 0x00000000], [0x80000000, 0x1], 1, 2.0**-149),
        ("FLOAT16", [0x7C00, 0x3C00], [0x8000, 0x4000], 0, "inf"),
        ("FLOAT64", [0x7FF0000000000001, 0x3FF0000000000000], [0x1E, 0x1], 1, 2.0**-52),
        ("INT64", [2**63, 0], [2**64 - 1, 2**62], 0, 2**64 - 1),
        ("UINT64", [2**64 - 1, 5], [2**64 - 1, 2**63], 0, 2**64 - 1),
        ("INT8", [0x80, 0x00], [0xFF, 0x40], 0, 255),
        ("UINT8", [0, 7], [0x01, 0x02], 1, 2),
    ],
)
def test_the_worst_of_two_elements_is_named(
    monkeypatch: pytest.MonkeyPatch, *, kind: str, right: list[int], flips: list[int], worst: int, difference: Any
) -> None:
    tensor = dg.BufferTensorDesc(data_type=kind, sizes=(1, 1, 1, 2))
    desc = dg.Slice1OperatorDesc(
        input_tensor=tensor,
        output_tensor=tensor,
        dimension_count=4,
        input_window_offsets=(0, 0, 0, 0),
        input_window_sizes=(1, 1, 1, 2),
        input_window_strides=(1, 1, 1, 1),
    )
    width = tensor.data_type.bytes
    data = np.array(right, f"u{width}").view(kind.lower()).reshape(1, 1, 1, 2)
    spoil(monkeypatch, dict(enumerate(flips)))
    found = dg.compare(desc, data, devices=("cpu", "reference"))
    assert found.first is not None
    assert found.worst is not None
    assert found.first.output == (0, 0, 0, 0)
    assert found.worst.output == (0, 0, 0, worst)
    assert found.worst.difference == difference
    assert found.worst.differing_bits == flips[worst].bit_count()
    assert found.worst.bits == tuple(f"{value:0{2 * width}x}" for value in (right[worst], right[worst] ^ flips[worst]))


def test_kinds_that_hardly_differ_are_counted_apart() -> None:
    data = np.array([0.0, -0.0, np.nan, 1.0, np.nan], np.float32)
    desc = dg.SliceOperatorDesc.of(data)
    other = np.array([-0.0, -0.0, np.nan, np.nan, 2.0], np.float32)
    other.view(np.uint32)[2] ^= 5
    found = dg.compare(desc, data, devices=("cpu",), against=other.reshape(desc.output_tensor.sizes))
    assert str(found).splitlines()[0] == (
        "4 of 5 elements differ between cpu and against, 1 only in a NaN's sign or payload, 1 only in a zero's sign"
    )


@pytest.mark.parametrize(
    ("right", "flips", "kinds"),
    [
        (0x7FC01234, 0x80000000, ", 1 only in a NaN's sign or payload"),
        (0x7F801234, 0x00400000, ", 1 only in a NaN's sign or payload"),  # a signalling NaN made quiet
        (0x80000000, 0x80000000, ", 1 only in a zero's sign"),
    ],
)
def test_a_line_says_that_no_number_differs(right: int, flips: int, kinds: str) -> None:
    table, ids = TABLE.copy(), np.array([[0, 1, 2, 4]])
    table.view(np.uint32)[2, 1] = right
    other = table[ids[0]]
    other.view(np.uint32)[2, 1] ^= flips
    text = str(dg.compare(GATHER, table, ids, devices=("cpu",), against=other))
    assert text.startswith(f"1 of 8 elements differ between cpu and against{kinds}\n")
    assert text.endswith("none of the known faults; only NaNs and signs of zeros differ, as after arithmetic")
    other[0, 0] += 1
    assert "only NaNs" not in str(dg.compare(GATHER, table, ids, devices=("cpu",), against=other))


def test_a_nan_differs_infinitely_from_a_number() -> None:
    """compare.md: a NaN and a number differ infinitely; for two NaNs, the number of differing bits decides."""
    table, ids = TABLE.copy(), np.array([[0, 1, 2, 4]])
    table[2, 1] = np.nan
    number, payload = table[ids[0]], table[ids[0]]
    number[2, 1] = 5
    payload.view(np.uint32)[2, 1] ^= 3
    assert "  worst: the first; difference infinite, " in str(dg.compare(GATHER, table, ids, devices=("cpu",), against=number))
    assert "  worst: the first; 2 differing bits\n" in str(dg.compare(GATHER, table, ids, devices=("cpu",), against=payload))


@pytest.mark.parametrize("places", [1, 2, 3, 8])
def test_where_more_places_are_listed_is_told(monkeypatch: pytest.MonkeyPatch, places: int) -> None:
    spoil(monkeypatch, dict.fromkeys(range(places), 1))
    text = str(dg.compare(GATHER, TABLE, np.array([[0, 1, 2, 4]]), devices=("cpu", "reference")))
    assert ("  more places: `stretches` in --json or --output FILE\n" in text) == (places > 2)


def test_the_source_of_a_wrong_value_is_told_if_it_is_unique() -> None:
    table = np.array([[1, 2], [3, 4], [3, 5]], np.float32)
    desc = dg.GatherOperatorDesc.of(table, np.array([0, 1]), 0)
    found = dg.compare(desc, table, np.array([0, 1]), devices=("cpu",), against=np.array([[1, 5], [3, 2]], np.float32))
    (difference,) = found.differences
    assert [each.found_sources for each in (difference.first, difference.worst)] == [(None, (2, 1)), (None, (2, 1))]
    assert "is 2 (0x40000000) on cpu and 5 (0x40a00000), which is InputTensor[2, 1], on against" in str(found)
    found = dg.compare(desc, table, np.array([0, 1]), devices=("cpu",), against=np.array([[3, 2], [9, 4]], np.float32))
    (difference,) = found.differences
    assert [each.found_sources for each in (difference.first, difference.worst)] == [(None, None), (None, None)]


def test_a_fill_value_is_expected_where_the_policy_fills(monkeypatch: pytest.MonkeyPatch) -> None:
    spoil(monkeypatch, {4: 1})
    found = dg.compare(GATHER, TABLE, np.array([[0, -1, 7, 4]]), devices=("cpu", "reference"), out_of_bounds=dg.Fill(-2))
    assert found.first is not None
    assert (found.first.source, found.first.expected and found.first.expected.value) == (None, -2)
    assert "which should come from the fill value = -2 (0xc0000000), by IndicesTensor[0, 2] = 7, out of range" in str(found)


def test_every_device_that_differs_is_counted_against_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    spoil(monkeypatch, {4: 1})
    found = dg.compare(GATHER, TABLE, np.zeros((1, 4), np.int64), devices=("reference", "cpu"))
    assert found.differences[0].devices == ("reference", "cpu")
    assert found.first is not None
    assert found.first.expected == found.first.found[1]  # the first device named is the wrong one


ROW = dg.BufferTensorDesc(data_type="INT64", sizes=(1, 4))
LOOKUP = dg.GatherElementsOperatorDesc(input_tensor=ROW, indices_tensor=ROW, output_tensor=ROW, axis=1)
DATA, PLACES = np.array([[10, 11, 12, 13]]), np.array([[3, 0, -1, 9]])


def test_an_output_from_elsewhere_is_compared() -> None:
    found = dg.compare(LOOKUP, DATA, PLACES, devices=("cpu",), against=np.array([[13, 10, 13, 13]]))
    assert (found.equal, found.given, str(found)) == (True, 1, "equal on cpu, against: 4 elements, bit for bit")
    found = dg.compare(LOOKUP, DATA, PLACES, devices=("cpu", "reference"), against=np.array([[13, 10, 12, 13]]))
    assert [difference.devices for difference in found.differences] == [("cpu", "against")]
    assert found.first is not None
    assert (found.first.output, found.first.source, found.first.differing_bits) == ((0, 2), (0, 3), 1)
    assert found.outputs[-1] is not None
    assert found.outputs[-1].tolist() == [[13, 10, 12, 13]]


def test_a_device_that_raises_differs_from_an_output() -> None:
    found = dg.compare(LOOKUP, DATA, PLACES, devices=("cpu",), out_of_bounds="raise", against=np.array([[13, 10, 13, 13]]))
    assert not found.equal
    assert str(found).startswith("different outcomes on cpu, against: cpu: ")
    assert str(found).endswith("; against: no error")


@pytest.mark.parametrize("strides", [None, (1, 4), (3, 1)])
def test_an_output_from_elsewhere_may_be_a_buffer(tmp_path: Path, strides: tuple[int, ...] | None) -> None:
    """It is read through the described strides, in Python as from a file of the command."""
    output = dg.BufferTensorDesc(data_type="FLOAT32", sizes=(4, 2), strides=strides)
    desc, ids = GATHER.model_copy(update={"output_tensor": output}), np.array([[0, 1, 2, 4]])
    buffer = np.full(output.total_bytes // 4, 77, np.float32)
    bytes_apart = tuple(4 * stride for stride in output.element_strides)
    np.lib.stride_tricks.as_strided(buffer, (4, 2), bytes_apart)[...] = TABLE[ids[0]]
    whole = np.repeat(buffer, 2)[::2]
    assert dg.compare(desc, TABLE, ids, devices=("cpu",), against=whole)
    case = dg.compare(desc, TABLE, ids, devices=("cpu", "reference")).save(tmp_path)
    np.save(tmp_path / "gpu.npy", whole)
    assert process("compare", "--devices", "cpu", "--against", tmp_path / "gpu.npy", case).code == 0
    at = output.element_strides[0]  # of element [1, 0]
    whole[at] += 1
    found = dg.compare(desc, TABLE, ids, devices=("cpu",), against=whole)
    assert found.first is not None
    assert (found.differing, found.first.output) == (1, (1, 0))


def test_an_output_from_elsewhere_that_does_not_fit_is_refused() -> None:
    with pytest.raises(TypeError, match=r"against is int32, but OutputTensor's DataType is INT64"):
        dg.compare(LOOKUP, DATA, PLACES, devices=("cpu",), against=np.zeros((1, 4), np.int32))
    with pytest.raises(ValueError, match=r"against has the shape \[2, 2\], but OutputTensor's Sizes are \[1, 4\]"):
        dg.compare(LOOKUP, DATA, PLACES, devices=("cpu",), against=np.zeros((2, 2), np.int64))
    for count in (3, 5):
        with pytest.raises(ValueError, match=rf"against holds {8 * count} bytes: expected 32 for OutputTensor; pass the whole"):
            dg.compare(LOOKUP, DATA, PLACES, devices=("cpu",), against=np.zeros(count, np.int64))
    with pytest.raises(ValueError, match="at least one device, got none"):
        dg.compare(LOOKUP, DATA, PLACES, devices=(), against=np.zeros((1, 4), np.int64))


def test_a_saved_case_has_the_output_from_elsewhere(tmp_path: Path) -> None:
    case = dg.compare(LOOKUP, DATA, PLACES, devices=("cpu",), against=np.array([[0, 10, 13, 13]])).save(tmp_path)
    assert np.load(tmp_path / "case.out0_gather_elements.against0.npy").tolist() == [[0, 10, 13, 13]]
    report = json.loads((tmp_path / "case.report.json").read_text())
    assert [device["name"] for device in report["devices"]] == ["cpu"]
    assert (report["exit_code"], report["dispatches"][0]["against"], case.name) == (1, ["against"], "case.json")


def test_devices_that_cannot_be_are_refused_by_name() -> None:
    desc = dg.SliceOperatorDesc.of(np.zeros(3, np.float32))
    with pytest.raises(TypeError, match=r"devices is the text 'cpu', expected a list of names, such as \('cpu', 'reference'\)"):
        dg.compare(desc, np.zeros(3, np.float32), devices="cpu")
    with (
        mock.patch("dmlgather.comparing.comparison.compile_operator", side_effect=DeviceError("CuPy cannot be imported")),
        pytest.raises(DeviceError, match=r"^device 'cuda' cannot be used: CuPy .*; devices=\('cpu', 'reference'\) runs anywhere"),
    ):
        dg.compare(desc, np.zeros(3, np.float32), devices=("cuda", "cpu"))


@pytest.mark.parametrize("gpu", [False, True])
def test_devices_are_those_of_the_command(gpu: bool) -> None:
    asked = mock.Mock(side_effect=None if gpu else DeviceError("no GPU today"))
    with mock.patch("dmlgather.backends.cuda.require", asked):
        assert default_devices()[0] == [*["cuda"] * gpu, "cpu", "reference"]
        if not gpu:
            desc = dg.SliceOperatorDesc.of(np.zeros(3, np.float32))
            assert dg.compare(desc, np.zeros(3, np.float32)).devices == ("cpu", "reference")


def test_devices_that_agree_are_named_where_another_differs() -> None:
    found = dg.compare(LOOKUP, DATA, PLACES, devices=("cpu", "reference"), against=np.array([[0, 10, 13, 13]]))
    differs, equal = found.messages()
    assert differs.startswith("1 of 4 elements differ between cpu and against")
    assert equal == "equal on cpu, reference: 4 elements, bit for bit"
