"""Compare the dispatches of a model on several devices, also with outputs from elsewhere, and the memory that this needs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends.arrays import move
from dmlgather.backends.devices import CPU, Device
from dmlgather.backends.memory import MemoryShare, check_memory
from dmlgather.comparing.comparison import Comparison, check_devices, least_devices, run_over_poison, tracer
from dmlgather.comparing.differences import Tracer, differences
from dmlgather.directml.descriptors import OperatorDesc
from dmlgather.directml.dxdispatch import npy
from dmlgather.directml.dxdispatch.bindings import BufferBinding
from dmlgather.directml.dxdispatch.commands import Dispatch, WriteFile
from dmlgather.directml.dxdispatch.model_file import SUFFIXES, CheckedFile, dispatch_outputs
from dmlgather.directml.dxdispatch.resources import Resource
from dmlgather.directml.dxdispatch.writing import plain
from dmlgather.directml.elements import dtype_of, elements
from dmlgather.directml.fields import wire_name
from dmlgather.directml.tensor import BufferTensorDesc
from dmlgather.directml.types import TensorFlags
from dmlgather.files import FileError, described
from dmlgather.model_runner import PreparedDispatch, Runner, memory_shares, resource_shares
from dmlgather.wording import alternatives, counted, printable


@dataclass(frozen=True)
class GivenOutput:
    """The output of one dispatch in a file. start: the byte of the file's data at which the tensor begins, to be read through its
    described strides; None where the data are the tensor's elements in row-major order.
    """

    name: str
    values: npy.StoredValues
    tensor: BufferTensorDesc
    start: int | None

    @property
    def bytes(self) -> int:
        """Memory that reading it takes."""
        return self.values.bytes + self.values.scratch_bytes

    def read(self) -> NDArray[Any]:
        """The output, shape Sizes. FileError, with the file, when it cannot be read."""
        found = np.empty(self.values.count, dtype_of(self.values.data_type))
        try:
            self.values.write(found)
        except FileError as error:
            raise FileError(f"{self.values.path} {error}") from None
        if self.start is None:
            return found.reshape(self.tensor.sizes)
        return elements(found.view(np.uint8)[self.start :], self.tensor)


class _Target(NamedTuple):
    """What one dispatch writes, and the writeFile commands that save it."""

    command: Dispatch
    tensor: BufferTensorDesc
    bound: BufferBinding
    resource: Resource
    writes: list[WriteFile]


def given_outputs(model: CheckedFile, path: Path) -> dict[int, list[GivenOutput]]:
    """The outputs at `path` by number of the dispatch command, at least one for each.

    path: a .npy, .bin or .dat file, for a model with one dispatch; or a folder with such files, called as a writeFile command of
    the model or `dmlgather compare --save` calls them. FileError, with the file, for one that does not fit its dispatch, and for
    a dispatch that the folder has no file for.
    """
    targets = _targets(model)
    if not path.exists():
        raise FileError(f"{path} does not exist")
    if not path.is_dir():
        if len(targets) != 1:
            raise FileError(
                f"{path} is one file, and {model.file} has {counted(len(targets), 'dispatch command')}: name a folder with a "
                "file for each"
            )
        return {number: [_output(path, path.name, target)] for number, target in targets.items()}
    found = {number: list(_in_folder(path, number, target)) for number, target in targets.items()}
    missing = [
        f"of commands[{number}] '{printable(target.command.dispatchable)}', expected {_looked_for(number, target)}"
        for number, target in targets.items()
        if not found[number]
    ]
    if missing:
        raise FileError(
            f"{path} holds no output {'; '.join(missing)}: add the files, or write a case with --save, whose writeFile commands "
            "write every output, and run it there"
        )
    return found


def _looked_for(number: int, target: _Target) -> str:
    """The names that a dispatch's output may have in a folder."""
    written = [repr(write.target) for write in target.writes]
    names = [*written, f"'out{number}_{plain(target.command.dispatchable)}.npy' (or .bin, .dat)"]
    return " or ".join(names)


def _targets(model: CheckedFile) -> dict[int, _Target]:
    """What each dispatch command writes, by its number."""
    targets = {}
    for number, output in dispatch_outputs(model).items():
        desc, resource = model.dispatchables[output.command.dispatchable].desc, model.resources[output.bound.resource]
        targets[number] = _Target(output.command, desc.tensor(desc.operator.output), output.bound, resource, output.writes)
    return targets


def _in_folder(folder: Path, number: int, target: _Target) -> Iterator[GivenOutput]:
    """The files in `folder` that hold what a dispatch wrote: those of its writeFile commands first."""
    seen = set()
    for name, dimensions in [(write.target, write.dimensions) for write in target.writes]:
        if (folder / name).suffix.lower() in SUFFIXES and os.path.lexists(folder / name) and name not in seen:
            seen.add(name)
            yield _output(folder / name, name, target, dimensions)
    with described():
        present = sorted(path.name for path in folder.iterdir())
    pattern = re.compile(rf"(.+\.)?out{number}_{re.escape(plain(target.command.dispatchable))}(\.[^.]+)?\.(npy|bin|dat)")
    for name in present:
        if pattern.fullmatch(name) and name not in seen:
            yield _output(folder / name, name, target)


def _output(file: Path, name: str, target: _Target, dimensions: tuple[int, ...] | None = None) -> GivenOutput:
    """The output in one file. dimensions: which a writeFile command states for it."""
    suffix, tensor, name = file.suffix.lower(), target.tensor, printable(name)
    try:
        if suffix not in SUFFIXES:
            raise FileError(f"cannot hold an output: expected a file that ends in {', '.join(SUFFIXES)}, or a folder")
        values = npy.read_npy(file) if suffix == ".npy" else npy.read_raw(file, tensor.data_type)
        if values.data_type is not tensor.data_type:
            raise FileError(f"holds {values.data_type}, but OutputTensor's DataType is {tensor.data_type}: save it in that type")
        if suffix == ".npy" and values.shape == tensor.sizes:
            return GivenOutput(name, values, tensor, None)
        if suffix == ".npy" and len(values.shape) > 1 and values.shape != dimensions:
            raise FileError(
                f"has the shape {list(values.shape)}: expected OutputTensor's Sizes {list(tensor.sizes)}, or one dimension that "
                "holds the buffer"
            )
        return GivenOutput(name, values, tensor, _start(values.bytes, target))
    except FileError as error:
        raise FileError(f"{file} {error}") from None


def _start(size: int, target: _Target) -> int:
    """The byte at which the tensor begins in a file of `size` bytes: it holds the resource, or the tensor's part of it."""
    tensor, bound, resource = target.tensor, target.bound, target.resource
    span = tensor.span * tensor.data_type.bytes
    if size in (resource.size, resource.values.bytes) and size >= bound.offset + span:
        return bound.offset
    if span <= size <= tensor.total_bytes:
        return 0
    sizes = {resource.size: repr(bound.resource), tensor.total_bytes: "OutputTensor with its padding", span: "OutputTensor"}
    expected = alternatives(f"{count} for {what}" for count, what in sorted(sizes.items()))
    raise FileError(f"holds {size} bytes: expected {expected}; run this model there again, and copy the whole file")


# Compare the dispatches of a model on several devices, and the memory that this needs.


def check_model_memory(
    model: CheckedFile, devices: Sequence[str], against: Mapping[int, Sequence[GivenOutput]] | None, limit: int | None
) -> None:
    """TooLargeError when `compare_model` would take more memory than there is, or more host memory than `limit` bytes."""
    shares = [*memory_shares(model, devices), *_compared_shares(model, devices, against or {})]
    check_memory(f"comparing {model.file}", shares, limit, _remedies(devices, against is not None))


def check_descriptor_memory(subject: str, desc: OperatorDesc, devices: Sequence[str], limit: int | None) -> None:
    """TooLargeError when comparing one dispatch of `desc`, with a resource per tensor, takes more memory than there is, or more
    host memory than `limit` bytes.
    """
    tensors = {wire_name(name): desc.tensor(name) for name in desc.operator.tensors}
    sizes = {name: tensor.total_bytes for name, tensor in tensors.items()}
    owned = sum(sizes[name] for name, tensor in tensors.items() if tensor.flags & TensorFlags.OWNED_BY_DML)
    output = sizes[wire_name(desc.operator.output)]
    shares = [*resource_shares(sizes, owned, devices), _copied(devices, output, sum(sizes.values()) - output)]
    check_memory(f"comparing {subject}", shares, limit, _remedies(devices, given=False))


def _remedies(devices: Sequence[str], given: bool) -> list[str]:
    """What helps where a comparison takes too much memory."""
    fewer = ["compare fewer --devices at a time"] if len(devices) > least_devices(given) else []
    return [*fewer, "use smaller tensors"]


def _compared_shares(
    model: CheckedFile, devices: Sequence[str], given: Mapping[int, Sequence[GivenOutput]]
) -> Iterator[MemoryShare]:
    """What comparing needs beside the resources: of all dispatches the most, since one follows the other."""
    copied = [MemoryShare(CPU, 0, "")]
    for command in model.commands:
        if isinstance(command, Dispatch):
            desc = model.dispatchables[command.dispatchable].desc
            output = desc.tensor(desc.operator.output).total_bytes
            copied.append(_copied(devices, output, sum(desc.tensor(name).total_bytes for name in desc.operator.inputs)))
    yield max(copied, key=lambda share: share.bytes)
    yield MemoryShare(
        CPU, max((sum(file.bytes for file in files) for files in given.values()), default=0), "outputs to compare with"
    )


def _copied(devices: Sequence[str], output: int, inputs: int) -> MemoryShare:
    """Copies from GPUs: the output of each, and for the report of a mismatch the inputs of the first device."""
    on_gpu = [Device.parse(name).on_gpu for name in devices]
    return MemoryShare(CPU, output * sum(on_gpu) + inputs * on_gpu[0], "copies of a dispatch's tensors from GPUs")


# Run a model on several devices in step and compare each dispatch's output bit for bit.


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
