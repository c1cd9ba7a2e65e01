"""`dmlgather compare --against`: outputs that were made elsewhere, here written byte by byte."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from dmlgather.cli.schema import Schema
from tests.cli.command import Command, without_known_bugs
from tests.dxdispatch.models import GATHER, MODEL, changed, write
from tests.onnx_checking.modelling import saved

ROWS = [[1, 2], [3, 4], [3, 4], [5, 6]]
"""What the model's gather gives, as its documentation prints it."""

RIGHT = np.array(ROWS, np.float32)
WRONG = np.array([[1, 2], [3, 4], [3, -4], [5, 6]], np.float32)
EQUAL = "commands[0] 'gather': equal on cpu, {}: 8 elements, bit for bit\n"


def _against(command: Command, model: Any, path: Path, *more: object) -> Any:
    return command("compare", "--devices", "cpu", "--against", path, *more, write(path.parent, model))


def _refused(command: Command, model: Any, path: Path) -> str:
    return command.refused("compare", "--devices", "cpu", "--against", path, write(path.parent, model))


def _made(file: Path, array: Any) -> Path:
    """A file of an array: .npy, or its bytes."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.suffix in (".npy", ".npz"):
        np.save(file, array)
    else:
        file.write_bytes(np.asarray(array).tobytes())
    return file


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("x.npy", RIGHT),
        ("x.npy", np.asfortranarray(RIGHT)),
        ("x.npy", RIGHT.astype(">f4")),
        ("x.npy", RIGHT.reshape(8)),
        ("x.bin", RIGHT),
        ("X.DAT", RIGHT),
    ],
)
def test_equal(tmp_path: Path, command: Command, name: str, values: Any) -> None:
    ended = _against(command, MODEL, _made(tmp_path / name, values))
    assert (ended.code, ended.out) == (0, EQUAL.format(name)), ended.err


@pytest.mark.parametrize("name", ["x.npy", "x.bin"])
def test_different(tmp_path: Path, command: Command, name: str) -> None:
    ended = _against(command, MODEL, _made(tmp_path / name, WRONG))
    assert ended.code == 1
    assert ended.out == (
        f"commands[0] 'gather': 1 of 8 elements differ between cpu and {name}\n"
        "  first: OutputTensor[2, 1], which should come from InputTensor[1, 1] = 4 (0x40800000), by IndicesTensor[0, 2] = 1, "
        "is 4\n"
        f"    (0x40800000) on cpu and -4 (0xc0800000) on {name}\n"
        "  worst: the first; difference 8, 1 differing bit\n"
        "  cause: none of the known faults (outputs that were made from other inputs look like this, too)\n"
    )


def test_a_second_file_is_refused(tmp_path: Path, command: Command) -> None:
    wrong, right = _made(tmp_path / "a" / "x.npy", WRONG), _made(tmp_path / "b" / "x.npy", RIGHT)
    said = command.refused("compare", "--devices", "cpu", write(tmp_path, MODEL), "--against", wrong, "--against", right)
    assert "--against" in said
    assert "takes one file or folder" in said


def test_each_of_two_files_is_named_with_its_dispatch(tmp_path: Path, command: Command) -> None:
    for name in ("case.out0_gather.a.npy", "case.out0_gather.b.npy"):
        _made(tmp_path / "made" / name, WRONG)
    lines = _against(command, MODEL, tmp_path / "made").out.splitlines()
    start = "commands[0] 'gather': 1 of 8 elements differ between cpu and "
    assert [line for line in lines if not line.startswith("  ")] == [f"{start}case.out0_gather.{name}.npy" for name in "ab"]


def test_two_cases_in_one_folder_are_refused(tmp_path: Path, command: Command) -> None:
    made = tmp_path / "made"
    for name in ("case.out0_gather.cpu.npy", "rows.out0_gather.cpu.npy", "out0_gather.npy"):
        _made(made / name, RIGHT)
    said = f"{made} holds outputs of 2 cases, 'case' and 'rows', but only one model is compared"
    assert said in _refused(command, MODEL, made)
    (made / "rows.out0_gather.cpu.npy").unlink()
    assert _against(command, MODEL, made).code == 0
    assert _against(command, MODEL, _made(made / "rows.out0_gather.cpu.npy", RIGHT)).code == 0  # one is named


def test_nan_payloads_count(tmp_path: Path, command: Command) -> None:
    model = changed((("resources", "table", "initialValues"), [1, 2, "nan", 4, 5, 6]))
    given = RIGHT.copy()
    given.view(np.uint32)[1:3, 0] = 0x7FC00001
    ended = _against(command, model, _made(tmp_path / "x.npy", given))
    assert (ended.code, "nan (0x7fc00000) on cpu and nan (0x7fc00001) on x.npy" in ended.out) == (1, True)


def test_described_strides_and_padding(tmp_path: Path, command: Command) -> None:
    """The output lies transposed, at byte 16 of a longer buffer, which DxDispatch writes whole, as one dimension."""
    bindings = {"InputTensor": "table", "IndicesTensor": "rows", "OutputTensor": {"name": "output", "elementOffset": 4}}
    model = changed(
        (("resources", "output"), {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": 14, "value": 0}}),
        (("dispatchables", "gather", "desc", "OutputTensor", "Strides"), [1, 4]),
        (("commands", 0, "bindings"), bindings),
    )
    buffer = np.array([9, 9, 9, 9, 1, 3, 3, 5, 2, 4, 4, 6, 9, 9], np.float32)
    for given in (_made(tmp_path / "x.npy", buffer), _made(tmp_path / "x.bin", buffer), _made(tmp_path / "y.bin", buffer[4:12])):
        ended = _against(command, model, given)
        assert (ended.code, ended.out) == (0, EQUAL.format(given.name)), ended.err
    assert _against(command, model, _made(tmp_path / "x.npy", RIGHT)).code == 0  # the elements, as `--save` writes them
    assert _against(command, model, _made(tmp_path / "x.npy", RIGHT.reshape(8))).code == 1  # in one dimension it is a buffer


def test_the_devices_are_compared_as_well(tmp_path: Path, command: Command) -> None:
    file, model = _made(tmp_path / "x.npy", WRONG), write(tmp_path, MODEL)
    report = command.report(Schema.COMPARISON, "compare", "--devices", "cpu,reference", "--against", file, model, code=1)
    assert (report["exit_code"], report["against"]) == (1, str(file))
    assert [device["name"] for device in report["devices"]] == ["cpu", "reference"]
    (dispatch,) = report["dispatches"]
    assert (dispatch["equal"], dispatch["against"]) == (False, ["x.npy"])
    assert [found["devices"] for found in dispatch["differences"]] == [["cpu", "x.npy"]]


REFUSED: dict[str, tuple[str, Any, str]] = {
    "shape": ("x.npy", RIGHT.T, "x.npy has the shape [2, 4]: expected OutputTensor's Sizes [4, 2], or one dimension"),
    "type": ("x.npy", RIGHT.astype(np.int32), "x.npy holds INT32, but OutputTensor's DataType is FLOAT32: save it in that type"),
    "same size": ("x.npy", RIGHT.view(np.uint32), "x.npy holds UINT32, but OutputTensor's DataType is FLOAT32"),
    "too few": ("x.npy", RIGHT.reshape(8)[:7], "x.npy holds 28 bytes: expected 32 for OutputTensor; run this model there again"),
    "too many": ("x.bin", np.arange(9, dtype=np.float32), "x.bin holds 36 bytes: expected 32 for OutputTensor"),
    "half an element": ("x.bin", np.arange(30, dtype=np.uint8), "x.bin has 30 bytes, not a whole number of FLOAT32"),
    "nothing": ("x.bin", np.empty(0, np.uint8), "x.bin is empty: expected at least one FLOAT32 element of 4 bytes"),
    "text": ("x.txt", RIGHT, "x.txt cannot hold OutputTensor: expected a file that ends in .npy, .bin, .dat"),
    "archive": ("x.npz", RIGHT, "x.npz cannot hold OutputTensor: expected a file that ends in .npy, .bin, .dat"),
}


@pytest.mark.parametrize(("name", "values", "says"), REFUSED.values(), ids=REFUSED)
def test_files_that_do_not_fit(tmp_path: Path, command: Command, name: str, values: Any, says: str) -> None:
    (tmp_path / name).write_bytes(_made(tmp_path / f"made{'.npy' if 'np' in name else '.bin'}", values).read_bytes())
    assert f"dmlgather: {tmp_path}/{says}" in _refused(command, MODEL, tmp_path / name)


SECOND: Any = {
    "type": "dispatch",
    "dispatchable": "gather",
    "bindings": {"InputTensor": "table", "IndicesTensor": "reversed", "OutputTensor": "other"},
}
TWO = changed(
    (("resources", "reversed"), {"initialValuesDataType": "UINT32", "initialValues": [2, 1, 1, 0]}),
    (("resources", "other"), {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": 8, "value": 0}}),
    (("commands", 1), {"type": "writeFile", "resource": "output", "targetPath": "deep/first.npy"}),
    (("commands", 2), SECOND),
    (("commands", 3), {"type": "writeFile", "resource": "other", "targetPath": "second.bin"}),
)
"""Two dispatches whose outputs are written: the second's rows are the first's, reversed."""


@pytest.mark.parametrize("model", [MODEL, TWO], ids=["one dispatch", "two"])
@pytest.mark.parametrize("name", ["gone.npy", "gone"])
def test_a_path_that_does_not_exist_is_refused(tmp_path: Path, command: Command, model: Any, name: str) -> None:
    assert _refused(command, model, tmp_path / name) == f"dmlgather: {tmp_path / name} does not exist"


def test_a_folder_as_write_file_fills_it(tmp_path: Path, command: Command) -> None:
    made = tmp_path / "made"
    _made(made / "deep" / "first.npy", RIGHT.reshape(8))
    _made(made / "second.bin", RIGHT[::-1])
    ended = _against(command, TWO, made)
    equal = EQUAL.format("deep/first.npy") + EQUAL.format("second.bin").replace("commands[0]", "commands[2]")
    assert (ended.code, ended.out) == (0, equal)
    _made(made / "second.bin", RIGHT)
    ended = _against(command, TWO, made)
    assert (ended.code, "commands[2] 'gather': 4 of 8 elements differ between cpu and second.bin" in ended.out) == (1, True)


def test_a_folder_that_run_filled(tmp_path: Path, command: Command) -> None:
    model = write(tmp_path, TWO)
    assert command("run", "--device", "reference", "--output-dir", tmp_path / "made", model).code == 0
    ended = command("compare", "--devices", "cpu", "--against", tmp_path / "made", model)
    assert (ended.code, ended.out.count("equal on cpu, ")) == (0, 2)


def test_a_folder_that_save_filled(tmp_path: Path, command: Command) -> None:
    model = write(tmp_path, TWO)
    assert command("compare", "--devices", "cpu,reference", "--save", tmp_path / "case", model).code == 0
    ended = command("compare", "--devices", "cpu", "--against", tmp_path / "case", tmp_path / "case" / "case.json")
    names = [f"case.out{number}_gather.{device}.npy" for number in (0, 2) for device in ("cpu", "reference")]
    assert (ended.code, [name for name in names if name in ended.out]) == (0, names)


@pytest.mark.parametrize("devices", ["cpu", "cpu,reference"])
def test_a_file_per_dispatch_and_one_that_is_missing(tmp_path: Path, command: Command, devices: str) -> None:
    made, model = tmp_path / "made", write(tmp_path, TWO)
    _made(made / "out2_gather.npy", RIGHT[::-1])
    _made(made / "unrelated.npy", RIGHT)
    said = command.refused("compare", "--devices", devices, "--against", made, model)
    expected = "expected 'deep/first.npy' or 'out0_gather.npy' (or .bin, .dat): add the files. Or write a case with --save"
    assert f"{made} holds no output of commands[0] 'gather', {expected}" in said
    assert "commands[2]" not in said
    _made(made / "out0_gather.npy", RIGHT)
    assert command("compare", "--devices", devices, "--against", made, model).code == 0


def test_a_folder_without_outputs(tmp_path: Path, command: Command) -> None:
    (tmp_path / "made").mkdir()
    said = _refused(command, TWO, tmp_path / "made")
    assert "made holds no output of commands[0] 'gather', expected 'deep/first.npy' or 'out0_gather.npy'" in said
    assert "; of commands[2] 'gather', expected 'second.bin' or 'out2_gather.npy' (or .bin, .dat)" in said


def test_one_file_for_two_dispatches(tmp_path: Path, command: Command) -> None:
    said = _refused(command, TWO, _made(tmp_path / "x.npy", RIGHT))
    assert "has 2 dispatch commands: name a folder with a file for each" in said


def test_a_write_that_comes_before_the_next_dispatch(tmp_path: Path, command: Command) -> None:
    """Both dispatches write one resource: each file belongs to the dispatch before it."""
    model = changed((("commands", 2, "bindings", "OutputTensor"), "output"), (("commands", 3, "resource"), "output"), start=TWO)
    _made(tmp_path / "made" / "deep" / "first.npy", RIGHT)
    _made(tmp_path / "made" / "second.bin", RIGHT[::-1])
    assert _against(command, model, tmp_path / "made").code == 0


def test_a_saved_case_keeps_what_was_compared_with(tmp_path: Path, command: Command) -> None:
    case = tmp_path / "case"
    ended = _against(command, MODEL, _made(tmp_path / "x.npy", WRONG), "--save", case)
    assert ended.code == 1
    report = json.loads((case / "case.report.json").read_text())
    assert report["dispatches"][0]["outputs"] == {"cpu": "case.out0_gather.cpu.npy", "x.npy": "case.out0_gather.against0.npy"}
    assert np.load(case / "case.out0_gather.against0.npy").tolist() == WRONG.tolist()
    assert np.load(case / "case.out0_gather.cpu.npy").tolist() == ROWS


def test_outputs_from_elsewhere_are_never_overwritten(tmp_path: Path, command: Command) -> None:
    made = _made(tmp_path / "made" / "case.out0_gather.cpu.npy", WRONG)
    ended = _against(command, MODEL, tmp_path / "made", "--save", tmp_path / "made")
    assert (ended.code, "is an input, and would be overwritten" in ended.err) == (2, True)
    assert np.load(made).tolist() == WRONG.tolist()
    assert [path.name for path in made.parent.iterdir() if path.name != "model.json"] == [made.name]


def test_a_descriptor_has_no_inputs_to_go_with(tmp_path: Path, command: Command) -> None:
    said = _refused(command, GATHER, _made(tmp_path / "x.npy", RIGHT))
    assert f"{tmp_path / 'model.json'} is a single descriptor, which does not contain inputs" in said
    python = "(in Python: dg.compare(descriptor, *inputs, against=output))"
    assert f"Give the inputs of these outputs by --inputs FILE… {python}" in said
    assert "--save DIR instead of --against, run DIR/case.json elsewhere" in said


def test_the_way_that_the_refusal_names(tmp_path: Path, command: Command) -> None:
    """A descriptor becomes a case, which runs elsewhere (here: by `run`), and is compared with what came back."""
    case = tmp_path / "case"
    file = write(tmp_path, GATHER)
    assert command("compare", "--devices", "cpu,reference", "--seed", 3, "--save", case, file).code == 0
    assert command("run", "--device", "reference", "--output-dir", tmp_path / "back", case / "case.json").code == 0
    ended = command("compare", "--devices", "cpu", "--against", tmp_path / "back", case / "case.json")
    assert (ended.code, ended.out) == (0, EQUAL.format("case.replayed.npy"))


def test_one_device_is_enough_to_save_a_case(folder: Path, command: Command) -> None:
    for case, model in {"model": MODEL, "descriptor": GATHER}.items():
        saving = ("compare", "--devices", "reference", "--save", case, write(folder, model))
        report = command.report(Schema.COMPARISON, *saving)
        assert report["dispatches"][0]["outputs"] == {"reference": "case.out0_gather.reference.npy"}
        ended = command("compare", "--devices", "cpu", "--against", case, f"{case}/case.json")
        assert (ended.code, ended.out) == (0, EQUAL.format("case.out0_gather.reference.npy"))
    ended = command("compare", "--devices", "cpu", "--save", "other", write(folder, MODEL))
    assert (ended.code, ended.out) == (0, "commands[0] 'gather': run on cpu: 8 elements, compared with nothing\n")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("--devices cpu", "two different devices, got cpu; with --against or --save one is enough"),
        ("--devices cpu,gpu", "(GPU number N, from 0) or 'reference'"),
        ("--devices cpu,directml", "(GPU number N, from 0) or 'reference'"),
        ("--devices cuda,cuda", "cuda, cuda name cuda twice"),
        ("--devices= --against x.npy", "at least one device, got none"),
        ("--rtol 1e-3", "Invalid value for '--rtol': there is no tolerance, because these operators only copy elements"),
        ("--atol 1e-3", "Invalid value for '--atol': there is no tolerance, because these operators only copy elements"),
    ],
)
def test_options_that_compare_refuses(folder: Path, command: Command, options: str, says: str) -> None:
    _made(folder / "x.npy", RIGHT)
    assert says in command.refused("compare", *options.split(), write(folder, MODEL))


def test_help_names_no_tolerance(command: Command) -> None:
    assert not re.search("--[ra]tol", command("compare", "--help").out)


# With an ONNX model.


def _with_model(command: Command, folder: Path, change: int | None = None) -> tuple[object, ...]:
    """To compare the model of a gather with what `translate` wrote, of which the last index may be another."""
    source, target = write(folder, MODEL), folder / "model.onnx"
    assert command("translate", source, "-o", target).code == 0
    if change is not None:
        model = onnx.load(target)
        clip = next(node for node in model.graph.node if node.op_type == "Clip")
        bound = next(each for each in model.graph.initializer if each.name == clip.input[2])
        array = onnx.numpy_helper.to_array(bound) + np.array(change).astype(np.uint32)
        bound.CopyFrom(onnx.numpy_helper.from_array(array, bound.name))
        onnx.save(model, target)
    return "compare", source, "--against", target


def test_an_onnx_model_that_does_the_same(tmp_path: Path, command: Command) -> None:
    ended = command(*_with_model(command, tmp_path))
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("checked in onnxruntime ")
    assert without_known_bugs(ended.out).endswith(" index values, equal\n")


@pytest.mark.parametrize(
    ("change", "said"), [(-1, "output[0] must be "), (1, "the program raises nothing, and the model raises: ")]
)
def test_an_onnx_model_that_was_changed(change: int, said: str, tmp_path: Path, command: Command) -> None:
    compare = _with_model(command, tmp_path, change)
    ended = command(*compare)
    assert ended.code == 1
    assert ended.out.startswith("differs in onnxruntime ")
    assert ", for rows = [[" in ended.out
    report, again = (command.report(Schema.AGREEMENT, *compare, "--seed", 4, code=1) for _ in range(2))
    assert (report["verdict"], report["against"]) == ("different", str(tmp_path / "model.onnx"))
    assert report["difference"]["indices"]["rows"]
    assert again == report


@pytest.mark.parametrize("option", [("--devices", "cpu"), ("--trials", 3), ("--save", "case")])
def test_options_that_do_not_go_with_an_onnx_model(option: tuple[object, ...], tmp_path: Path, command: Command) -> None:
    said = command.refused(*_with_model(command, tmp_path), *option)
    assert "cannot be used with --against MODEL.onnx: leave it out" in said


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("m.onnx", None, "m.onnx does not exist"),
        ("m.onnx", b"no model", "m.onnx: is no ONNX model that can be read"),
        ("m.onnx", b"", "m.onnx: holds no graph: it is no ONNX model, or one that was cut off"),
    ],
)
def test_an_onnx_model_that_cannot_be_read(
    name: str, content: bytes | None, words: str, tmp_path: Path, command: Command
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    said = command.refused("compare", write(tmp_path, MODEL), "--against", tmp_path / name)
    assert words in said
    assert "internal error" not in said


def test_a_model_that_nothing_can_run_is_not_equal(tmp_path: Path, command: Command) -> None:
    text = """<ir_version: 8, opset_import: ["" : 13, "my" : 1]>
        g (float[3,2] InputTensor, uint32[1,4] IndicesTensor) => (float[4,2] y) { y = my.Gather(InputTensor, IndicesTensor) }"""
    ended = command("compare", write(tmp_path, GATHER), "--against", saved(tmp_path, text))
    assert (ended.code, ended.out.splitlines()[0]) == (1, "not checked")
