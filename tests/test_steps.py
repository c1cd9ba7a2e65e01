"""The steps of .ci/run and the heavier checks: the commands they run, their closing lines, and their exit statuses."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests import heavy, processes
from tests.heavy import CHECKS, main, with_fresh_seeds
from tests.seeds import ROOT

PYTEST = 'echo "SKIPPED [2] tests/a.py:3: no qemu: nothing was run"; echo "= 12 passed, 2 skipped, 9 deselected in 3.41s ="'


def steps(*commands: str) -> tuple[int, list[str]]:
    """Return the exit status, and the closing lines with the table."""
    done = processes.run([sys.executable, "-m", "tests.steps"], cwd=ROOT, input="\n".join(commands))
    lines = done.stdout.splitlines()
    return done.returncode, lines[next(row for row, line in enumerate(lines) if line.endswith("step")) :]


def test_the_table_counts_tests_and_names_skipped_checks() -> None:
    code, table = steps(PYTEST, "# a comment", "", "echo 'a: NOT RUN: no wheel'; exit 3", "exec true")
    assert code == 0
    assert [line.split(None, 3)[:3] for line in table[1:4]] == [["0", "12", "2"], ["0", "0", "0"], ["0", "0", "0"]]
    assert table[2].endswith("not run")
    assert table[-3:] == [
        f"Left out of {PYTEST}: no qemu: nothing was run (2)",
        "Left out of echo 'a: NOT RUN: no wheel'; exit 3: a: NOT RUN: no wheel (1)",
        "12 passed, 0 failed",
    ]


@pytest.mark.parametrize(
    ("command", "status", "counts"),
    [
        ("echo '1 failed, 2 passed, 1 error in 61.20s (0:01:01)'; exit 5", 5, "2 passed, 2 failed"),
        ("echo 'INTERNALERROR> KeyError'; exit 3", 3, "0 passed, 0 failed"),
        ("false | true", 1, "0 passed, 0 failed"),
        ("echo $nothing", 1, "0 passed, 0 failed"),
    ],
)
def test_the_first_failure_ends_the_run(command: str, status: int, counts: str) -> None:
    code, table = steps(command, "echo never")
    assert (code, table[-1]) == (status, counts)
    assert table[1].endswith(f"FAILED with {status}")
    assert "never" not in "".join(table)


def test_a_run_with_fresh_seeds_ends_with_commands_to_repeat_it() -> None:
    said: list[str] = []
    fails = 'echo "repeat: DMLGATHER_SEED=$DMLGATHER_SEED ci/test x"; false'
    assert with_fresh_seeds(3, ["bash", "-c", fails], said.append) == 1
    summary = said[-1].splitlines()
    assert summary[0] == "3 of 3 seeds failed"
    seeds = [line.split()[2].rstrip(",") for line in said if line.startswith("=== seed")]
    assert len(set(seeds)) == 3
    assert summary[1:] == sorted(f"repeat: DMLGATHER_SEED={seed} ci/test x" for seed in seeds)
    assert with_fresh_seeds(2, ["true"], said.append) == 0
    assert said[-1] == "0 of 2 seeds failed"


def test_a_failure_without_a_repeat_line_names_its_command() -> None:
    said: list[str] = []
    assert with_fresh_seeds(1, ["bash", "-c", "exit 3"], said.append) == 1
    seed = said[0].split()[2].rstrip(",")
    assert said[-1].splitlines() == ["1 of 1 seeds failed", f"repeat: DMLGATHER_SEED={seed} bash -c 'exit 3'"]


def test_arguments_replace_the_tests_of_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[str, dict[str, str]]] = []

    def bash(command: str, variables: Mapping[str, str]) -> int:
        ran.append((command, dict(variables)))
        return 0

    monkeypatch.setattr(heavy, "_bash", bash)
    monkeypatch.setenv("VENV", "v")
    assert main(["chains"]) == main(["chains", "7", "a/test.py::b[c d]"]) == main(["gpu", "-k", "x"]) == main(["fuzz", "9"]) == 0
    assert [command.partition("exec ")[2] for command, _ in ran[:2]] == [
        "v/bin/python -m pytest -n 2 -m heavy -q tests/dxdispatch/test_chains_heavy.py "
        "tests/fusion/test_random_chains.py tests/numpy/test_chains_heavy.py",
        "v/bin/python -m pytest -n 2 -m heavy 'a/test.py::b[c d]'",
    ]
    assert ran[0][1] == {"CHAINS": "2000", "DMLGATHER_REPEAT": "ci/heavy chains 2000"}
    assert ran[1][1] == {"CHAINS": "7", "DMLGATHER_REPEAT": "ci/heavy chains 7"}
    assert ran[3][0] == "ci/setup test; exec v/bin/python -m tests.fuzzing 9"
    assert ran[2] == ("ci/checks/gpu -k x", {"DMLGATHER_REPEAT": "ci/heavy gpu"})


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([], 0),
        (["--short"], 0),
        (["chains", "x"], 2),
        (["never"], 2),
        (["--help"], 0),
        (["hooks", "--help"], 0),
        (["chains", "-h"], 0),
    ],
)
def test_ci_heavy_exits_with_2_for_wrong_arguments(arguments: list[str], code: int) -> None:
    done = processes.run([sys.executable, "-m", "tests.heavy", *arguments], cwd=ROOT)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr


def test_every_test_that_a_script_names_exists() -> None:
    """Bash passes on a pattern that matches no file, and pytest with workers then runs nothing."""
    scripts = [path for folder in (".ci", "ci", "ci/checks") for path in (ROOT / folder).iterdir() if path.is_file()]
    texts = [script.read_text("utf-8") for script in scripts] + [f"{check.tests} {check.short}" for check in CHECKS]
    names = sorted({name for text in texts for name in re.findall(r"(?<![\w/])tests/[\w/{},*]*[\w}*](?:\.\w+)?", text)})
    found = processes.run(["bash", "-c", "shopt -s failglob; printf '%s\n' " + " ".join(names)], cwd=ROOT, check=True).stdout
    assert [name for name in found.split() if not (ROOT / name).exists()] == []


def test_ci_checks_holds_exactly_the_scripts_of_the_rows() -> None:
    scripts = {check.command for check in CHECKS if check.command}
    assert scripts == {f"ci/checks/{path.name}" for path in (ROOT / "ci/checks").iterdir()}
    assert main(["--short"]) == 0


COMMANDS = [
    ".ci/run",
    *sorted(f"ci/{path.name}" for path in (ROOT / "ci").iterdir() if path.is_file() and os.access(path, os.X_OK)),
]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("option", ["--help", "-h"])
def test_the_help_of_every_command_says_what_it_does(command: str, option: str, tmp_path: Path) -> None:
    environment = os.environ | {"VENV": sys.prefix, "PYTHONDONTWRITEBYTECODE": "1"}
    done = processes.run([ROOT / command, option], cwd=tmp_path, env=environment, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    (first, *_) = done.stdout.removeprefix("usage: ").splitlines()
    assert first.startswith(command)
    assert len(done.stdout) > len(command) + 40
    assert not any(line.startswith(("+", "set ", "source ")) for line in done.stdout.splitlines())


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("ci/setup nosuch", "ci/setup: pyproject.toml has no extra 'nosuch'; it has cuda12 cuda13 "),
        ("ci/test tests/nosuch.py::test", f"ci/test: there is no file 'tests/nosuch.py' below {ROOT}"),
        ("ci/lint --fast", "ci/lint: expected --quick or versions of Python such as 3.11, got '--fast'"),
        ("ci/lint --quick quick", "ci/lint: expected --quick or versions of Python such as 3.11, got 'quick'"),
    ],
)
def test_a_misspelt_argument_is_named(command: str, message: str, tmp_path: Path) -> None:
    script, *arguments = command.split()
    done = processes.run([ROOT / script, *arguments], cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(message)
    assert not done.stdout


def test_setup_accepts_an_installation_with_more_extras(tmp_path: Path) -> None:
    """`installed` of ci/setup compares the requested extras and variables with those of the installation."""
    function = re.search(r"^installed\(\) \{.*?^\}$", (ROOT / "ci" / "setup").read_text(), re.MULTILINE | re.DOTALL)
    assert function
    plain, pure = " CC= DMLGATHER_PURE=", " CC= DMLGATHER_PURE=1"
    rows = [
        ("test", plain, [f"test,dev{plain}"], True),
        ("test,dev", plain, [f"test{plain}"], False),
        ("test,dev", plain, [f"dev{plain}", f"docs,test{plain}"], True),
        ("test", plain, [f"test-gpu{plain}"], False),
        ("test", plain, [f"test{pure}"], False),
        ("", plain, [f"test{plain}"], True),
        ("", plain, [plain], True),
        ("", plain, [pure], False),
        ("", plain, [], False),
    ]
    for extras, variables, lines, enough in rows:
        (tmp_path / "done").write_text("".join(f"{line}\n" for line in lines))
        script = f"{function[0]}\ninstalled done"
        given = {"extras": extras, "wanted": extras + variables}
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=tmp_path, env=given, check=False)
        assert (done.returncode == 0) == enough, (extras, variables, lines)


def _lint(environment: Path) -> tuple[int, str]:
    done = processes.run([ROOT / "ci" / "lint", "--quick"], env={**os.environ, "VENV": str(environment)})
    return done.returncode, done.stderr.splitlines()[-1]


def test_lint_names_the_command_to_run(tmp_path: Path) -> None:
    ruff = tmp_path / "bin" / "ruff"
    assert _lint(tmp_path) == (2, f"ci/lint: there is no {ruff}: run ci/setup test dev examples")
    ruff.parent.mkdir()
    ruff.write_text("#!/bin/sh\nexit 1\n")
    ruff.chmod(0o755)
    assert _lint(tmp_path) == (1, f"ci/lint: to format these files, run {ruff} format .")
