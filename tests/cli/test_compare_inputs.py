"""`dmlgather compare --inputs`: the user's own inputs, of which NumPy says what belongs in the output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dmlgather.cli.schema import Schema, schema_of
from tests import seeds
from tests.cli.command import ROOT, Command
from tests.dxdispatch.models import GATHER, MODEL, changed, write

EQUAL = "commands[0] 'gather': equal on cpu, gpu.npy: 8 elements, bit for bit\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A table of random bits, indices, and what a gather makes of them, for the descriptor and the model of the tests."""
    rng = np.random.default_rng(seeds.seed())
    table, ids = rng.integers(0, 2**32, (3, 2), np.uint32).view(np.float32), rng.integers(0, 3, (1, 4), np.uint32)
    for name, array in {"table": table, "ids": ids, "gpu": table[ids[0]]}.items():
        np.save(tmp_path / f"{name}.npy", array)
    (tmp_path / "table.bin").write_bytes(table.tobytes())
    np.save(tmp_path / "flat.npy", ids.reshape(4))
    return tmp_path


NAMED: list[tuple[Any, list[str]]] = [
    (GATHER, ["--inputs", "table.npy", "ids.npy"]),
    (GATHER, ["--inputs", "table.npy", "--inputs", "ids.npy"]),
    (GATHER, ["--inputs", "IndicesTensor=ids.npy", "InputTensor=table.npy"]),
    (GATHER, ["--inputs", "IndicesTensor=ids.npy", "table.npy"]),
    (GATHER, ["--inputs", "table.bin", "flat.npy"]),
    (MODEL, ["--inputs", "table.npy", "ids.npy"]),
    (MODEL, ["--inputs", "rows=ids.npy", "--inputs", "table=table.bin"]),
]


@pytest.mark.parametrize(("what", "options"), NAMED)
@pytest.mark.parametrize("last", [True, False])
def test_inputs_of_ones_own(
    folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch, *, what: Any, options: list[str], last: bool
) -> None:
    file = write(folder, what)
    monkeypatch.chdir(folder)
    words: list[object] = [*options, file, "--against", "gpu.npy"] if last else [file, *options, "--against", "gpu.npy"]
    ended = command("compare", "--devices", "cpu", *words)
    assert (ended.code, ended.out) == (0, EQUAL), ended.err
    wrong = np.load("gpu.npy")
    wrong.view(np.uint32)[1, 0] ^= 2
    wrong.view(np.uint32)[3, 1] ^= 1
    np.save("gpu.npy", wrong)
    assert command("compare", "--devices", "cpu", *words).code == 1


def test_a_model_keeps_the_inputs_that_are_not_given(folder: Path, command: Command) -> None:
    np.save(folder / "gpu.npy", np.load(folder / "table.npy")[[0, 1, 1, 2]])  # the model's own rows
    given = ("--inputs", f"table={folder / 'table.npy'}", "--against", folder / "gpu.npy")
    ended = command("compare", "--devices", "cpu", write(folder, MODEL), *given)
    assert (ended.code, ended.out) == (0, EQUAL), ended.err


def test_strides_and_offsets(folder: Path, command: Command) -> None:
    """The table of Sizes is laid out as described; a buffer of all bytes is read as it lies there."""
    table, ids = np.load(folder / "table.npy"), np.load(folder / "ids.npy")
    tensor = {"DataType": "FLOAT32", "Sizes": [3, 2], "Strides": [1, 4]}
    descriptor = write(folder, changed((("desc", "InputTensor"), tensor), start=GATHER), "one.json")
    resource = {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": 16, "value": 7}}
    bindings = {"InputTensor": {"name": "table", "elementOffset": 4}, "IndicesTensor": "rows", "OutputTensor": "output"}
    model = changed(
        (("resources", "table"), resource),
        (("dispatchables", "gather", "desc", "InputTensor"), tensor),
        (("commands", 0, "bindings"), bindings),
    )
    memory = np.full((2, 4), 9, np.float32)
    memory[:, :3] = table.T
    np.save(folder / "part.npy", memory.reshape(-1)[:7])
    np.save(folder / "whole.npy", np.concatenate([np.zeros(4, np.float32), memory.reshape(-1), np.zeros(4, np.float32)]))
    files = {descriptor: ["table", "part"], write(folder, model, "two.json"): ["table", "part", "whole"]}
    for file, names in files.items():
        for name in names:
            given = ("--inputs", folder / f"{name}.npy", folder / "ids.npy")
            ended = command("compare", "--devices", "cpu,reference", file, *given, "--against", folder / "gpu.npy")
            assert ended.code == 0, (name, ended)
    assert table[ids[0]].tobytes() == np.load(folder / "gpu.npy").tobytes()


REFUSED: dict[str, tuple[Any, list[str], str]] = {
    "few": (
        GATHER,
        ["table.npy"],
        "model.json has 2 inputs, InputTensor and IndicesTensor, and 1 file is given: name one for each",
    ),
    "many": (MODEL, ["table.npy", "ids.npy", "ids.npy"], "model.json has 2 inputs, table and rows, and 3 files are given"),
    "name": (GATHER, ["X=table.npy"], "'X' is no input of model.json: expected InputTensor or IndicesTensor"),
    "output": (MODEL, ["output=table.npy"], "'output' is no input of model.json: expected table or rows"),
    "twice": (MODEL, ["rows=a.npy", "rows=ids.npy"], "'rows' is given twice, as 'a.npy' and 'ids.npy': leave one out"),
    "type": (
        GATHER,
        ["ids.npy", "table.npy"],
        "the files do not fit in this order, but in another one: --inputs InputTensor=table.npy IndicesTensor=ids.npy",
    ),
    "order": (
        MODEL,
        ["rows=table.npy", "table=ids.npy"],
        "the files do not fit in this order, but in another one: --inputs rows=ids.npy table=table.npy",
    ),
    "only type": (
        GATHER,
        ["ids.npy", "ids.npy"],
        "ids.npy holds UINT32, but InputTensor's DataType is FLOAT32: save it in that type",
    ),
    "shape": (GATHER, ["turned.npy", "ids.npy"], "turned.npy has the shape [2, 3]: expected InputTensor's Sizes [3, 2], or one"),
    "size": (MODEL, ["table=short.npy"], "short.npy holds 20 bytes: expected 24 for InputTensor; save the whole tensor"),
    "missing": (GATHER, ["gone.npy", "ids.npy"], "gone.npy does not exist"),
    "suffix": (
        GATHER,
        ["InputTensor=x.txt", "ids.npy"],
        "x.txt cannot hold InputTensor: expected a file that ends in .npy, .bin, .dat",
    ),
}


@pytest.mark.parametrize(("what", "given", "says"), REFUSED.values(), ids=REFUSED)
def test_inputs_that_do_not_fit(
    folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch, *, what: Any, given: list[str], says: str
) -> None:
    write(folder, what)
    monkeypatch.chdir(folder)
    np.save("turned.npy", np.load("table.npy").T)
    np.save("short.npy", np.load("table.npy").reshape(-1)[:5])
    ended = command("compare", "--devices", "cpu,reference", "model.json", "--inputs", *given)
    assert (ended.code, ended.out) == (2, "")
    assert says in " ".join(ended.err.split()), ended.err


def test_options_that_do_not_go_with_inputs(folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder, GATHER)
    monkeypatch.chdir(folder)
    for option in ("--seed", "--trials"):
        ended = command("compare", "model.json", option, 3, "--inputs", "table.npy", "ids.npy")
        assert (ended.code, "--inputs names the inputs, and none is random: leave it out" in ended.err) == (2, True)
    for words, says in (
        (["model.json", "other.json", "--inputs", "table.npy"], "expected one model or descriptor, got model.json, other.json"),
        (["--inputs", "table.npy", "ids.npy"], "expected one model or descriptor, got none"),
        (["model.json", "table.npy"], "expected one model or descriptor, got model.json, table.npy"),
        (["model.json", "--inputs", "a.npy", "b.npy", "--inputs", "c.npy"], "the order of the files is ambiguous"),
    ):
        ended = command("compare", *words)
        assert (ended.code, says in " ".join(ended.err.split())) == (2, True), ended.err


@pytest.mark.parametrize("what", [GATHER, MODEL], ids=["descriptor", "model"])
def test_a_case_of_given_inputs(folder: Path, command: Command, what: Any) -> None:
    """It holds the inputs, and replaces no file that was given."""
    given = ("--inputs", folder / "table.npy", folder / "ids.npy")
    ended = command("compare", "--devices", "cpu", write(folder, what), *given, "--json", "--save", folder / "case")
    report = json.loads(ended.out)
    assert set(report) <= set(schema_of(Schema.COMPARISON)["properties"])
    assert (ended.code, report["inputs"]) == (0, [str(folder / "table.npy"), str(folder / "ids.npy")])
    ended = command("compare", "--devices", "cpu", folder / "case" / "case.json", "--against", folder / "gpu.npy")
    assert (ended.code, ended.out) == (0, EQUAL)
    table = next((folder / "case").glob("case.0_*.npy"))
    ended = command(
        "compare", "--devices", "cpu", folder / "model.json", "--inputs", table, folder / "ids.npy", "--save", folder / "case"
    )
    assert (ended.code, "is an input, and would be overwritten" in ended.err) == (2, True)
    before = (folder / "ids.npy").read_bytes()
    ended = command("compare", folder / "model.json", *given, "--output", folder / "ids.npy")
    assert (ended.code, (folder / "ids.npy").read_bytes()) == (2, before)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no pty")
@pytest.mark.parametrize("columns", [60, 80])
def test_a_mismatch_and_the_tables_fit_the_terminal(folder: Path, columns: int) -> None:
    """The words are those that are printed elsewhere."""
    import pty

    np.save(folder / "gpu.npy", np.load(folder / "gpu.npy") * 3)
    write(folder, GATHER)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "dumb", "COLUMNS": str(columns)}
    compared = ["compare", "--devices", "cpu", "model.json", "--inputs", "table.npy", "ids.npy", "--against", "gpu.npy"]
    for arguments in (compared, ["levels"]):
        leader, follower = pty.openpty()
        words = [sys.executable, "-m", "dmlgather.cli", *arguments]
        with subprocess.Popen(words, stdout=follower, stderr=subprocess.PIPE, cwd=folder, env=environment):
            os.close(follower)
            shown = b""
            while part := _read(leader):
                shown += part
            os.close(leader)
        lines = shown.decode().replace("\r", "").splitlines()
        assert max(map(len, lines)) <= columns
        piped = subprocess.run(words, capture_output=True, cwd=folder, env=environment, check=False).stdout.decode()
        assert "".join(lines).replace(" ", "") == "".join(piped.split())
        assert max(map(len, piped.splitlines())) <= 120


def _read(leader: int) -> bytes:
    try:
        return os.read(leader, 65536)
    except OSError:  # Linux, at the end
        return b""


def test_cases_with_given_inputs_replay_into_one_folder(folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """cases.md: the case `rows.json` of a single descriptor writes `rows.replayed.npy`."""
    write(folder, GATHER)
    monkeypatch.chdir(folder)
    table = np.load("table.npy")
    for name, ids in (("one", [[0, 1, 2, 0]]), ("other", [[2, 2, 1, 0]])):
        np.save("ids.npy", np.array(ids, np.uint32))
        saved = command(
            "compare", "--devices", "cpu", "model.json", "--inputs", "table.npy", "ids.npy", "--save", f"two/{name}.json"
        )
        assert saved.code == 0, saved.err
        assert command("run", f"two/{name}.json", "--device", "cpu", "--output-dir", "back").code == 0
        assert np.load(f"back/{name}.replayed.npy").tobytes() == table[ids[0]].tobytes()
    assert sorted(path.name for path in Path("back").iterdir()) == ["one.replayed.npy", "other.replayed.npy"]
    ended = command("compare", "two/one.json", "--devices", "cpu", "--against", "back/one.replayed.npy")
    assert ended.code == 0, ended.out


MISPLACED: dict[str, tuple[list[str], str]] = {
    "blank": (
        ["model.json", "--devices", "cpu", "reference"],
        "names with commas between them: --devices cpu,reference",
    ),
    "comma and blank": (["model.json", "--devices", "cpu,", "reference"], "between them: --devices cpu,reference"),
    "gpu": (["--devices", "cpu", "cuda:1", "model.json"], "between them: --devices cpu,cuda:1"),
    "inputs": (["model.json", "table.npy", "ids.npy"], "inputs follow --inputs, and an output to compare with follows --against"),
    "outputs": (["gpu.npy", "gpu.npy"], "an output to compare with follows --against"),
    "suffix": (
        ["model.json", "--inputs", "table.npy", "ids.txt"],
        "got model.json, ids.txt; --inputs takes files that end in .npy, .bin, .dat, not ids.txt",
    ),
}


@pytest.mark.parametrize(("words", "says"), MISPLACED.values(), ids=MISPLACED)
def test_the_option_that_was_meant(
    folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch, words: list[str], says: str
) -> None:
    write(folder, GATHER)
    monkeypatch.chdir(folder)
    ended = command("compare", *words)
    assert (ended.code, ended.out) == (2, "")
    assert says in " ".join(ended.err.split()), ended.err


@pytest.mark.parametrize("subcommand", [["compare", "--devices", "cpu,reference"], ["run", "--device", "cpu"], ["explain"]])
def test_the_folder_of_a_case_names_its_model(folder: Path, command: Command, subcommand: list[str]) -> None:
    case = folder / "case"
    assert command("compare", "--devices", "cpu,reference", write(folder, GATHER), "--save", case).code == 0
    ended = command(*subcommand, case)
    assert (ended.code, ended.out) == (2, "")
    assert f"{case} is a folder: name {case / 'case.json'}" in ended.err
    (case / "case.json").unlink()
    assert "is a folder, not a regular file" in command(*subcommand, case).err
