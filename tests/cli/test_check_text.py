"""How `check` shows findings to people: the layout of a finding, the line of the file with its caret, the width of lines."""

from __future__ import annotations

import json
import re
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmlgather.files import read_text
from dmlgather.report import snippets
from dmlgather.report.snippets import SourceLines, cut
from dmlgather.report.text import WIDTH
from tests.cli.command import Command, on_terminal, process
from tests.dxdispatch.models import GATHER, MODEL, changed, write

WRONG = changed((("dispatchables", "gather", "desc", "Axis"), 2))


def test_the_layout_of_a_finding(folder: Path, command: Command) -> None:
    (folder / "a.json").write_text(json.dumps(WRONG, indent=4))
    number = (folder / "a.json").read_text().splitlines().index('                "Axis": 2,') + 1
    assert command("check", "a.json").out.splitlines() == [
        f"a.json:{number}:25: DML206 error: Axis must be a dimension of InputTensor (dispatchables.gather.Axis)",
        f'{number:5} |                 "Axis": 2,',
        "      |                         ^",
        "  expected  0 … 1",
        "  got       2",
        "  fix       Axis = 0 gives the stated output {4,2}; or choose a dimension of InputTensor {3,2}; leading 1s are counted",
        "",
    ]


def test_a_long_text_is_wrapped_below_itself(folder: Path, command: Command) -> None:
    sizes = {"Sizes": list(range(100_000, 100_040)), "DataType": "FLOAT32"}
    write(folder, changed((("desc", "InputTensor"), sizes), start=GATHER), "a.json")
    lines = command("check", "a.json").out.splitlines()
    assert max(map(len, lines[1:])) <= WIDTH
    start = next(number for number, line in enumerate(lines) if line.startswith("  fix       "))
    wrapped = lines[start + 1 : lines.index("", start)]
    assert all(re.match(r" {12}\S", line) for line in wrapped)


def test_a_known_finding_is_one_line(folder: Path, command: Command) -> None:
    write(folder, WRONG, "a.json")
    command("check", "--write-baseline", "base.json", "a.json")
    (line,) = command("check", "--baseline", "base.json", "a.json").out.splitlines()
    assert line.endswith("(dispatchables.gather.Axis) (known: in the baseline)")


def test_quiet_leaves_findings_and_problems(folder: Path, command: Command) -> None:
    write(folder, WRONG, "a.json")
    write(folder, '{"dispatchables": ', "b.json")
    (folder / "dmlgather.toml").write_text('[[ignore]]\ncode = "DML305"\nreason = "r"')
    loud, quiet = command("check", "."), command("check", "--quiet", ".")
    assert (quiet.code, quiet.out) == (loud.code, loud.out) == (2, loud.out)
    assert quiet.err.startswith("b.json:1:19: ")
    assert [line[:8] for line in quiet.err.splitlines()[1:]] == ["    1 | ", "      | "]
    (folder / "b.json").unlink()
    assert "note: this entry" in command("check", ".").err
    assert command("check", "-q", ".").err == ""


def test_problems_are_sorted_and_have_their_lines(folder: Path, command: Command) -> None:
    broken = changed((("dispatchables", "gather", "desc", "Axis"), "x"), (("resources", "output", "sizeInBytes"), "y"))
    text = json.dumps({key: broken[key] for key in ("dispatchables", "resources", "commands")}, indent=1)
    (folder / "a.json").write_text(text)
    (folder / "b.jsonl").write_text('{"type": "DML_OPERATOR_GATHER", "desc": \n{"type": }\n')
    ended = command("check", "a.json", "b.jsonl", "nofile.json")
    rows = text.splitlines()
    lines = [number for word in ('"x"', '"y"') for number, row in enumerate(rows, 1) if word in row]
    assert lines == sorted(lines)
    told = ended.err.splitlines()
    assert [line for line in told if line.startswith("a.json:")] == [told[0], told[3]]
    for number, (line, word) in enumerate(zip(lines, ("x", "y"), strict=True)):
        column = rows[line - 1].index(f'"{word}"') + 1
        heading, shown, caret = told[3 * number : 3 * number + 3]
        assert heading.startswith(f"a.json:{line}:{column}: ")
        assert (shown, len(caret)) == (f"{line:5} | {rows[line - 1]}", 8 + column)
    assert told[-2:] == ["nofile.json: does not exist", "2 files checked, 5 problems"]
    concise = command("check", "--output-format", "concise", "a.json", "b.jsonl", "nofile.json").err.splitlines()
    assert concise == [line for line in told if not line.startswith("  ")]


PATH = "Wide.graph/" * 20

HEADS = {
    "words": ("f.json:1:2: DML302 error:", "a rule of " * 12),
    "a long path of a node": ("EXP301 warning:", f"the type must be known ({PATH}node.data)"),
    "a word without joints": ("EXP301 warning:", "x" * 200),
    "a long file": (f"{PATH}f.json:1:2: DML302 error:", "a rule (Axis)"),
}


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("case", HEADS)
def test_the_first_line_of_a_finding_is_wrapped_without_loss(case: str, width: int) -> None:
    start, text = HEADS[case]
    first, *others = snippets.headed(start, text.strip(), width)
    assert first.startswith(start)
    assert len(first) <= width or first == start
    assert all(line.startswith("  ") and len(line) <= width for line in others)
    joined = "".join([first, *others])
    assert joined.replace(" ", "") == (start + text).replace(" ", "")


def test_names_in_models_forge_no_lines_and_steer_no_terminal(tmp_path: Path) -> None:
    name = "model\n::error::forged\x9b31m\u202e\u2066\u2028.json"
    (tmp_path / name).write_text('{"type": "DML_OPERATOR_GATHER", "desc": {}}')
    ended = process("check", ".", cwd=tmp_path)
    assert ended.code == 2 or ended.out
    assert all(line.isprintable() for line in (ended.out + ended.err).removesuffix("\n").split("\n"))


def test_a_file_that_is_gone_or_shorter_has_no_lines(tmp_path: Path) -> None:
    assert list(SourceLines(str(tmp_path / "gone")).excerpt(1, 1, 80)) == []
    (tmp_path / "a").write_text("one\r\ntwo")
    source = SourceLines(str(tmp_path / "a"))
    assert list(source.excerpt(3, 1, 80)) == list(source.excerpt(None, None, 80)) == []
    assert list(source.excerpt(1, 4, 80)) == ["    1 | one", "      |    ^"]
    assert list(source.excerpt(2, None, 80)) == ["    2 | two"]


CUTS = {
    "a short line": ("abc", 2, 10, "abc", 1),
    "a column behind the end": ("abc", 9, 10, "abc", 3),
    "a tab": ("\tx", 2, 10, "    x", 4),
    "control characters": ("\x1b[31m\u202ex", 7, 40, "\\x1b[31m\\u202ex", 14),
    "wide characters": ("表é x", 4, 10, "表é x", 4),
    "a long line": ("0123456789" * 9, 50, 12, "…2345678901…", 8),
    "the start of a long line": ("0123456789" * 9, 1, 12, "01234567890…", 0),
    "the end of a long line": ("0123456789" * 9, 90, 12, "…90123456789", 11),
}


@pytest.mark.parametrize("case", CUTS)
def test_a_line_is_cut_around_the_place(case: str) -> None:
    text, column, width, shown, before = CUTS[case]
    assert cut(text, column, width) == (shown, before)


def _cells(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


@given(st.text("ab \t{表\x1b", max_size=90), st.integers(1, 100), st.integers(12, 60))
def test_the_caret_stands_below_the_character(text: str, column: int, width: int) -> None:
    shown, before = cut(text, column, width)
    assert _cells(shown) <= width
    assert shown.isprintable()
    for end in range(len(shown) + 1):
        if _cells(shown[:end]) == before:
            break
    else:
        pytest.fail(f"the caret stands inside a character: {shown!r}, {before}")
    if column <= len(text):
        escaped = {"\t": "    ", "\x1b": "\\x1b"}.get(text[column - 1], text[column - 1])
        assert shown[end:].startswith(escaped)


def test_a_file_is_read_once_for_all_its_findings(folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[Path] = []

    def counted(path: Path) -> str:
        reads.append(path)
        return read_text(path)

    monkeypatch.setattr(snippets, "read_text", counted)
    gather = changed((("desc", "Axis"), 2), start=GATHER)
    model = {**MODEL, "dispatchables": {f"g{number}": gather for number in range(200)}, "commands": []}
    (folder / "a.json").write_text(json.dumps(model))
    write(folder, MODEL, "b.json")
    ended = command("check", ".")
    assert reads == [Path("a.json")]
    assert sum(line.endswith(" ^") for line in ended.out.splitlines()) == 200
    assert max(map(len, ended.out.splitlines())) <= WIDTH


@pytest.mark.slow
@pytest.mark.parametrize(("columns", "expected"), [("100", 100), ("500", 130), ("10", 40)])
def test_lines_are_as_wide_as_the_terminal(folder: Path, columns: str, expected: int) -> None:
    write(folder, json.dumps(changed((("desc", "IndicesTensor", "DataType"), "FLOAT64"), start=GATHER)), "a.json")
    arguments = ("check", "--level", "2_1", "a.json")
    shown = on_terminal(*arguments, cwd=folder, code=1, TERM="dumb", COLUMNS=columns)
    wrapped = [line for line in shown.splitlines() if line.startswith("  ")]
    assert expected - 12 < max(map(len, wrapped)) <= expected
    piped = process(*arguments, cwd=folder, COLUMNS=columns, GITHUB_ACTIONS="").out
    assert "^" in piped
    assert max(len(line) for line in piped.splitlines() if line.startswith("  ")) > WIDTH - 12
