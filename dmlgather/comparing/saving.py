"""The report of a comparison, and files beside a saved model ("case")."""

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
from dmlgather.files import FileError, check_spared, described, read_text, staged, writing
from dmlgather.host import cpus
from dmlgather.record import Record
from dmlgather.wording import counted


class ComparedDevice(Record):
    """A device that took part in a comparison."""

    name: str
    """The name that the user gave: "cpu", "cuda:1"."""

    title: str
    """The hardware: "NVIDIA H100", "AMD EPYC, 16 CPUs"."""


class Versions(Record):
    """The versions of dmlgather, Python and NumPy, and the platform."""

    dmlgather: str
    """The version of this package."""

    python: str
    """The version of Python."""

    numpy: str
    """The version of NumPy."""

    platform: str
    """Operating system and architecture."""


class DispatchReport(Record):
    """The result of comparing one dispatch."""

    command: int
    """The number of the dispatch among the model's commands, from 0; 0 for a single descriptor."""

    dispatchable: str
    """Name of the dispatchable."""

    operator: str
    """Type of the operator: "DML_OPERATOR_GATHER"."""

    data_type: str
    """Type of the output's elements."""

    sizes: tuple[int, ...]
    """Sizes of the output."""

    equal: bool
    """True if all devices gave the same bits, or raised the same error."""

    errors: Mapping[str, str] = Field(default_factory=dict)
    """Messages of the IndexErrors that devices raised, by device."""

    differences: tuple[Difference, ...] = ()
    """An entry for each device with an output that differs from the first device's output."""

    outputs: Mapping[str, str] = Field(default_factory=dict)
    """The .npy files to which the outputs were saved, by device. They lie beside the saved case."""

    against: tuple[str, ...] = ()
    """The files of outputs that other programs computed. In `differences`, these file names appear as names of devices."""


class CompareReport(Record):
    """The report of a comparison, as `dmlgather compare --json` writes it."""

    model_config = ConfigDict(extra="ignore")  # a written report has the computed field, too

    tool: Literal["dmlgather"] = "dmlgather"
    """The program that wrote the report."""

    versions: Versions
    """The versions of the software."""

    file: str | None = None
    """The file that was compared; null for `dmlgather.compare`."""

    against: str | None = None
    """The file or folder of outputs that other programs computed, as named by the user."""

    inputs: tuple[str, ...] = ()
    """The files of --inputs, as named by the user."""

    seed: int | None = None
    """The seed of the random inputs of a single descriptor in the last trial."""

    trials: int | None = None
    """The number of trials of a single descriptor. The report is about the last trial; all earlier trials were equal."""

    devices: tuple[ComparedDevice, ...]
    """The devices, in the order that the user gave. All other outputs are compared with the output of the first device."""

    dispatches: tuple[DispatchReport, ...] = ()
    """The dispatches, in the order of the commands."""

    @computed_field  # type: ignore[prop-decorator] # the decorator is meant to stand on a property
    @property
    def exit_code(self) -> int:
        """Return 0 if all dispatches are equal, otherwise 1."""
        return 0 if all(dispatch.equal for dispatch in self.dispatches) else 1


def compare_report(devices: Sequence[str], dispatches: Sequence[DispatchReport]) -> CompareReport:
    """Return the report of a comparison on this machine."""
    from dmlgather.package import __version__

    system, python = platform.platform(), platform.python_version()
    return CompareReport(
        versions=Versions(dmlgather=__version__, python=python, numpy=np.__version__, platform=system),
        devices=tuple(ComparedDevice(name=name, title=device_title(Device.parse(name))) for name in devices),
        dispatches=tuple(dispatches),
    )


def device_title(device: Device) -> str:
    """Return the name of a device's hardware."""
    if not device.on_gpu:
        suffix = ", line for line as the plan's definition says" if device.kind == "reference" else ""
        return f"{processor()}, {counted(cpus(), 'CPU')}{suffix}"
    from dmlgather.backends import cuda

    properties = cuda.require(device.index).cuda.runtime.getDeviceProperties(device.index)
    return str(properties["name"].decode())


def check_no_older(case: Path, devices: Iterable[str], external: int = 0, made_from: Iterable[Path] = ()) -> None:
    """Raise FileError if outputs of an earlier case would stay, because users would take them for new outputs.

    `devices`: the devices whose outputs are replaced. `external`: the number of other programs whose outputs are replaced.
    """
    target = model_path(case)
    _check_no_other_case(target)
    endings = [*map(_ending, devices), *(f"against{number}" for number in range(external))]
    output = re.compile(re.escape(beside(target, "")) + r"(replayed|out\d+_.+)\.(npy|bin|dat)")
    replaced = re.compile(rf".+\.({'|'.join(endings)})\.npy")
    with described():
        names = sorted(path.name for path in target.parent.iterdir()) if target.parent.is_dir() else []
    outputs = [name for name in names if output.fullmatch(name)]
    older = [name for name in outputs if not replaced.fullmatch(name)]
    if older:
        raise FileError(
            f"{target.parent} holds {', '.join(older)}, which would be taken for outputs of the new case: remove these files, or "
            "choose another folder"
        )
    check_spared([target.parent / name for name in outputs], made_from)


def _check_no_other_case(target: Path) -> None:
    """Raise FileError if another case uses the same file names, such as `a b.json` and `a_b.json`."""
    if target.stem.lower().endswith(".report"):
        raise FileError(f"{target} has the name of a case's report: name the case without .report")
    prefix = beside(target, "")
    with described():
        names = sorted(path.name for path in target.parent.iterdir()) if target.parent.is_dir() else []
    for other in (target.parent / name for name in names if name not in (target.name, f"{prefix}report.json")):
        if other.suffix.lower() == ".json" and beside(other, "") == prefix and _names_files(other, prefix):
            raise FileError(
                f"the files of the case {other} begin with {prefix}, too, and would be replaced: use another folder, or another "
                "name. The first 40 letters, digits, _ and - of a name make the files' names"
            )


def _names_files(model: Path, prefix: str) -> bool:
    """Return True if the model has a string that starts with `prefix`. Such a string names a file of the model."""
    try:
        return f'"{prefix}' in read_text(model)
    except FileError:
        return False


def _ending(device: str) -> str:
    return re.sub("[^a-z0-9]", "", device)


def save_outputs(
    target: Path,
    command: int,
    dispatchable: str,
    outputs: Mapping[str, NDArray[Any] | None],
    made_from: Iterable[Path] = (),
    *,
    external: int = 0,
) -> dict[str, str]:
    """Write the outputs of one dispatch beside the saved model `target`. Return the file names by device.

    `external`: the number of outputs of other programs, which come last. Raise FileError if a file cannot be written.
    """
    endings = {
        device: _ending(device) if number < len(outputs) - external else f"against{number + external - len(outputs)}"
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
    """Write the report beside the saved model, and return its path."""
    name = beside(target, "report.json")
    with staged(target.parent, made_from) as stage, writing(stage / name, ()) as file:
        file.write(f"{json.dumps(report.model_dump(mode='json'), indent=2)}\n".encode())
    return target.parent / name


def buffers(desc: OperatorDesc, inputs: Sequence[NDArray[Any]], *, described: bool) -> list[NDArray[Any]]:
    """Copy inputs into one-dimensional buffers. Raise ValueError if strides put different values at one address.

    `described`: True if all inputs already are buffers.
    """
    tensors = [(wire_name(name), desc.tensor(name)) for name in desc.operator.inputs]
    return [_buffer(name, tensor, array, described) for (name, tensor), array in zip(tensors, inputs, strict=True)]


def _buffer(name: str, tensor: BufferTensorDesc, array: NDArray[Any], described: bool) -> NDArray[Any]:
    dtype = dtype_of(tensor.data_type)
    raw = np.zeros(count(tensor) * dtype.itemsize, np.uint8)
    if described or array.shape != tensor.sizes:
        data = array.view(np.uint8)[: raw.size]
        raw[: data.size] = data
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
