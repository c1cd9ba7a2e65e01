"""What the codes of findings say, and `dmlgather rule`, which explains them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import dmlgather
from dmlgather.directml import Severity
from dmlgather.report.code_registry import CODES
from tests import seeds
from tests.cli.command import ROOT, Command, on_terminal, process

REQUIRES = {Severity.ERROR: r"\bmust\b", Severity.WARNING: r"\bshould\b", Severity.NOTE: r"\bmust\b"}


def test_no_title_reads_as_a_fact() -> None:
    """A title is printed where its rule does not hold: "error: the level takes the type" would say the opposite."""
    assert not {code: row.title for code, row in CODES.items() if not re.search(REQUIRES[row.severity], row.title)}


def test_a_code_is_explained_with_its_examples(folder: Path, command: Command) -> None:
    """The examples that are printed do what they say when they are saved and checked."""
    ended = command("rule", "DML302")
    assert ended.code == 0
    assert ended.out.startswith("# DML302 error: OutputTensor must have the sizes of the result\n\nThe sizes are joined from ")
    failing, mended = re.findall(r"```json\n(.*?)```", ended.out, re.DOTALL)
    (folder / "a.json").write_text(failing)
    assert "DML302" in command("check", "a.json").out
    (folder / "a.json").write_text(mended)
    assert command("check", "a.json").code == 0
    assert ended.out.endswith(f"Source: [G] OutputTensor\n\n- G: {dmlgather.directml.SOURCES['G']}\n")


def test_every_code_is_explained(command: Command) -> None:
    """As its page does: the page's own text, word for word, without the heading and the line of severity and source.

    Both documents of a diff are printed.
    """
    names = {"DML": "findings", "EXP": "expressing", "ORT": "onnxruntime-findings"}
    pages = {start: (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for start, name in names.items()}
    for code, row in CODES.items():
        data = json.loads(command("rule", code.lower(), "--json").out)
        assert (data["code"], data["severity"], data["title"], data["source"]) == (code, row.severity, row.title, row.source)
        assert set(data["documents"]) == set(re.findall(r"\[([A-Z0-9-]+)\]", row.source))
        section = pages[code[:3]].partition(f"\n## {code} ")[2].partition("\n## ")[0]
        text = section.partition("\n\n")[2].partition("\n\n")[2].strip()
        if "```diff\n" in text:
            words, _, diff = text.removesuffix("\n```").partition("```diff\n")
            shown, *documents = re.split(r"(?:Fails.*|Fixed):\n\n```(?:json|onnx)\n", data["explanation"])
            assert shown == re.sub(r"At feature level \d_\d:\n\n", "", words)
            for sign, document in zip("-+", documents, strict=True):
                lines = [line[1:] for line in diff.splitlines() if line[0] in (" ", sign)]
                assert "\n".join(lines) in document or (
                    not lines[0].startswith(("{", "<")) and set(lines) <= set(document.splitlines())
                )
        else:
            assert text == data["explanation"] != ""
    for code in seeds.rng().sample(sorted(CODES), 25):
        data = json.loads(command("rule", code, "--json").out)
        for part in (data["title"], data["source"], data["explanation"]):
            assert part in command("rule", code).out


def test_without_a_code_all_are_listed(command: Command) -> None:
    rows = command("rule").out.splitlines()
    assert [re.split(r"[ :]+", row, maxsplit=2) for row in rows] == [[c.code, c.severity, c.title] for c in CODES.values()]
    data = json.loads(command("rule", "--json").out)
    assert [(row["code"], row["severity"], row["title"]) for row in data] == [
        (c.code, c.severity, c.title) for c in CODES.values()
    ]


@pytest.mark.parametrize(("code", "meant"), [("DML32", "DML302"), ("EXP1O4", "EXP104"), ("x", None)])
def test_an_unknown_code(command: Command, code: str, meant: str | None) -> None:
    told = command.refused("rule", code)
    assert f"expected a code of a finding, got '{code}'" in told
    assert (f"did you mean {meant}? `dmlgather rule` lists" if meant else f"got '{code}'. `dmlgather rule` lists") in told


def test_a_terminal_gets_a_page(folder: Path) -> None:
    shown = on_terminal("rule", "DML302", cwd=folder, code=0, TERM="xterm", COLUMNS="90")
    assert "\x1b[" in shown
    assert "```" not in shown


def test_the_version(command: Command) -> None:
    ended = command("--version")
    assert (ended.code, ended.out, ended.err) == (0, f"dmlgather {dmlgather.__version__}\n", "")
    assert process("--version").out == ended.out
