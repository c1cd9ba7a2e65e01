"""`dmlgather compare --inputs`: the user's own inputs, of which NumPy says what belongs in the output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dmlgather.cli.schema import Schema
from tests import seeds
from tests.cli.command import Command, on_terminal, process
from tests.dxdispatch.models import GATHER, MODEL, changed, write

EQUAL = "commands[0] 'gather': equal on cpu, gpu.npy: 8 elements, bit for bit\n"


@pytest.fixture
def folder(folder: Path) -> Path:
    """A table of random bits, indices, and what a gather makes of them, for the descriptor and the model of the tests."""
    rng = np.random.default_rng(seeds.seed())
    table, ids = rng.integers(0, 2**32, (3, 2), np.uint32).view(np.float32), rng.integers(0, 3, (1, 4), np.uint32)
    for name, array in {"table": table, "ids": ids, "gpu": table[ids[0]], "flat": ids.reshape(4)}.items():
        np.save(f"{name}.npy", array)
    Path("table.bin").write_bytes(table.tobytes())
    return folder


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
def test_inputs_of_ones_own(folder: Path, command: Command, *, what: Any, options: list[str], last: bool) -> None:
    file = write(folder, what)
    words: list[object] = [*options, file] if last else [file, *options]
    words = ["compare", "--devices", "cpu", *words, "--against", "gpu.npy"]
    ended = command(*words)
    assert (ended.code, ended.out) == (0, EQUAL), ended.err
    wrong = np.load("gpu.npy")
    wrong.view(np.uint32)[1, 0] ^= 2
    wrong.view(np.uint32)[3, 1] ^= 1
    np.save("gpu.npy", wrong)
    assert command(*words).code == 1


def test_a_model_keeps_the_inputs_that_are_not_given(folder: Path, command: Command) -> None:
    np.save("gpu.npy", np.load("table.npy")[[0, 1, 1, 2]])  # the model's own rows
    ended = command("compare", "--devices", "cpu", write(folder, MODEL), "--inputs", "table=table.npy", "--against", "gpu.npy")
    assert (ended.code, ended.out) == (0, EQUAL), ended.err


def test_strides_and_offsets(folder: Path, command: Command) -> None:
    """The table of Sizes is laid out as described; a buffer of all bytes is read as it lies there."""
    table, ids = np.load("table.npy"), np.load("ids.npy")
    tensor = {"DataType": "FLOAT32", "Sizes": [3, 2], "Strides": [1, 4]}
    model = changed(
        (("resources", "table", "initialValues"), {"valueCount": 16, "value": 7}),
        (("dispatchables", "gather", "desc", "InputTensor"), tensor),
        (("commands", 0, "bindings", "InputTensor"), {"name": "table", "elementOffset": 4}),
    )
    write(folder, changed((("desc", "InputTensor"), tensor), start=GATHER), "one.json")
    write(folder, model, "two.json")
    memory = np.full((2, 4), 9, np.float32)
    memory[:, :3] = table.T
    np.save("part.npy", memory.reshape(-1)[:7])
    np.save("whole.npy", np.concatenate([np.zeros(4, np.float32), memory.reshape(-1), np.zeros(4, np.float32)]))
    for file, names in {"one.json": ["table", "part"], "two.json": ["table", "part", "whole"]}.items():
        for name in names:
            given = ("--inputs", f"{name}.npy", "ids.npy")
            ended = command("compare", "--devices", "cpu,reference", file, *given, "--against", "gpu.npy")
            assert ended.code == 0, (name, ended)
    assert table[ids[0]].tobytes() == np.load("gpu.npy").tobytes()


IN_ANOTHER = "the files do not fit in this order, but in another one: --inputs"


REFUSED: dict[str, tuple[Any, str, str]] = {
    "few": (GATHER, "table.npy", "has 2 inputs, InputTensor and IndicesTensor, and 1 file is given: name one for each"),
    "many": (MODEL, "table.npy ids.npy ids.npy", "model.json has 2 inputs, table and rows, and 3 files are given"),
    "name": (GATHER, "X=table.npy", "'X' is no input of model.json: expected InputTensor or IndicesTensor"),
    "output": (MODEL, "output=table.npy", "'output' is no input of model.json: expected table or rows"),
    "twice": (MODEL, "rows=a.npy rows=ids.npy", "'rows' is given twice, as 'a.npy' and 'ids.npy': leave one out"),
    "type": (GATHER, "ids.npy table.npy", f"{IN_ANOTHER} InputTensor=table.npy IndicesTensor=ids.npy"),
    "order": (MODEL, "rows=table.npy table=ids.npy", f"{IN_ANOTHER} rows=ids.npy table=table.npy"),
    "only type": (GATHER, "ids.npy ids.npy", "ids.npy holds UINT32, but InputTensor's DataType is FLOAT32: save it in that type"),
    "shape": (GATHER, "turned.npy ids.npy", "turned.npy has the shape [2, 3]: expected InputTensor's Sizes [3, 2], or one"),
    "size": (MODEL, "table=short.npy", "short.npy holds 20 bytes: expected 24 for InputTensor; save the whole tensor"),
    "missing": (GATHER, "gone.npy ids.npy", "gone.npy does not exist"),
    "suffix": (
        GATHER,
        "InputTensor=x.txt ids.npy",
        "x.txt cannot hold InputTensor: expected a file that ends in .npy, .bin, .dat",
    ),
}


@pytest.mark.parametrize(("what", "given", "says"), REFUSED.values(), ids=REFUSED)
def test_inputs_that_do_not_fit(folder: Path, command: Command, *, what: Any, given: str, says: str) -> None:
    write(folder, what)
    np.save("turned.npy", np.load("table.npy").T)
    np.save("short.npy", np.load("table.npy").reshape(-1)[:5])
    assert says in command.refused("compare", "--devices", "cpu,reference", "model.json", "--inputs", *given.split())


@pytest.mark.parametrize("what", [GATHER, MODEL], ids=["descriptor", "model"])
def test_a_case_of_given_inputs(folder: Path, command: Command, what: Any) -> None:
    """It holds the inputs, and replaces no file that was given."""
    compare = ("compare", "--devices", "cpu", write(folder, what), "--inputs")
    report = command.report(Schema.COMPARISON, *compare, "table.npy", "ids.npy", "--save", "case")
    assert report["inputs"] == ["table.npy", "ids.npy"]
    ended = command("compare", "--devices", "cpu", "case/case.json", "--against", "gpu.npy")
    assert (ended.code, ended.out) == (0, EQUAL)
    table = next(Path("case").glob("case.0_*.npy"))
    assert "is an input, and would be overwritten" in command.refused(*compare, table, "ids.npy", "--save", "case")
    before = Path("ids.npy").read_bytes()
    ended = command(*compare, "table.npy", "ids.npy", "--output", "ids.npy")
    assert (ended.code, Path("ids.npy").read_bytes()) == (2, before)


@pytest.mark.parametrize("columns", ["60", "80"])
def test_a_mismatch_and_the_tables_fit_the_terminal(folder: Path, columns: str) -> None:
    """The words are those that are printed elsewhere."""
    changed = np.load(folder / "gpu.npy")
    changed.view(np.uint8)[...] ^= 1
    np.save(folder / "gpu.npy", changed)
    write(folder, GATHER)
    compared = ["compare", "--devices", "cpu", "model.json", "--inputs", "table.npy", "ids.npy", "--against", "gpu.npy"]
    for arguments, code in ((compared, 1), (["levels"], 0)):
        lines = on_terminal(*arguments, cwd=folder, code=code, TERM="dumb", COLUMNS=columns).splitlines()
        assert max(map(len, lines)) <= int(columns)
        piped = process(*arguments, cwd=folder, COLUMNS=columns).out
        assert "".join(lines).replace(" ", "") == "".join(piped.split())
        assert max(map(len, piped.splitlines())) <= 120


def test_cases_with_given_inputs_replay_into_one_folder(folder: Path, command: Command) -> None:
    """cases.md: the case `rows.json` of a single descriptor writes `rows.replayed.npy`."""
    write(folder, GATHER)
    compare, table = ("compare", "--devices", "cpu"), np.load("table.npy")
    for name, ids in (("one", [[0, 1, 2, 0]]), ("other", [[2, 2, 1, 0]])):
        np.save("ids.npy", np.array(ids, np.uint32))
        ended = command(*compare, "model.json", "--inputs", "table.npy", "ids.npy", "--save", f"two/{name}.json")
        assert ended.code == 0, ended.err
        assert command("run", f"two/{name}.json", "--device", "cpu", "--output-dir", "back").code == 0
        assert np.load(f"back/{name}.replayed.npy").tobytes() == table[ids[0]].tobytes()
    assert sorted(path.name for path in Path("back").iterdir()) == ["one.replayed.npy", "other.replayed.npy"]
    ended = command(*compare, "two/one.json", "--against", "back/one.replayed.npy")
    assert ended.code == 0, ended.out


BETWEEN = "names with commas between them: --devices cpu"
ONE = "expected one model or descriptor, got"
RANDOM = "--inputs names the inputs, and none is random: leave it out"

MISTAKES: dict[str, tuple[str, str]] = {
    "a blank": ("model.json --devices cpu reference", f"{BETWEEN},reference"),
    "a comma and a blank": ("model.json --devices cpu, reference", f"{BETWEEN},reference"),
    "a GPU": ("--devices cpu cuda:1 model.json", f"{BETWEEN},cuda:1"),
    "inputs": ("model.json table.npy ids.npy", "inputs follow --inputs, and an output to compare with follows --against"),
    "outputs": ("gpu.npy gpu.npy", "an output to compare with follows --against"),
    "a suffix": (
        "model.json --inputs table.npy ids.txt",
        "got model.json, ids.txt; --inputs takes files that end in .npy, .bin, .dat, not ids.txt",
    ),
    "a seed": ("model.json --seed 3 --inputs table.npy ids.npy", RANDOM),
    "a number of trials": ("model.json --trials 3 --inputs table.npy ids.npy", RANDOM),
    "two models": ("model.json other.json --inputs table.npy", f"{ONE} model.json, other.json"),
    "no model": ("--inputs table.npy ids.npy", f"{ONE} none"),
    "no option": ("model.json table.npy", f"{ONE} model.json, table.npy"),
    "both ways": ("model.json --inputs a.npy b.npy --inputs c.npy", "the order of the files is ambiguous"),
}


@pytest.mark.parametrize(("words", "says"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistaken_command_line_is_told_what_was_meant(folder: Path, command: Command, words: str, says: str) -> None:
    write(folder, GATHER)
    assert says in command.refused("compare", *words.split())


@pytest.mark.parametrize("subcommand", [["compare", "--devices", "cpu,reference"], ["run", "--device", "cpu"], ["explain"]])
def test_the_folder_of_a_case_names_its_model(folder: Path, command: Command, subcommand: list[str]) -> None:
    case = folder / "case"
    assert command("compare", "--devices", "cpu,reference", write(folder, GATHER), "--save", case).code == 0
    assert f"{case} is a folder: name {case / 'case.json'}" in command.refused(*subcommand, case)
    (case / "case.json").unlink()
    assert "is a folder, not a regular file" in command(*subcommand, case).err
