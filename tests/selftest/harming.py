"""Faults in every kernel of a GPU: they harm device memory after each launch."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pytest

from dmlgather.backends.cuda.arguments import POINTERS
from dmlgather.backends.cuda.driver import read_bytes, require

Fault = Callable[[int, int, int], None]
"""A function that harms memory after a launch, given the addresses of input, indices and output."""


def flip(address: int) -> None:
    """Change the byte at the address on the current GPU."""
    runtime = require(0).cuda.runtime
    byte = ctypes.c_uint8(read_bytes(address, 1, runtime.getDevice())[0] ^ 0x55)
    runtime.memcpy(address, ctypes.addressof(byte), 1, runtime.memcpyHostToDevice)
    runtime.deviceSynchronize()


def harm(patch: pytest.MonkeyPatch, fault: Fault | None = None, *, skipped: bool = False) -> None:
    """Apply the fault after each launch of dmlgather. skipped: the kernels do nothing."""
    driver = require(0).cuda.driver
    plain = driver.launchKernel

    def launch(function: int, *numbers: int) -> None:
        if not skipped:
            plain(function, *numbers)
        if fault is not None:
            block: Any = ctypes.c_void_p.from_address(numbers[-2]).value
            data, indices, out, _ = POINTERS.unpack(ctypes.string_at(block, POINTERS.size))
            fault(data, indices, out)

    patch.setattr(driver, "launchKernel", launch)
