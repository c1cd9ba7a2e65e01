"""The output of `python -m conformance write`. Judge: DxDispatch's published reader and command line."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from pathlib import Path
from typing import Any, NoReturn

import jsonschema
import pytest

from conformance import case_writing
from conformance.case_writing import SCRIPTS
from conformance.conformance_report import ConformanceReport
from dmlgather.cli.schema import document_schema
from dmlgather.directml import FeatureLevel
from tests.cli.command import Command
from tests.conformance.conftest import CASES, SEED

OPTIONS = {
    "m": "model", "h": "help", "S": "show_dependencies", "i": "dispatch_iterations", "r": "dispatch_repeat", "a": "adapter",
    "t": "milliseconds_to_run", "I": "dispatch_interval", "w": "warmup_samples", "d": "debug", "s": "show_adapters",
    "v": "timing_verbosity", "q": "queue_type", "c": "pix_capture_type", "o": "pix_capture_name",
}  # fmt: skip
"""DxDispatch's options. Source: CommandLineArgs.cpp, which also takes the model without "-m"."""

VALUE_TYPES = {f"{sign}INT{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)} | {f"FLOAT{bits}" for bits in (16, 32, 64)}
"""Types of initial values. Source: JsonParsers.cpp, GetSizeInBytes, which newer versions call for every file."""


def models(folder: Path) -> dict[str, Any]:
    return {path.stem: json.loads(path.read_text()) for path in sorted((folder / "models").glob("*.json"))}


def test_the_folder_contains_the_documented_files(ran: Path) -> None:
    assert {path.name for path in ran.iterdir()} == {
        *("README.txt", "manifest.json", "models", "results", "run.cmd", "run.ps1", "run.sh")
    }
    manifest = json.loads((ran / "manifest.json").read_text())
    assert (manifest["tool"], manifest["format"], manifest["level"], manifest["seed"]) == ("dmlgather", 1, "6_4", SEED)
    names = [case["name"] for case in manifest["cases"]]
    assert sum(name.startswith("r") for name in names) == CASES
    assert set(names) == set(models(ran))
    for case in manifest["cases"]:
        for name, digest in case["files"].items():
            assert sha256((ran / "models" / name).read_bytes()).hexdigest() == digest
        assert (case["expected"] is None) is (case["question"] is not None)
    named = {name for case in manifest["cases"] for name in case["files"]}
    assert named == {path.name for path in (ran / "models").iterdir()}
    assert max(map(len, named)) <= 32


def test_models_fit_the_published_reader_of_dxdispatch(ran: Path) -> None:
    for name, model in models(ran).items():
        assert list(model) == ["resources", "dispatchables", "commands"]
        for resource in model["resources"].values():
            assert set(resource) == {"initialValues", "initialValuesDataType"}  # without sizeInBytes, the size is rounded up to 4
            assert resource["initialValuesDataType"] in VALUE_TYPES
            values = resource["initialValues"]
            if "sourcePath" in values:
                file = ran / "models" / values["sourcePath"]
                assert re.fullmatch(rf"{name}\.\d\.bin", values["sourcePath"])  # neither an image nor .npy, so raw bytes
                assert 0 < file.stat().st_size < 2**20
            else:
                assert (values["value"], resource["initialValuesDataType"]) == (0xA5, "UINT8")
                assert values["valueCount"] % 4 == 0
        (dispatchable,) = model["dispatchables"].values()
        assert set(dispatchable) <= {"type", "desc", "bindings"}
        tensors = [field for field in dispatchable["desc"] if field.endswith("Tensor")]
        dispatch, write = model["commands"]
        assert (dispatch["type"], write["type"]) == ("dispatch", "writeFile")
        bound = {**dispatch["bindings"], **dispatchable.get("bindings", {})}
        assert sorted(bound) == sorted(tensors)
        assert set(bound.values()) == set(model["resources"])
        owned = [field for field in tensors if dispatchable["desc"][field]["Flags"] != "NONE"]
        assert sorted(dispatchable.get("bindings", {})) == owned  # these tensors are bound when the operator is initialised
        assert write["targetPath"] == f"results/{name}.bin"  # raw bytes in or below the current folder
        assert None not in json.loads(json.dumps(dispatchable), object_hook=lambda item: list(item.values()))


@pytest.mark.parametrize("level", ["1_0", "2_1", "4_0"])
def test_a_level_limits_the_cases(command: Command, tmp_path: Path, level: str) -> None:
    ended = command("conformance", "write", tmp_path / "new", "--cases", 30, "--level", level)
    assert ended.code == 0
    assert re.search(r"30 cases from --seed \d+ and \d+ open questions? written", ended.err)
    assert command("check", "--level", level, *(tmp_path / "new" / "models").glob("r*.json")).code == 0


def test_a_seed_reproduces_the_folder(command: Command, tmp_path: Path) -> None:
    for name in ("one", "two"):
        assert command("conformance", "write", tmp_path / name, "--cases", 9, "--level", "2_0", "--seed", 5).code == 0
    files = [path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*") if path.is_file()]
    assert files
    assert all((tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes() for file in files)


def test_a_folder_that_is_not_empty_is_refused(command: Command, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")
    ended = command("conformance", "write", tmp_path)
    assert (ended.code, list(tmp_path.iterdir())) == (2, [tmp_path / "x"])
    assert "is not empty: name a new folder" in ended.err
    assert command("conformance", "write", tmp_path / "x").code == 2


def test_an_interrupted_write_leaves_no_file(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    def interrupt(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    arguments = ("conformance", "write", tmp_path / "new", "--cases", 3, "--seed", 1)
    monkeypatch.setattr(case_writing, "_question", interrupt)
    assert command(*arguments).code == 130
    assert list((tmp_path / "new").iterdir()) == []
    monkeypatch.undo()
    assert command(*arguments).code == 0


@pytest.mark.parametrize(
    ("option", "value"), [("--level", "7_0"), ("--cases", "0"), ("--cases", "100000"), ("--cases", "x"), ("--seed", "-1")]
)
def test_wrong_options_are_refused(command: Command, tmp_path: Path, option: str, value: str) -> None:
    ended = command("conformance", "write", tmp_path / "new", option, value)
    assert ended.code == 2
    assert option in ended.err
    assert value in ended.err or value in ("x", "-1")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("name", "mark", "used"), [("run.ps1", "$options +=", ["a", "d"]), ("run.sh", '"$program" "$model"', ["a"])]
)
def test_scripts_use_options_that_dxdispatch_has(name: str, mark: str, used: list[str]) -> None:
    lines = [line for line in (SCRIPTS / name).read_text().splitlines() if mark in line]
    assert [found for line in lines for found in re.findall(r"[ +]-([A-Za-z])\b", line)] == used
    assert [OPTIONS[letter] for letter in used] == ["adapter", "debug"][: len(used)]


def test_files_for_windows_have_ascii_and_crlf(ran: Path) -> None:
    for name in ("README.txt", "run.cmd", "run.ps1"):
        content = (ran / name).read_bytes()
        assert content.isascii()  # Windows PowerShell decodes other texts with the system's code page
        assert content.count(b"\r\n") == content.count(b"\n") > 2
    assert b"\r" not in (ran / "run.sh").read_bytes()
    assert rb'-File "%~dp0run.ps1" %*' in (ran / "run.cmd").read_bytes()
    assert b"pause\r\n" in (ran / "run.cmd").read_bytes()


def test_the_readme_of_the_folder_says_how_to_run_it(ran: Path) -> None:
    """It addresses a reader with this folder and Windows, but without dmlgather."""
    readme = (ran / "README.txt").read_text()
    assert "https://github.com/microsoft/DirectML/releases" in readme
    assert "Send the whole folder back" in readme
    options = {f"-{name}" for name in re.findall(r"^    \[\w+\]\$(\w+)", (ran / "run.ps1").read_text(), re.MULTILINE)}
    assert set(re.findall(r"(?<![\w-])-[A-Z]\w+", readme)) == options - {"-TimeoutSeconds"}
    for name in ("run.ps1", "run.sh"):
        script = (ran / name).read_text()
        assert "README.txt" in script
        assert "dmlgather" not in script  # dmlgather is not installed there


def test_the_report_matches_its_schema(ran: Path, command: Command) -> None:
    ended = command("conformance", "read", ran, "--json")
    report = json.loads(ended.out, parse_constant=pytest.fail)
    jsonschema.Draft202012Validator(document_schema(ConformanceReport)).validate(report)
    assert (ended.code, report["exit_code"], report["adapters"]) == (0, 0, ["stand-in"])
    assert {row["operator"]: row["equal"] for row in report["operators"]} == dict.fromkeys(
        ("GATHER", "GATHER_ELEMENTS", "GATHER_ND", "GATHER_ND1", "SLICE", "SLICE1", "DEPTH_TO_SPACE1", "SPACE_TO_DEPTH1"), 2
    )
    assert FeatureLevel.parse(report["level"]) is max(FeatureLevel)
