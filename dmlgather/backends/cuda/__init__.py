"""The CUDA backend: plans executed by the kernels of `cuda_kernels/`, through CuPy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlgather.package import lazy_names

if TYPE_CHECKING:
    from dmlgather.backends.cuda.driver import DeviceError, read_element, require
    from dmlgather.backends.cuda.program import CudaProgram, prepare

__all__ = ["CudaProgram", "DeviceError", "prepare", "read_element", "require"]

__getattr__, __dir__ = lazy_names(__name__, {**dict.fromkeys(__all__, "driver"), "CudaProgram": "program", "prepare": "program"})
