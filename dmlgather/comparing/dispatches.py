"""Run a model on several devices in step and compare each dispatch's output bit for bit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends import arrays
from dmlgather.backends.devices import CPU
from dmlgather.comparing.comparison import POISON, Comparison, check_devices
from dmlgather.comparing.differences import Tracer, differences
from dmlgather.directml.dxdispatch.commands import Dispatch
from dmlgather.directml.dxdispatch.model_file import CheckedFile
from dmlgather.model_runner import PreparedDispatch, Runner, elements


@dataclass(frozen=True)
class ComparedDispatch:
    """What comparing one dispatch found. command: its number among the model's commands."""

    command: int
    dispatchable: str
    comparison: Comparison


def compare_model(model: CheckedFile, devices: Sequence[str]) -> Iterator[ComparedDispatch]:
    """Run each dispatch of `model` on every device, each on its own resources, and compare the outputs.

    devices: at least two different ones of "cpu", "cuda", "cuda:N", "reference"; ValueError for fewer. Raises as `Runner` does.
    """
    check_devices(devices)
    runners = [Runner(model, device) for device in devices]
    for number, command in enumerate(model.commands):
        if isinstance(command, Dispatch):
            steps = [runner.step(command) for runner in runners]
            outputs = [
                _output(runner, step, POISON - rank) for rank, (runner, step) in enumerate(zip(runners, steps, strict=True))
            ]
            found = differences(devices, outputs, partial(_tracer, runners[0], steps[0]))
            desc, size, nobody = steps[0].dispatchable.desc, outputs[0].size, (None,) * len(runners)
            comparison = Comparison(desc, tuple(devices), size, found, nobody, tuple(outputs))
            yield ComparedDispatch(number, command.dispatchable, comparison)


def _output(runner: Runner, step: PreparedDispatch, poison: int) -> NDArray[Any]:
    """The output's elements after running the step over poison, shape Sizes."""
    tensor = step.dispatchable.desc.tensor(step.dispatchable.desc.operator.output)
    before = _on_host(runner, step.out).copy()
    width = tensor.data_type.bytes
    elements(before, tensor).view(f"u{width}")[...] = int.from_bytes(bytes([poison]) * width)
    with runner.device.current():
        step.out[...] = arrays.move(before, CPU, runner.device.memory)
        step.run()
    return np.ascontiguousarray(elements(_on_host(runner, step.out), tensor)).reshape(tensor.sizes)


def _tracer(runner: Runner, step: PreparedDispatch) -> Tracer:
    """What belongs where in the output, by the first device's inputs."""
    desc = step.dispatchable.desc
    tensors = [desc.tensor(field) for field in desc.operator.inputs]
    inputs = [elements(_on_host(runner, buffer), tensor) for buffer, tensor in zip(step.inputs, tensors, strict=True)]
    return Tracer(desc, step.operator.lower, inputs)


def _on_host(runner: Runner, buffer: object) -> NDArray[np.uint8]:
    return np.asarray(arrays.move(buffer, runner.device.memory, CPU))
