"""`dmlgather compare --trials`: fresh random inputs until the first mismatch, which its seed repeats."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dmlgather.backends import reference
from dmlgather.cli.schema import Schema
from tests.cli.command import Command
from tests.dxdispatch.models import GATHER, MODEL, write

OPTIONS = ("compare", "--devices", "cpu,reference")
EQUAL = "commands[0] 'gather': equal on cpu, reference: 8 elements, bit for bit\n"


def _spoil(monkeypatch: pytest.MonkeyPatch, wrong: int) -> list[bytes]:
    """From now on run number `wrong` of the reference flips a bit; what each run was given."""
    honest, given = reference.run, list[bytes]()

    def spoilt(plan: Any, data: NDArray[Any], indices: NDArray[Any], out: NDArray[Any]) -> int | None:
        given.append(data.tobytes() + indices.tobytes())
        bad = honest(plan, data, indices, out)
        if len(given) == wrong:
            out.view(np.uint8)[0] ^= 1
        return bad

    monkeypatch.setattr(reference, "run", spoilt)
    return given


def test_all_trials_are_equal(tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    given = _spoil(monkeypatch, 0)
    ended = command(*OPTIONS, "--trials", 3, "--seed", 40, write(tmp_path, GATHER))
    assert (ended.code, ended.out) == (0, 3 * EQUAL)
    assert [line for line in ended.err.splitlines() if "seed" in line] == [
        f"Random inputs from --seed {40 + number}, trial {number + 1} of 3" for number in range(3)
    ]
    assert len(set(given)) == 3


def test_the_first_mismatch_ends_it_and_its_seed_repeats_it(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = _spoil(monkeypatch, 2)
    file, case = write(tmp_path, GATHER), tmp_path / "case"
    ended = command(*OPTIONS, "--trials", 5, "--seed", 40, "--save", case, file)
    assert (ended.code, len(given), ended.out.startswith(EQUAL)) == (1, 2, True)
    assert ended.err.splitlines()[-1] == "Trial 2 of 5 differs; --seed 41 repeats it"
    report = json.loads((case / "case.report.json").read_text())
    assert (report["seed"], report["trials"], report["exit_code"]) == (41, 2, 1)
    saved = np.load(case / "case.0_InputTensor.npy").tobytes() + np.load(case / "case.1_IndicesTensor.npy").tobytes()
    assert saved == given[1]
    command(*OPTIONS, "--seed", 41, file)
    assert given[2] == given[1]


def test_json_is_the_last_trials(tmp_path: Path, command: Command) -> None:
    report = command.report(Schema.COMPARISON, *OPTIONS, "--trials", 2, "--seed", 7, write(tmp_path, GATHER))
    assert (report["seed"], report["trials"], len(report["dispatches"])) == (8, 2, 1)
    report = command.report(Schema.COMPARISON, *OPTIONS, "--seed", 7, write(tmp_path, GATHER))
    assert (report["seed"], report["trials"]) == (7, None)


def test_unknown_seeds_are_printed(tmp_path: Path, command: Command) -> None:
    said = command(*OPTIONS, "--trials", 2, write(tmp_path, GATHER)).err
    first, second = (int(line.split()[4].rstrip(",")) for line in said.splitlines() if "seed" in line)
    assert second == first + 1


@pytest.mark.parametrize("option", ["--trials", "--seed"])
def test_a_model_states_its_inputs(tmp_path: Path, command: Command, option: str) -> None:
    said = command.refused(*OPTIONS, option, 2, write(tmp_path, MODEL))
    assert f"Invalid value for '{option}': a model states its inputs" in said


@pytest.mark.parametrize(("option", "value"), [("--trials", "0"), ("--seed", "-1"), ("--seed", "x")])
def test_an_impossible_number_is_shown(tmp_path: Path, command: Command, option: str, value: str) -> None:
    said = command.refused("compare", option, value, write(tmp_path, GATHER))
    assert f"Invalid value for '{option}': " in said
    assert re.search(rf"(got |: )'?{value}'?\b", said.partition("Invalid value")[2])  # older Typers begin with it
