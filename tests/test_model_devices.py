"""Models on CUDA devices. Judges: the CPU and the reference."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dmlgather.calls import prepared
from dmlgather.comparing.dispatches import compare_model
from dmlgather.directml.dxdispatch.model_file import check_file
from dmlgather.model_runner import Dispatched, Printed, Runner
from tests import seeds
from tests.cli.command import EXAMPLES, Command, process
from tests.dxdispatch.models import GATHER, MODEL, PRINTED, changed, write
from tests.dxdispatch.random_chains import random_model

OWNED = changed(
    (("dispatchables", "gather", "desc", "InputTensor", "Flags"), "OWNED_BY_DML"),
    (("dispatchables", "gather", "bindings"), {"InputTensor": "table"}),
    (("commands", 0, "bindings"), {"IndicesTensor": "rows", "OutputTensor": "output"}),
)


@pytest.mark.gpu(devices=2)
@pytest.mark.parametrize("model", [MODEL, OWNED], ids=["plain", "owned"])
def test_buffers_and_launches_use_the_device(tmp_path: Path, cupy: Any, monkeypatch: pytest.MonkeyPatch, model: object) -> None:
    launched, launch = list[int](), cupy.cuda.driver.launchKernel

    def counted(*arguments: Any) -> None:
        launched.append(cupy.cuda.runtime.getDevice())
        launch(*arguments)

    monkeypatch.setattr(cupy.cuda.driver, "launchKernel", counted)
    prepared.forget()  # keeps the replaced function
    runner = Runner(check_file(write(tmp_path, model)), "cuda:1")
    assert {(type(buffer), buffer.device.id) for buffer in runner.buffers.values()} == {(cupy.ndarray, 1)}
    dispatched, printed = runner.run(iterations=3)
    assert isinstance(dispatched, Dispatched)
    assert dispatched.iterations == 3
    assert dispatched.gpu_ms is not None
    assert isinstance(printed, Printed)
    assert printed.values.tolist() == [1, 2, 3, 4, 3, 4, 5, 6]
    assert launched == [1] * 4, "one before anything is timed"
    assert cupy.cuda.runtime.getDevice() == 0


@pytest.mark.gpu
def test_random_models_print_the_same_on_all_devices(tmp_path: Path) -> None:
    for seed in range(1, 12, 2):
        model = check_file(write(tmp_path, random_model(seed)))
        cuda, cpu, reference = (
            [event.values.tobytes() for event in Runner(model, device).run() if isinstance(event, Printed)]
            for device in ("cuda", "cpu", "reference")
        )
        assert cuda == cpu == reference != []


@pytest.mark.gpu(devices=2)
def test_compare_model_agrees_with_a_second_gpu(tmp_path: Path) -> None:
    (found,) = compare_model(check_file(write(tmp_path, MODEL)), ["cuda:1", "cpu", "reference"])
    assert found.comparison.equal
    assert str(found.comparison) == "equal on cuda:1, cpu, reference: 8 elements, bit for bit"


@pytest.mark.gpu
def test_a_model_larger_than_the_gpus_memory_is_refused(
    cupy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The model's resources have 24, 16 and 32 bytes. CuPy's pool has 10 free bytes of the GPU."""
    file = write(tmp_path, MODEL)
    monkeypatch.setattr(cupy, "get_default_memory_pool", lambda: SimpleNamespace(free_bytes=lambda: 10))
    for free, code in ((61, 2), (62, 0)):
        monkeypatch.setattr(cupy.cuda.runtime, "memGetInfo", lambda free=free: (free, 2**40))
        ended = Command(capfd)("run", "--device", "cuda", file)
        assert (ended.code, ended.out) == (code, PRINTED if code == 0 else "")
        said = "needs 72 bytes on cuda:0, and 71 bytes are free: cuda:0: 3 resources ('output' alone 32 bytes), 72 bytes"
        assert (said in ended.err) is (code == 2)


@pytest.mark.gpu
def test_the_command_uses_the_gpu_by_default(cupy: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    ended = Command(capfd)("run", write(tmp_path, MODEL))
    assert (ended.code, ended.out) == (0, PRINTED)
    device, timing = ended.err.splitlines()
    assert device == f"Running on '{cupy.cuda.runtime.getDeviceProperties(0)['name'].decode()}'"
    times = r"\d+\.\d{4} ms median"
    assert re.fullmatch(rf"Dispatch 'gather': 1 iteration, {times} \(CPU\), {times} \(GPU\)", timing)
    ended = Command(capfd)("compare", write(tmp_path, GATHER))
    assert (ended.code, "equal on cuda, cpu, reference" in ended.out) == (0, True)
    assert "left out" not in ended.err


@pytest.mark.gpu
def test_the_examples_give_the_same_on_a_gpu(capfd: pytest.CaptureFixture[str]) -> None:
    command = Command(capfd)
    for file in sorted(EXAMPLES.glob("*.json")):
        checked = check_file(file)
        if checked.kind == "model" and checked.ok:
            on_gpu, on_cpu = (command("run", "--device", device, file) for device in ("cuda", "cpu"))
            assert (on_gpu.code, on_gpu.out) == (0, on_cpu.out)
            assert "ms median (GPU)" in on_gpu.err
        if checked.ok:
            inputs = () if checked.kind == "model" else ("--seed", seeds.seed(32))
            ended = command("compare", "--devices", "cuda,cpu,reference", *inputs, file)
            assert ended.code == 0
            assert "equal on cuda, cpu, reference" in ended.out


@pytest.mark.gpu
def test_a_model_with_an_owned_input_runs_on_a_gpu(tmp_path: Path) -> None:
    ended = process("run", "--device", "cuda", write(tmp_path, OWNED))
    assert (ended.code, ended.out) == (0, PRINTED)
