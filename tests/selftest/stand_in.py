"""A GPU that is not one (tests/benchmarks/stand_in.py), right or with a fault in every kernel."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import SimpleNamespace

from dmlgather.backends.cuda.arguments import POINTERS
from tests.benchmarks.stand_in import BenchDriver

Fault = Callable[[int, int, int], None]
"""Does harm after a launch, given the addresses of input, indices and output."""


def flip(address: int) -> None:
    """Change the byte there."""
    byte = ctypes.c_uint8.from_address(address)
    byte.value ^= 0x55


class SelfTestDriver(BenchDriver):
    """A driver with all that the self-test asks. fault: of every kernel; skipped: whether launches do nothing."""

    __version__ = "14.1.0"

    def __init__(self, fault: Fault | None = None, *, skipped: bool = False) -> None:
        super().__init__()
        self.fault, self.skipped = fault, skipped
        self.cuda.nvrtc = SimpleNamespace(getVersion=lambda: (13, 0))

    def launchKernel(self, function: int, *numbers: int) -> None:  # noqa: N802 - CUDA's name
        if not self.skipped:
            super().launchKernel(function, *numbers)
        if self.fault is not None:
            block = ctypes.c_void_p.from_address(numbers[-2]).value
            assert block is not None
            data, indices, out, _ = POINTERS.unpack(ctypes.string_at(block, POINTERS.size))
            self.fault(data, indices, out)
