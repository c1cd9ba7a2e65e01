"""Run a model on several devices in step and compare each dispatch's output bit for bit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends import arrays
from dmlgather.backends.devices import CPU
from dmlgather.compare import POISON, Comparison, check_devices, compare_outputs, source_coordinates
from dmlgather.directml.dxdispatch.commands import Dispatch
from dmlgather.directml.dxdispatch.model_file import CheckedFile
from dmlgather.model import Runner, Step, elements


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
            source = partial(_source, runners[0], steps[0])
            yield ComparedDispatch(number, command.dispatchable, compare_outputs(devices, outputs, source))


def _output(runner: Runner, step: Step, poison: int) -> NDArray[np.uint8]:
    """The bytes of the output's elements after running the step over poison, shape [*Sizes, bytes of an element]."""
    tensor = step.dispatchable.desc.tensor(step.dispatchable.desc.operator.output)
    before = _on_host(runner, step.out).copy()
    width = tensor.data_type.bytes
    elements(before, tensor).view(f"u{width}")[...] = int.from_bytes(bytes([poison]) * width)
    with runner.on_device():
        step.out[...] = arrays.move(before, CPU, runner.device.memory)
        step.run()
    after = np.ascontiguousarray(elements(_on_host(runner, step.out), tensor))
    return after.reshape(*tensor.sizes, 1).view(np.uint8)


def _source(runner: Runner, step: Step, at: tuple[int, ...]) -> tuple[int, ...] | None:
    """Coordinates in InputTensor of what belongs at the output's coordinates `at`."""
    operator = step.dispatchable.desc.operator
    tensors = [step.dispatchable.desc.tensor(field) for field in operator.inputs]
    inputs = [elements(_on_host(runner, buffer), tensor) for buffer, tensor in zip(step.inputs, tensors, strict=True)]
    return source_coordinates(step.operator, inputs, at)


def _on_host(runner: Runner, buffer: object) -> NDArray[np.uint8]:
    return np.asarray(arrays.move(buffer, runner.device.memory, CPU))
