"""The result of a comparison as data: what `dmlgather compare --json` prints, and what a saved case keeps."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from pydantic import ConfigDict, Field, computed_field

from dmlgather.backends.devices import Device, processor
from dmlgather.comparing.mismatch import Difference
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
    from dmlgather import __version__

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
