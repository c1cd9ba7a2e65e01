"""The CUDA backend: plans executed by the kernels of `cuda_kernels/`, through CuPy."""

from dmlgather.backends.cuda.describe import describe
from dmlgather.backends.cuda.driver import read_element, require
from dmlgather.backends.cuda.errors import DeviceError
from dmlgather.backends.cuda.launches import launches_for
from dmlgather.backends.cuda.program import CudaProgram, prepare

__all__ = ["CudaProgram", "DeviceError", "describe", "launches_for", "prepare", "read_element", "require"]
