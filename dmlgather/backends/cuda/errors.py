"""What the CUDA backend raises."""

from __future__ import annotations


class DeviceError(RuntimeError):
    """There is no usable GPU. The message says what is missing (driver, CuPy, NVRTC) and the command that installs it."""
