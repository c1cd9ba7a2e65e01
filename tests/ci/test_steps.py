"""ci/steps.py and ci/seeds: what they run, what they print at the end, and their exit codes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.seeds import ROOT

PYTEST = 'echo "SKIPPED [2] tests/a.py:3: no qemu: nothing was run"; echo "= 12 passed, 2 skipped, 9 deselected in 3.41s ="'


def steps(*commands: str) -> tuple[int, list[str]]:
    """The exit code, and the lines of the table and behind it."""
    done = subprocess.run(
        [sys.executable, "ci/steps.py"], cwd=ROOT, input="\n".join(commands), capture_output=True, text=True, check=False
    )
    lines = done.stdout.splitlines()
    return done.returncode, lines[next(row for row, line in enumerate(lines) if line.endswith("step")) :]


def test_tests_are_counted_and_what_was_left_out_is_named() -> None:
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
def test_the_first_failure_ends_it(command: str, status: int, counts: str) -> None:
    code, table = steps(command, "echo never")
    assert (code, table[-1]) == (status, counts)
    assert table[1].endswith(f"FAILED with {status}")
    assert "never" not in "".join(table)


def test_it_goes_on_with_other_seeds_and_ends_with_what_repeats_each_failure() -> None:
    fails = 'echo "repeat: DMLGATHER_SEED=$DMLGATHER_SEED ci/test x"; false'
    done = subprocess.run(["ci/seeds", "3", "bash", "-c", fails], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    told = done.stdout[done.stdout.index("3 of 3 seeds failed") :].splitlines()
    assert len(told) == len(set(told)) == 4
    seeds = [line.split()[2].rstrip(",") for line in done.stdout.splitlines() if line.startswith("=== seed")]
    assert sorted(told[1:]) == sorted(f"repeat: DMLGATHER_SEED={seed} ci/test x" for seed in seeds)


@pytest.mark.parametrize(("arguments", "code"), [(["2", "true"], 0), (["x", "true"], 2), (["2"], 2), ([], 2), (["--help"], 0)])
def test_exit_codes_of_seeds(arguments: list[str], code: int) -> None:
    done = subprocess.run(["ci/seeds", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert code != 2 or "expected a number of seeds and a command" in done.stderr
