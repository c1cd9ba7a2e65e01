"""Comparison of a model's dispatches on several devices, and the memory that this takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from dmlgather.backends.arrays import move
from dmlgather.backends.devices import CPU, Device
from dmlgather.backends.memory import MemoryShare, check_memory
from dmlgather.comparing.comparison import Comparison, check_devices, least_devices, run_over_poison, tracer
from dmlgather.comparing.differences import Tracer, differences
from dmlgather.comparing.tensor_files import StoredTensor
from dmlgather.directml.descriptors import OperatorDesc
from dmlgather.directml.dxdispatch.commands import Dispatch
from dmlgather.directml.dxdispatch.model_file import CheckedFile
from dmlgather.directml.fields import wire_name
from dmlgather.directml.types import TensorFlags
from dmlgather.model_runner import PreparedDispatch, Runner, memory_shares, resource_shares


def check_model_memory(
    model: CheckedFile, devices: Sequence[str], against: Mapping[int, Sequence[StoredTensor]] | None, limit: int | None
) -> None:
    """Raise TooLargeError if `compare_model` needs more memory than is free, or more host memory than `limit` bytes."""
    shares = [*memory_shares(model, devices), *_compared_shares(model, devices, against or {})]
    check_memory(f"comparing {model.file}", shares, limit, _remedies(devices, against is not None))


def check_descriptor_memory(subject: str, desc: OperatorDesc, devices: Sequence[str], limit: int | None) -> None:
    """Raise TooLargeError if comparing an operator needs too much memory."""
    tensors = {wire_name(name): desc.tensor(name) for name in desc.operator.tensors}
    sizes = {name: tensor.total_bytes for name, tensor in tensors.items()}
    owned = sum(sizes[name] for name, tensor in tensors.items() if tensor.flags & TensorFlags.OWNED_BY_DML)
    output = sizes[wire_name(desc.operator.output)]
    shares = [*resource_shares(sizes, owned, devices), _copied(devices, output, sum(sizes.values()) - output)]
    check_memory(f"comparing {subject}", shares, limit, _remedies(devices, one_suffices=False))


def _remedies(devices: Sequence[str], one_suffices: bool) -> list[str]:
    fewer = ["compare fewer --devices at a time"] if len(devices) > least_devices(one_suffices) else []
    return [*fewer, "use smaller tensors"]


def _compared_shares(
    model: CheckedFile, devices: Sequence[str], against: Mapping[int, Sequence[StoredTensor]]
) -> Iterator[MemoryShare]:
    """Yield the host memory for copies and stored outputs. Only the largest dispatch counts."""
    copied = [MemoryShare(CPU, 0, "")]
    for command in model.commands:
        if isinstance(command, Dispatch):
            desc = model.dispatchables[command.dispatchable].desc
            output = desc.tensor(desc.operator.output).total_bytes
            copied.append(_copied(devices, output, sum(desc.tensor(name).total_bytes for name in desc.operator.inputs)))
    yield max(copied, key=lambda share: share.bytes)
    yield MemoryShare(
        CPU, max((sum(file.bytes for file in files) for files in against.values()), default=0), "outputs to compare with"
    )


def _copied(devices: Sequence[str], output: int, inputs: int) -> MemoryShare:
    """Return the host memory for copies from GPUs: of all outputs, and of the first device's inputs after a mismatch."""
    on_gpu = [Device.parse(name).on_gpu for name in devices]
    return MemoryShare(CPU, output * sum(on_gpu) + inputs * on_gpu[0], "copies of a dispatch's tensors from GPUs")


@dataclass(frozen=True)
class ComparedDispatch:
    """A dispatch command of a model, with the comparison of its outputs.

    The outputs may be views of the model's resources, which the next dispatch overwrites.
    """

    command: int
    dispatchable: str
    comparison: Comparison


def compare_model(
    model: CheckedFile,
    devices: Sequence[str],
    against: Mapping[int, Sequence[StoredTensor]] | None = None,
    *,
    one_suffices: bool = False,
) -> Iterator[ComparedDispatch]:
    """Run each dispatch of `model` on every device, and yield the comparisons. Call `check_model_memory` before.

    `against`: the outputs of other programs, by the number of the dispatch command. `one_suffices`: True also yields dispatches
    that have nothing to be compared with, because only one device ran. Raise ValueError for too few devices, and the errors of
    `Runner`.
    """
    check_devices(devices, least_devices(one_suffices or against is not None))
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
            if one_suffices or len(names) > 1:
                differing = differences(names, outputs, partial(_tracer, runners[0], steps[0]))
                desc, size, errors = steps[0].dispatchable.desc, outputs[0].size, (None,) * len(names)
                comparison = Comparison(desc, names, size, differing, errors, tuple(outputs), given=len(files))
                yield ComparedDispatch(number, command.dispatchable, comparison)


def _tracer(runner: Runner, step: PreparedDispatch) -> Tracer:
    inputs = [np.asarray(move(buffer, runner.device.memory, CPU)) for buffer in step.inputs]
    return tracer(step.operator, inputs, buffers=True)
