"""Layers of an IR that DirectML's caller computes on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dmlgather.dialects.checked_model import Verdict
from dmlgather.openvino.model.check import check_ir
from dmlgather.openvino.model.layer_table import LAYERS
from tests.openvino.ir import parameter, save
from tests.openvino.runtime import openvino

opset = openvino.opset13


def _constant(values: Any) -> Any:
    return opset.constant(np.array(values, np.int64))


def _row(data: Any) -> Any:
    """A size of data, gathered from its shape."""
    row = opset.gather(opset.shape_of(data, "i64"), _constant([1]), _constant(0))
    row.set_friendly_name("row")
    return row


def _verdict(folder: Path, results: list[Any], parameters: list[Any], level: str = "6_4", include_host: bool = False) -> Verdict:
    found = check_ir(save(folder, results, parameters), level, include_host)
    assert found.problems == ()
    return next(node.verdict for node in found.nodes if node.name == "row")


CASES: Mapping[str, tuple[Callable[[Any], Any], Verdict]] = {
    "a bound": (lambda x: opset.slice(x, _constant([0]), _row(x), _constant([1])), Verdict.HOST),
    "arithmetic that leads to a shape": (
        lambda x: opset.reshape(x, opset.concat([opset.multiply(_row(x), _constant([2])), _constant([-1])], 0), False),
        Verdict.HOST,
    ),
    "a result of the model": (_row, Verdict.TAKEN),
    "data": (lambda x: opset.add(opset.convert(_row(x), "f32"), x), Verdict.TAKEN),
    "its shape alone": (lambda x: opset.shape_of(_row(x)), Verdict.TAKEN),
    "indices": (lambda x: opset.gather(x, _row(x), _constant(0)), Verdict.TAKEN),
}


@pytest.mark.parametrize("case", CASES)
def test_what_a_result_reaches(case: str, tmp_path: Path) -> None:
    made, verdict = CASES[case]
    data = parameter("x", [-1, -1], np.float32)
    assert _verdict(tmp_path, [made(data)], [data]) is verdict


def test_a_second_use_by_the_device(tmp_path: Path) -> None:
    data = parameter("x", [-1, -1], np.float32)
    row = _row(data)
    results = [opset.slice(data, _constant([0]), row, _constant([1])), opset.add(opset.convert(row, "f32"), data)]
    assert _verdict(tmp_path, results, [data]) is Verdict.TAKEN


def test_a_large_table_is_the_device_s(tmp_path: Path) -> None:
    data, table = parameter("x", [-1, -1], np.float32), parameter("t", [5000], np.int64)
    row = opset.gather(table, _constant([1]), _constant(0))
    row.set_friendly_name("row")
    assert _verdict(tmp_path, [opset.slice(data, _constant([0]), row, _constant([1]))], [data, table]) is Verdict.TAKEN


def test_the_host_s_layers_are_judged_on_request(tmp_path: Path) -> None:
    data = parameter("x", [-1, -1], np.float32)
    results = [opset.slice(data, _constant([0]), _row(data), _constant([1]))]
    assert _verdict(tmp_path, results, [data], "1_0") is Verdict.HOST
    assert _verdict(tmp_path, results, [data], "1_0", include_host=True) is Verdict.REFUSED


def test_the_table_names_layers_that_openvino_has() -> None:
    known = set().union(*(vars(getattr(openvino, f"opset{number}")) for number in range(1, 17)))
    spelled = {name.replace("_", "").lower() for name in known}
    assert {name for name in LAYERS if not {name.lower(), f"{name.lower()}op"} & spelled} == set()
