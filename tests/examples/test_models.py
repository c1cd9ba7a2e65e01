"""The model files in examples/directml give the results on DirectML's pages."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dmlgather.directml.dxdispatch.model_file import check_file
from tests.cli.command import EXAMPLES as FOLDER
from tests.cli.command import Command
from tests.directml.examples import EXAMPLES, GATHER_3_AS_PRINTED, Example

FILES = {
    **{example.name: f"{example.name.replace('-', '_')}.json" for example in EXAMPLES},
    "gather-3-mended": "gather_3.json",
    "slice-sample": "slice.json",
}
OTHERS = {"chain.json", "gather_3_as_printed.json", "gather_nd_sizes.json"}


def _line(example: Example) -> str:
    return f"Resource 'output': {', '.join(map(str, example.expected))}\n"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_the_command_prints_the_documented_result(example: Example, capfd: pytest.CaptureFixture[str]) -> None:
    ended = Command(capfd)("run", "--device", "cpu", FOLDER / FILES[example.name])
    assert (ended.code, ended.out) == (0, _line(example))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_the_file_holds_the_documented_operator(example: Example) -> None:
    (found,) = check_file(FOLDER / FILES[example.name]).dispatchables.values()
    assert found.desc == example.desc


def test_the_chain_gives_numpys_result(capfd: pytest.CaptureFixture[str]) -> None:
    table = np.arange(24).reshape(6, 4)
    expected = ", ".join(map(str, table[[5, 0, 2]][::-1, 1:].reshape(-1)))
    ended = Command(capfd)("run", "--device", "cpu", FOLDER / "chain.json")
    assert (ended.code, ended.out) == (0, f"Resource 'output': {expected}\n")


def test_every_file_is_tested() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(FILES.values()) | OTHERS


def test_gather_3_as_printed_is_refused_with_its_remedy(capfd: pytest.CaptureFixture[str]) -> None:
    file = FOLDER / "gather_3_as_printed.json"
    (found,) = check_file(file).dispatchables.values()
    assert found.desc == GATHER_3_AS_PRINTED.desc
    ended = Command(capfd)("check", file)
    assert ended.code == 1
    assert "IndexDimensions = 1 gives the stated output {3,2}" in ended.out
    mended = (FOLDER / FILES["gather-3-mended"]).read_text().replace('"IndexDimensions": 1', '"IndexDimensions": 2')
    assert mended.partition("{")[2] == file.read_text().partition("{")[2]  # everything else is equal


def test_the_documented_sizes_of_gather_nd_are_taken(capfd: pytest.CaptureFixture[str]) -> None:
    file = FOLDER / "gather_nd_sizes.json"
    assert check_file(file).ok
    ended = Command(capfd)("compare", "--devices", "cpu,reference", file)
    assert (ended.code, "84 elements, bit for bit" in ended.out) == (0, True)


def test_another_stated_size_is_refused(tmp_path: Path) -> None:
    text = (FOLDER / "gather_nd_sizes.json").read_text().replace("[1, 1, 2, 6, 7]", "[1, 1, 2, 5, 7]")
    (tmp_path / "wrong.json").write_text(text)
    (finding,) = check_file(tmp_path / "wrong.json").errors
    assert (finding.code, finding.path) == ("DML507", "OutputTensor.Sizes[3]")
