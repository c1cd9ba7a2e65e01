"""run.sh with a program that takes DxDispatch's command line."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests import processes
from tests.cli.command import Command
from tests.conformance.stand_in import program


@pytest.fixture
def cases(tmp_path: Path, command: Command) -> Path:
    """Return a folder of cases, next to a program called dxdispatch."""
    folder = tmp_path / "a b" / "cases"
    assert command("conformance", "write", folder, "--cases", 3, "--level", "1_0", "--seed", 2).code == 0
    program(tmp_path)
    return folder


def run_sh(folder: Path, *arguments: object, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": f"{path}:/usr/bin:/bin" if path else "/usr/bin:/bin"}
    return processes.run(["sh", str(folder / "run.sh"), *map(str, arguments)], env=environment, timeout=100)


@pytest.mark.slow
def test_run_sh_runs_all_models_and_read_takes_the_results(cases: Path, tmp_path: Path, command: Command) -> None:
    ended = run_sh(cases, path=tmp_path)  # on PATH
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == f'3 models were run, 0 of them ended with an error. Next: send back the folder "{cases}", whole\n'
    kinds = {path.suffix for path in (cases / "results").iterdir()}
    assert (kinds, len(list((cases / "results").iterdir()))) == ({".bin", ".out", ".err", ".exit"}, 12)
    reading = command("conformance", "read", cases)
    assert reading.code == 0
    assert reading.out.startswith("3 cases at feature level 1_0, seed 2, on 'stand-in'\n")


@pytest.mark.slow
def test_a_failing_model_stops_no_other_and_leaves_no_result(cases: Path, tmp_path: Path, command: Command) -> None:
    assert run_sh(cases, tmp_path / "dxdispatch").returncode == 0
    stand_in = tmp_path / "dxdispatch"
    failing = tmp_path / "failing"
    failing.write_text(
        '#!/bin/sh\ncase $1 in *r00002*) echo "Failed to execute the model: E_INVALIDARG" >&2; exit 1;; esac\n'
        f'exec "{stand_in}" "$@"\n'
    )
    failing.chmod(0o755)
    ended = run_sh(cases, failing, "Basic Render")
    assert ended.stdout.startswith("3 models were run, 1 of them ended with an error.")
    assert not (cases / "results" / "r00002.bin").exists()
    reading = command("conformance", "read", cases)
    assert reading.code == 1
    assert "on 'Basic Render'\n" in reading.out
    assert "refused: r00002 SLICE: DxDispatch ended with 1: Failed to execute the model: E_INVALIDARG\n" in reading.out


@pytest.mark.parametrize("given", [(), ("./nothere",), ("/tmp",), ("/etc/passwd",), ("nothere",)])
def test_a_name_of_no_program_is_refused(cases: Path, given: tuple[str, ...]) -> None:
    ended = run_sh(cases, *given)
    message = f"run.sh: '{given[0] if given else 'dxdispatch'}' is no program: see README.txt, and name DxDispatch's: "
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", f"{message}sh run.sh DXDISPATCH\n")
    assert not (cases / "results").exists()
