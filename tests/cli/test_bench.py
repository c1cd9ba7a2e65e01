"""`dmlgather bench`: a thin shell around `dmlgather.bench`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dmlgather import bench as suites
from dmlgather.bench import BenchError, MismatchError
from tests.cli.command import Command


def test_smoke(tmp_path: Path, command: Command) -> None:
    ended = command("bench", "--rounds", 1, "--json", tmp_path / "results" / "smoke.json")
    report = json.loads((tmp_path / "results" / "smoke.json").read_text())
    names = [case["name"] for case in report["cases"]]
    assert (ended.code, ended.err, len(names)) == (0, "", 10)  # no progress bar where standard error is no terminal
    lines = ended.out.splitlines()
    assert [line[: len(name)] for line, name in zip(lines[1:], names, strict=False)] == names
    assert report["rounds"] == 1


@pytest.mark.parametrize(("option", "value"), [("--suite", "huge"), ("--peers", "torch"), ("--peers", ","), ("--rounds", "0")])
def test_unknown_names(command: Command, option: str, value: str) -> None:
    ended = command("bench", option, value)
    assert (ended.code, ended.out) == (2, "")
    assert option in ended.err


@pytest.mark.parametrize(("error", "code"), [(MismatchError("x differs"), 1), (BenchError("no such thing"), 2)])
def test_failures(command: Command, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int) -> None:
    def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(suites, "run", fails)
    ended = command("bench")
    assert (ended.code, ended.out, ended.err) == (code, "", f"dmlgather: {error}\n")
