"""`dmlgather run`: what is printed and written."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmlgather.wording import spelled
from tests.cli.command import EXAMPLES, Command, process
from tests.dxdispatch.models import GATHER, MODEL, PRINTED, changed, write

TIMING = re.compile(r"Dispatch '([^']+)': (\d+) iterations?, (\d+\.\d{4}) ms median \(CPU\)(, \d+\.\d{4} ms median \(GPU\))?")


def test_a_process_prints_the_resource_alone(tmp_path: Path) -> None:
    ended = process("run", "--device", "cpu", EXAMPLES / "slice.json", cwd=tmp_path)
    assert (ended.code, ended.out) == (0, "Resource 'output': 7, 9, 12, 14, 17, 19\n")
    device, timing = ended.err.splitlines()
    assert device.startswith("Running on '")
    found = TIMING.fullmatch(timing)
    assert found is not None
    assert found.groups()[:2] == ("every second column", "1")
    assert list(tmp_path.iterdir()) == []


def test_iterations(tmp_path: Path, command: Command) -> None:
    ended = command("run", "--device", "cpu", "--iterations", 5, write(tmp_path, MODEL))
    assert (ended.code, ended.out) == (0, PRINTED)
    found = TIMING.search(ended.err)
    assert found is not None
    assert found[2] == "5"


def test_writes_stay_for_the_rest_of_the_run(tmp_path: Path, command: Command) -> None:
    """Two gathers in a row: the second reads what the first wrote."""
    second = changed(
        (("desc", "InputTensor", "Sizes"), [4, 2]),
        (("desc", "IndicesTensor", "Sizes"), [1, 1]),
        (("desc", "OutputTensor", "Sizes"), [1, 2]),
        start=GATHER,
    )
    bindings = {"InputTensor": "output", "IndicesTensor": {"name": "rows", "elementOffset": 4}, "OutputTensor": "last"}
    model = changed(
        (("resources", "rows", "initialValues"), [0, 1, 1, 2, 3]),
        (("resources", "last"), {"initialValuesDataType": "FLOAT32", "initialValues": [0, 0]}),
        (("dispatchables", "second"), second),
        (("commands", 1), {"type": "print", "resource": "last"}),
        (("commands", 2), {"type": "dispatch", "dispatchable": "second", "bindings": bindings}),
        (("commands", 3), {"type": "print", "resource": "last"}),
        (("commands", 4), {"type": "print", "resource": "output"}),
    )
    ended = command("run", write(tmp_path, model))
    assert (ended.code, ended.out) == (0, "Resource 'last': 0, 0\nResource 'last': 5, 6\n" + PRINTED)


def test_an_owned_input_keeps_what_it_was_initialised_with(tmp_path: Path, command: Command) -> None:
    first = {"type": "dispatch", "dispatchable": "gather"}
    model = changed(
        (("dispatchables", "gather", "desc", "InputTensor", "Flags"), "OWNED_BY_DML"),
        (("dispatchables", "gather", "bindings"), {"InputTensor": "table"}),
        (("dispatchables", "again"), GATHER),
        (("resources", "table", "sizeInBytes"), 32),
        # Overwrites the table, which the owned input must not notice.
        (("commands", 0), {"type": "dispatch", "dispatchable": "again",
                           "bindings": {"InputTensor": "source", "IndicesTensor": "rows", "OutputTensor": "table"}}),
        (("resources", "source"), {"initialValuesDataType": "FLOAT32", "initialValues": [9, 9, 9, 9, 9, 9]}),
        (("commands", 1), {**first, "bindings": {"IndicesTensor": "rows", "OutputTensor": "output"}}),
        (("commands", 2), {"type": "print", "resource": "output"}),
        (("commands", 3), {"type": "print", "resource": "table"}),
    )  # fmt: skip
    ended = command("run", write(tmp_path, model))
    assert (ended.code, ended.out) == (0, PRINTED + "Resource 'table': 9, 9, 9, 9, 9, 9\n")


def test_described_strides_and_padding(tmp_path: Path, command: Command) -> None:
    """The table's rows lie four elements apart, the output's columns next to each other (transposed)."""
    model = changed(
        (("resources", "table", "initialValues"), [1, 2, -1, -1, 3, 4, -1, -1, 5, 6]),
        (("dispatchables", "gather", "desc", "InputTensor", "Strides"), [4, 1]),
        (("dispatchables", "gather", "desc", "OutputTensor", "Strides"), [1, 4]),
    )
    ended = command("run", write(tmp_path, model))
    assert (ended.code, ended.out) == (0, "Resource 'output': 1, 3, 3, 5, 2, 4, 4, 6\n")


def _printed(command: Command, folder: Path, values: Any, **step: Any) -> str:
    """What is printed of a resource x of these values."""
    show = {"type": "print", "resource": "x", **step}
    return command("run", write(folder, changed((("resources", "x"), values), (("commands",), [show])))).out


def test_a_print_shows_as_many_elements_as_initial_values(tmp_path: Path, command: Command) -> None:
    values = {"initialValuesDataType": "FLOAT16", "initialValues": [1, 65504, 0.1, "nan", "-inf"], "sizeInBytes": 64}
    assert _printed(command, tmp_path, values) == "Resource 'x': 1, 65504, 0.1, nan, -inf\n"


def test_verbose_print_shows_the_bits(tmp_path: Path, command: Command) -> None:
    values = {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": 11, "valueStart": 0, "valueDelta": 0.5}}
    lines = _printed(command, tmp_path, values, verbose=True).splitlines()
    assert len(lines) == 12
    assert lines[:3] == ["Resource 'x':", "[ 0] 0 (0x00000000)", "[ 1] 0.5 (0x3F000000)"]
    assert lines[-1] == "[10] 5 (0x40A00000)"


def test_large_resources_are_printed_whole(tmp_path: Path, command: Command) -> None:
    values = {"initialValuesDataType": "UINT32", "initialValues": {"valueCount": 300_000, "valueStart": 0, "valueDelta": 7}}
    expected = "Resource 'x': " + ", ".join(str(7 * number) for number in range(300_000)) + "\n"
    assert _printed(command, tmp_path, values) == expected


@given(st.floats(width=32))
def test_floats_are_spelled_without_losing_bits(value: float) -> None:
    text = spelled(np.float32(value))
    assert struct.pack("<f", float(text)) == struct.pack("<f", value) or value != value  # noqa: PLR0124 # NaN
    assert not text.endswith(".0")
    shortest = str(np.float32(value)).removesuffix(".0")
    assert len(text) <= len(shortest) or float(value).is_integer()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.float32(7), "7"), (np.float32(-0.0), "-0"), (np.float32(0.1), "0.1"), (np.float64(1e16), "1e+16"),
        (np.float32(1e-7), "1e-07"), (np.float64("nan"), "nan"), (np.float16("-inf"), "-inf"), (np.float16(65504), "65504"),
        (np.uint64(2**64 - 1), "18446744073709551615"), (np.int64(-(2**63)), "-9223372036854775808"), (np.int8(-1), "-1"),
    ],
)  # fmt: skip
def test_spelling(value: Any, text: str) -> None:
    assert spelled(value) == text


def _written(command: Command, folder: Path, *changes: Any, **step: Any) -> Path:
    """The file that a model writes."""
    step = {"type": "writeFile", "resource": "output", **step}
    ended = command("run", write(folder, changed(*changes, (("commands", 1), step))), "--output-dir", folder / "out")
    assert (ended.code, ended.out) == (0, "")
    file = folder / "out" / str(step["targetPath"])
    assert f"Resource '{step['resource']}' written to '{file}'" in ended.err
    return file


ROWS = [[1, 2], [3, 4], [3, 4], [5, 6]]
TRANSPOSED = (("dispatchables", "gather", "desc", "OutputTensor", "Strides"), [1, 4])


NPY: dict[str, tuple[list[Any], dict[str, Any], Any, Any]] = {
    "the shape of the dispatch": ([], {"targetPath": "deep/x.npy"}, np.float32, ROWS),
    "the elements of a strided output": ([TRANSPOSED], {}, np.float32, ROWS),
    "the dimensions that are stated": ([], {"dimensions": [2, 1, 4]}, np.float32, [[[1, 2, 3, 4]], [[3, 4, 5, 6]]]),
    "a resource that no dispatch wrote": ([], {"resource": "rows"}, np.uint32, [0, 1, 1, 2]),
}


@pytest.mark.parametrize("case", NPY)
def test_a_written_npy_has(tmp_path: Path, command: Command, case: str) -> None:
    changes, step, dtype, values = NPY[case]
    got = np.load(_written(command, tmp_path, *changes, **{"targetPath": "x.npy", **step}), allow_pickle=False)
    assert (got.dtype, got.tolist()) == (dtype, values)


def test_raw_file_is_the_buffer(tmp_path: Path, command: Command) -> None:
    file = _written(command, tmp_path, targetPath="x.dat")
    assert file.read_bytes() == struct.pack("<8f", 1, 2, 3, 4, 3, 4, 5, 6)


def test_a_written_file_is_read_back(tmp_path: Path, command: Command) -> None:
    _written(command, tmp_path, targetPath="x.npy")
    model = changed(
        (("resources", "back"), {"initialValues": {"sourcePath": "out/x.npy"}}),
        (("commands",), [{"type": "print", "resource": "back"}]),
    )
    assert command("run", write(tmp_path, model)).out == PRINTED.replace("output", "back")


def test_a_model_with_errors_is_not_run(tmp_path: Path, command: Command) -> None:
    file = write(tmp_path, changed((("dispatchables", "gather", "desc", "Axis"), 2)))
    ended = command("run", file)
    assert (ended.code, ended.out) == (1, "")
    assert "DML206" in ended.err
    assert "Running on" not in ended.err


def test_warnings_do_not_keep_a_model_from_running(tmp_path: Path, command: Command) -> None:
    ended = command("run", write(tmp_path, changed((("remark",), "x"))))
    assert (ended.code, ended.out) == (0, PRINTED)
    assert "DML801" in ended.err


@pytest.mark.parametrize(("device", "shown"), [("cpu", "CPU"), ("reference", "line for line"), ("auto", "CPU")])
def test_devices(tmp_path: Path, command: Command, device: str, shown: str) -> None:
    ended = command("run", "--device", device, write(tmp_path, MODEL))
    assert (ended.code, ended.out) == (0, PRINTED)
    assert shown in next(line for line in ended.err.splitlines() if line.startswith("Running on "))


def test_a_gpu_that_cannot_be_used_is_named(tmp_path: Path, command: Command, no_cupy: None) -> None:
    note = r"^cuda is left out: CuPy cannot be imported \(.*\); `dmlgather env` says what to do$"
    ended = command("run", write(tmp_path, MODEL))
    assert (ended.code, ended.out) == (0, PRINTED)
    first, second, *_ = ended.err.splitlines()
    assert re.search(note, first)
    assert second.startswith("Running on '")
    assert re.search(note, command("compare", write(tmp_path, MODEL)).err, re.MULTILINE)
    assert "left out" not in command("run", "--device", "cpu", write(tmp_path, MODEL)).err
    assert "left out" not in command("run", tmp_path / "nothing.json").err


@pytest.mark.parametrize("device", ["gpu", "cuda:", "cuda:x", "CPU", "", "cuda:-1"])
def test_unknown_devices(tmp_path: Path, command: Command, device: str) -> None:
    said = command.refused("run", "--device", device, write(tmp_path, MODEL))
    expected = f"expected 'cpu', 'cuda', 'cuda:N' (GPU number N, from 0) or 'reference', or 'auto', got '{device}'"
    assert f"Invalid value for '--device': {expected}" in said


def test_a_gpu_by_number_that_is_not_there(tmp_path: Path, command: Command, no_cupy: None) -> None:
    assert command.refused("run", "--device", "cuda:7", write(tmp_path, MODEL)).startswith("dmlgather: CuPy cannot be imported")


def test_a_descriptor_cannot_be_run(tmp_path: Path, command: Command) -> None:
    assert "explain and compare take it" in command.refused("run", write(tmp_path, GATHER))
