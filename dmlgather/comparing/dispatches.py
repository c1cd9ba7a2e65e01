"""Run a model on several devices in step and compare each dispatch's output bit for bit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from dmlgather.backends.arrays import move
from dmlgather.backends.devices import CPU
from dmlgather.comparing.comparison import Comparison, check_devices, least_devices, run_over_poison, tracer
from dmlgather.comparing.differences import Tracer, differences
from dmlgather.comparing.given_outputs import GivenOutput
from dmlgather.directml.dxdispatch.commands import Dispatch
from dmlgather.directml.dxdispatch.model_file import CheckedFile
from dmlgather.model_runner import PreparedDispatch, Runner


@dataclass(frozen=True)
class ComparedDispatch:
    """The comparison of one dispatch. command: its number among the model's commands. The outputs of devices in host memory are
    views of their resources: they hold until the next dispatch.
    """

    command: int
    dispatchable: str
    comparison: Comparison


def compare_model(
    model: CheckedFile,
    devices: Sequence[str],
    against: Mapping[int, Sequence[GivenOutput]] | None = None,
) -> Iterator[ComparedDispatch]:
    """Run each dispatch of `model` on every device, each on its own resources, and compare the outputs.

    devices: at least two different ones of "cpu", "cuda", "cuda:N", "reference"; ValueError for fewer. against: outputs that
    were made elsewhere, by the number of the dispatch's command; then one device is enough, and a dispatch that has nothing to be
    compared with is run and left out. Raises as `Runner` does; `check_model_memory` tells before whether the memory is there.
    """
    check_devices(devices, least_devices(against is not None))
    runners = [Runner(model, device) for device in devices]
    for number, command in enumerate(model.commands):
        if isinstance(command, Dispatch):
            steps = [runner.step(command) for runner in runners]
            outputs = [
                run_over_poison(step.operator, runner.device, step.inputs, step.out, rank)[0]
                for rank, (runner, step) in enumerate(zip(runners, steps, strict=True))
            ]
            files = (against or {}).get(number, ())
            outputs += [file.read() for file in files]
            names = (*devices, *(file.name for file in files))
            if len(names) > 1:
                found = differences(names, outputs, partial(_tracer, runners[0], steps[0]))
                desc, size, errors = steps[0].dispatchable.desc, outputs[0].size, (None,) * len(names)
                comparison = Comparison(desc, names, size, found, errors, tuple(outputs), given=len(files))
                yield ComparedDispatch(number, command.dispatchable, comparison)


def _tracer(runner: Runner, step: PreparedDispatch) -> Tracer:
    inputs = [np.asarray(move(buffer, runner.device.memory, CPU)) for buffer in step.inputs]
    return tracer(step.operator, inputs, buffers=True)
