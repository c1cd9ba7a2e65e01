"""A stored case that no longer notices its broken program fails, and names the command that finds another case."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tests import noticing
from tests.noticing import BrokenPrograms, main

FILE, NAME = "tests/some/test_file.py", "a lane's step"


def judge(name: str, seed: int) -> tuple[str, str]:
    """Judge cases: the third notices the broken program, and the correct program fails in the tenth."""
    return "it failed" if seed == 9 else "", "a wrong byte" if seed in (3, 9) else ""


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(noticing, "TABLE", tmp_path / "noticed.json")
    monkeypatch.setattr(noticing, "programs_of", lambda test: PROGRAMS)
    return tmp_path / "noticed.json"


PROGRAMS = BrokenPrograms(FILE, [NAME], judge)


@pytest.mark.parametrize(
    ("seeds", "said"),
    [
        ({}, "no case is stored for"),
        ({NAME: 2}, "seed 2, no longer notices it: the program or the draw has changed"),
        ({NAME: 9}, "seed 9, fails on the program as it is: it failed"),
        ({NAME: 3, "a step": 1}, r"cases are stored for \['a step'\], which tests/some/test_file.py does not break"),
    ],
    ids=["none", "not noticed", "fails", "gone"],
)
def test_a_stale_case_names_the_command_that_replaces_it(
    seeds: dict[str, int], said: str, table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table.write_text(json.dumps({FILE: seeds}))
    with pytest.raises(AssertionError, match=said) as raised:
        PROGRAMS.check(NAME)
    _, named, command = str(raised.value).partition("-m tests.noticing ")
    assert main(shlex.split(command) if named else [FILE, NAME]) == 0
    assert f"{FILE}: {NAME!r} is noticed by the case of seed 3" in capsys.readouterr().out
    assert json.loads(table.read_text()) == {FILE: {NAME: 3}}
    assert PROGRAMS.check(NAME) == "a wrong byte"


def test_a_case_that_notices_is_kept(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table.write_text(json.dumps({FILE: {NAME: 3}}))
    assert main([]) == 0
    assert (json.loads(table.read_text()), capsys.readouterr().out) == ({FILE: {NAME: 3}}, "")


@pytest.mark.parametrize(
    ("judged", "said"),
    [
        (("", ""), f"{NAME!r}: none of 3000 cases notices it"),
        (("it failed", ""), "seed 0: the case fails on the program as it is: it failed"),
    ],
    ids=["none notices", "fails"],
)
def test_a_search_without_a_case_says_why(
    judged: tuple[str, str], said: str, table: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table.write_text("{}")
    monkeypatch.setattr(noticing, "programs_of", lambda test: BrokenPrograms(FILE, [NAME], lambda name, seed: judged))
    assert main([FILE]) == 1
    assert said in capsys.readouterr().err
