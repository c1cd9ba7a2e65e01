"""Run a model on several devices in step and compare each dispatch's output bit for bit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends import arrays
from dmlgather.backends.devices import CPU
from dmlgather.compare import Comparison, Mismatch, source_coordinates
from dmlgather.directml.dxdispatch.commands import Dispatch
from dmlgather.directml.dxdispatch.model_file import CheckedFile
from dmlgather.directml.tensor import BufferTensorDesc
from dmlgather.model import Runner, Step, elements

POISON = 0xA5
"""What the first device's output elements are filled with before a run, and less one on each further device, so that an
element that no device writes differs as well."""


@dataclass(frozen=True)
class ComparedDispatch:
    """What comparing one dispatch found. command: its number among the model's commands."""

    command: int
    dispatchable: str
    comparison: Comparison


def compare_model(model: CheckedFile, devices: Sequence[str]) -> Iterator[ComparedDispatch]:
    """Run each dispatch of `model` on every device, each on its own resources, and compare the outputs.

    devices: at least two of "cpu", "cuda", "cuda:N", "reference". Raises as `Runner` does, and ValueError for fewer devices.
    """
    if len(devices) < 2:
        raise ValueError(f"comparing takes at least two devices, got {', '.join(devices) or 'none'}")
    runners = [Runner(model, device) for device in devices]
    for number, command in enumerate(model.commands):
        if isinstance(command, Dispatch):
            steps = [runner.step(command) for runner in runners]
            outputs = [
                _output(runner, step, POISON - rank) for rank, (runner, step) in enumerate(zip(runners, steps, strict=True))
            ]
            yield ComparedDispatch(number, command.dispatchable, _compared(devices, runners[0], steps[0], outputs))


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


def _compared(devices: Sequence[str], runner: Runner, step: Step, outputs: Sequence[NDArray[np.uint8]]) -> Comparison:
    differing, first = 0, None
    for device, output in zip(devices[1:], outputs[1:], strict=True):
        unequal = (outputs[0] != output).any(axis=-1)
        differing += int(np.count_nonzero(unequal))
        if first is None and unequal.any():
            at = tuple(int(index) for index in np.unravel_index(int(np.argmax(unequal)), unequal.shape))
            bits = outputs[0][at].tobytes()[::-1].hex(), output[at].tobytes()[::-1].hex()
            inputs = [
                elements(_on_host(runner, buffer), tensor) for buffer, tensor in zip(step.inputs, _inputs(step), strict=True)
            ]
            first = Mismatch(at, source_coordinates(step.operator, inputs, at), (devices[0], device), bits)
    return Comparison(tuple(devices), outputs[0][..., 0].size, differing, first, (None,) * len(devices))


def _on_host(runner: Runner, buffer: object) -> NDArray[np.uint8]:
    return np.asarray(arrays.move(buffer, runner.device.memory, CPU))


def _inputs(step: Step) -> list[BufferTensorDesc]:
    desc = step.dispatchable.desc
    return [desc.tensor(field) for field in desc.operator.inputs]
