"""Which device a subcommand runs on."""

from __future__ import annotations


def choose(name: str) -> str:
    """The device behind "auto": "cuda" where a GPU can be used, else "cpu". Other names are returned as they are."""
    return name if name != "auto" else ("cpu" if missing_gpu() else "cuda")


def missing_gpu() -> str | None:
    """Why no GPU can be used; None where one can."""
    from dmlgather.backends import cuda
    from dmlgather.backends.cuda.driver import DeviceError

    try:
        cuda.require(0)
    except DeviceError as error:
        return str(error)
    return None
