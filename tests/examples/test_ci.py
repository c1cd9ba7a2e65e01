"""examples/ci: its check passes, reports a planted error at its line in every format, and passes after the correction."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from shutil import copytree
from typing import Any

import onnx
import pytest
import yaml

from hatch_build import LIBRARIES
from tests import processes
from tests.cli.command import Command, Result
from tests.cli.readers import READERS
from tests.examples import FOLDER, ROOT
from tests.onnx_checking.modelling import parsed

PLANTED: Mapping[str, tuple[str, str, str, str]] = {
    "a descriptor": ("descriptors/embedding.json", '"Axis": 0', '"Axis": 2', "DML206"),
    "another level": ("descriptors/older/crop.json", '"DML_OPERATOR_SLICE1"', '"DML_OPERATOR_SLICE"', ""),
    "a model": ("models/lookup.json", '"Axis": 0,', '"Axis": 2,', "DML206"),
    "a binding": ("models/lookup.json", '"InputTensor": "table"', '"InputTensor": "tabel"', "DML704"),
    "a file with something known": ("models/imported/tail.json", '"Offsets": [7]', '"Offsets": [8]', "DML605"),
}
"""File, original text, planted text, and the code, which is empty if the file becomes invalid."""


Check = Callable[..., Result]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the example as the current folder, outside GitHub's workflows."""
    for name in ("GITHUB_ACTIONS", "GITHUB_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(copytree(FOLDER / "ci", tmp_path / "repository"))
    return Path.cwd()


@pytest.fixture
def check(repository: Path, capfd: pytest.CaptureFixture[str]) -> Check:
    """Run the repository's check."""
    return lambda *options: Command(capfd)("check", *options, "descriptors", "models")


def test_the_check_of_the_example_passes(check: Check) -> None:
    ended = check()
    assert (ended.code, ended.err) == (0, "4 files checked, 1 known, 1 ignored\n")
    report = json.loads(check("--output-format", "json").out)
    assert {file["file"]: file["level"] for file in report["files"]} == {
        "descriptors/embedding.json": "5_0",
        "descriptors/older/crop.json": "3_0",
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
    if code == "DML605":  # the stated number of elements does not fit
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


def test_a_file_with_an_unknown_field_fails_with_2(repository: Path, check: Check) -> None:
    name, before, after, _ = PLANTED["another level"]
    file = repository / name
    file.write_text(file.read_text().replace(before, after))
    ended = check()
    assert ended.code == 2
    assert f"{name}:6:5: desc.InputWindowOffsets: unknown field" in ended.err


# The files for pre-commit and for GitHub


def _tool(*arguments: object) -> None:
    done = processes.run([sys.executable, "-m", *map(str, arguments)], timeout=120, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_workflows_obey_githubs_schema(tmp_path: Path) -> None:
    (shown,) = _blocks(ROOT / "docs" / "check.md", "6. In every pull request", "yaml")
    page = tmp_path / "page.yml"
    page.write_text(shown)
    examples = sorted((FOLDER / "ci" / ".github" / "workflows").iterdir())
    assert [example.name for example in examples] == ["check.yml", "conformance.yml"]
    _tool("check_jsonschema", "--builtin-schema", "vendor.github-workflows", page, *examples)


def test_the_action_obeys_githubs_schema() -> None:
    _tool("check_jsonschema", "--builtin-schema", "vendor.github-actions", ROOT / "ci" / "action" / "action.yml")


def test_the_hook_and_its_use_are_valid_for_pre_commit() -> None:
    _tool("pre_commit", "validate-manifest", ROOT / ".pre-commit-hooks.yaml")
    _tool("pre_commit", "validate-config", FOLDER / "ci" / ".pre-commit-config.yaml")
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    (used,) = yaml.safe_load((FOLDER / "ci" / ".pre-commit-config.yaml").read_text())["repos"]
    assert used["hooks"] == [{"id": hook["id"]}] == [{"id": "dmlgather-check"}]


ACTION: dict[str, Any] = yaml.safe_load((ROOT / "ci" / "action" / "action.yml").read_text())
WORKFLOW: dict[str, Any] = yaml.safe_load((FOLDER / "ci" / ".github" / "workflows" / "check.yml").read_text())


def _used() -> dict[str, str]:
    """Return the inputs that the example's workflow gives the action."""
    (step,) = [step for step in WORKFLOW["jobs"]["descriptors"]["steps"] if "dmlgather" in step["uses"]]
    assert step["uses"] == "./dmlgather/ci/action"
    return dict(step["with"])


def run_action(
    repository: Path, temporary: Path, names: set[str], given: dict[str, str], action: Path = ROOT / "ci" / "action"
) -> list[Result]:
    """Run the steps of the action with these names like GitHub's runner, up to the first failure."""
    inputs = {name: str(row.get("default", "")) for name, row in ACTION["inputs"].items()} | given
    assert given.keys() <= ACTION["inputs"].keys()
    values = {f"inputs.{name}": value for name, value in inputs.items()} | {"steps.python.outputs.python-path": sys.executable}
    ended: list[Result] = []
    for step in ACTION["runs"]["steps"]:
        if "run" not in step or step["name"] not in names:
            continue
        assert "${{" not in step["run"]  # inputs are never part of a script
        environment = {
            key: re.sub(r"\$\{\{ (\S+) \}\}", lambda found: values[found[1]], text) for key, text in step["env"].items()
        }
        script = temporary / "step.sh"
        script.write_text(step["run"])
        done = processes.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", script],
            cwd=repository,
            env={
                **{key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
                **environment,
                "GITHUB_ACTIONS": "true",
                "GITHUB_ACTION_PATH": str(action),
                "GITHUB_WORKSPACE": str(repository),
                "RUNNER_TEMP": str(temporary),
            },
            timeout=500,
        )
        ended.append(Result(done.returncode, done.stdout, done.stderr))
        if done.returncode:
            break
    return ended


def _red_and_green(repository: Path, temporary: Path, names: set[str], action: Path = ROOT / "ci" / "action") -> None:
    given = _used()
    assert [ended.code for ended in run_action(repository, temporary, names, given, action)] == [0] * len(names)
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


@pytest.mark.slow
def test_the_action_fails_on_a_planted_error_alone(repository: Path, tmp_path: Path) -> None:
    """This runs all steps except the installation. This environment's command replaces the installed one."""
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


def _run(script: str, folder: Path, **environment: str) -> Result:
    """Run a user's shell command."""
    named = {f"GIT_{who}_{what}": "test@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    done = processes.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env={**{key: value for key, value in os.environ.items() if key != "PYTHONPATH"}, **named, "GIT_CONFIG_GLOBAL": os.devnull}
        | environment,
        timeout=500,
    )
    return Result(done.returncode, done.stdout, done.stderr)


def _done(script: str, folder: Path, **environment: str) -> str:
    ended = _run(script, folder, **environment)
    assert ended.code == 0, ended.out + ended.err
    return ended.out


def _clone(target: Path) -> Path:
    """Return a repository with the files of this checkout, including changes."""
    listed = _done("git ls-files --cached --others --exclude-standard -z", ROOT).split("\0")
    for name in filter(None, listed):
        if (ROOT / name).is_file():  # skips deleted files
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_bytes((ROOT / name).read_bytes())
    _first_commit(target)
    return target


def _first_commit(folder: Path) -> None:
    _done("git init --quiet && git add --all && git commit --quiet -m first", folder)


def _blocks(page: Path, heading: str, language: str) -> list[str]:
    """Return the code blocks of a language below a heading."""
    (section,) = re.findall(rf"^#+ {re.escape(heading)}$(.*?)(?=^#|\Z)", _unfenced(page.read_text()), re.MULTILINE | re.DOTALL)
    return re.findall(rf"^```{language}\b[^\n]*\n(.*?)^```$", section.replace("\0", "#"), re.MULTILINE | re.DOTALL)


def _unfenced(text: str) -> str:
    """Return the text with "#" replaced by NUL in code blocks, so that only headings begin with "#"."""
    return re.sub(r"^```.*?^```$", lambda found: found[0].replace("#", "\0"), text, flags=re.MULTILINE | re.DOTALL)


RED, GREEN = '"Axis": 2', '"Axis": 0'


@pytest.mark.heavy
def test_the_documented_hook_and_workflow_work(tmp_path: Path) -> None:
    """A project next to a checkout follows docs/check.md. Its commit and pull request are refused until they are corrected."""
    page = ROOT / "docs" / "check.md"
    _clone(tmp_path / "dmlgather")
    project = tmp_path / "project"
    descriptor = project / "descriptors" / "embedding.json"
    descriptor.parent.mkdir(parents=True)
    good = (FOLDER / "ci" / "descriptors" / "embedding.json").read_text()
    descriptor.write_text(good)
    _first_commit(project)
    _done(f'"{sys.executable}" -m venv ../tools', project)
    tools = {"PATH": f"{tmp_path / 'tools' / 'bin'}:{os.environ['PATH']}", "PRE_COMMIT_HOME": str(tmp_path / "home")}
    (hook,) = _blocks(page, "5. In every commit", "bash")
    (wheel,) = _blocks(page, "6. In every pull request", "bash")
    (workflow,) = _blocks(page, "6. In every pull request", "yaml")
    for script in (hook, wheel):
        _done(script, project, **tools)
    assert [file.name[-16:] for file in (project / "ci").iterdir()] == ["py3-none-any.whl"]
    descriptor.write_text(good.replace(GREEN, RED))
    red = _run("git add --all && git commit -m change", project, **tools)
    assert red.code == 1
    (installed,) = (tmp_path / "home").glob("repo*/py_env-*/lib/python*/site-packages/dmlgather")
    assert {path.name for path in (installed / "backends" / "cpu").iterdir()} >= {"engine.py"}
    assert not {path.name for path in (installed / "backends" / "cpu").iterdir()} & {*LIBRARIES}
    assert "DML206" in red.out + red.err
    descriptor.write_text(good + "\n")
    _done("git add --all && git commit -m change", project, **tools)
    (job,) = yaml.safe_load(workflow)["jobs"].values()
    steps = [step["run"] for step in job["steps"] if "run" in step]
    runner = {"GITHUB_ACTIONS": "true", "GITHUB_WORKSPACE": str(project)}
    for script in steps:
        _done(script, project, **tools, **runner)
    descriptor.write_text(good.replace(GREEN, RED))
    red = _run(steps[-1], project, **tools, **runner)
    errors = [found[1:3] for found in READERS["github"](red.out) if found[0] == "error"]
    assert (red.code, errors) == (1, [("DML206", "descriptors/embedding.json")])


REAL = """agraph (float[batch,seq,64] states, int64[batch,1] last) => (float[batch,rows,64] y) {
    shape = Shape(states) one = Constant<value_ints = [1]>() two = Constant<value_ints = [2]>() n = Gather(shape, one)
    half = Div(n, two) zero = Constant<value_ints = [0]>() y = Slice(states, zero, half, one) }"""
"""A typical exported model: sizes are open, and a bound is computed from one."""


@pytest.mark.heavy
def test_the_documented_hook_for_onnx_models_works(tmp_path: Path) -> None:
    """pre-commit's environment has only the packages that the page lists."""
    text = (ROOT / "docs" / "check.md").read_text()
    (files, needs) = re.findall(r"`(files: \S+onnx\S+)` and `(additional_dependencies: \[.*?\])`", text)[0]
    _clone(tmp_path / "dmlgather")
    project = tmp_path / "project"
    project.mkdir()
    onnx.save(parsed(REAL), project / "model.onnx")
    _first_commit(project)
    (hook,) = _blocks(ROOT / "docs" / "check.md", "5. In every commit", "bash")
    _done(hook.partition("END\npip")[0] + "END\n", project)
    config = project / ".pre-commit-config.yaml"
    config.write_text(f"{config.read_text()}        {files}\n        {needs}\n")
    command = f'git add --all && "{sys.executable}" -m pre_commit run --all-files --verbose'
    passed = _done(command, project, PRE_COMMIT_HOME=str(tmp_path / "home"))
    assert "1 conditional" in passed
    onnx.save(parsed(REAL.replace("float[batch,seq,64] states", "double[batch,seq,64] states")), project / "model.onnx")
    config.write_text(config.read_text() + "        args: [--level, '1_0']\n")
    red = _run(command, project, PRE_COMMIT_HOME=str(tmp_path / "home"))
    assert red.code == 1
    assert "EXP" in red.out or "DML" in red.out


@pytest.mark.heavy
def test_the_documented_setup_of_the_example_works(repository: Path, tmp_path: Path) -> None:
    """The README's commands use a checkout instead of the URL. The hook and the Action then run from the submodule."""
    clone = _clone(tmp_path / "clone")
    _first_commit(repository)
    (script,) = _blocks(FOLDER / "ci" / "README.md", "A repository whose descriptors are checked", "bash")
    allowed = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "protocol.file.allow", "GIT_CONFIG_VALUE_0": "always"}
    _done(re.sub(r"URL=\S+", f"URL={clone}", script), repository, **allowed)
    tools = {"PRE_COMMIT_HOME": str(tmp_path / "home")}
    command = f'git add --all && "{sys.executable}" -m pre_commit run --all-files'
    (repository / "package.json").write_text('{"name": "x"}')  # other JSON files
    assert "Passed" in _done(command, repository, **tools)
    file = repository / "descriptors" / "embedding.json"
    text = file.read_text()
    file.write_text(text.replace(GREEN, RED))
    red = _run(command, repository, **tools)
    assert red.code == 1
    assert [place[:4] for place in READERS["text"](red.out)] == [("error", "DML206", "descriptors/embedding.json", 17)]
    file.write_text(text)
    _red_and_green(repository, tmp_path, {"Install dmlgather", "Check"}, repository / "dmlgather" / "ci" / "action")
