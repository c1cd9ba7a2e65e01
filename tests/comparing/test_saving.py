"""Saved cases: what they hold, that they replay with the same bits, and that DxDispatch can read them."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import dmlgather as dg
from dmlgather.comparing.dispatches import compare_model
from dmlgather.comparing.saving import CompareReport
from dmlgather.directml.dxdispatch.model_file import check_file
from dmlgather.directml.dxdispatch.writing import write_model
from dmlgather.files import FileError
from dmlgather.model_runner import Runner
from tests.cli.command import Command, process
from tests.comparing.wrong import spoil
from tests.directml.buffers import documented
from tests.dxdispatch.models import GATHER, MODEL, changed, write
from tests.strategies import Problem, problems

COMPARE = ("compare", "--devices", "cpu,reference")


def dxdispatch_reads(file: Path) -> np.ndarray[Any, Any]:
    """The array in a .npy file, after asserting what DxDispatch's reader asks for (NpyReaderWriter.cpp): a version below 4, C
    order, a known element type that is not big-endian, and no less data than the shape says.
    """
    raw = file.read_bytes()
    assert raw[:6] == b"\x93NUMPY"
    assert (raw[6], raw[7]) == (1, 0)
    length = int.from_bytes(raw[8:10], "little")
    header = raw[10 : 10 + length].decode("ascii")
    kind = re.search(r"'descr': '([<|][fiu][1248])'", header)
    assert kind is not None, header
    assert "'fortran_order': False" in header
    shape = re.search(r"'shape': \(([\d, ]*)\)", header)
    assert shape is not None, header
    sizes = [int(size) for size in shape[1].replace(",", " ").split()]
    array = np.frombuffer(raw, kind[1], offset=10 + length)
    assert array.size == np.prod(sizes, dtype=int)
    return array.reshape(sizes)


def dxdispatch_finds(case: Path) -> None:
    """Assert that every file of a model is named as Windows and DxDispatch's relative paths allow, and lies beside it."""
    for name, resource in json.loads(case.read_text(encoding="ascii"))["resources"].items():
        source = resource["initialValues"].get("sourcePath")
        if source is not None:
            assert re.fullmatch(r"[A-Za-z0-9_.-]+\.npy", source), name
            assert dxdispatch_reads(case.parent / source).size > 0


@pytest.mark.slow
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(problems())
def test_a_comparison_saved_from_python_replays(tmp_path: Path, problem: Problem) -> None:
    desc = problem.desc
    tensor = desc.tensor("output_tensor")
    found = dg.compare(desc, *problem.inputs, devices=("cpu", "reference"), buffers=True)
    case = found.save(tmp_path / "case")
    assert case == tmp_path / "case" / "case.json"
    dxdispatch_finds(case)
    (again,) = compare_model(check_file(case), ["cpu", "reference"])
    (report,) = CompareReport.model_validate_json((tmp_path / "case" / "case.report.json").read_text()).dispatches
    expected = documented(desc, problem.inputs)
    outputs = [dxdispatch_reads(case.parent / report.outputs[device]) for device in ("cpu", "reference")]
    for output in (*found.outputs, *again.comparison.outputs, *outputs):
        assert output is not None
        assert (output.shape, output.dtype) == (tensor.sizes, np.dtype(tensor.data_type.name.lower()))
        assert output.tobytes() == expected.tobytes()


def test_arrays_of_the_described_sizes_are_laid_out_as_described(tmp_path: Path) -> None:
    desc = dg.GatherOperatorDesc(
        input_tensor=dg.BufferTensorDesc(data_type="FLOAT16", sizes=(3, 2), strides=(4, 1)),
        indices_tensor=dg.BufferTensorDesc(data_type="UINT64", sizes=(1, 2), strides=(7, 3)),
        output_tensor=dg.BufferTensorDesc(data_type="FLOAT16", sizes=(2, 2), strides=(1, 2)),
        axis=0,
        index_dimensions=1,
    )
    table = np.array([[0x7E01, 0xFE55], [0x8000, 0x7C01], [0x0001, 0x3C00]], np.uint16).view(np.float16)
    case = dg.compare(desc, table[::1], np.array([[1, 2**63]], np.uint64), devices=("cpu", "reference")).save(
        tmp_path / "it.json"
    )
    data = dxdispatch_reads(tmp_path / "it.0_InputTensor.npy").view(np.uint16)
    assert data.tolist() == [0x7E01, 0xFE55, 0, 0, 0x8000, 0x7C01, 0, 0, 0x0001, 0x3C00]
    assert dxdispatch_reads(tmp_path / "it.1_IndicesTensor.npy").tolist() == [1, 0, 0, 2**63]
    ended = process("run", "--device", "cpu", case, cwd=tmp_path)
    assert ended.code == 0, ended.err
    replayed = dxdispatch_reads(tmp_path / "it.replayed.npy").view(np.uint16)
    assert replayed.tolist() == [[0x8000, 0x7C01], [0x0001, 0x3C00]]


def test_a_comparison_that_no_model_can_say_is_refused(tmp_path: Path) -> None:
    sizes = {"data_type": "FLOAT32", "sizes": (2, 2)}
    desc = dg.GatherOperatorDesc(
        input_tensor=dg.BufferTensorDesc(**sizes, strides=(0, 1)),
        indices_tensor=dg.BufferTensorDesc(data_type="INT64", sizes=(1, 2)),
        output_tensor=dg.BufferTensorDesc(**sizes),
        axis=0,
        index_dimensions=1,
    )
    ids, repeated = np.array([[0, 1]]), np.ones((2, 2), np.float32)
    for policy in ("raise", dg.Fill(0)):
        with pytest.raises(ValueError, match="a DxDispatch model can only clamp"):
            dg.compare(desc, repeated, ids, devices=("cpu", "reference"), out_of_bounds=policy).save(tmp_path)
    with pytest.raises(
        ValueError, match=r"InputTensor: the described Strides \[0, 1\] put several elements of Sizes \[2, 2\] at one"
    ):
        dg.compare(desc, np.eye(2, dtype=np.float32), ids, devices=("cpu", "reference")).save(tmp_path)
    assert not list(tmp_path.iterdir())
    assert dg.compare(desc, repeated, ids, devices=("cpu", "reference")).save(tmp_path).exists()
    (found,) = compare_model(check_file(tmp_path / "case.json"), ["cpu", "reference"])
    with pytest.raises(ValueError, match="one dispatch of a model cannot be saved alone"):
        found.comparison.save(tmp_path)


CHAIN = changed(
    (("resources", "again"), {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": 8, "value": "nan"}}),
    (("resources", "café/\\: "), {"initialValues": {"sourcePath": "values.npy"}}),
    (
        ("commands", 2),
        {
            "type": "dispatch",
            "dispatchable": "gather",
            "bindings": {"InputTensor": "output", "IndicesTensor": "café/\\: ", "OutputTensor": "again"},
        },
    ),
    (("commands", 3), {"type": "print", "resource": "again", "verbose": True}),
)
"""A model whose second dispatch reads what the first one wrote."""


def chain(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    np.save(folder / "values.npy", np.array([3, 2, 1, 0], ">u4"))
    return write(folder, CHAIN)


def test_a_model_of_several_dispatches_replays(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model = chain(tmp_path / "from")
    run = Command(capfd)
    first = run(*COMPARE, model, "--save", tmp_path / "to" / "modèle.json")
    assert (first.code, first.out.count("bit for bit")) == (0, 2)
    case = tmp_path / "to" / "modèle.json"
    (model.parent / "values.npy").unlink()  # a case stands alone
    dxdispatch_finds(case)
    assert run(*COMPARE, case).out == first.out
    np.save(model.parent / "values.npy", np.array([3, 2, 1, 0], np.uint32))
    original, replayed = (run("run", "--device", "cpu", "--output-dir", tmp_path / "back", file) for file in (model, case))
    assert (original.code, replayed.code, replayed.out) == (0, 0, original.out)
    report = CompareReport.model_validate_json((case.parent / "mod_le.report.json").read_text())
    assert [dispatch.command for dispatch in report.dispatches] == [0, 2]
    assert report.file == str(model)
    last = dxdispatch_reads(case.parent / report.dispatches[1].outputs["reference"])
    assert last.tolist() == [[3, 4], [3, 4], [3, 4], [1, 2]]
    assert sorted(path.name for path in (tmp_path / "back").iterdir()) == [
        "mod_le.out0_gather.replayed.npy", "mod_le.out2_gather.replayed.npy",
    ]  # fmt: skip
    assert dxdispatch_reads(tmp_path / "back" / "mod_le.out2_gather.replayed.npy").tolist() == last.tolist()
    ended = run("compare", "--devices", "cpu", "--against", tmp_path / "back", case)
    assert (ended.code, ended.out.count("replayed.npy: 8 elements, bit for bit")) == (0, 2)


def _written(case: Path) -> list[str]:
    return [command["targetPath"] for command in json.loads(case.read_text())["commands"] if command["type"] == "writeFile"]


@pytest.mark.parametrize("target", ["mine.npy", "deep/mine.BIN"])
def test_a_case_writes_an_output_once(tmp_path: Path, target: str) -> None:
    model = changed((("commands", 1), {"type": "writeFile", "resource": "output", "targetPath": target}))
    assert _written(write_model(check_file(write(tmp_path, model)), tmp_path / "case")) == [target]


def test_a_file_that_cannot_be_compared_is_not_enough(tmp_path: Path) -> None:
    model = changed((("commands", 1), {"type": "writeFile", "resource": "output", "targetPath": "it.raw"}))
    case = write_model(check_file(write(tmp_path, model)), tmp_path / "case")
    assert _written(case) == ["it.raw", "case.out0_gather.replayed.npy"]


def test_an_output_that_a_later_dispatch_replaces_has_no_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model = changed((("commands", 2), MODEL["commands"][0]))
    ended = Command(capfd)(*COMPARE, write(tmp_path, model), "--save", tmp_path / "case")
    assert _written(tmp_path / "case" / "case.json") == ["case.out2_gather.replayed.npy"]
    assert ended.code == 0
    assert "commands[0] 'gather': commands[2] writes 'output' again, so that the case writes no file of this output" in ended.err
    between = changed((("commands", 1), {"type": "writeFile", "resource": "output", "targetPath": "first.npy"}), start=model)
    ended = Command(capfd)(*COMPARE, write(tmp_path, between), "--save", tmp_path / "two")
    assert _written(tmp_path / "two" / "case.json") == ["first.npy", "case.out2_gather.replayed.npy"]
    assert "writes no file" not in ended.err


def test_a_mismatch_is_kept_with_both_outputs(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil(monkeypatch, {5: 1 << 31})
    ended = Command(capfd)(*COMPARE, write(tmp_path, MODEL), "--save", tmp_path / "case")
    assert ended.code == 1
    report = CompareReport.model_validate_json((tmp_path / "case" / "case.report.json").read_text())
    right, wrong = (dxdispatch_reads(tmp_path / "case" / report.dispatches[0].outputs[device]) for device in ("cpu", "reference"))
    assert np.argwhere(right != wrong).tolist() == [[2, 1]]
    assert (report.exit_code, report.dispatches[0].differences[0].first.output) == (1, (2, 1))


@pytest.mark.parametrize("case", ["model.json", ".", "link.json"])
def test_a_case_never_overwrites_what_it_is_made_from(tmp_path: Path, capfd: pytest.CaptureFixture[str], case: str) -> None:
    model = write(tmp_path, MODEL, "case.json" if case == "." else "model.json")
    (tmp_path / "link.json").symlink_to(model)
    before = sorted(path.name for path in tmp_path.iterdir())
    text = model.read_bytes()
    ended = Command(capfd)(*COMPARE, model, "--save", tmp_path / case)
    assert (ended.code, ended.out) == (2, "")
    assert "is an input, and would be overwritten: choose another name" in ended.err
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert model.read_bytes() == text


def test_a_case_never_overwrites_its_values(tmp_path: Path) -> None:
    case = write_model(check_file(write(tmp_path, MODEL)), tmp_path)
    renamed = case.rename(tmp_path / "other.json")
    with pytest.raises(FileError, match=r"case\.\d_\w+\.npy is an input, and"):
        write_model(check_file(renamed), tmp_path)
    assert not (tmp_path / "case.json").exists()


@pytest.mark.parametrize("start", [MODEL, GATHER], ids=["model", "descriptor"])
def test_outputs_of_an_earlier_case_are_not_taken_for_new_ones(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], start: Any
) -> None:
    run, case, file = Command(capfd), tmp_path / "case", write(tmp_path, start)
    assert run(*COMPARE, file, "--save", case).code == 0
    assert run("compare", "--devices", "reference,cpu", file, "--save", case).code == 0  # replaces every file
    on_gpu = case / "case.out0_gather.cuda1.npy"  # as the case of another machine has it
    on_gpu.touch()
    ended = run(*COMPARE, file, "--save", case)
    assert (ended.code, ended.out) == (2, "")
    assert f"{case} holds {on_gpu.name}, which would be taken for outputs of the new case: remove" in ended.err
    on_gpu.unlink()
    before = {path: path.read_bytes() for path in case.iterdir()}
    assert run("run", case / "case.json", "--device", "cpu", "--output-dir", case).code == 0
    (replayed,) = {*case.iterdir()} - {*before}
    ended = run(*COMPARE, file, "--save", case)
    assert (ended.code, f"{case} holds {replayed.name}, which would be taken for" in ended.err) == (2, True)
    assert {path: path.read_bytes() for path in before} == before
    replayed.unlink()
    assert run(*COMPARE, file, "--save", case).code == 0


@pytest.mark.parametrize("target", ["file/case.json", "case.json/", "folder.json"])
def test_an_impossible_place_is_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str], target: str) -> None:
    (tmp_path / "file").write_text("here")
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "case.json").mkdir()
    ended = Command(capfd)(*COMPARE, write(tmp_path, GATHER), "--save", tmp_path / target)
    assert (ended.code, ended.out) == (2, "")
    (line,) = [line for line in ended.err.splitlines() if line.startswith("dmlgather: ")]
    assert str(tmp_path) in line
    assert "internal" not in line
    assert not [path for path in tmp_path.rglob("*") if path.suffix == ".npy" or path.name.startswith(".")]


def test_nothing_is_left_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checked = check_file(write(tmp_path, MODEL))
    written = np.lib.format.write_array_header_1_0
    calls = []

    def fails(*arguments: Any, **options: Any) -> None:
        calls.append(arguments)
        if len(calls) == 2:
            raise OSError(28, os.strerror(28))
        written(*arguments, **options)

    monkeypatch.setattr(np.lib.format, "write_array_header_1_0", fails)
    with pytest.raises(FileError, match=r"case.*\.npy cannot be written: No space left on device"):
        write_model(checked, tmp_path / "case")
    assert len(calls) == 2
    assert not list((tmp_path / "case").iterdir())


def test_a_descriptor_of_no_elements_or_half_bytes_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run = Command(capfd)
    empty = changed((("desc", "IndicesTensor", "Sizes"), [1, 0]), (("desc", "OutputTensor", "Sizes"), [0, 2]), start=GATHER)
    ended = run("compare", write(tmp_path, empty), "--save", tmp_path / "case")
    assert (ended.code, "at least 1" in ended.err) == (1, True), ended.err
    halves = changed(
        (("desc", "InputTensor", "DataType"), "UINT4"), (("desc", "OutputTensor", "DataType"), "UINT4"), start=GATHER
    )
    ended = run("compare", write(tmp_path, halves), "--save", tmp_path / "case")
    assert (ended.code, "UINT4" in ended.err) == (1, True), ended.err
    assert not (tmp_path / "case").exists()


def test_running_a_saved_descriptor_writes_its_output(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run = Command(capfd)
    assert run(*COMPARE, write(tmp_path, GATHER), "--save", tmp_path / "case").code == 0
    runner = Runner(check_file(tmp_path / "case" / "case.json"), "reference", tmp_path)
    list(runner.run())
    saved = dxdispatch_reads(tmp_path / "case" / "case.out0_gather.cpu.npy")
    assert dxdispatch_reads(tmp_path / "case.replayed.npy").tobytes() == saved.tobytes()


@pytest.mark.parametrize(
    ("first", "second"), [("run 1.json", "run_1.json"), ("è.json", "é.json"), ("x" * 40 + "a.json", "x" * 40 + "b.json")]
)
def test_files_of_a_case_with_another_name_are_not_replaced(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], first: str, second: str
) -> None:
    run, file = Command(capfd), write(tmp_path, GATHER)
    assert run(*COMPARE, file, "--save", tmp_path / "col" / first).code == 0
    before = {path: path.read_bytes() for path in (tmp_path / "col").iterdir()}
    ended = run(*COMPARE, file, "--save", tmp_path / "col" / second)
    assert (ended.code, ended.out) == (2, "")
    assert f"the files of the case {tmp_path / 'col' / first} begin with" in ended.err
    found = dg.compare(dg.GatherOperatorDesc.of(np.eye(3), np.arange(3)), np.eye(3), np.arange(3), devices=("cpu", "reference"))
    with pytest.raises(FileError, match=r"^the files of the case .* begin with .*, too, and would be replaced"):
        found.save(tmp_path / "col" / second)
    assert {path: path.read_bytes() for path in (tmp_path / "col").iterdir()} == before
    assert run(*COMPARE, file, "--save", tmp_path / "col" / first).code == 0
    assert run(*COMPARE, file, "--save", tmp_path / "col" / "third.json").code == 0


def test_a_case_does_not_replace_a_report(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """`a.report.json` is the report of `a.json`; the report is no case whose files `a_report.json` would replace."""
    run, file = Command(capfd), write(tmp_path, GATHER)
    for case in ("a.json", "a_report.json", "a_report.json", "a.json"):
        assert run(*COMPARE, file, "--save", tmp_path / case).code == 0
    report = (tmp_path / "a.report.json").read_bytes()
    ended = run(*COMPARE, file, "--save", tmp_path / "a.report.json")
    assert (ended.code, "has the name of a case's report" in ended.err) == (2, True)
    assert (tmp_path / "a.report.json").read_bytes() == report


def test_a_file_that_is_no_case_is_in_nobodys_way(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path, GATHER, "run 1.json")
    assert Command(capfd)(*COMPARE, file, "--save", tmp_path / "run_1.json").code == 0
