"""Runner of DxDispatch models: it initialises the resources and executes the commands in order."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends import arrays
from dmlgather.backends.devices import CPU, Device
from dmlgather.backends.memory import MemoryShare
from dmlgather.calls.operator import CompiledOperator
from dmlgather.calls.operator import compile as compile_operator
from dmlgather.chunks import chunks
from dmlgather.directml.dxdispatch.bindings import BufferBinding
from dmlgather.directml.dxdispatch.commands import Dispatch, Print, WriteFile
from dmlgather.directml.dxdispatch.dispatchables import Dispatchable
from dmlgather.directml.dxdispatch.model_file import CheckedFile
from dmlgather.directml.dxdispatch.npy import write_npy
from dmlgather.directml.dxdispatch.writing import sources
from dmlgather.directml.elements import dtype_of, elements
from dmlgather.directml.fields import wire_name
from dmlgather.files import check_place_inside, check_spared, writing_inside
from dmlgather.wording import amount, counted


@dataclass(frozen=True)
class Dispatched:
    """Event: a dispatch has been executed.

    `cpu_ms`, `gpu_ms`: the median time of one iteration, in milliseconds.
    """

    dispatchable: str
    iterations: int
    cpu_ms: float
    gpu_ms: float | None


@dataclass(frozen=True)
class Printed:
    """Event: a print command has been executed. `values` are one-dimensional."""

    resource: str
    values: NDArray[Any]
    verbose: bool


@dataclass(frozen=True)
class Written:
    """Event: a writeFile command has been executed."""

    resource: str
    file: Path


Event = Dispatched | Printed | Written


@dataclass(frozen=True)
class PreparedDispatch:
    """A compiled operator and its buffers, as byte arrays."""

    dispatchable: Dispatchable
    operator: CompiledOperator
    inputs: tuple[Any, ...]
    out: Any

    def run(self) -> None:
        """Execute the operator once. On a GPU, this only launches it."""
        self.operator.run_buffers(*self.inputs, out=self.out)


class Runner:
    """A checked model on one device. Its resources are allocated and initialised."""

    def __init__(self, model: CheckedFile, device: str = "cpu", output_folder: Path = Path()) -> None:
        """Allocate and initialise the resources.

        Raise ValueError for a model with problems, errors or refusals, FileError if initial values cannot be read, and
        DeviceError if the device cannot be used.
        """
        if not model.ok:
            raise ValueError(f"{model.file} has problems or errors; check_file lists them")
        if model.refusals:
            raise ValueError(str(model.refusals[0]))
        self.model, self.device, self.output_folder = model, Device.parse(device), output_folder
        self._operators: dict[str, CompiledOperator] = {}
        for name in {command.dispatchable: None for command in model.commands if isinstance(command, Dispatch)}:
            self._operators[name] = compile_operator(model.dispatchables[name].desc, device=device)
        initial = {name: resource.buffer() for name, resource in model.resources.items()}
        self._owned = {key: self._moved(_range(initial, bound).copy()) for key, bound in _owned_inputs(model).items()}
        self.buffers: dict[str, Any] = {name: self._moved(buffer) for name, buffer in initial.items()}
        self._last_output: dict[str, tuple[Dispatchable, BufferBinding]] = {}

    def run(self, iterations: int = 1) -> Iterator[Event]:
        """Execute the commands, each dispatch `iterations` times, and yield an event for each.

        First, raise FileError if a writeFile command cannot write its file.
        """
        targets = {command.target for command in self.model.commands if isinstance(command, WriteFile)}
        for name in targets:
            check_place_inside(self.output_folder, name)
        for name in targets:  # one at a time, because several commands may write the same file
            check_spared([self.output_folder / name], sources(self.model))
        for command in self.model.commands:
            match command:
                case Dispatch():
                    yield self._timed(command.dispatchable, self.step(command), iterations)
                case Print():
                    yield Printed(command.resource, self.values(command.resource), command.verbose)
                case WriteFile():
                    yield self._written(command)

    def host(self, resource: str) -> NDArray[np.uint8]:
        """Return the bytes of a resource in host memory."""
        return np.asarray(arrays.move(self.buffers[resource], self.device.memory, CPU))

    def values(self, resource: str) -> NDArray[Any]:
        """Return a resource in host memory, as elements of the initial values' type."""
        values = self.model.resources[resource].values
        return self.host(resource)[: values.bytes].view(dtype_of(values.data_type))

    def _moved(self, buffer: NDArray[np.uint8]) -> Any:
        return arrays.move(buffer, CPU, self.device.memory)

    def step(self, command: Dispatch) -> PreparedDispatch:
        """Return a dispatch command, ready to run."""
        dispatchable = self.model.dispatchables[command.dispatchable]
        operator = dispatchable.desc.operator
        bound, _ = self.model.buffer_bindings(command)
        inputs = []
        for name in map(wire_name, operator.inputs):
            owned = self._owned.get((command.dispatchable, name))
            inputs.append(_range(self.buffers, bound[name]) if owned is None else owned)
        output = bound[wire_name(operator.output)]
        self._last_output[output.resource] = (dispatchable, output)
        return PreparedDispatch(dispatchable, self._operators[command.dispatchable], tuple(inputs), _range(self.buffers, output))

    def _timed(self, name: str, step: PreparedDispatch, iterations: int) -> Dispatched:
        with self.device.current():
            if self.device.on_gpu:
                step.run()  # compile and load the kernels before timing
            timings = [self._gpu_times(step) if self.device.on_gpu else self._cpu_time(step) for _ in range(iterations)]
        gpu = [gpu for _, gpu in timings if gpu is not None]
        return Dispatched(name, iterations, statistics.median(cpu for cpu, _ in timings), statistics.median(gpu) if gpu else None)

    @staticmethod
    def _cpu_time(step: PreparedDispatch) -> tuple[float, None]:
        start = time.perf_counter()
        step.run()
        return (time.perf_counter() - start) * 1e3, None

    @staticmethod
    def _gpu_times(step: PreparedDispatch) -> tuple[float, float]:
        import cupy

        first, last = cupy.cuda.Event(), cupy.cuda.Event()
        start = time.perf_counter()
        first.record()
        step.run()
        last.record()
        last.synchronize()
        return (time.perf_counter() - start) * 1e3, float(cupy.cuda.get_elapsed_time(first, last))

    def _written(self, command: WriteFile) -> Written:
        target = self.output_folder / command.target
        with writing_inside(self.output_folder, command.target, sources(self.model)) as file:
            if target.suffix.lower() == ".npy":
                write_npy(self._array(command), file)
            else:
                for chunk in chunks(self.host(command.resource)):
                    file.write(chunk.data)
        return Written(command.resource, target)

    def _array(self, command: WriteFile) -> NDArray[Any]:
        """Return the array that a writeFile command writes.

        The command may state the shape. If it does not, the shape is the Sizes of the output that the resource holds.
        """
        if command.dimensions is not None:
            return self.values(command.resource).reshape(command.dimensions)
        if command.resource not in self._last_output:
            return self.values(command.resource)
        dispatchable, bound = self._last_output[command.resource]
        desc = dispatchable.desc
        return elements(self.host(command.resource)[bound.offset :], desc.tensor(desc.operator.output))


def _range(buffers: Mapping[str, Any], bound: BufferBinding) -> Any:
    return buffers[bound.resource][bound.offset : bound.offset + bound.size]


def _owned_inputs(model: CheckedFile) -> dict[tuple[str, str], BufferBinding]:
    """Return the bindings of all OWNED_BY_DML inputs, by names of dispatchable and tensor."""
    dispatches = [command for command in model.commands if isinstance(command, Dispatch)]
    return {
        (dispatch.dispatchable, name): bound
        for dispatch in dispatches
        for name, bound in model.buffer_bindings(dispatch)[1].items()
    }


def memory_shares(model: CheckedFile, devices: Sequence[str]) -> list[MemoryShare]:
    """Return the memory to run `model` on all these devices at the same time."""
    sizes = {name: resource.size for name, resource in model.resources.items()}
    shares = resource_shares(sizes, sum(bound.size for bound in _owned_inputs(model).values()), devices)
    scratch = max((resource.scratch_bytes for resource in model.resources.values()), default=0)
    return [*shares, MemoryShare(CPU, scratch, "reading initial values")]


def resource_shares(sizes: Mapping[str, int], owned: int, devices: Sequence[str]) -> list[MemoryShare]:
    """Return the memory of resources on each device. `owned`: the number of bytes of all OWNED_BY_DML inputs."""
    total = sum(sizes.values())
    largest = max(sizes, key=sizes.__getitem__, default="")
    resources = counted(len(sizes), "resource") + (f" ({largest!r} alone {amount(sizes[largest])})" if len(sizes) > 1 else "")
    shares = [MemoryShare(Device.parse(name).memory, total + owned, f"{name}: {resources}") for name in devices]
    if any(share.device.on_gpu for share in shares):
        shares.append(MemoryShare(CPU, total, "the resources on their way to a GPU"))
    return shares
