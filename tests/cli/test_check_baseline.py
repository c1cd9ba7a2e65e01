"""The baseline: findings that are known do not fail, whatever lines they move to, and those that vanish are said."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from dmlgather.cli.schema import Schema
from dmlgather.report.baseline import Baseline, compared, renewed
from dmlgather.report.check_report import CheckReport
from dmlgather.report.settings import check_paths
from tests.cli.command import Command
from tests.cli.readers import READERS, sarif_log
from tests.dxdispatch.models import MODEL, changed, write

WRONG = changed((("dispatchables", "gather", "desc", "Axis"), 2))
WARNED = changed((("remark",), "x"))


def test_a_known_finding_does_not_fail(folder: Path, command: Command) -> None:
    write(folder, WRONG, "a.json")
    write(folder, WARNED, "b.json")
    ended = command("check", "--write-baseline", "base.json", "a.json", "b.json")
    assert (ended.code, ended.err) == (0, "2 files checked, 2 known\n")
    assert all(line.endswith(" (known: in the baseline)") for line in ended.out.splitlines())
    ended = command("check", "--baseline", "base.json", "a.json", "b.json")
    assert (ended.code, len(ended.out.splitlines()), ended.err) == (0, 2, "2 files checked, 2 known\n")
    assert command("check", "a.json").code == 1
    for name, read in READERS.items():
        ended = command("check", "--baseline", "base.json", "--output-format", name, "a.json", "b.json")
        assert (ended.code, read(ended.out)) == (0, [])


def test_the_file(folder: Path, command: Command) -> None:
    """The format that the documentation promises, and a schema for it."""
    (folder / "models").mkdir()
    write(folder / "models", WRONG, "a.json")
    command("check", "--write-baseline", "ci/base.json", "models")
    data = json.loads((folder / "ci" / "base.json").read_text())
    (found,) = data["findings"]
    place = {"file": "../models/a.json", "code": "DML206", "subject": "dispatchables.gather", "path": "Axis"}
    assert {**data, "findings": []} == {"tool": "dmlgather", "baseline": 1, "findings": []}
    assert found == {**place, "got": found["got"], "count": 1}
    schema = Baseline.model_json_schema()
    jsonschema.validate(data, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**data, "findings": [{"code": "DML206"}]}, schema)


def test_lines_play_no_part_and_folders_neither(folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "sub").mkdir()
    file = write(folder / "sub", WRONG, "a.json")
    command("check", "--write-baseline", "base.json", "sub")
    file.write_text("// a remark\n\n" + file.read_text())
    assert command("check", "--baseline", "base.json", "sub").code == 0
    monkeypatch.chdir(folder / "sub")
    assert command("check", "--baseline", "../base.json", "a.json").code == 0
    assert command("check", "--baseline", "../base.json", file).code == 0


@pytest.fixture
def base(folder: Path, command: Command) -> Path:
    """A baseline of the error of a.json and that of b.json, in the current folder."""
    for name in ("a.json", "b.json"):
        write(folder, WRONG, name)
    assert command("check", "--write-baseline", "base.json", "a.json", "b.json").code == 0
    return folder / "base.json"


def test_another_value_is_a_new_finding(base: Path, command: Command) -> None:
    write(base.parent, changed((("dispatchables", "gather", "desc", "Axis"), 3)), "a.json")
    ended = command("check", "--baseline", "base.json", "a.json")
    assert (ended.code, ended.err.splitlines()[-1]) == (1, "1 file checked, 1 error, 1 no longer found")


def test_repeats_are_counted(folder: Path) -> None:
    """As many are known as the baseline counts; of more, the others are new, and of fewer, the rest has vanished."""
    write(folder, WRONG, "a.json")
    report = check_paths([Path("a.json")])
    (file,) = report.files
    (finding,) = file.findings

    def repeated(number: int) -> CheckReport:
        findings = tuple(finding.model_copy(update={"line": line}) for line in range(1, number + 1))
        return report.model_copy(update={"files": (file.model_copy(update={"findings": findings}),)})

    baseline = renewed(repeated(2), Path("base.json"), None)
    assert [entry.count for entry in baseline.findings] == [2]
    for number, known, vanished in ((1, 1, 1), (2, 2, 0), (3, 2, 0)):
        summary = compared(repeated(number), Path("base.json"), baseline).summary
        assert (summary.known, summary.errors, summary.vanished) == (known, number - known, vanished)


def test_a_finding_that_vanished_is_said_and_removed(folder: Path, base: Path, command: Command) -> None:
    write(folder, MODEL, "a.json")
    ended = command("check", "--baseline", "base.json", ".")
    said = [line for line in ended.err.splitlines() if "no longer found: a.json: dispatchables.gather DML206 Axis: got " in line]
    assert (ended.code, len(said)) == (0, 1)
    assert said[0].endswith("; write the baseline anew")
    report = command.report(Schema.REPORT, "check", "--baseline", "base.json", ".")
    assert [(entry["file"], entry["code"], entry["count"]) for entry in report["vanished"]] == [("a.json", "DML206", 1)]
    assert (report["summary"]["vanished"], report["summary"]["known"]) == (1, 1)
    run = sarif_log(command("check", "--baseline", "base.json", "--output-format", "sarif", ".").out)
    states = {result["baselineState"]: result["locations"][0]["physicalLocation"] for result in run["results"]}
    assert states["absent"]["artifactLocation"]["uri"] == "a.json"
    assert states["unchanged"]["artifactLocation"]["uri"] == "b.json"
    assert states["unchanged"]["region"]["startLine"] > 1
    before = base.read_text()
    ended = command("check", "--write-baseline", "base.json", ".")
    assert "no longer found: a.json" in ended.err
    assert "removed from it" in ended.err
    after = json.loads(base.read_text())["findings"]
    assert after == [entry for entry in json.loads(before)["findings"] if entry["file"] == "b.json"]
    (folder / "b.json").unlink()
    write(folder, MODEL, "c.json")
    assert "no longer found: b.json" in command("check", "--baseline", "base.json", "c.json").err  # the file is gone


def test_files_that_were_not_checked_stay(base: Path, command: Command) -> None:
    """A hook names the files of a commit alone."""
    before = base.read_text()
    ended = command("check", "--baseline", "base.json", "a.json")
    assert (ended.code, ended.err) == (0, "1 file checked, 1 known\n")
    assert command("check", "--write-baseline", "base.json", "a.json").err == "1 file checked, 1 known\n"
    assert base.read_text() == before


def test_problems_are_never_known(folder: Path, base: Path, command: Command) -> None:
    before, text = base.read_text(), (folder / "a.json").read_text()
    (folder / "a.json").write_text(text[:-3])
    ended = command("check", "--write-baseline", "base.json", "a.json")
    assert ended.code == 2
    assert "no longer found" not in ended.err  # nobody knows
    assert base.read_text() == before
    assert command("check", "--baseline", "base.json", "a.json").code == 2


def test_from_the_configuration(folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "sub").mkdir()
    write(folder / "sub", WRONG, "a.json")
    write(folder / "sub", WARNED, "b.json")
    (folder / "dmlgather.toml").write_text(
        'baseline = "base.json"\n[[ignore]]\ncode = "DML801"\nreason = "remarks of the exporter"\n'
    )
    assert command.refused("check", "sub").startswith("dmlgather: base.json: the baseline does not exist; ")
    assert command("check", "--write-baseline", "base.json", "sub").code == 0
    assert [entry["code"] for entry in json.loads((folder / "base.json").read_text())["findings"]] == ["DML206"]  # not DML801
    monkeypatch.chdir(folder / "sub")
    ended = command("check", ".")
    assert (ended.code, ended.err) == (0, "2 files checked, 1 known, 1 ignored\n")
    assert command("check", "--no-config", ".").code == 1


NO_BASELINES = {
    "missing": (None, "base.json: the baseline does not exist; "),
    "no JSON": ('{"findings": [}', "base.json:1:15: is not a baseline: it is not JSON; "),
    "another file": ('{"name": "x"}', "base.json: is not a baseline: the file: 'findings' is missing; "),
    "a list": ("[]", "base.json: is not a baseline: the file: "),
    "a newer one": (
        '{"tool": "dmlgather", "baseline": 2, "findings": []}',
        "base.json: is not a baseline: baseline: expected 1, got 2; ",
    ),
    "a model": (json.dumps(MODEL), "base.json: is not a baseline: the file: 'findings' is missing; "),
    "a long number": ('{"baseline": ' + "1" * 5000 + "}", "base.json: is not a baseline: it is not JSON; "),
    "nested": ("[" * 100_000, "base.json: is not a baseline: it is not JSON; "),
}


@pytest.mark.parametrize(("content", "says"), NO_BASELINES.values(), ids=NO_BASELINES)
def test_files_that_are_no_baseline(folder: Path, command: Command, content: str | None, says: str) -> None:
    write(folder, MODEL, "a.json")
    options, another = ["--baseline"], "dmlgather check --write-baseline base.json FILE…"
    if content is not None:
        write(folder, content, "base.json")
        options, another = ["--baseline", "--write-baseline"], "write a new file with another name"
    for option in options:  # nor is another file ever overwritten
        ended = command("check", option, "base.json", "a.json")
        assert (ended.code, ended.out) == (2, "")
        (said,) = ended.err.splitlines()
        assert said.startswith(f"dmlgather: {says}")
        assert said.endswith(another)
        assert content is None or (folder / "base.json").read_text() == content


def test_a_file_is_checked_once(folder: Path, base: Path, command: Command) -> None:
    """Named twice, it would have findings beyond those that the baseline counts."""
    ended = command("check", "--baseline", "base.json", "a.json", ".", folder / "a.json")
    assert (ended.code, ended.err) == (0, "2 files checked, 2 known, 1 file of another sort skipped\n")


def test_other_files_are_skipped_where_that_is_asked_for(folder: Path, command: Command) -> None:
    write(folder, {"name": "package"}, "package.json")
    write(folder, MODEL, "a.json")
    assert command("check", "package.json", "a.json").code == 2
    ended = command("check", "--skip-others", "package.json", "a.json")
    assert (ended.code, ended.err) == (0, "1 file checked, 1 file of another sort skipped\n")
    assert command("check", "--skip-others", "package.json").code == 0
    write(folder, '{"dispatchables": ', "broken.json")
    assert command("check", "--skip-others", "broken.json").code == 2
    assert command("check", "--skip-others", "gone.json").code == 2


def test_github_says_what_vanished(folder: Path, base: Path, command: Command) -> None:
    write(folder, MODEL, "a.json")
    ended = command("check", "--baseline", "base.json", "--output-format", "github", "a.json")
    assert ended.out.startswith("::notice file=base.json,title=no longer found::a.json: dispatchables.gather DML206 Axis: got ")
    assert ended.code == 0
