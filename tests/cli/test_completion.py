"""What a shell completes: subcommands, options, and the values that are known."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dmlgather.cli.app import SUBCOMMANDS
from dmlgather.cli.schema import Schema
from dmlgather.directml.codes import CODES
from tests.cli.command import ROOT, Command

Completed = Callable[..., list[str]]


@pytest.fixture
def completed(command: Command, monkeypatch: pytest.MonkeyPatch) -> Completed:
    """What bash is told for the last of some words."""

    def of(*words: str) -> list[str]:
        line = {"COMP_WORDS": " ".join(("dmlgather", *words)), "COMP_CWORD": str(len(words))}
        for name, value in (*line.items(), ("_DMLGATHER_COMPLETE", "complete_bash")):
            monkeypatch.setenv(name, value)
        ended = command()
        assert (ended.code, ended.err) == (0, "")
        return ended.out.split()

    return of


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("",), set(SUBCOMMANDS)),
        (("schema", ""), set(Schema)),
        (("rule", "DML3"), {code for code in CODES if code.startswith("DML3")}),
        (("levels", "GATHER_"), {"GATHER_ELEMENTS", "GATHER_ND", "GATHER_ND1"}),
        (("check", "--output-format", "s"), {"sarif"}),
        (("check", "--level", "1_"), {"1_0"}),
        (("run", "--device", "c"), {"cpu", "cuda"}),
        (("check", "--outp"), {"--output", "--output-format"}),
    ],
)
def test_words(completed: Completed, words: tuple[str, ...], expected: set[str]) -> None:
    assert set(completed(*words)) == expected


def test_bash_takes_the_script(tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bash itself completes a word, by the script that the command shows."""
    bash = shutil.which("bash")
    assert bash is not None
    monkeypatch.setattr("typer.completion._get_shell_name", lambda: "bash")
    script = tmp_path / "script"
    script.write_text(command("--show-completion").out)
    tool = tmp_path / "dmlgather"
    tool.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec python -m dmlgather.cli "$@"\n')
    tool.chmod(0o755)
    typed = 'COMP_WORDS=(dmlgather self); COMP_CWORD=1; _dmlgather_completion dmlgather; echo "${COMPREPLY[@]}"'
    ended = subprocess.run(
        [bash, "-c", f'source "{script}"; complete -p dmlgather; {typed}'],
        env={"PATH": f"{tmp_path}:{Path(sys.executable).parent}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ended.stdout.split()[-2:] == ["dmlgather", "selftest"]


def test_a_shell_that_is_not_known(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("typer.completion._get_shell_name", lambda: None)
    ended = command("--show-completion")
    assert ended.code != 0
    assert "Shell" in ended.err
