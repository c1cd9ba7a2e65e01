"""The pictures and docs/support.md are what the code makes, and the matrix is what DirectML's pages say."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from dmlgather.directml import FeatureLevel
from tests.cli.command import ROOT, Command
from tests.diagram.parsed import Picture
from tests.directml.pages import PAGES

DOCS = ROOT / "docs"
PAGES_OF_PICTURES = "\n".join((DOCS / name).read_text(encoding="utf-8") for name in ("index.md", "explain.md"))
COMMANDS = re.findall(r"^`?dmlgather (explain [^`\n]+ --picture [^`\n]+)", PAGES_OF_PICTURES, re.MULTILINE)
PICTURES = re.findall(r"^!\[.+\]\((diagrams/.*)\)$", PAGES_OF_PICTURES, re.MULTILINE)


def test_every_picture_is_shown_beside_its_command() -> None:
    targets = [shlex.split(command)[-1] for command in COMMANDS]
    assert targets == [f"docs/{picture}" for picture in PICTURES]
    assert sorted(path.name for path in (DOCS / "diagrams").glob("*.svg")) == sorted(Path(name).name for name in PICTURES)
    assert len(PICTURES) == 4


@pytest.mark.parametrize("line", COMMANDS)
def test_a_committed_picture_is_what_its_command_draws(
    line: str, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    *arguments, committed = shlex.split(line)
    monkeypatch.chdir(ROOT)
    assert command(*arguments, tmp_path / "out.svg").code == 0
    drawn = (tmp_path / "out.svg").read_text(encoding="utf-8")
    assert drawn == (ROOT / committed).read_text(encoding="utf-8"), f"run: dmlgather {line}"
    assert Picture(drawn).joins


def test_the_support_page_is_what_the_command_prints(command: Command) -> None:
    printed = command("levels", "--markdown")
    assert printed.code == 0
    assert printed.out == (DOCS / "support.md").read_text(encoding="utf-8"), "run .venv/bin/python -m ci.pages"


def matrix(page: str, heading: str) -> dict[tuple[str, str], str]:
    """The level in each cell of the matrix under a heading, by operator and row."""
    part = page.split(f"\n## {heading}\n")[1].split("\n## ", maxsplit=1)[0]
    (_, *operators), _, *rows = [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("|")]
    return {
        (operator, name): cell
        for names, *cells in rows
        for name in names.split(", ")
        for operator, cell in zip(operators, cells, strict=True)
    }


def lowest(operator: str, takes: set[FeatureLevel]) -> str:
    return next((str(level) for level in FeatureLevel if level in takes), "–")


def test_the_matrices_are_those_of_the_pages() -> None:
    """Judged by what the random descriptors of the other tests take to be legal, which knows no table."""
    page = (DOCS / "support.md").read_text(encoding="utf-8")
    types = matrix(page, "Data types of InputTensor and OutputTensor")
    assert len(types) == 14 * len(PAGES)
    for (operator, name), cell in types.items():
        assert cell == lowest(operator, {level for level in FeatureLevel if name in PAGES[operator].at(level).data})
    indices = matrix(page, "Data types of IndicesTensor")
    assert len(indices) == 4 * sum("IndicesTensor" in page.fields for page in PAGES.values())
    for (operator, name), cell in indices.items():
        assert cell == lowest(operator, {level for level in FeatureLevel if name in PAGES[operator].at(level).indices})
    counts = matrix(page, "Dimension counts")
    assert len(counts) == 8 * len(PAGES)
    for (operator, count), cell in counts.items():
        assert cell == lowest(operator, {level for level in FeatureLevel if int(count) in PAGES[operator].at(level).counts})


def test_one_operators_page_has_that_operator_alone(command: Command) -> None:
    page = command("levels", "--operator", "slice1", "--markdown").out
    assert re.findall(r"^\| (DML_\w+) \| (\d+) \| (\d_\d) \|", page, re.MULTILINE) == [("DML_OPERATOR_SLICE1", "111", "2_1")]
    assert "## Data types of IndicesTensor" not in page
    assert {operator for operator, _ in matrix(page, "Dimension counts")} == {"SLICE1"}


def test_levels_has_one_format_at_a_time(command: Command) -> None:
    assert "at most one of --json and --markdown" in command.refused("levels", "--json", "--markdown")
