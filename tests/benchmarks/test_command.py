"""The command `python -m benchmarks`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import benchmarks as suites
from benchmarks import BenchError, BenchReport, MismatchError
from dmlgather.backends.cuda import DeviceError
from tests.cli.command import ROOT, Command


def test_the_command_measures_writes_and_draws(tmp_path: Path, command: Command) -> None:
    results = tmp_path / "results"
    ended = command(
        "benchmarks", "--rounds", 1, "--peers", "numpy", "--only", "crop,launch", "--seed", 7, "--output", results / "a.json",
        "--plot", results / "bars.svg", "--plot", results / "bars.png", "--roofline", results / "roofline.png",
    )  # fmt: skip
    report = BenchReport.model_validate(json.loads((results / "a.json").read_text()))
    assert (ended.code, ended.err) == (0, "")  # no progress bar if standard error is no terminal
    assert ended.out == "\n".join(suites.lines(report)) + "\n"
    assert report.seed == 7
    assert [case.name for case in report.cases] == ["crop float32", "launch-floor float32"]
    assert {item.rounds for case in report.cases for item in case.measured} == {1}
    assert {path.name for path in results.iterdir()} == {"a.json", "bars.svg", "bars.png", "roofline.png"}


@pytest.mark.parametrize(
    ("option", "value", "listed"),
    [
        ("--suite", "huge", "smoke, cpu, gpu, full"),
        ("--peers", "tensorrt", "numpy, torch, jax"),
        ("--peers", ",", "numpy, torch, jax"),
        ("--rounds", "0", "1"),
        ("--seed", "-1", "0"),
        ("--l2-fetch", "48", "32, 64, 128"),
    ],
)
def test_unknown_option_values_are_refused(command: Command, option: str, value: str, listed: str) -> None:
    ended = command("benchmarks", option, value)
    assert (ended.code, ended.out) == (2, "")
    assert option in ended.err
    assert listed.partition(",")[0] in ended.err


@pytest.mark.parametrize(
    ("error", "code"),
    [(MismatchError("x differs"), 1), (BenchError("no such thing"), 2), (DeviceError("no GPU: install one"), 2)],
)
def test_errors_set_the_exit_code(command: Command, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int) -> None:
    def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(suites, "run", fails)
    ended = command("benchmarks")
    assert (ended.code, ended.out, ended.err) == (code, "", f"dmlgather: {error}\n")


@pytest.mark.slow
def test_a_saved_report_is_shown_without_measuring(tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise AssertionError("nothing is measured")

    monkeypatch.setattr(suites, "run", fails)
    saved = ROOT / "benchmarks/results/cpu-amd-epyc-2026-11-28.json"
    ended = command("benchmarks", "--from", saved, "--roofline", tmp_path / "a.svg", "--plot", tmp_path / "b.svg")
    assert (ended.code, ended.err) == (0, "")
    assert "suite cpu on AMD EPYC, 2 CPUs, 2026-11-28T03:13:40+00:00" in ended.out
    assert "per necessary byte" in (tmp_path / "a.svg").read_text()
    assert (tmp_path / "b.svg").exists()
    together = command("benchmarks", "--from", saved, "--suite", "cpu")
    assert (together.code, together.out) == (2, "")
    assert "nothing is measured" in " ".join(together.err.replace("│", " ").split())


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is no report of `python -m benchmarks --output`: the file: is not JSON: "),
        ('{"suite": "cpu"}', "the file: 'date' is missing"),
        (None, "does not exist"),
    ],
)
def test_a_file_without_a_report_is_refused(tmp_path: Path, command: Command, content: str | None, said: str) -> None:
    file = tmp_path / "a.json"
    if content is not None:
        file.write_text(content)
    ended = command("benchmarks", "--from", file)
    assert (ended.code, ended.out) == (2, "")
    assert str(file) in ended.err
    assert said in ended.err
