"""`ci/heavy fuzz` notices each kind of failure, and its unmutated folders of cases are readable."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from conformance.case_reading import read_results
from dmlgather.backends.memory import TooLargeError
from dmlgather.files import FileError
from tests import seeds
from tests.fuzzing.__main__ import digests, failure, harm, translating
from tests.fuzzing.mutating_cases import mutated_cases, whole_cases


def test_a_changed_input_is_noticed_and_a_new_file_is_removed(tmp_path: Path) -> None:
    for name in ("a.json", "deep/b.bin"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"content")
    before = digests(tmp_path)
    (tmp_path / "deep/new.onnx").write_bytes(b"made")
    assert harm(tmp_path, before) == ""
    assert digests(tmp_path) == before
    (tmp_path / "deep/b.bin").write_bytes(b"Content")
    assert harm(tmp_path, before) == "changed .bin"
    (tmp_path / "deep/b.bin").unlink()
    assert harm(tmp_path, before) == "changed .bin"


@pytest.mark.slow
def test_mutated_cases_are_read_or_refused(tmp_path: Path) -> None:
    whole, rng = whole_cases(tmp_path / "whole"), seeds.rng()
    report = read_results(whole, "0")
    assert {case.outcome for case in report.cases} <= {"refused"}, [case.outcome for case in report.cases]
    kept, outcomes = digests(whole), set()
    for number in range(40):
        mutated_cases(rng, whole, tmp_path / f"{number}")
        try:
            read_results(tmp_path / f"{number}", "0")
            outcomes.add("read")
        except (FileError, TooLargeError):
            outcomes.add("refused")
    assert outcomes == {"read", "refused"}
    assert digests(whole) == kept


def test_a_translated_file_is_compared_with_models(tmp_path: Path) -> None:
    rng, path, model = seeds.rng(), tmp_path / "1.json", tmp_path / "1.onnx"
    commands = [translating(rng, path, [path, model]) for _ in range(100)]
    assert {first[0] for first, _ in commands} == {"translate"}
    assert any(str(model) in first for first, _ in commands)  # the path of another input
    assert {tuple(second[:4]) for _, second in commands} == {("compare", str(path), "--against", str(model))}


@pytest.mark.parametrize("arguments", [["levels", "GATHER"], ["check", "--no-config", "/dev/null/x"], ["--nonsense"]])
def test_a_command_that_ends_properly_is_no_failure(arguments: list[str], tmp_path: Path) -> None:
    assert failure(arguments, tmp_path) == ""


def test_a_process_that_is_killed_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\nkill -11 $$\n")
    script.chmod(0o755)
    monkeypatch.setattr("sys.executable", os.fspath(script))
    assert failure(["levels"], tmp_path) == "exit code -11"
