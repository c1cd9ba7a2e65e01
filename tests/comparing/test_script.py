"""Emitted scripts: they say what the command says about the same inputs, right or wrong, and are kept clean by ruff and mypy."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmlgather as dg
from dmlgather.comparing.script import write_script
from dmlgather.directml.dxdispatch.model_file import check_file
from tests import seeds
from tests.cli.command import EXAMPLES, ROOT, Command, Result
from tests.comparing.test_saving import CHAIN, chain
from tests.comparing.wrong import spoil
from tests.dxdispatch.models import GATHER, MODEL, changed, write
from tests.strategies import problem

LINTED = "A,ARG,B,C4,D,E,ERA,F,FURB,I,N,NPY,PERF,PGH,PIE,PL,PT,PTH,RET,RUF,SIM,UP,W"
"""The rules that this project keeps itself."""

PLANTED = """
import runpy, sys
from dmlgather.backends import reference
honest = reference.run
def wrong(plan, data, indices, out):
    bad = honest(plan, data, indices, out)
    out[5] = 0
    return bad
reference.run = wrong
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""

OWNED = changed(
    (("dispatchables", "gather", "desc", "InputTensor", "Flags"), "OWNED_BY_DML"),
    (("dispatchables", "gather", "bindings"), {"InputTensor": {"name": "table", "elementOffset": 4}}),
    (("resources", "table", "sizeInBytes"), 64),
    (("resources", "table", "initialValuesOffsetInBytes"), 16),
    (("commands", 0, "bindings"), {"IndicesTensor": "rows", "OutputTensor": "output"}),
)


def script(*arguments: object, cwd: Path | None = None) -> Result:
    """Run Python on a script and its arguments."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-W", "error", *map(str, arguments)],
        capture_output=True,
        cwd=cwd,
        text=True,
        env=environment,
        timeout=120,
        check=False,
    )
    return Result(done.returncode, done.stdout, done.stderr)


def inside(file: Path, capture: pytest.CaptureFixture[str]) -> Result:
    """The same inside this process."""
    capture.readouterr()
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(sys, "argv", [str(file)])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(file), run_name="__main__")
    code = ended.value.code
    assert isinstance(code, int)
    captured = capture.readouterr()
    return Result(code, captured.out, captured.err)


def test_a_script_runs_alone_and_finds_a_planted_difference(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run = Command(capfd)
    arguments = ("compare", "--devices", "cpu,reference", write(tmp_path, MODEL))
    made = run(*arguments, "--emit-script", tmp_path / "it.py")
    assert (made.code, "Script written to" in made.err) == (0, True)
    assert [path.name for path in tmp_path.glob("it*")] == ["it.py"]  # small inputs are inside
    (tmp_path / "model.json").unlink()
    ended = script(tmp_path / "it.py")
    assert (ended.code, ended.out, ended.err) == (0, made.out, "")
    ended = script("-c", PLANTED, tmp_path / "it.py")
    assert ended.code == 1
    assert "commands[0] 'gather': 1 of 8 elements differ between cpu and reference\n" in ended.out
    assert "first: OutputTensor[2, 1], which should come from InputTensor[1, 1] = 4 (0x40800000)" in ended.out
    assert script("-c", PLANTED, tmp_path / "it.py", "--devices", "reference,cpu").code == 1


def test_a_script_ends_as_the_command_does(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "it.py"
    Command(capfd)("compare", "--devices", "cpu,reference", write(tmp_path, MODEL), "--emit-script", file)
    for wrong in (["--devices", "cpu"], ["--devices", "cpu,tpu"], ["--speed"]):
        ended = script(file, *wrong)
        assert (ended.code, ended.out) == (2, "")
        assert "Traceback" not in ended.err
        assert ended.err.splitlines()[-1].startswith("it.py: ")


@pytest.mark.parametrize("model", ["chain", "owned"])
def test_a_script_says_what_the_command_says(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    file = chain(tmp_path) if model == "chain" else write(tmp_path, OWNED)
    arguments = ("compare", "--devices", "cpu,reference", file)
    run = Command(capfd)
    right = run(*arguments, "--emit-script", tmp_path / "it.py")
    assert (right.code, inside(tmp_path / "it.py", capfd)) == (0, Result(0, right.out, ""))
    spoil(monkeypatch, {5: 1 << 22})
    wrong = run(*arguments)
    said = inside(tmp_path / "it.py", capfd)
    assert (wrong.code, said.code) == (1, 1)
    if model == "owned":
        assert said.out == wrong.out
    else:  # the command goes on with each device's own result, the script with the CPU's
        assert said.out.partition("commands[2]")[0] == wrong.out.partition("commands[2]")[0]


@pytest.fixture(scope="module")
def emitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Scripts of random cases over every operator and type, and of models, each beside its model."""
    folder = tmp_path_factory.mktemp("emitted")
    seed = seeds.seed(32)
    for number in range(40):
        made = problem(seed + number)
        found = dg.compare(made.desc, *made.inputs, devices=("cpu", "reference"), buffers=True)
        case = found.save(folder / f"random{number}.json")
        write_script(check_file(case), ["cpu", "reference"], folder / f"random{number}.py", [case], "1.2")
    for name, model in {"chain": CHAIN, "owned": OWNED, "model": MODEL}.items():
        case = chain(folder / name) if model is CHAIN else write(folder, model, f"{name}.json")
        write_script(check_file(case), ["cpu", "reference"], folder / f"{name}.py", [case], "1.2")
    for case in sorted(EXAMPLES.glob("*.json")):
        checked = check_file(case)
        if checked.ok and checked.kind == "model":
            write_script(checked, ["cpu", "reference"], folder / f"example_{case.stem}.py", [case], "1.2")
    return folder


def test_random_cases_as_scripts(emitted: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A spoilt device: the script shows the same values at the same places as the command does from the case's files."""
    spoil(monkeypatch, {0: 0x7F})
    for number in range(40):
        ended = Command(capfd)("compare", "--devices", "cpu,reference", emitted / f"random{number}.json")
        assert ended.code == 1
        assert inside(emitted / f"random{number}.py", capfd) == Result(1, ended.out, ""), number


def test_examples_as_scripts(emitted: Path, capfd: pytest.CaptureFixture[str]) -> None:
    scripts = sorted(emitted.glob("example_*.py"))
    assert len(scripts) > 10
    for file in scripts:
        ended = inside(file, capfd)
        assert (ended.code, ended.err) == (0, ""), file
        assert "bit for bit" in ended.out


def test_scripts_are_kept_as_they_are_by_ruff(emitted: Path) -> None:
    files = sorted(map(str, emitted.glob("*.py")))
    for width in (88, 130):
        options = ["--isolated", "--line-length", str(width)]
        done = script("-m", "ruff", "format", *options, "--diff", *files, cwd=emitted)
        assert done.code == 0, done.out
        rules = ["--select", LINTED, "--config", "lint.pydocstyle.convention='google'"]
        done = script("-m", "ruff", "check", *options, *rules, *files, cwd=emitted)
        assert done.code == 0, done.out


@pytest.mark.heavy
def test_scripts_are_typed(emitted: Path, tmp_path: Path) -> None:
    names = ["chain", "owned", "example_slice1_2", "example_gather_nd1_1", "example_gather_elements_1", "random0", "random1"]
    options = ["--strict", "--no-error-summary", "--cache-dir", tmp_path, "--python-version", "3.11"]
    done = script("-m", "mypy", *options, *(emitted / f"{name}.py" for name in names), cwd=emitted)
    assert done.code == 0, done.out


def test_large_inputs_lie_beside_the_script(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    large = changed((("desc", "InputTensor", "Sizes"), [60, 2]), start=GATHER)
    file = tmp_path / "out" / "lärge.py"
    run = Command(capfd)
    made = run("compare", "--devices", "cpu,reference", "--seed", 5, write(tmp_path, large), "--emit-script", file)
    assert made.code == 0
    assert sorted(path.name for path in file.parent.iterdir()) == ["l_rge.in0_InputTensor.npy", "lärge.py"]
    assert np.load(file.parent / "l_rge.in0_InputTensor.npy").size == 120
    assert script(file).out == made.out
    (file.parent / "l_rge.in0_InputTensor.npy").unlink()
    ended = script(file)
    assert (ended.code, "l_rge.in0_InputTensor.npy" in ended.err, "Traceback" in ended.err) == (2, True, False)


@pytest.mark.parametrize("name", ["model.json", "script", "model.json.py"])
def test_a_script_replaces_nothing_it_is_made_from(tmp_path: Path, capfd: pytest.CaptureFixture[str], name: str) -> None:
    model = write(tmp_path, MODEL, "model.json")
    (tmp_path / "model.json.py").symlink_to(model)
    ended = Command(capfd)("compare", "--devices", "cpu,reference", model, "--emit-script", tmp_path / name)
    assert (ended.code, ended.out) == (2, "")
    assert ("ends in .py" in ended.err) == (name != "model.json.py")
    assert json.loads(model.read_text()) == MODEL


def test_names_from_a_file_cannot_leave_their_place(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    name = '"""\n__import__("os").abort() # {\\'
    model: Any = json.loads(json.dumps(MODEL).replace('"gather"', json.dumps(name)).replace('"table"', json.dumps(name + "2")))
    ended = Command(capfd)(
        "compare", "--devices", "cpu,reference", write(tmp_path, model, "x{y}.json"), "--emit-script", tmp_path / "class.py"
    )
    assert ended.code == 0, ended.err
    ended = script(tmp_path / "class.py")
    assert (ended.code, "bit for bit" in ended.out) == (0, True), ended.err
