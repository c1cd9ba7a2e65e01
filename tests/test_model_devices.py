"""Models on CUDA devices, over the driver that is not one (tests/test_operator_devices.py), and on a GPU where ci/gpu runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from dmlgather.comparing.dispatches import compare_model
from dmlgather.directml.dxdispatch.model_file import check_file
from dmlgather.model_runner import Dispatched, Printed, Runner
from tests import seeds
from tests.cli.command import EXAMPLES, Command, process
from tests.dxdispatch.models import GATHER, MODEL, PRINTED, changed, write
from tests.dxdispatch.random_chains import random_model
from tests.kernels.host_driver import installed
from tests.test_operator_devices import ArrayDriver, DeviceArray

OWNED = changed(
    (("dispatchables", "gather", "desc", "InputTensor", "Flags"), "OWNED_BY_DML"),
    (("dispatchables", "gather", "bindings"), {"InputTensor": "table"}),
    (("commands", 0, "bindings"), {"IndicesTensor": "rows", "OutputTensor": "output"}),
)


class ModelDriver(ArrayDriver):
    """An ArrayDriver with events, whose times it makes up, and names of devices."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[str] = []
        untimed = self.cuda.Event
        self.cuda.Event = lambda **more: (
            untimed(**more)
            if more
            else SimpleNamespace(
                record=lambda: self.events.append("record"), synchronize=lambda: self.events.append("synchronize")
            )
        )
        self.cuda.get_elapsed_time = lambda first, last: 0.25
        self.free = 2**30

    def memGetInfo(self) -> tuple[int, int]:  # noqa: N802 - CUDA's name
        return self.free, 2**40

    def get_default_memory_pool(self) -> SimpleNamespace:
        return SimpleNamespace(free_bytes=lambda: 10)

    def getDeviceProperties(self, number: int) -> dict[str, bytes]:  # noqa: N802 - CUDA's name
        return {"name": f"Stand-in {number}".encode()}


@pytest.fixture
def gpu() -> Iterator[ModelDriver]:
    with installed(ModelDriver()) as stand_in:
        yield stand_in


@pytest.mark.parametrize("model", [MODEL, OWNED], ids=["plain", "owned"])
def test_resources_live_on_the_device(tmp_path: Path, gpu: ModelDriver, model: object) -> None:
    runner = Runner(check_file(write(tmp_path, model)), "cuda:1")
    assert {type(buffer) for buffer in runner.buffers.values()} == {DeviceArray}
    dispatched, printed = runner.run(iterations=3)
    assert isinstance(dispatched, Dispatched)
    assert (dispatched.iterations, dispatched.gpu_ms) == (3, 0.25)
    assert isinstance(printed, Printed)
    assert printed.values.tolist() == [1, 2, 3, 4, 3, 4, 5, 6]
    assert gpu.events == ["record", "record", "synchronize"] * 3
    assert set(gpu.launched_on) == {1}
    assert len(gpu.launched_on) == 4  # one before anything is timed


def test_random_models(tmp_path: Path, gpu: ModelDriver) -> None:
    for seed in range(1, 12, 2):
        model = check_file(write(tmp_path, random_model(seed)))
        cuda, cpu, reference = (
            [event.values.tobytes() for event in Runner(model, device).run() if isinstance(event, Printed)]
            for device in ("cuda", "cpu", "reference")
        )
        assert cuda == cpu == reference != []


def test_comparing_with_a_device(tmp_path: Path, gpu: ModelDriver) -> None:
    (found,) = compare_model(check_file(write(tmp_path, MODEL)), ["cuda:1", "cpu", "reference"])
    assert found.comparison.equal
    assert str(found.comparison) == "equal on cuda:1, cpu, reference: 8 elements, bit for bit"


def test_a_gpu_without_enough_memory(gpu: ModelDriver, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The model's resources are 24, 16 and 32 bytes; 10 of the GPU's bytes lie free in CuPy's pool."""
    file = write(tmp_path, MODEL)
    gpu.free = 61
    ended = Command(capfd)("run", "--device", "cuda:1", file)
    assert (ended.code, ended.out) == (2, "")
    assert "needs 72 bytes on cuda:1, and 71 bytes are free: cuda:1: 3 resources ('output' alone 32 bytes), 72 bytes" in ended.err
    gpu.free = 62
    assert Command(capfd)("run", "--device", "cuda:1", file).out == PRINTED
    assert set(gpu.launched_on) == {1}


def test_the_command_takes_the_gpu_by_itself(gpu: ModelDriver, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    ended = Command(capfd)("run", write(tmp_path, MODEL))
    assert (ended.code, ended.out) == (0, PRINTED)
    device, timing = ended.err.splitlines()
    assert device == "Running on 'Stand-in 0'"
    assert re.fullmatch(r"Dispatch 'gather': 1 iteration, \d+\.\d{4} ms median \(CPU\), 0\.2500 ms median \(GPU\)", timing)
    ended = Command(capfd)("compare", write(tmp_path, GATHER))
    assert (ended.code, "equal on cuda, cpu, reference" in ended.out) == (0, True)
    assert "left out" not in ended.err


@pytest.mark.gpu
def test_a_gpu_runs_the_examples() -> None:
    for file in sorted(EXAMPLES.glob("*.json")):
        checked = check_file(file)
        if checked.kind == "model" and checked.ok:
            on_gpu, on_cpu = (process("run", "--device", device, file) for device in ("cuda", "cpu"))
            assert (on_gpu.code, on_gpu.out) == (0, on_cpu.out)
            assert "ms median (GPU)" in on_gpu.err
        if checked.ok:
            inputs = () if checked.kind == "model" else ("--seed", seeds.seed(32))
            ended = process("compare", "--devices", "cuda,cpu,reference", *inputs, file)
            assert ended.code == 0
            assert "equal on cuda, cpu, reference" in ended.out


@pytest.mark.gpu
def test_an_owned_input_on_a_gpu(tmp_path: Path) -> None:
    ended = process("run", "--device", "cuda", write(tmp_path, OWNED))
    assert (ended.code, ended.out) == (0, PRINTED)
