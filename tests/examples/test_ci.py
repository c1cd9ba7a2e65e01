"""examples/ci: its check passes, fails on a planted error at its line in every format, and passes once that is mended."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
import yaml

from tests.cli.command import Command, Result
from tests.cli.readers import READERS
from tests.examples import FOLDER, ROOT

PLANTED: Mapping[str, tuple[str, str, str, str]] = {
    "a descriptor": ("descriptors/embedding.json", '"Axis": 0', '"Axis": 2', "DML206"),
    "another level": ("descriptors/older/crop.json", '"DML_OPERATOR_SLICE1"', '"DML_OPERATOR_SLICE"', ""),
    "a model": ("models/lookup.json", '"Axis": 0,', '"Axis": 2,', "DML206"),
    "a binding": ("models/lookup.json", '"InputTensor": "table"', '"InputTensor": "tabel"', "DML704"),
    "a file with something known": ("models/imported/tail.json", '"Offsets": [7]', '"Offsets": [8]', "DML605"),
}
"""File, what stands there, what is planted, and the code; empty where the file is no longer understood."""


Check = Callable[..., Result]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the example, which is the current folder, outside GitHub's workflows."""
    for name in ("GITHUB_ACTIONS", "GITHUB_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(copytree(FOLDER / "ci", tmp_path / "repository"))
    return Path.cwd()


@pytest.fixture
def check(repository: Path, capfd: pytest.CaptureFixture[str]) -> Check:
    """The check that the repository runs."""
    return lambda *options: Command(capfd)("check", *options, "descriptors", "models")


def test_it_passes(check: Check) -> None:
    ended = check()
    assert (ended.code, ended.err) == (0, "4 files checked, 1 known, 1 ignored\n")
    report = json.loads(check("--output-format", "json").out)
    assert {file["file"]: file["level"] for file in report["files"]} == {
        "descriptors/embedding.json": "5_0",
        "descriptors/older/crop.json": "2_1",
        "models/imported/tail.json": "5_0",
        "models/lookup.json": "5_0",
    }


@pytest.mark.parametrize("planted", [name for name, row in PLANTED.items() if row[3]])
def test_a_planted_error_is_found_at_its_line_in_every_format(repository: Path, check: Check, planted: str) -> None:
    name, before, after, code = PLANTED[planted]
    file = repository / name
    text = file.read_text()
    assert text.count(before) == 1
    file.write_text(text.replace(before, after))
    line = next(number for number, found in enumerate(file.read_text().splitlines(), 1) if after in found)
    if code == "DML605":  # what does not fit is how many elements are read from there
        line += 1
    for output_format, read in READERS.items():
        ended = check("--output-format", output_format)
        assert ended.code == 1
        ((severity, found, place, row, column),) = read(ended.out)
        assert (severity, found, place, row) == ("error", code, name, line)
        assert column is not None
    file.write_text(text)
    for output_format, read in READERS.items():
        ended = check("--output-format", output_format)
        assert (ended.code, read(ended.out)) == (0, [])


def test_what_cannot_be_understood_fails_as_well(repository: Path, check: Check) -> None:
    name, before, after, _ = PLANTED["another level"]
    file = repository / name
    file.write_text(file.read_text().replace(before, after))
    ended = check()
    assert ended.code == 2
    assert f"{name}:6:5: desc.InputWindowOffsets: unknown field" in ended.err


# The files for pre-commit and for GitHub


def _tool(*arguments: object) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_workflow_obeys_githubs_schema() -> None:
    _tool(
        "check_jsonschema", "--builtin-schema", "vendor.github-workflows", FOLDER / "ci" / ".github" / "workflows" / "check.yml"
    )


def test_the_action_obeys_githubs_schema() -> None:
    _tool("check_jsonschema", "--builtin-schema", "vendor.github-actions", ROOT / "ci" / "action" / "action.yml")


def test_the_hook_and_its_use_are_what_pre_commit_reads() -> None:
    _tool("pre_commit", "validate-manifest", ROOT / ".pre-commit-hooks.yaml")
    _tool("pre_commit", "validate-config", FOLDER / "ci" / ".pre-commit-config.yaml")
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    (used,) = yaml.safe_load((FOLDER / "ci" / ".pre-commit-config.yaml").read_text())["repos"]
    assert used["hooks"] == [{"id": hook["id"]}] == [{"id": "dmlgather-check"}]


ACTION: dict[str, Any] = yaml.safe_load((ROOT / "ci" / "action" / "action.yml").read_text())
WORKFLOW: dict[str, Any] = yaml.safe_load((FOLDER / "ci" / ".github" / "workflows" / "check.yml").read_text())


def _used() -> dict[str, str]:
    """What the example's workflow gives the action."""
    (step,) = [step for step in WORKFLOW["jobs"]["descriptors"]["steps"] if "dmlgather" in step["uses"]]
    assert step["uses"].partition("@")[0].endswith("/ci/action")
    return dict(step["with"])


def run_action(repository: Path, temporary: Path, names: set[str], given: dict[str, str]) -> list[Result]:
    """Run the steps of the action with these names, as GitHub's runner does, up to the first that fails."""
    inputs = {name: str(row.get("default", "")) for name, row in ACTION["inputs"].items()} | given
    assert given.keys() <= ACTION["inputs"].keys()
    values = {f"inputs.{name}": value for name, value in inputs.items()} | {"steps.python.outputs.python-path": sys.executable}
    ended: list[Result] = []
    for step in ACTION["runs"]["steps"]:
        if "run" not in step or step["name"] not in names:
            continue
        assert "${{" not in step["run"]  # an input is never part of a script
        environment = {
            key: re.sub(r"\$\{\{ (\S+) \}\}", lambda found: values[found[1]], text) for key, text in step["env"].items()
        }
        script = temporary / "step.sh"
        script.write_text(step["run"])
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", script],
            cwd=repository,
            env={
                **{key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
                **environment,
                "GITHUB_ACTIONS": "true",
                "GITHUB_ACTION_PATH": str(ROOT / "ci" / "action"),
                "GITHUB_WORKSPACE": str(repository),
                "RUNNER_TEMP": str(temporary),
            },
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )
        ended.append(Result(done.returncode, done.stdout, done.stderr))
        if done.returncode:
            break
    return ended


def _red_and_green(repository: Path, temporary: Path, names: set[str]) -> None:
    given = _used()
    assert [ended.code for ended in run_action(repository, temporary, names, given)] == [0] * len(names)
    file = repository / "models" / "lookup.json"
    text = file.read_text()
    file.write_text(text.replace('"Axis": 0,', '"Axis": 2,'))
    red = run_action(repository, temporary, {"Check"}, given)[-1]
    line = text.splitlines().index('        "Axis": 0,') + 1
    ((_, code, name, row, _),) = READERS["github"](red.out)
    assert (red.code, code, name, row) == (1, "DML206", "models/lookup.json", line)
    assert READERS["sarif"]((repository / "dmlgather.sarif").read_text()) == READERS["github"](red.out)
    file.write_text(text)
    assert run_action(repository, temporary, {"Check"}, given)[-1].code == 0


def test_the_steps_of_the_action(repository: Path, tmp_path: Path) -> None:
    """All but the installation, for which the command of this environment stands in."""
    stand_in = tmp_path / "dmlgather" / "bin" / "dmlgather"
    stand_in.parent.mkdir(parents=True)
    stand_in.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m dmlgather.cli "$@"\n')
    stand_in.chmod(0o755)
    _red_and_green(repository, tmp_path, {"Check"})
    odd = repository / "a b $(touch x)"
    odd.mkdir()
    (odd / "m.json").write_text((repository / "models" / "lookup.json").read_text())
    given = {"paths": f"{odd.name}\nmodels\n", "level": "2_0", "baseline": "dmlgather-baseline.json"}
    (ended,) = run_action(repository, tmp_path, {"Check"}, given)
    assert ended.code == 1
    assert {place[2] for place in READERS["github"](ended.out)} >= {f"{odd.name}/m.json", "models/lookup.json"}
    assert not (repository / "x").exists()


@pytest.mark.heavy
def test_the_action_installs_what_it_runs(repository: Path, tmp_path: Path) -> None:
    _red_and_green(repository, tmp_path, {"Install dmlgather", "Check"})


@pytest.mark.heavy
def test_the_hook_runs_from_a_clone(repository: Path, tmp_path: Path) -> None:
    """pre-commit installs the hook from a clone of this repository; it passes, finds a planted error, and passes again."""

    def git(*arguments: str, cwd: Path) -> str:
        named = ["-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "core.hooksPath=/dev/null"]
        return subprocess.run(["git", *named, *arguments], cwd=cwd, check=True, capture_output=True, text=True).stdout

    clone = tmp_path / "clone"
    listed = git("ls-files", "--cached", "--others", "--exclude-standard", "-z", cwd=ROOT).split("\0")
    for name in filter(None, listed):
        if (ROOT / name).is_file():  # not one that was just deleted
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            (clone / name).write_bytes((ROOT / name).read_bytes())
    for folder in (clone, repository):
        git("init", "--quiet", cwd=folder)
        git("add", "--all", cwd=folder)
        git("commit", "--quiet", "--message", "first", cwd=folder)
    config = repository / ".pre-commit-config.yaml"
    (used,) = yaml.safe_load(config.read_text())["repos"]
    used |= {"repo": str(clone), "rev": git("rev-parse", "HEAD", cwd=clone).strip()}
    config.write_text(yaml.safe_dump({"repos": [used]}))
    (repository / "package.json").write_text('{"name": "x"}')  # another sort of JSON

    def committed() -> Result:
        git("add", "--all", cwd=repository)
        environment = {**os.environ, "PRE_COMMIT_HOME": str(tmp_path / "home")}
        environment.pop("PYTHONPATH", None)
        done = subprocess.run(
            [sys.executable, "-m", "pre_commit", "run", "--all-files"],
            cwd=repository,
            env=environment,
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )
        return Result(done.returncode, done.stdout, done.stderr)

    green = committed()
    assert green.code == 0, green.out + green.err
    assert "dmlgather check" in green.out
    assert "Passed" in green.out
    file = repository / "descriptors" / "embedding.json"
    text = file.read_text()
    file.write_text(text.replace('"Axis": 0', '"Axis": 2'))
    red = committed()
    assert red.code == 1
    assert [place[:4] for place in READERS["text"](red.out)] == [("error", "DML206", "descriptors/embedding.json", 17)]
    file.write_text(text)
    assert committed().code == 0
