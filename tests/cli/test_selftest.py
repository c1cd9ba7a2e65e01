"""`dmlgather selftest`: options, outputs and exit codes."""

from __future__ import annotations

import json
import platform
import signal
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

import dmlgather as dg
from dmlgather.backends.cpu.fallback import NumpyProgram
from dmlgather.cli.schema import Schema, schema_of
from tests.cli.command import Command
from tests.cli.interrupting import start
from tests.selftest.harming import flip, harm
from tests.selftest.test_cpu import spoilt


def test_equal_is_one_line_and_0(command: Command, tmp_path: Path) -> None:
    ended = command("selftest", "--device", "cpu", "--trials", 5, "--seed", 7, "--output", tmp_path / "a" / "b.json")
    report = json.loads((tmp_path / "a" / "b.json").read_text())
    assert (ended.code, ended.err, ended.out) == (0, "testing cpu, --seed 7\n", f"{report['line']}\n")
    assert ended.out.startswith("dmlgather selftest: equal, bit for bit: 5 plans, ")
    assert "--seed 7; cpu: " in ended.out
    assert f"; dmlgather {dg.__version__}, NumPy {np.__version__}, Python {platform.python_version()}; " in ended.out
    assert (report["equal"], report["trials"], report["seed"], report["machine"]["gpu"]) == (True, 5, 7, None)
    jsonschema.validate(report, schema_of(Schema.SELFTEST))


def test_json_on_standard_output_is_alone_there(command: Command) -> None:
    ended = command("selftest", "--device", "cpu", "--trials", 2, "--json")
    assert ended.code == 0
    report = json.loads(ended.out)
    assert ended.err == f"testing cpu, --seed {report['seed']}\n{report['line']}\n"


def test_the_line_is_there_although_the_file_cannot_be_written(command: Command, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ended = command("selftest", "--device", "cpu", "--trials", 2, "--output", tmp_path / "file" / "a.json")
    assert ended.code == 2
    assert str(tmp_path / "file") in ended.err.splitlines()[-1]
    assert ended.out.startswith("dmlgather selftest: equal")


def test_a_mismatch_is_1_and_the_command_it_names_repeats_it(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(NumpyProgram, "bind", spoilt(NumpyProgram.bind))
    ended = command("selftest", "--device", "cpu", "--trials", 10, "--output", tmp_path / "a.json")
    report = json.loads((tmp_path / "a.json").read_text())
    jsonschema.validate(report, schema_of(Schema.SELFTEST))
    assert ended.code == 1
    *lines, last = ended.out.splitlines()
    assert last.startswith("dmlgather selftest: MISMATCH in ")
    assert lines[0] == f"trial {report['first_failed']['trial']} is wrong: {report['first_failed']['fault']}"
    (repeat,) = [line.split(maxsplit=1)[1] for line in lines if line.startswith("  repeat ")]
    again = command(*repeat.split()[1:])
    assert again.code == 1
    assert again.out.splitlines()[:-1] == lines
    monkeypatch.undo()
    assert command(*repeat.split()[1:]).code == 0


@pytest.mark.gpu(devices=2)
def test_a_gpu_is_taken_where_there_is_one(command: Command, cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = command("selftest", "--trials", 4)
    assert ended.code == 0
    assert ended.err.startswith("testing cuda:0, --seed ")
    assert f"; cuda:0: {cupy.cuda.runtime.getDeviceProperties(0)['name'].decode()}, compute capability " in ended.out
    harm(monkeypatch, lambda data, indices, out: flip(out))
    ended = command("selftest", "--device", "cuda:1", "--trials", 4)
    assert ended.code == 1
    assert "  repeat         dmlgather selftest --device cuda:1 --seed " in ended.out


@pytest.mark.gpu
def test_a_device_that_is_missing_is_2(command: Command, cupy: Any) -> None:
    count = cupy.cuda.runtime.getDeviceCount()
    assert f"there is no cuda:{count}: this machine has {count} GPU" in command.refused("selftest", "--device", f"cuda:{count}")


def test_without_a_gpu_the_cpu_is_tested_and_the_reason_is_said(command: Command, no_cupy: None) -> None:
    assert command.refused("selftest", "--device", "cuda", "--trials", 1).startswith("dmlgather: CuPy cannot be imported")
    ended = command("selftest", "--trials", 1)
    assert ended.code == 0
    assert ended.err.startswith("cpu is tested, as no GPU can be: CuPy cannot be imported")
    assert "; cpu: " in ended.out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--device", "gpu"], "expected cuda, cuda:N or cpu, got 'gpu'"),
        (["--device", "reference"], "expected cuda, cuda:N or cpu, got 'reference'"),
        (["--trials", 0], "--trials"),
        (["--seed", -1], "--seed"),
        (["--seconds", 0], "expected a positive number of seconds, got 0.0"),
        (["--seconds", "nan"], "expected a positive number of seconds, got nan"),
        (["--trial", 3], "needs --seed"),
        (["--output", "."], "must be a file; . is a folder"),
        (["--trial", 3, "--seed", 1, "--trials", 5], "leave out --trials and --seconds"),
    ],
)
def test_a_wrong_command_line_is_2(command: Command, options: list[Any], said: str) -> None:
    assert said in command.refused("selftest", *options)


def test_an_interrupt_is_130() -> None:
    with start("selftest", "--device", "cpu", "--seconds", 100) as running:
        assert running.stderr is not None
        assert running.stderr.readline().startswith(b"testing cpu, --seed ")
        running.send_signal(signal.SIGINT)
        said = running.stderr.read().decode().splitlines()
        assert running.wait(60) == 130
    assert said[-1] == "dmlgather: interrupted"
