"""The project's configuration: where it is found, what it changes, and what is said of one that is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dmlgather.cli.schema import Schema
from dmlgather.report.configuration import EXPECTED, Configuration, Ignore, line_of
from dmlgather.report.formats import FORMATS
from tests.cli.command import Command
from tests.cli.readers import READERS, sarif_log
from tests.dxdispatch.models import GATHER, MODEL, changed, write

WRONG = changed((("dispatchables", "gather", "desc", "Axis"), 2))
WARNED = changed((("remark",), "x"))
NEEDS_3_0 = GATHER  # two dimensions, which GATHER takes from 3_0 on
IGNORE = '[[ignore]]\ncode = "{}"\nreason = "r"\n'


def _configured(folder: Path, text: str, name: str = "dmlgather.toml") -> None:
    (folder / name).write_text(text, encoding="utf-8")


def test_the_level(folder: Path, command: Command) -> None:
    write(folder, NEEDS_3_0, "a.json")
    assert command("check", "a.json").code == 0
    for written in ('"2_1"', '"2.1"', "2.1", "0x2100", '"DirectML 1.1"'):
        _configured(folder, f"level = {written}")
        assert command("check", "a.json").code == 1
    assert command("check", "--level", "3_0", "a.json").code == 0  # options win
    assert command("check", "--no-config", "a.json").code == 0


def test_where_it_is_found(folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "a" / "b").mkdir(parents=True)
    write(folder / "a" / "b", NEEDS_3_0, "x.json")
    monkeypatch.chdir(folder / "a" / "b")

    def used(*options: str) -> Any:
        return command.report(Schema.REPORT, "check", *options, "x.json")["configuration"]

    assert used() is None
    _configured(folder, '[tool.dmlgather]\nlevel = "3_0"', "pyproject.toml")
    assert used() == str(folder / "pyproject.toml")
    _configured(folder / "a", '[project]\nname = "dmlgather-models"', "pyproject.toml")  # says nothing to us
    assert used() == str(folder / "pyproject.toml")
    _configured(folder / "a", "not TOML at all", "pyproject.toml")  # nor does this
    assert used() == str(folder / "pyproject.toml")
    _configured(folder, "", "dmlgather.toml")
    assert used() == str(folder / "dmlgather.toml")
    _configured(folder / "a" / "b", "[tool.dmlgather]", "pyproject.toml")
    assert used() == "pyproject.toml"
    assert used("--config", "../../dmlgather.toml") == "../../dmlgather.toml"


def test_levels_of_paths(folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("new", "old/deep", "old/renewed"):
        (folder / name).mkdir(parents=True)
        write(folder / name, NEEDS_3_0, "x.json")
    _configured(folder, 'level = "5_0"\n[levels]\n"/old/" = "2_1"\n"/old/renewed/" = "3_0"\n"/elsewhere/" = "1_0"')
    report = command.report(Schema.REPORT, "check", ".", code=1)
    found = {file["file"]: (file["level"], len(file["findings"]) > 0) for file in report["files"]}
    expected = {"new/x.json": ("5_0", False), "old/deep/x.json": ("2_1", True), "old/renewed/x.json": ("3_0", False)}
    assert (report["level"], found) == ("5_0", expected)
    monkeypatch.chdir(folder / "old" / "deep")  # patterns start from the configuration, not from here
    assert command("check", "x.json").code == 1
    assert command("check", "--level", "5_0", "x.json").code == 0


def test_formats(folder: Path, command: Command) -> None:
    write(folder, WRONG, "a.json")
    (folder / "sub").mkdir()
    _configured(folder, 'formats = ["json", "sarif:out/r.sarif"]')
    ended = command("check", "a.json")
    assert READERS["json"](ended.out) == READERS["sarif"]((folder / "out" / "r.sarif").read_text())
    assert command("check", "--output-format", "text", "a.json").out.startswith("a.json:")  # options win


def test_ignored_codes_are_counted(folder: Path, command: Command) -> None:
    (folder / "old").mkdir()
    for name in ("a.json", "old/b.json", "old/c.json"):
        write(folder, WRONG, name)
    _configured(folder, f'{IGNORE.format("DML206")}paths = ["/old/"]\n')
    ended = command("check", ".")
    assert (ended.code, ended.err) == (1, "3 files checked, 1 error, 2 ignored\n")
    ended = command("check", "old")
    assert (ended.code, ended.out, ended.err) == (0, "", "2 files checked, 2 ignored\n")
    report = command.report(Schema.REPORT, "check", ".", code=1)
    assert report["summary"]["ignored"] == 2
    standings = [(found["standing"], found["reason"]) for file in report["files"] for found in file["findings"]]
    assert standings == [("open", ""), ("ignored", "r"), ("ignored", "r")]
    run = sarif_log(command("check", "--output-format", "sarif", ".").out)
    external = [{"kind": "external", "justification": "r"}]
    assert [result["suppressions"] for result in run["results"]] == [[], external, external]
    for name, read in READERS.items():
        assert [place[2] for place in read(command("check", "--output-format", name, ".").out)] == ["a.json"]


def test_an_ignore_that_matches_nothing_is_said(folder: Path, command: Command) -> None:
    write(folder, WRONG, "a.json")
    (folder / "old").mkdir()
    write(folder / "old", MODEL, "b.json")
    _configured(folder, "# mine\n" + "".join(map(IGNORE.format, ("DML206", "DML305", "DML101"))) + 'paths = ["/old/"]')
    ended = command("check", ".")
    assert ended.code == 0
    assert ended.err.splitlines() == [
        "dmlgather.toml:5: note: this entry for DML305 matches no finding; remove it",
        "dmlgather.toml:8: note: this entry for DML101 matches no finding; remove it",
        "2 files checked, 1 ignored",
    ]
    report = command.report(Schema.REPORT, "check", folder)
    assert [(entry["line"], entry["code"]) for entry in report["unused_ignores"]] == [(5, "DML305"), (8, "DML101")]


UNUSED: dict[str, tuple[str, list[str], bool]] = {
    # the patterns of an entry for a code that no file has; what is checked; whether the entry is known to be of no use
    "all files, of the whole project": ("", ["."], True),
    "all files, of one file": ("", ["a.json"], False),
    "all files, of each folder but not the root": ("", ["old", "new"], False),
    "all files, at another level": ("", ["--level", "5_0", "."], False),
    "a folder, of that folder": ('paths = ["/old/"]', ["old"], True),
    "a folder, of the folder above": ('paths = ["/old/deep/"]', ["a.json", "old"], True),
    "a folder, of a folder in it": ('paths = ["/old/"]', ["old/deep"], False),
    "a folder, of a file in it": ('paths = ["/old/"]', ["old/b.json"], False),
    "files of a folder, of that folder": ('paths = ["old/*.json"]', ["old"], True),
    "two folders, of one": ('paths = ["/old/", "/new/"]', ["old"], False),
    "two folders, of both": ('paths = ["/old/", "/new/"]', ["old", "new"], True),
    "a folder anywhere, of one": ('paths = ["old/"]', ["old"], False),
    "a file, of that file": ('paths = ["/old/b.json"]', ["old/b.json"], True),
    "a pattern of folders, of one": ('paths = ["/o*/*.json"]', ["old"], False),
    "all but a folder, of the rest": ('paths = ["*.json", "!/new/"]', ["old", "a.json"], False),
    "a folder with a file that cannot be understood": ('paths = ["/new/"]', ["new", "broken.json"], True),
    "all files, one of which cannot be understood": ("", [".", "broken.json"], False),
}


@pytest.mark.parametrize("case", UNUSED)
def test_only_a_run_over_all_files_finds_an_ignore_of_no_use(folder: Path, command: Command, case: str) -> None:
    """In a run over some of them, as before a commit, the entry may be what ignores a finding of another file."""
    patterns, arguments, said = UNUSED[case]
    (folder / "old" / "deep").mkdir(parents=True)
    (folder / "new").mkdir()
    for name in ("a.json", "old/b.json", "old/deep/c.json", "new/d.json"):
        write(folder, MODEL, name)
    if "broken.json" in arguments:
        (folder / "broken.json").write_text('{"dispatchables": ')
    _configured(folder, IGNORE.format("DML206") + patterns)
    ended = command("check", *arguments)
    assert ("matches no finding; remove it" in ended.err) is said


def test_warnings_fail_where_that_is_configured(folder: Path, command: Command) -> None:
    write(folder, WARNED, "a.json")
    assert command("check", "a.json").code == 0
    ended = command("check", "--error-on-warning", "a.json")
    assert (ended.code, ended.err) == (1, "1 file checked, 1 warning; warnings fail the check\n")
    _configured(folder, "error_on_warning = true")
    for name in FORMATS:
        ended = command("check", "--output-format", name, "a.json")
        assert (ended.code, [place[:2] for place in READERS[name](ended.out)]) == (1, [("warning", "DML801")])
    assert "<failure" in command("check", "--output-format", "junit", "a.json").out
    assert command("check", "--no-error-on-warning", "a.json").code == 0  # options win
    _configured(folder, "error_on_warning = true\n" + IGNORE.format("DML801"))
    assert command("check", "a.json").code == 0


def test_problems_cannot_be_ignored(folder: Path, command: Command) -> None:
    write(folder, '{"dispatchables": ', "a.json")
    _configured(folder, IGNORE.format("DML101"))
    assert command("check", "a.json").code == 2


WRONGS: dict[str, tuple[str, str, str, str]] = {
    "an unknown key": ('\nlvel = "5_0"', "2: lvel", "the key 'lvel'", "write level"),
    "a table of pyproject": ("[tool.dmlgather]\nlevel = 1", "1: tool", "the key 'tool'", "without a table"),
    "an unknown level": ('level = "7_0"', "1: level", '"7_0"', 'write one of them in quotes, such as "6_4"'),
    "a level that is no text": ("level = [5]", "1: level", "[5]", "6_4"),
    "an unknown level of a path": ('[levels]\n\n"a/" = "7_0"', '3: levels["a/"]', '"7_0"', 'such as "6_4"'),
    "a version in the place of a level": ('[levels]\n"a/" = "1.7"', '2: levels["a/"]', '"1.7"', "DirectML 1.7 has level 4_1"),
    "a key that names another": ('feature_level = "2_0"', "1: feature_level", "the key 'feature_level'", "write level"),
    "no pattern": ('[levels]\n"" = "5_0"', '2: levels[""]', '""', "PATTERN"),
    "an unknown format": ('formats = [\n  "text",\n  "xml:x",\n]', "1: formats", '["text", "xml:x"]', "sarif:report.sarif"),
    "two formats on standard output": ('formats = ["text", "json"]', "1: formats", '["text", "json"]', "sarif:report.sarif"),
    "formats that are no list": ('formats = "text"', "1: formats", '"text"', "sarif:report.sarif"),
    "a baseline that is no name": ("baseline = true", "1: baseline", "true", "remove the key"),
    "a code without a reason": ('[[ignore]]\ncode = "DML305"', "1: ignore[0].reason", "nothing", "say why"),
    "an empty reason": ('[[ignore]]\ncode = "DML305"\nreason = " "', "3: ignore[0].reason", '" "', "say why"),
    "an unknown code": ('[[ignore]]\nreason = "r"\ncode = "DML35"', "3: ignore[0].code", '"DML35"', "write DML"),
    "warnings that are no truth": ('error_on_warning = "yes"', "1: error_on_warning", '"yes"', "without quotes"),
    "a truth that is none": ("include_host = 1", "1: include_host", "1", "without quotes"),
    "no paths": (f"{IGNORE.format('DML305')}paths = []", "4: ignore[0].paths", "[]", "remove the key"),
    "an unknown key of an ignore": (
        *(f'{IGNORE.format("DML305")}path = ["x"]', "4: ignore[0].path", "the key 'path'", "write paths"),
    ),
    "ignores that are no tables": ('ignore = ["DML305"]', "1: ignore[0]", '"DML305"', "[[tool.dmlgather.ignore]]"),
}


@pytest.mark.parametrize("mistake", WRONGS)
@pytest.mark.parametrize("shared", [False, True])
def test_mistakes(folder: Path, command: Command, mistake: str, shared: bool) -> None:
    text, place, got, remedy = WRONGS[mistake]
    write(folder, MODEL, "a.json")
    if shared:
        if text.startswith("[tool"):
            return
        inside = text.replace("[[", "[[tool.dmlgather.").replace("[levels]", "[tool.dmlgather.levels]")
        _configured(folder, f'[project]\nname = "x"\n[tool.dmlgather]\n{inside}', "pyproject.toml")
        line, _, key = place.partition(": ")
        place = f"{int(line) + 3}: tool.dmlgather.{key}"
    else:
        _configured(folder, text)
    ended = command("check", "a.json")
    assert (ended.code, ended.out) == (2, "")
    (line,) = ended.err.splitlines()
    assert line.startswith(f"{'pyproject' if shared else 'dmlgather'}.toml:{place}: expected ")
    assert f", got {got}; fix: " in line
    assert remedy in line.partition("; fix: ")[2]


def test_all_mistakes_are_said_at_once(folder: Path, command: Command) -> None:
    _configured(folder, 'lvel = 1\nlevel = "x"\nbaseline = 1')
    assert len(command("check", "a.json").err.splitlines()) == 3


NAMED = "x/pyproject.toml"


FILES: dict[str, tuple[str, bytes, list[str], str]] = {
    "no TOML": ("dmlgather.toml", b"a = \n", [], "dmlgather.toml:1:5: expected TOML, got an error: invalid value; fix: "),
    "cut off": ("dmlgather.toml", b"a = [", [], "dmlgather.toml: expected TOML, got an error: "),
    "a long number": ("dmlgather.toml", b"a = " + b"1" * 5000, [], "dmlgather.toml: expected TOML, got an error: "),
    "no text": ("dmlgather.toml", b"a = '\xff'", [], "dmlgather.toml: the configuration is not UTF-8 text: byte 0xff"),
    "no table": (NAMED, b"", ["--config", NAMED], f"{NAMED}: expected a table [tool.dmlgather], got none"),
    "another thing": (
        *("pyproject.toml", b"[tool]\ndmlgather = 3", [], "pyproject.toml:2: tool.dmlgather: expected a table, got 3; "),
    ),
    "missing": ("x", b"", ["--config", "gone.toml"], "gone.toml: the configuration does not exist"),
    "a folder": ("x/y", b"", ["--config", "x"], "x: the configuration is a folder, not a regular file"),
}


@pytest.mark.parametrize("sort", FILES)
def test_files_that_are_no_configuration(folder: Path, command: Command, sort: str) -> None:
    name, content, options, says = FILES[sort]
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_bytes(content)
    ended = command("check", *options, "a.json")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(says)
    assert len(ended.err.splitlines()) == 1


@pytest.mark.parametrize("options", [["--config", "x", "--no-config"], ["--baseline", "x", "--write-baseline", "x"]])
def test_options_that_exclude_each_other(folder: Path, command: Command, options: list[str]) -> None:
    assert "give one of" in command.refused("check", *options, "a.json")


def test_every_key_says_what_it_expects() -> None:
    assert set(EXPECTED) == {*Configuration.model_fields, *Ignore.model_fields}


TOML = """# one
[a]
# two
b = [
  1, # three

  2,
]

c.d = 3
[[e]]
f = "x"
[[e]]

f = \'\'\'
y\'\'\'
"""
LINES: dict[tuple[str | int, ...], int | None] = {
    ("a",): 2,
    ("a", "b"): 4,
    ("a", "b", 1): 4,
    ("a", "c", "d"): 10,
    ("e", 0): 11,
    ("e", 0, "f"): 12,
    ("e", 1): 13,
    ("e", 1, "f"): 15,
    ("e", 2): None,
    ("a", "z"): None,
}


@pytest.mark.parametrize(("path", "line"), LINES.items(), ids=str)
def test_lines_of_keys(path: Any, line: int | None) -> None:
    assert line_of(TOML, path) == line
