"""A comparison as data, and saved as a case."""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, computed_field

from dmlgather.backends.devices import Device, processor
from dmlgather.comparing.mismatches import Difference
from dmlgather.directml import BufferTensorDesc, OperatorDesc
from dmlgather.directml.dxdispatch.writing import beside, count, model_path, plain, save
from dmlgather.directml.elements import dtype_of, elements
from dmlgather.directml.fields import wire_name
from dmlgather.files import FileError, check_spared, described, staged, writing
from dmlgather.host import cpus
from dmlgather.record import Record
from dmlgather.wording import counted


class ComparedDevice(Record):
    """A device that took part."""

    name: str
    """As it was asked for: "cpu", "cuda:1"."""

    title: str
    """What it is: "NVIDIA H100", "AMD EPYC, 16 CPUs"."""


class Versions(Record):
    """What ran."""

    dmlgather: str
    """The version of this package."""

    python: str
    """The version of Python."""

    numpy: str
    """The version of NumPy."""

    platform: str
    """Operating system and architecture."""


class DispatchReport(Record):
    """What was found about one dispatch."""

    command: int
    """Its number among the model's commands, from 0; 0 for a single descriptor."""

    dispatchable: str
    """Name of what was dispatched."""

    operator: str
    """Type of the operator: "DML_OPERATOR_GATHER"."""

    data_type: str
    """Type of the output's elements."""

    sizes: tuple[int, ...]
    """Sizes of the output."""

    equal: bool
    """Whether every device gave the same bits, or raised the same error."""

    errors: Mapping[str, str] = Field(default_factory=dict)
    """Messages of the errors that devices raised, by the device's name."""

    differences: tuple[Difference, ...] = ()
    """The devices whose output differs from the first device's."""

    outputs: Mapping[str, str] = Field(default_factory=dict)
    """In a saved case: the .npy file beside it that holds a device's output, by the device's name."""

    against: tuple[str, ...] = ()
    """The files that hold outputs made elsewhere; differences name them as they name devices."""


class CompareReport(Record):
    """Everything that was compared."""

    model_config = ConfigDict(extra="ignore")  # so that a report with its computed field can be read back

    tool: Literal["dmlgather"] = "dmlgather"
    """The program that wrote this."""

    versions: Versions
    """What ran."""

    file: str | None = None
    """The file that was compared; none for a comparison by `dmlgather.compare`."""

    against: str | None = None
    """The file or folder with outputs that were made elsewhere, as it was named."""

    inputs: tuple[str, ...] = ()
    """The files of inputs that were given, as they were named."""

    seed: int | None = None
    """The seed of the random inputs of a single descriptor; of several trials, that of the last one."""

    trials: int | None = None
    """For a single descriptor: how many random inputs were compared, the last ones reported here. All before them were equal."""

    devices: tuple[ComparedDevice, ...]
    """The devices, in the order they were named. The first one's output is what the others' are compared with."""

    dispatches: tuple[DispatchReport, ...] = ()
    """Every dispatch, in the order of the commands."""

    @computed_field  # type: ignore[prop-decorator] # the decorator is meant to stand on a property
    @property
    def exit_code(self) -> int:
        """0 when every dispatch is equal, else 1."""
        return 0 if all(dispatch.equal for dispatch in self.dispatches) else 1


def compare_report(devices: Sequence[str], dispatches: Sequence[DispatchReport]) -> CompareReport:
    """The report of comparing `devices` here. DeviceError for a GPU that is not there."""
    from dmlgather.package import __version__

    system, python = platform.platform(), platform.python_version()
    return CompareReport(
        versions=Versions(dmlgather=__version__, python=python, numpy=np.__version__, platform=system),
        devices=tuple(ComparedDevice(name=name, title=device_title(Device.parse(name))) for name in devices),
        dispatches=tuple(dispatches),
    )


def device_title(device: Device) -> str:
    """The device's name for people."""
    if not device.on_gpu:
        suffix = ", line for line as the plan's definition says" if device.kind == "reference" else ""
        return f"{processor()}, {counted(cpus(), 'CPU')}{suffix}"
    from dmlgather.backends import cuda

    properties = cuda.require(device.index).cuda.runtime.getDeviceProperties(device.index)
    return str(properties["name"].decode())


# What a comparison adds to a saved case: every device's outputs, and the report.


def check_no_older(case: Path, devices: Iterable[str], given: int = 0, made_from: Iterable[Path] = ()) -> None:
    """FileError when outputs lie beside a case, of an earlier one, that saving it again would not replace: they would pass for
    outputs of the new case. And when it would replace one of the files that it is `made_from`.

    devices: whose outputs are going to replace older ones, and so are `given` outputs that were made elsewhere.
    """
    target = model_path(case)
    endings = [*map(_ending, devices), *(f"against{number}" for number in range(given))]
    output = re.compile(re.escape(beside(target, "")) + r"(replayed|out\d+_.+)\.(npy|bin|dat)")
    replaced = re.compile(rf".+\.({'|'.join(endings)})\.npy")
    with described():
        names = sorted(path.name for path in target.parent.iterdir()) if target.parent.is_dir() else []
    outputs = [name for name in names if output.fullmatch(name)]
    older = [name for name in outputs if not replaced.fullmatch(name)]
    if older:
        raise FileError(
            f"{target.parent} holds {', '.join(older)}, which would pass for outputs of the new case: remove them, or name "
            "another place"
        )
    check_spared([target.parent / name for name in outputs], made_from)


def _ending(device: str) -> str:
    """How a device's outputs are called."""
    return re.sub("[^a-z0-9]", "", device)


def save_outputs(
    target: Path,
    command: int,
    dispatchable: str,
    outputs: Mapping[str, NDArray[Any] | None],
    made_from: Iterable[Path] = (),
    *,
    given: int = 0,
) -> dict[str, str]:
    """Write each device's output of one dispatch beside the case whose model is `target`; the files' names by device.

    outputs: of shape Sizes; None for a device that raised an error. given: how many of the last ones were made elsewhere, and are
    named by their files. FileError when they cannot be written, or when a file of `made_from` would be overwritten.
    """
    endings = {
        device: _ending(device) if number < len(outputs) - given else f"against{number + given - len(outputs)}"
        for number, device in enumerate(outputs)
    }
    names = {
        device: beside(target, f"out{command}_{plain(dispatchable)}.{endings[device]}.npy")
        for device, output in outputs.items()
        if output is not None
    }
    with staged(target.parent, made_from) as stage:
        for device, name in names.items():
            output = outputs[device]
            assert output is not None
            save(output, stage / name)
    return names


def save_report(target: Path, report: CompareReport, made_from: Iterable[Path] = ()) -> Path:
    """Write the report beside the case whose model is `target`; its path. FileError as `save_outputs`."""
    name = beside(target, "report.json")
    with staged(target.parent, made_from) as stage, writing(stage / name, ()) as file:
        file.write(f"{json.dumps(report.model_dump(mode='json'), indent=2)}\n".encode())
    return target.parent / name


def buffers(desc: OperatorDesc, inputs: Sequence[NDArray[Any]], *, described: bool) -> list[NDArray[Any]]:
    """The inputs as buffers in the described layouts, shape [count]; bytes between elements are 0.

    inputs: of the described Sizes, or one-dimensional buffers; all of them buffers if `described`. ValueError for a tensor whose
    described elements share addresses at which the array holds different values.
    """
    tensors = [(wire_name(name), desc.tensor(name)) for name in desc.operator.inputs]
    return [_buffer(name, tensor, array, described) for (name, tensor), array in zip(tensors, inputs, strict=True)]


def _buffer(name: str, tensor: BufferTensorDesc, array: NDArray[Any], described: bool) -> NDArray[Any]:
    dtype = dtype_of(tensor.data_type)
    raw = np.zeros(count(tensor) * dtype.itemsize, np.uint8)
    if described or array.shape != tensor.sizes:
        given = array.view(np.uint8)[: raw.size]
        raw[: given.size] = given
        return raw.view(dtype)
    pattern = f"u{dtype.itemsize}"
    place = elements(raw, tensor).view(pattern)
    place[...] = array.view(pattern)
    if (place != array.view(pattern)).any():
        raise ValueError(
            f"{name}: the described Strides {list(tensor.element_strides)} put several elements of Sizes {list(tensor.sizes)} "
            "at one address, where the array holds different values: pass described buffers, or describe packed Strides"
        )
    return raw.view(dtype)
