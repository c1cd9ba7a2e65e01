"""DxDispatch models whose dispatches run as few launches: all that they show is what they show without, bit for bit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from dmlgather.directml.dxdispatch.model_file import CheckedFile, check_file
from dmlgather.model_fusion import dispatch_fusing, fuse_model
from dmlgather.model_runner import Dispatched, Event, Printed, Runner, Written
from tests.cli.command import EXAMPLES
from tests.dxdispatch.models import check, write
from tests.dxdispatch.random_chains import random_model
from tests.kernels.host_driver import installed
from tests.noticing import BrokenPrograms
from tests.test_model_devices import ModelDriver

BACKWARDS: dict[str, Any] = {
    "type": "DML_OPERATOR_SLICE1",
    "desc": {
        "InputTensor": {"DataType": "UINT32", "Sizes": [8]},
        "OutputTensor": {"DataType": "UINT32", "Sizes": [8]},
        "InputWindowOffsets": [0],
        "InputWindowSizes": [8],
        "InputWindowStrides": [-1],
    },
}
GATHER: dict[str, Any] = {
    "type": "DML_OPERATOR_GATHER",
    "desc": {
        "InputTensor": {"DataType": "UINT32", "Sizes": [8]},
        "IndicesTensor": {"DataType": "UINT32", "Sizes": [8]},
        "OutputTensor": {"DataType": "UINT32", "Sizes": [8]},
        "Axis": 0,
        "IndexDimensions": 1,
    },
}


def dispatch(name: str, data: Any, output: Any, indices: Any = None) -> dict[str, Any]:
    found = {} if indices is None else {"IndicesTensor": indices}
    return {"type": "dispatch", "dispatchable": name, "bindings": {"InputTensor": data, "OutputTensor": output, **found}}


def shown(resource: str) -> dict[str, Any]:
    return {"type": "print", "resource": resource}


def made(*commands: dict[str, Any], size: int = 8, **dispatchables: Any) -> dict[str, Any]:
    """A model of the resources a … d of 8 elements, or of `size`: and the dispatchables flip and gather, and others."""
    resources: dict[str, Any] = {
        name: {"initialValuesDataType": "UINT32", "initialValues": {"valueCount": size, "valueStart": start, "valueDelta": 1}}
        for name, start in (("a", 10), ("b", 20), ("c", 30), ("d", 40))
    }
    resources["rows"] = {"initialValuesDataType": "UINT32", "initialValues": [7, 7, 0, 1, 9, 3, 2, 5]}
    return {
        "resources": resources,
        "dispatchables": {"flip": BACKWARDS, "gather": GATHER, **dispatchables},
        "commands": list(commands),
    }


def launches(model: CheckedFile) -> list[tuple[str, ...]]:
    """The dispatchables of each launch."""
    fused = fuse_model(model)
    return [fused.names(number) for number in fused.launches]


def seen(events: Iterator[Event]) -> list[Any]:
    """What a run shows."""
    return [
        (event.resource, event.values.tobytes()) if isinstance(event, Printed) else (event.resource, event.file.read_bytes())
        for event in events
        if isinstance(event, Printed | Written)
    ]


def same(model: CheckedFile, folder: Path, device: str = "cpu") -> list[Any]:
    """What a model shows, fused or not."""
    found = seen(Runner(model, device, folder / "fused", fuse_model(model)).run())
    assert found == seen(Runner(model, "reference", folder / "plain").run())
    return found


@pytest.fixture
def gpu() -> Iterator[ModelDriver]:
    with installed(ModelDriver()) as stand_in:
        yield stand_in


@pytest.mark.parametrize(("device", "count"), [("cpu", 30), ("reference", 10)])
def test_random_models(tmp_path: Path, device: str, count: int) -> None:
    sizes: Counter[int] = Counter()
    for seed in (*range(count), 295):  # in which indices are read through a value that lies in its resource anyway
        model = check_file(write(tmp_path, random_model(seed)))
        same(model, tmp_path, device)
        sizes.update(len(each) for each in launches(model))
    assert max(sizes) >= 3


def test_random_models_on_a_device(tmp_path: Path, gpu: ModelDriver) -> None:
    for seed in range(1, 12, 2):
        same(check_file(write(tmp_path, random_model(seed))), tmp_path, "cuda")


def judge(name: str, seed: int) -> tuple[str, str]:
    """Without the look at what is overwritten, a random model shows other values, or a launch would read what it writes."""

    def wrong() -> str:
        try:
            same(check_file(write(Path(folder), random_model(seed))), Path(folder))
        except (AssertionError, ValueError) as error:
            return f"{type(error).__name__}: {error}"
        return ""

    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        sound = wrong()
        patch.setattr(dispatch_fusing._Reading, "_moved_too_far", lambda *_: ())
        return sound, wrong()


PROGRAMS = BrokenPrograms("tests/test_model_fusion.py", ["no look at what is overwritten"], judge)


def test_a_wrong_merge_is_noticed() -> None:
    PROGRAMS.check("no look at what is overwritten")


def test_the_example(tmp_path: Path) -> None:
    model = check_file(EXAMPLES / "chain.json")
    assert launches(model) == [("gather", "reverse", "crop")]
    ((resource, values),) = same(model, tmp_path)
    assert (resource, len(values)) == ("output", 36)
    fused = fuse_model(model)
    assert str(fused) == "Fused: 3 dispatches in 1 launch, 192 bytes less read and written"
    # The gather reads 12 bytes of indices, 48 of the table, and writes 48; the others read and write 48 and 36 each.
    assert fused.fused.bytes_moved == 12 + 36 + 36


def test_what_is_printed_between_stays(tmp_path: Path) -> None:
    model = check(tmp_path, made(dispatch("flip", "a", "b"), shown("b"), dispatch("flip", "b", "c"), shown("c")))
    assert launches(model) == [("flip",), ("flip",)]
    (cut,) = fuse_model(model).fused.cuts
    assert (cut.code, cut.reason) == ("output", "'b' is printed or written to a file behind it")
    same(model, tmp_path)


def test_what_is_written_to_a_file_stays(tmp_path: Path) -> None:
    dump = {"type": "writeFile", "resource": "b", "targetPath": "b.npy"}
    model = check(tmp_path, made(dispatch("flip", "a", "b"), dispatch("flip", "b", "c"), dump, shown("c")))
    assert launches(model) == [("flip",), ("flip",)]
    same(model, tmp_path)


def test_what_is_only_read_is_not_written(tmp_path: Path) -> None:
    model = check(tmp_path, made(dispatch("flip", "a", "b"), dispatch("gather", "b", "c", "rows"), shown("c")))
    assert launches(model) == [("flip", "gather")]
    same(model, tmp_path)
    runner = Runner(model, fused=fuse_model(model))
    events = [event for event in runner.run(iterations=3) if isinstance(event, Dispatched)]
    assert [(event.dispatchables, event.iterations) for event in events] == [(("flip", "gather"), 3)]
    assert runner.values("b").tolist() == [*range(20, 28)]


def test_a_view_runs_with_each_of_its_readers(tmp_path: Path) -> None:
    model = made(
        dispatch("flip", "a", "b"), dispatch("gather", "b", "c", "rows"), dispatch("flip", "b", "d"), shown("c"), shown("d")
    )
    assert launches(check(tmp_path, model)) == [("flip", "gather"), ("flip", "flip")]
    same(check(tmp_path, model), tmp_path)


def test_an_input_that_is_overwritten_meanwhile(tmp_path: Path) -> None:
    """a is flipped into b; then c overwrites a; then b is read."""
    model = made(dispatch("flip", "a", "b"), dispatch("flip", "c", "a"), dispatch("flip", "b", "d"), shown("d"), shown("a"))
    checked = check(tmp_path, model)
    assert launches(checked) == [("flip",), ("flip",), ("flip",)]
    assert fuse_model(checked).fused.cuts[0].reason == "'a', which it is made of, is overwritten by dispatch 'flip'"
    same(checked, tmp_path)


def test_two_resources_in_turns(tmp_path: Path) -> None:
    """The launch would write what it reads."""
    model = check(tmp_path, made(dispatch("flip", "a", "b"), dispatch("gather", "b", "a", "rows"), shown("a")))
    assert launches(model) == [("flip",), ("gather",)]
    same(model, tmp_path)


def test_what_is_overwritten_unread_does_not_run(tmp_path: Path) -> None:
    model = check(tmp_path, made(dispatch("flip", "a", "b"), dispatch("gather", "c", "b", "rows"), shown("b")))
    assert launches(model) == [("gather",)]
    assert "; 1 dispatch left out, whose results nothing reads" in str(fuse_model(model))
    same(model, tmp_path)


def test_a_result_that_nothing_shows_is_written(tmp_path: Path) -> None:
    model = check(tmp_path, made(dispatch("flip", "a", "b"), dispatch("flip", "b", "c")))
    assert launches(model) == [("flip", "flip")]
    runner = Runner(model, fused=fuse_model(model))
    list(runner.run())
    assert runner.values("c").tolist() == [*range(10, 18)]


def test_a_read_of_more_than_was_written(tmp_path: Path) -> None:
    """Of twelve elements that the second dispatch reads, the first one wrote eight."""
    longer = {**BACKWARDS, "desc": {**BACKWARDS["desc"], "InputTensor": {"DataType": "UINT32", "Sizes": [12]},
                                    "InputWindowOffsets": [4]}}  # fmt: skip
    model = check(tmp_path, made(dispatch("flip", "a", "b"), dispatch("longer", "b", "c"), shown("c"), size=12, longer=longer))
    assert launches(model) == [("flip",), ("longer",)]
    same(model, tmp_path)


@pytest.mark.parametrize(("read", "fuses"), [([2, 1], True), ([1, 1], False)])
def test_a_write_with_gaps(tmp_path: Path, read: list[int], fuses: bool) -> None:
    """Rows of one element, 2 apart. Read likewise, what was written is read; read one after the other, also what lies between."""
    tensor: dict[str, Any] = {"DataType": "UINT32", "Sizes": [8, 1]}
    windows: dict[str, Any] = {"InputWindowOffsets": [0, 0], "InputWindowSizes": [8, 1], "InputWindowStrides": [-1, 1]}
    writing = {**BACKWARDS, "desc": {**windows, "InputTensor": tensor, "OutputTensor": {**tensor, "Strides": [2, 1]}}}
    reading = {**BACKWARDS, "desc": {**windows, "InputTensor": {**tensor, "Strides": read}, "OutputTensor": tensor}}
    commands = dispatch("writing", "a", "b"), dispatch("reading", "b", "c"), shown("c")
    model = check(tmp_path, made(*commands, size=16, writing=writing, reading=reading))
    assert launches(model) == ([("writing", "reading")] if fuses else [("writing",), ("reading",)])
    same(model, tmp_path)


def test_a_part_of_what_was_written(tmp_path: Path) -> None:
    """The second dispatch reads four of the eight elements, from byte 16 on."""
    sizes = {"DataType": "UINT32", "Sizes": [4]}
    half = {**BACKWARDS, "desc": {"InputTensor": sizes, "OutputTensor": sizes, "InputWindowOffsets": [0], "InputWindowSizes": [4],
                                  "InputWindowStrides": [-1]}}  # fmt: skip
    behind = {"name": "b", "elementOffset": 4}
    model = check(tmp_path, made(dispatch("flip", "a", "b"), dispatch("half", behind, "c"), shown("c"), half=half))
    assert launches(model) == [("flip", "half")]
    ((_, values),) = same(model, tmp_path)
    assert [*memoryview(values).cast("I")] == [10, 11, 12, 13, 34, 35, 36, 37]
