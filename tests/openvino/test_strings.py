"""Strings in every function of OpenVINO's, in each of NumPy's forms; OpenVINO's Gather judges what is out of range."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlgather as dg
from tests.openvino.runtime import openvino

ov = dg.openvino
WORDS = [["a", "bb", "ccc"], ["", "é", "ffffff"]]
KINDS = [np.dtype(object), np.dtype("U6"), np.dtypes.StringDType()]
DEVICES = (None, "cpu", "reference")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_every_function_moves_strings(kind: Any, device: str | None) -> None:
    words = np.array(WORDS, kind)
    found: list[tuple[Any, Any]] = [
        (ov.gather(words, np.array([2, -1, 0]), 1, device=device), words[:, [2, 2, 0]]),
        (ov.gather_elements(words, np.array([[1, -2, 0]]), 0, device=device), words[[1, 0, 0], [0, 1, 2]][None]),
        (ov.gather_nd(words, np.array([[1, 2], [0, -1]]), device=device), words[[1, 0], [2, 2]]),
        (ov.slice(words, [2], [-9], [-1], [1], device=device), words[:, ::-1]),
        (ov.strided_slice(words, [1, 0], [2, 2], shrink_axis_mask=[1], device=device), words[1, :2]),
    ]
    for result, right in found:
        assert (result.dtype, result.shape, result.tolist()) == (kind, right.shape, right.tolist())


@pytest.mark.parametrize("version", [1, 7, 8])
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", [*KINDS, np.dtype("S6")], ids=str)
def test_an_index_out_of_range_gives_the_empty_string(kind: Any, device: str | None, version: int) -> None:
    words = np.array(["a", "bb", "ccc"], kind)
    indices = np.array([2, 7, -1, -4, 0, 2**40])
    empty = np.array([""], kind)[0]
    last = words[2] if version == 8 else empty
    found = ov.gather(words, indices, 0, version=version, device=device)
    assert found.tolist() == np.array([words[2], empty, last, empty, words[0], empty], kind).tolist()
    assert found.dtype == kind
    assert ov.gather(words[:0], indices, 0, version=version, device=device).tolist() == np.array([""] * 6, kind).tolist()
    assert ov.gather(words, np.array(9), 0, version=version, device=device).shape == ()


def test_openvino_gives_the_empty_string_too() -> None:
    words, indices = np.array(["a", "bb", "ccc"]), np.array([2, 7, -1, -4, 0])
    parameters = [
        openvino.op.Parameter(kind, openvino.PartialShape([size]))
        for kind, size in ((openvino.Type.string, 3), (openvino.Type.i64, 5))
    ]
    node = openvino.opset8.gather(*parameters, openvino.op.Constant(np.array(0)))
    output = openvino.Tensor(openvino.Type.string, openvino.Shape([5]))
    assert openvino.Model([node], parameters, "one_gather").evaluate([output], [openvino.Tensor(words), openvino.Tensor(indices)])
    assert output.str_data.tolist() == ov.gather(words, indices, 0).tolist() == ["ccc", "", "ccc", "", "a"]


def test_policies_for_strings() -> None:
    words = np.array(["a", "bb"])
    bad = np.array([0, 5])
    assert ov.gather(words, bad, 0, out_of_bounds="clamp").tolist() == ["a", "bb"]
    with pytest.raises(IndexError, match=r"indices\[1\] = 5 is out of range for axis 0 of size 2"):
        ov.gather(words, bad, 0, out_of_bounds="raise")
    with pytest.raises(ValueError, match=r"out_of_bounds is Fill\('x'\), but strings cannot be filled: use 'raise' or 'clamp'"):
        ov.gather(words, bad, 0, out_of_bounds=dg.Fill("x"))
    with pytest.raises(TypeError, match="indices has type string, but Gather-8 takes i8"):
        ov.gather(words, words, 0)


@pytest.mark.gpu
def test_strings_do_not_run_on_a_gpu() -> None:
    with pytest.raises(TypeError, match="strings run on the CPU alone, and the device is cuda"):
        ov.gather(np.array(["a", "bb"]), np.array([0]), 0, device="cuda")


def test_strings_have_no_descriptor() -> None:
    words, indices = np.array(["a", "bb"]), np.array([0])
    for report in (
        ov.to_directml(words, indices, 0),
        ov.gather_nd.to_directml(words, indices),
        ov.slice.to_directml(words, [0], [1], [1]),
        ov.strided_slice.to_directml(((2,), "string"), [0], [1]),
    ):
        assert isinstance(report, dg.Report)
        assert [(finding.code, finding.got) for finding in report.findings] == [("EXP103", "strings")]
