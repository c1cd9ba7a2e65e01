"""dg.index as DirectML descriptors: what comes out validates and gives NumPy's bits; what cannot be described is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import dmlgather as dg
from tests.dialects.binding import codes, listed, only
from tests.dialects.drafting import seeds
from tests.numpy.judged import check_descriptors

X = ((4, 10, 6), "float32")
IDS = ((3,), "int64")


@settings(max_examples=150, deadline=None)
@given(seeds)
def test_descriptors_give_what_numpy_gives(seed: int) -> None:
    check_descriptors(seed)


def test_columns_by_index_are_a_gather_of_axis_1() -> None:
    desc = dg.index[:, IDS].to_directml(X)
    assert isinstance(desc, dg.GatherOperatorDesc)
    assert (desc.axis, desc.index_dimensions) == (1, 1)
    assert [tensor.sizes for tensor in (desc.input_tensor, desc.indices_tensor, desc.output_tensor)] == [
        (4, 10, 6), (1, 1, 3), (4, 3, 6)
    ]  # fmt: skip
    assert desc.input_tensor.strides is desc.output_tensor.strides is None


@pytest.mark.parametrize(
    ("key", "operators"),
    [
        (np.s_[:, IDS], "GATHER"),
        (np.s_[:, IDS, ::2], "GATHER"),  # the steps are strides of the input
        (np.s_[0, :, IDS], "GATHER"),  # the strides of the output put the result's first dimension in front
        (np.s_[:, IDS, ::-1], "SLICE1 GATHER"),
        (np.s_[1:, IDS], "SLICE1 GATHER"),
        (np.s_[IDS, IDS], "GATHER_ND1"),
        (np.s_[IDS, :, IDS], "GATHER_ND1"),
        (np.s_[IDS, 3, IDS], "SLICE1 GATHER_ND1"),
        (np.s_[..., ::2], "SLICE1"),
        (np.s_[::-1, None, 3], "SLICE1"),
        (np.s_[True], "SLICE1"),
    ],
)
def test_brackets_become_these_operators(key: Any, operators: str) -> None:
    found = listed(dg.index[key].to_directml(X))
    assert [desc.operator.name for desc in found] == operators.split()


def test_a_report_names_the_entry_and_the_dimension() -> None:
    finding = only(dg.index[:, [0, 10]].to_directml(X))
    assert (finding.code, finding.path, finding.got) == ("EXP111", "indices[1]", "10")
    assert finding.expected == "-10 … 9, as x has size 10 in dimension 1"
    assert codes(dg.index[1, IDS, 2:, None, IDS].to_directml(X)) == ["EXP101"]
    broken = dg.index[4].to_directml(X)
    assert isinstance(broken, dg.Report)
    assert (broken.subject, broken.findings[0].code) == ("NumPy index", "EXP101")
    assert "entry 0 is 4, which is out of range for dimension 0 of size 4" in broken.findings[0].got
    strings = dg.index[:, IDS].to_directml(((4, 10), str), "3_0")
    assert isinstance(strings, dg.Report)
    assert (strings.subject, strings.findings[0].code, strings.findings[0].path) == ("NumPy index", "EXP103", "x")
    with pytest.raises(ValueError, match="level"):
        dg.index[0].to_directml(X, "9_9")


def test_differences_are_about_indices_of_unknown_values() -> None:
    (finding,) = dg.index[:, IDS].differences(X)
    assert (finding.code, finding.severity, finding.expected) == ("EXP201", "warning", "indices from -10 to 9")
    (finding,) = dg.index[IDS, :, ((3,), "uint8")].differences(X)
    assert finding.expected == "indices from -4 to 3 or -6 to 5, by the dimension that they index"
    assert dg.index[:, [0, 1]].differences(X) == dg.index[0, ::-1].differences(X) == ()
    with pytest.raises(IndexError, match="entry 0 is 4"):
        dg.index[4].differences(X)
