"""Memory is estimated before the first byte: all devices, inputs and outputs together."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dmlgather.backends import memory, reference
from dmlgather.backends.devices import CPU, Device
from dmlgather.backends.memory import MemoryShare, TooLargeError, check_memory
from dmlgather.cli import progress
from dmlgather.comparing.dispatches import check_model_memory, compare_model
from dmlgather.directml.dxdispatch.model_file import check_file
from dmlgather.model_runner import Runner, memory_shares
from dmlgather.plan import IndexPlan
from tests.cli.command import Command
from tests.dxdispatch.models import GATHER, MODEL, changed, write

MIB = 2**20


def _model(folder: Path, rows: int = 2**18) -> Path:
    """A slice of `rows` rows of 4 bytes: two resources."""
    values = {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": rows, "value": 1}}
    tensor = {"DataType": "FLOAT32", "Sizes": [rows]}
    window = {"InputWindowOffsets": [0], "InputWindowSizes": [rows], "InputWindowStrides": [-1]}
    desc = {"InputTensor": tensor, "OutputTensor": tensor, **window}
    model = {
        "resources": {"x": values, "y": values},
        "dispatchables": {"slice": {"type": "DML_OPERATOR_SLICE1", "desc": desc}},
        "commands": [{"type": "dispatch", "dispatchable": "slice", "bindings": {"InputTensor": "x", "OutputTensor": "y"}}],
    }
    return write(folder, model)


def _fails(*_: object, **__: object) -> Any:
    raise AssertionError("something was allocated")


COMPARED = ("compare", "--devices", "cpu,reference")
RUN = ("run", "--device", "cpu")


def test_nothing_is_allocated_before_a_refusal(tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Runner, "__init__", _fails)
    assert command.refused(*COMPARED, "--memory-limit", "3.9MiB", _model(tmp_path)) == (
        f"dmlgather: comparing {tmp_path}/model.json needs 4 MiB of host memory, and 3.9 MiB are allowed: "
        "cpu: 2 resources ('x' alone 1 MiB), 2 MiB; reference: 2 resources ('x' alone 1 MiB), 2 MiB; fix: use smaller tensors "
        "or raise --memory-limit"
    )
    assert command(*COMPARED, "--memory-limit", "3MiB", "--save", tmp_path / "case", _model(tmp_path)).code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["model.json"]
    said = command.refused(*RUN, "--memory-limit", "1MB", _model(tmp_path))
    assert "needs 2 MiB of host memory, and 976.6 KiB are allowed" in said


def test_a_model_that_fits_runs(tmp_path: Path, command: Command) -> None:
    assert command(*RUN, "--memory-limit", "2 MiB", _model(tmp_path)).code == 0
    assert command(*COMPARED, "--memory-limit", "4MiB", _model(tmp_path)).code == 0


def test_free_memory_is_the_limit_where_none_is_given(tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each device alone would fit."""
    monkeypatch.setattr(memory, "available_memory", lambda: 3 * MIB)
    said = "needs 4 MiB of host memory, and 3 MiB are free"
    assert said in command.refused(*COMPARED, _model(tmp_path))
    assert said in command.refused(*COMPARED, "--memory-limit", "1TiB", _model(tmp_path))
    assert command(*RUN, _model(tmp_path)).code == 0


def test_random_inputs_are_not_made_before_a_refusal(tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dmlgather.directml.dxdispatch.writing.random_inputs", _fails)
    sizes = {"InputTensor": [3, 64], "IndicesTensor": [1, 2**22], "OutputTensor": [2**22, 64]}
    file = write(tmp_path, changed(*((("desc", name, "Sizes"), given) for name, given in sizes.items()), start=GATHER))
    said = command.refused(*COMPARED, "--memory-limit", "2GiB", file)
    assert "needs 2.031 GiB of host memory, and 2 GiB are allowed" in said


@pytest.mark.parametrize("size", ["", "x", "-1", "5 foo", "1e9", "2GB!", "1.2.3MB"])
def test_sizes_that_are_none(tmp_path: Path, command: Command, size: str) -> None:
    said = command.refused("run", f"--memory-limit={size}", write(tmp_path, MODEL))
    assert "expected a number of bytes such as 500MiB or 2GB, got" in said


@pytest.mark.parametrize(
    ("size", "fits"), [("2097152", True), ("2097151", False), ("2mib", True), ("2.1MB", True), ("2MB", False)]
)
def test_sizes(tmp_path: Path, command: Command, size: str, fits: bool) -> None:
    assert command(*RUN, "--memory-limit", size, _model(tmp_path)).code == (0 if fits else 2)


def test_outputs_to_compare_with_count(tmp_path: Path, command: Command) -> None:
    np.save(tmp_path / "x.npy", np.ones(2**18, np.float32))
    options = ("compare", "--devices", "cpu", "--against", tmp_path / "x.npy", "--memory-limit")
    assert "outputs to compare with, 1 MiB" in command.refused(*options, "2.5MiB", _model(tmp_path))
    assert command(*options, "3MiB", _model(tmp_path)).code == 0


def test_owned_inputs_and_reordered_files_count(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.asfortranarray(np.zeros((3, 2), np.float32)))
    model = changed(
        (("resources", "table"), {"initialValues": {"sourcePath": "x.npy"}}),
        (("dispatchables", "gather", "desc", "InputTensor", "Flags"), "OWNED_BY_DML"),
        (("dispatchables", "gather", "bindings"), {"InputTensor": "table"}),
        (("commands", 0, "bindings"), {"IndicesTensor": "rows", "OutputTensor": "output"}),
    )
    cpu, scratch = memory_shares(check_file(write(tmp_path, model)), ["cpu"])
    assert (cpu.bytes, scratch.bytes) == (24 + 16 + 32 + 24, 24)


def _taken(work: Callable[[], object]) -> int:
    """The most bytes that work takes: NumPy tells tracemalloc of every allocation."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_the_estimate_bounds_what_is_taken(tmp_path: Path) -> None:
    model = check_file(_model(tmp_path, 2**22))
    needed = sum(share.bytes for share in memory_shares(model, ["cpu"]))
    runners: list[Runner] = []

    def run() -> None:
        runners.append(Runner(model, "cpu"))  # which is kept
        list(runners[0].run())

    assert needed == 2 * 2**24
    assert needed <= _taken(run) < needed + 2**24


def test_comparing_takes_what_was_estimated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where every element differs. The reference is spoilt, and does nothing else: it would take minutes."""
    monkeypatch.setattr(reference, "run", lambda *_: None)
    model, needed = check_file(_model(tmp_path, 2**23)), 4 * 2**25
    check_model_memory(model, ["cpu", "reference"], None, needed)
    with pytest.raises(TooLargeError, match="needs 128 MiB"):
        check_model_memory(model, ["cpu", "reference"], None, needed - 1)
    compared: list[Any] = []
    taken = _taken(lambda: compared.extend(compare_model(model, ["cpu", "reference"])))
    assert [found.comparison.differing for found in compared] == [2**23]
    assert taken < needed + 2**25  # the blocks in which outputs are compared


def test_each_gpu_has_its_own_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Device("cuda", 1)
    monkeypatch.setattr(memory, "free_memory", {CPU: 10 * MIB, gpu: 5 * MIB}.__getitem__)
    check_memory("it", [MemoryShare(CPU, 9 * MIB, "a"), MemoryShare(gpu, 5 * MIB, "b")], None, ["c"])
    with pytest.raises(TooLargeError, match=r"^it needs 6 MiB on cuda:1, and 5 MiB are free: b, 6 MiB; fix: c$"):
        check_memory("it", [MemoryShare(CPU, 9 * MIB, "a"), MemoryShare(gpu, 6 * MIB, "b")], 10 * MIB, ["c"])


def test_a_gpus_resources_pass_through_host_memory(tmp_path: Path) -> None:
    shares = memory_shares(check_file(_model(tmp_path)), ["cuda:1", "cpu", "cuda"])
    assert [(str(share.device), share.bytes) for share in shares] == [
        ("cuda:1", 2 * MIB), ("cpu", 2 * MIB), ("cuda:0", 2 * MIB), ("cpu", 2 * MIB), ("cpu", 0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        (["compare", "--devices", "cpu,reference"], "use smaller tensors"),
        (["compare", "--devices", "cpu,reference", "--against", "ones.npy"], "leave it out of --devices"),
        (["run", "--device", "reference"], "name another --device"),
    ],
)
def test_the_reference_says_how_long_it_takes(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch, arguments: list[str], remedy: str
) -> None:
    monkeypatch.setattr(progress, "SLOW", 0)
    monkeypatch.setattr(reference, "REPORTED", 0)
    monkeypatch.chdir(tmp_path)
    np.save("ones.npy", np.ones(2**16, np.float32))
    ended = command(*arguments, _model(tmp_path, 2**16))
    assert ended.code == 0
    (line,) = [line for line in ended.err.splitlines() if line.startswith("reference: about ")]
    assert line.endswith(f" for {2**16} elements, at the rate of the first {reference.BLOCK}; {remedy} where that is too long")


def test_fewer_devices_help_only_where_one_is_left_to_leave_out(tmp_path: Path) -> None:
    model = check_file(_model(tmp_path))
    for devices, against, fewer in ((["cpu", "reference"], None, False), (["cpu", "reference"], {}, True), (["cpu"], {}, False)):
        with pytest.raises(TooLargeError) as raised:
            check_model_memory(model, devices, against, 1)
        said = "fix: compare fewer --devices at a time, use" if fewer else "fix: use"
        assert f"{said} smaller tensors or raise --memory-limit" in str(raised.value)


def test_little_work_says_nothing(tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "SLOW", 0)
    monkeypatch.setattr(reference, "REPORTED", 0)
    assert command(*COMPARED, write(tmp_path, MODEL)).err == ""
    assert "about" not in command("run", "--device", "reference", write(tmp_path, MODEL)).err


def test_the_bar_of_the_reference_is_for_terminals(tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(reference, "REPORTED", 0)
    ended = command(*COMPARED, _model(tmp_path, 2**16))
    assert (ended.code, "reference" in ended.err) == (0, True)
    assert ended.out == f"commands[0] 'slice': equal on cpu, reference: {2**16} elements, bit for bit\n"


@pytest.mark.parametrize(
    ("seconds", "says"),
    [(0.51, "0.51 s"), (40, "40 s"), (119, "119 s"), (120, "2 min"), (7199, "120 min"), (12600, "3.5 h")],
)
def test_durations(seconds: float, says: str) -> None:
    assert progress.duration(seconds) == says


def test_the_reference_reports_every_run(monkeypatch: pytest.MonkeyPatch) -> None:
    block = reference.BLOCK
    count = 2 * block + 5
    plan = IndexPlan(shape=(count,), element_bytes=1, out_extent=count, out_offset=0, out_strides=(1,),
                     in_extent=count, in_offset=0, in_strides=(1,))  # fmt: skip
    data, out = np.arange(count).astype(np.uint8), np.zeros(count, np.uint8)
    for pause, between in ((0, [(block, count), (2 * block, count)]), (1e9, [])):
        seen: list[tuple[int, int]] = []
        monkeypatch.setattr(reference, "REPORTED", pause)
        with reference.watched(lambda *told, seen=seen: seen.append(told)):
            reference.run(plan, data, None, out)
        reference.run(plan, data, None, out)
        assert seen == [(0, count), *between, (count, count)]
        assert (out == data).all()
