"""Which device a subcommand runs on, and what it is called."""

from __future__ import annotations

from dmlgather.backends.devices import Device, processor
from dmlgather.wording import counted


def choose(name: str) -> str:
    """The device behind "auto": "cuda" where a GPU can be used, else "cpu". Other names are returned as they are."""
    return name if name != "auto" else ("cpu" if missing_gpu() else "cuda")


def missing_gpu() -> str | None:
    """Why no GPU can be used; None where one can."""
    from dmlgather.backends import cuda
    from dmlgather.backends.cuda.errors import DeviceError

    try:
        cuda.require(0)
    except DeviceError as error:
        return str(error)
    return None


def title(device: Device) -> str:
    """The device's name for people."""
    if not device.on_gpu:
        from dmlgather.backends.cpu import cpus

        suffix = ", one element at a time, as the plan's definition says" if device.kind == "reference" else ""
        return f"{processor()}, {counted(cpus(), 'CPU')}{suffix}"
    from dmlgather.backends import cuda

    properties = cuda.require(device.index).cuda.runtime.getDeviceProperties(device.index)
    return str(properties["name"].decode())
