"""Results with every possible fault. dmlgather's runner stands in for DxDispatch."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conformance.conformance_report import ConformanceReport
from conformance.questions import REFUSED
from dmlgather import model_runner
from dmlgather.calls.arguments import Fill
from dmlgather.calls.operator import compile as compile_operator
from tests.cli.command import Command, Result
from tests.conformance.conftest import CASES
from tests.conformance.stand_in import run_models

KINDS = ("bin", "out", "err", "exit")


def read(command: Command, folder: Path) -> tuple[Result, Any]:
    """Return the exit code, the report as text, and the report as data."""
    ended = command("conformance", "read", folder, "--json")
    report = ConformanceReport.model_validate_json(ended.out)
    return replace(ended, out="".join(f"{line}\n" for line in report.lines())), json.loads(ended.out)


def only(report: Any) -> Any:
    (case,) = report["cases"]
    return case


def result(folder: Path, name: str, kind: str = "bin") -> Path:
    return folder / "results" / f"{name}.{kind}"


def refuse(folder: Path, name: str) -> None:
    """Change a case's results into a refusal by DirectML."""
    result(folder, name, "exit").write_text("1")
    result(folder, name, "err").write_text("Failed to execute the model: The parameter is incorrect.\n")


def names(folder: Path, begin: str = "") -> list[str]:
    return [
        case["name"] for case in json.loads((folder / "manifest.json").read_text())["cases"] if case["name"].startswith(begin)
    ]


def test_the_stand_in_agrees_with_every_case_and_every_decision(ran: Path, command: Command) -> None:
    text, report = read(command, ran)
    assert command("conformance", "read", ran) == text
    assert (text.code, report["cases"]) == (0, [])
    assert sum(row["equal"] for row in report["operators"]) == CASES
    assert {asked["case"]: asked["agrees"] for asked in report["questions"]} == dict.fromkeys(names(ran, "q-"), True)
    assert text.out.startswith(f"{CASES} cases at feature level 6_4, seed 7, on 'stand-in'\n")
    assert re.search(r"^SLICE1 +2 +0 +0 +0 +0$", text.out, re.MULTILINE)
    assert (
        "settles: q-gather-above: clamped to the last element of the axis (as in dmlgather)\n  An index beyond the last"
        in text.out
    )
    assert text.out.endswith(f"{len(report['questions'])} questions settled, 0 otherwise than in dmlgather; 0 not settled\n")


# Faults of one case


def test_a_flipped_bit_is_found_where_it_is(few: Path, command: Command) -> None:
    file = result(few, "r00003")
    content = bytearray(file.read_bytes())
    content[0] ^= 0x10
    file.write_bytes(content)
    text, report = read(command, few)
    case = only(report)
    assert (text.code, case["case"], case["outcome"]) == (1, "r00003", "different")
    difference = case["difference"]
    assert (difference["devices"], difference["differing"]) == (["dmlgather", "DirectML"], 1)
    assert difference["first"]["differing_bits"] == 1
    assert difference["first"]["output"] == [0] * len(difference["first"]["output"])
    assert difference["first"]["found"][0] == difference["first"]["expected"]
    assert "different: r00003" in text.out
    assert re.search(r": 1 of \d+ elements differ between dmlgather and DirectML\n  first: OutputTensor\[0", text.out)


def test_bits_between_the_elements_do_not_count(few: Path, command: Command) -> None:
    grown = 0
    for name in names(few, "r"):
        model = json.loads((few / "models" / f"{name}.json").read_text())
        (dispatchable,) = model["dispatchables"].values()
        output = dispatchable["desc"]["OutputTensor"]
        width = int(re.sub(r"\D", "", output["DataType"])) // 8
        used = int(np.prod(output["Sizes"])) * width
        content = bytearray(result(few, name).read_bytes())
        grown += len(content) > used
        content[used:] = bytes(len(content) - used)
        result(few, name).write_bytes(content)
    assert grown
    assert read(command, few)[0].code == 0


def _remove(*kinds: str) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        for kind in kinds:
            result(folder, "r00002", kind).unlink()

    return spoil


def _write(**contents: bytes) -> Callable[[Path], object]:
    return lambda folder: [result(folder, "r00002", kind).write_bytes(content) for kind, content in contents.items()]


def _truncate(folder: Path) -> None:
    file = result(folder, "r00002")
    file.write_bytes(file.read_bytes()[:-1])


def _as_npy(folder: Path) -> None:
    file = result(folder, "r00002")
    values = np.frombuffer(file.read_bytes(), np.uint8)
    with file.open("wb") as stream:
        np.save(stream, values)


def _poison(folder: Path) -> None:
    file = result(folder, "r00002")
    file.write_bytes(b"\xa5" * file.stat().st_size)


FAULTS: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "missing": (_remove(*KINDS), "missing", "it was not run"),
    "no exit code": (_remove("exit"), "missing", "it was not run to its end: the script noted no exit code"),
    "no result": (_remove("bin"), "failed", "DxDispatch ended with 0, but there is no result"),
    "cut": (_truncate, "different", r"the result has \d+ bytes, and not the \d+ of the output's buffer"),
    "empty": (_write(bin=b""), "different", "the result has 0 bytes"),
    "another format": (_as_npy, "different", r"the result has more than \d+ bytes"),
    "nothing written": (_poison, "different", ""),
    "refused": (
        _write(
            exit=b"1",
            err=b"Failed to execute the model: ERROR \x1b[31m'x': The parameter is incorrect.\r\n",
        ),
        "refused",
        r"DxDispatch ended with 1: Failed to execute the model: .*\\x1b\[31m'x': The parameter is",
    ),
    "refused in PowerShell": (
        _write(exit=b"-2147024809\r\n", err="Failed to execute the model: 0x80070057\r\n".encode("utf-16")),
        "refused",
        "DxDispatch ended with -2147024809: Failed to execute the model: 0x80070057",
    ),
    "refused below a warning": (
        _write(exit=b"1", err=b"D3D12 WARNING: x\n\nFailed to execute the model: 0x80070057\nbye\n"),
        "refused",
        "DxDispatch ended with 1: Failed to execute the model: 0x80070057$",
    ),
    "failed without a word": (
        _write(exit=b"1", err=b"\n", out=b"Running on 'stand-in'\n"),
        "failed",
        "DxDispatch ended with 1 before it executed the model$",
    ),
    "timeout": (_write(exit=b"timeout"), "failed", "it timed out"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_result_is_reported_with_exit_code_1(few: Path, command: Command, fault: str) -> None:
    spoil, outcome, message = FAULTS[fault]
    spoil(few)
    text, report = read(command, few)
    case = only(report)
    assert (text.code, text.err, case["case"], case["outcome"]) == (1, "", "r00002", outcome)
    if message:
        assert re.search(message, case["message"])
        assert f"{outcome}: r00002" in text.out
        assert "\x1b" not in text.out
    else:
        assert case["difference"]["first"]["found"][1]["bits"].strip("a5") == ""
    row = next(row for row in report["operators"] if row["operator"] == case["operator"])
    assert (row["equal"], row[outcome]) == (1, 1)


def test_long_lists_are_cut_only_in_the_text(command: Command, tmp_path: Path) -> None:
    folder = tmp_path / "cases"
    assert command("conformance", "write", folder, "--cases", 30, "--level", "1_0", "--seed", 1).code == 0
    (folder / "results").mkdir()
    result(folder, "r00001", "exit").write_text("1")
    text, report = read(command, folder)
    assert (text.code, len(report["cases"])) == (1, 30)
    assert text.out.count("missing: r") == 20
    assert "missing: 9 more cases; --json lists all" in text.out


# Other answers to the questions


def test_a_runner_that_fills_with_0_changes_the_answers(
    ran: Path, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(ran, tmp_path / "cases", ignore=shutil.ignore_patterns("results"))
    for path in (folder / "models").glob("r*.json"):
        if path.stem != "r00001":
            path.rename(path.with_suffix(".later"))
    monkeypatch.setattr(model_runner, "compile_operator", partial(compile_operator, out_of_bounds=Fill(0)))
    run_models(folder)
    for path in (folder / "models").glob("*.later"):
        path.rename(path.with_suffix(".json"))
    _, report = read(command, folder)
    answers = {asked["case"]: asked["answer"] for asked in report["questions"] if not asked["agrees"]}
    expected = {f"q-{name}-{side}" for name in ("gather", "elements", "nd", "nd1") for side in ("above", "below")}
    expected |= {"q-gather-uint32-high", "q-gather-int64-high", "q-gather-int64-low", "q-gather-uint64-high"}
    assert answers == dict.fromkeys(expected, "0 is written")


def test_every_known_answer_is_recognised(returned: Path, command: Command) -> None:
    """The test gives each question its second answer, which is not dmlgather's."""
    manifest = json.loads((returned / "manifest.json").read_text())
    given = {}
    for case in manifest["cases"]:
        if case["question"] is None:
            continue
        name, answer = case["name"], case["question"]["answers"][1]
        given[name] = answer["means"]
        model = json.loads((returned / "models" / f"{name}.json").read_text())
        (dispatchable,) = model["dispatchables"].values()
        tensor = dispatchable["desc"]["OutputTensor"]
        if answer["bits"] is None:
            refuse(returned, name)
            continue
        result(returned, name, "exit").write_text("0")
        bits, width = bytes.fromhex(answer["bits"]), int(re.sub(r"\D", "", tensor["DataType"])) // 8
        strides = tensor.get("Strides")
        places = np.arange(len(bits) // width) if strides is None else _places(tensor["Sizes"], strides)
        buffer = np.full((int(places.max()) + 4, width), 0xA5, np.uint8)
        for place, element in zip(places, np.frombuffer(bits, np.uint8).reshape(-1, width), strict=True):
            buffer[place] = element
        size = -(-(int(places.max()) + 1) * width // 4) * 4
        result(returned, name).write_bytes(buffer.tobytes()[:size])
    text, report = read(command, returned)
    assert (text.code, report["cases"]) == (0, [])
    assert {asked["case"]: asked["answer"] for asked in report["questions"]} == given
    assert all(asked["agrees"] is False for asked in report["questions"])
    assert f"{len(given)} questions settled, {len(given)} otherwise than in dmlgather" in text.out


def _places(sizes: list[int], strides: list[int]) -> Any:
    grids = np.indices(sizes)
    return sum(grid * step for grid, step in zip(grids, strides, strict=True)).reshape(-1)


def test_other_outcomes_of_a_question_are_reported(returned: Path, command: Command) -> None:
    result(returned, "q-gather-batch").write_bytes(np.arange(6, dtype="<i4").tobytes())
    result(returned, "q-gather-above").write_bytes(b"\xa5" * 24)
    for kind in KINDS:
        result(returned, "q-gather-scalar", kind).unlink()
    result(returned, "q-total-size").write_bytes(b"123")
    refuse(returned, "q-depth-block-1")
    text, report = read(command, returned)
    answers = {asked["case"]: (asked["answer"], asked["message"]) for asked in report["questions"] if not asked["agrees"]}
    assert (text.code, len(answers)) == (0, 5)
    assert answers["q-gather-batch"] == ("none of the known answers; the output is 0, 1, 2, 3, 4, 5", None)
    assert answers["q-gather-above"] == ("nothing is written", None)
    assert answers["q-gather-scalar"] == (None, "it was not run")
    assert answers["q-total-size"] == (None, "the result has 3 bytes, and not the 8 of the output's buffer")
    assert answers["q-depth-block-1"][0] == REFUSED
    assert "not settled: q-gather-scalar: it was not run\n" in text.out
    assert "states no range\n  DxDispatch ended with 1" in text.out


def test_only_a_refusal_settles_a_question(returned: Path, command: Command) -> None:
    """dmlgather refuses all of these cases, so a crash that counts as a refusal would agree."""
    for name, code, said in (
        ("q-dims-0", "timeout", ""),
        ("q-in-place", "not started", "The system cannot find the file specified."),
        ("q-space-rest", "-1073741819", ""),
        ("q-depth-rest", "127", "DirectML.dll: cannot open shared object file"),
        ("q-nd-tuple", "0", ""),
    ):
        result(returned, name).unlink(missing_ok=True)
        result(returned, name, "exit").write_text(code)
        result(returned, name, "err").write_text(said)
        result(returned, name, "out").write_text("")
    text, report = read(command, returned)
    unsettled = {asked["case"]: asked["message"] for asked in report["questions"] if asked["answer"] is None}
    assert unsettled == {
        "q-dims-0": "it timed out",
        "q-in-place": "it was not started: The system cannot find the file specified.",
        "q-space-rest": "it crashed, exit code -1073741819 (0xC0000005)",
        "q-depth-rest": "it was not started, exit code 127: DirectML.dll: cannot open shared object file",
        "q-nd-tuple": "DxDispatch ended with 0, but there is no result",
    }
    assert "not settled: q-dims-0: it timed out\n" in text.out


def test_no_question_is_settled_if_every_case_fails(returned: Path, command: Command) -> None:
    for name in names(returned):
        refuse(returned, name)
    text, report = read(command, returned)
    assert (text.code, len(report["cases"])) == (1, CASES)
    assert all(asked["answer"] is None for asked in report["questions"])
    assert "no other case ran either" in text.out
