"""The CUDA backend: plans executed by the kernels of `cuda_kernels/`, through CuPy."""

from dmlgather.backends.cuda.describe import describe
from dmlgather.backends.cuda.driver import DeviceError, read_element, require
from dmlgather.backends.cuda.families import launches_for
from dmlgather.backends.cuda.program import CudaProgram

prepare = CudaProgram

__all__ = ["CudaProgram", "DeviceError", "describe", "launches_for", "prepare", "read_element", "require"]
