"""Files that an enemy would write are checked in linear time, or refused with the limit named."""

from __future__ import annotations

import contextlib
import json
import time
import tracemalloc
from pathlib import Path
from typing import Any

import onnx
import pytest

from dmlgather import limits
from dmlgather.directml.dxdispatch.model_file import check_file
from dmlgather.directml.dxdispatch.reading import MOST_COUNTED, MOST_LISTED
from dmlgather.onnx_checking.check import check_model
from dmlgather.onnx_checking.checked_model import CheckedModel
from dmlgather.report import file_check
from dmlgather.report.settings import check_paths
from tests.cli.command import process
from tests.onnx_checking.modelling import checked, only, parsed, saved

EMPTY: dict[str, Any] = {"resources": {}, "dispatchables": {}, "commands": []}


def written(folder: Path, value: object) -> Path:
    path = folder / "model.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


@pytest.mark.parametrize("wrong", [1_500, 8_000])
def test_problems_beyond_the_listed_ones_are_counted(tmp_path: Path, wrong: int) -> None:
    path = written(tmp_path, {**EMPTY, "commands": [0] * wrong})
    found = check_file(path)
    assert len(found.problems) == MOST_LISTED + 1
    assert found.problems[-1].message == f"{wrong - MOST_LISTED} more problems, which are not listed: correct the first ones"
    report = check_paths([path])
    assert (report.summary.problems, report.exit_code) == (wrong, 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        {**EMPTY, "commands": [{}] * 50_000},
        {**EMPTY, "commands": [{"type": "dispatch", "a": 1}] * 20_000},
        {**EMPTY, "dispatchables": {f"d{number}": {"type": f"DML_OPERATOR_{number}"} for number in range(20_000)}},
        {**EMPTY, "resources": {f"r{number}": {} for number in range(20_000)}},
    ],
)
def test_reading_stops_where_nobody_reads_on(tmp_path: Path, model: dict[str, Any]) -> None:
    *_, last = check_file(written(tmp_path, model)).problems
    assert last.message == "9000 more problems, and the rest of the file was not read: correct the first ones"
    assert last.count == MOST_COUNTED - MOST_LISTED


def test_findings_that_are_not_all_listed_fail_the_check(tmp_path: Path) -> None:
    path = written(tmp_path, {**EMPTY, **{f"k{number}": 1 for number in range(20_000)}})
    found = check_file(path)
    assert len(found.findings) == MOST_COUNTED
    assert "has 10000 findings, and the rest of the file was not checked" in found.problems[-1].message
    assert check_paths([path]).exit_code == 2


@pytest.mark.parametrize("entries", [["x"] * 5_000, {f"k{number}": 1 for number in range(5_000)}])
def test_a_long_value_is_one_problem(tmp_path: Path, entries: object) -> None:
    command = {"type": "dispatch", "dispatchable": "g", "bindings": {"InputTensor": entries}}
    (problem,) = check_file(written(tmp_path, {**EMPTY, "commands": [command]})).problems
    assert problem.path == "commands[0].bindings.InputTensor"
    assert problem.message == "expected at most 1000 entries, got 5000"


def test_long_names_are_shortened(tmp_path: Path) -> None:
    found = check_file(written(tmp_path, {**EMPTY, "commands": [{"type": "print", "resource": "a" * 400_000}]}))
    (finding,) = found.findings
    assert len(str(finding)) < 5_000
    assert " … " in finding.got


def gathering(path: Path, dims: list[int]) -> CheckedModel:
    """The check of a Gather from an initializer of these sizes and no data."""
    model = parsed("g (int64[2] i) => (float y) { y = Gather(w, i) }")
    model.graph.initializer.add(name="w", data_type=onnx.TensorProto.FLOAT, dims=dims)
    return check_model(saved(path, model))


@pytest.mark.slow
@pytest.mark.parametrize("rank", [65, 600, 60_000])
def test_a_constant_of_many_dimensions(tmp_path: Path, rank: int) -> None:
    """Its number of elements has too many digits to be written."""
    found = gathering(tmp_path, [2**40] * rank)
    assert not found.problems
    assert "float[more than 64 dimensions, which are not read]" in found.findings[-1].got


def test_a_constant_of_64_dimensions(tmp_path: Path) -> None:
    assert {finding.code for finding in gathering(tmp_path, [2**62] * 64).findings} == {"EXP107"}


def test_the_shape_of_a_tensor_that_no_array_can_have(tmp_path: Path) -> None:
    """Found by ci/heavy fuzz: a size of 0 beside sizes whose product is too large for NumPy."""
    text = f"g (float[{2**62},0,{2**62}] x, int64[1] i) => (int64[1] y) {{ s = Shape(x) y = Gather(s, i) }}"
    assert only(checked(tmp_path, text)).outputs[0].shape == (1,)


def test_more_nodes_than_are_judged(tmp_path: Path) -> None:
    nodes = " ".join(f"y{number} = Gather(x, i)" for number in range(4_001))
    (problem,) = check_model(saved(tmp_path, f"g (int64[2] x, int64[2] i) => (int64[2] y0) {{ {nodes} }}")).problems
    assert problem.message.startswith("has more than 4000 gathers and slices, which is the limit for a file of its size")


def _folder_of(folder: Path, model: str | onnx.ModelProto) -> Path:
    """A folder with a hostile model and, behind it, a file with an error."""
    saved(folder, model, "a.onnx")
    (folder / "b.json").write_text(json.dumps({**EMPTY, "dispatchables": 1}))
    return folder


NO_NODE = "g (float[8] x) => (float y) { }"


def _zeros(name: str, rank: int) -> str:
    """A constant of one element, which is 0, and this many dimensions."""
    return f"int64[{','.join('1' * rank)}] {name} = {{0}}"


@pytest.mark.parametrize(
    "model",
    [
        f"g (float[8] x) => (float y) <{_zeros('i', 64)}> {{ y = Gather(x, i) }}",
        f"g (float[8] x) => (float y) <{_zeros('c', 40)}, {_zeros('i', 40)}> {{ d = Gather(c, i) y = Gather(x, d) }}",
    ],
)
def test_constants_of_as_many_dimensions_as_numpy_has(tmp_path: Path, model: str) -> None:
    """NumPy ended the process: so in a process."""
    ended = process("check", _folder_of(tmp_path, model))
    assert (ended.code, "internal error" in ended.err) == (2, False)
    assert "b.json" in ended.err
    assert "a.onnx: ONNX model" in ended.out


def test_default_attributes_are_not_copied_without_end(tmp_path: Path) -> None:
    calls = " ".join(f"y{number} = d.f(x)" for number in range(1000))
    text = f'<ir_version: 9, opset_import: ["" : 17, "d" : 1]> g (float[8] x) => (float y0) {{ {calls} }}'
    default = f'<text: string = "{"z" * 300_000}">'
    path = saved(tmp_path, f'{text} <domain: "d", opset_import: ["" : 17]> f{default} (a) => (b) {{ b = Identity(a) }}')
    tracemalloc.start()
    check_model(path)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 150_000_000  # 300 MB of defaults, and a serialised copy of them


@pytest.mark.slow
def test_a_file_that_takes_its_time_is_a_problem_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(*_: object) -> CheckedModel:
        while True:
            with contextlib.suppress(Exception):
                time.sleep(0)

    monkeypatch.setattr(limits, "SECONDS", 0.2)
    monkeypatch.setattr(file_check, "_check_onnx", endless)
    first, second = check_paths([_folder_of(tmp_path, NO_NODE)]).files
    assert [problem.message for problem in first.problems] == [
        "takes more than its limit of 0.2 s of CPU time: raise it by --time-limit, or split the file; it is not checked"
    ]
    assert "dispatchables" in str(second.problems[0])


def _failing(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fails(*_: object) -> CheckedModel:
        raise error

    monkeypatch.setattr(file_check, "_check_onnx", fails)


@pytest.mark.parametrize(
    ("error", "says"),
    [(MemoryError(), "of memory"), (RecursionError(), "nested"), (ZeroDivisionError("x / 0"), "ZeroDivisionError: x / 0")],
)
def test_an_error_at_one_file_costs_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, says: str
) -> None:
    _failing(monkeypatch, error)
    report = check_paths([_folder_of(tmp_path, NO_NODE)])
    first, second = report.files
    assert says in first.problems[0].message
    assert "dispatchables" in str(second.problems[0])
    assert report.exit_code == 2


@pytest.mark.parametrize("debugged", [False, True])
def test_the_traceback_of_an_internal_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], debugged: bool
) -> None:
    _failing(monkeypatch, ZeroDivisionError("x / 0"))
    monkeypatch.setenv("DMLGATHER_DEBUG", "1" if debugged else "")
    first, _ = check_paths([_folder_of(tmp_path, NO_NODE)]).files
    assert ("Traceback" in capsys.readouterr().err) is debugged
    assert ("DMLGATHER_DEBUG=1" in first.problems[0].message) is not debugged
