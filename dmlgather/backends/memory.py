"""Checks of the required memory, before anything is allocated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dmlgather.backends.devices import Device
from dmlgather.host import available_memory
from dmlgather.wording import alternatives, amount


class TooLargeError(MemoryError):
    """Raised if a command or call needs more memory than is free or allowed."""


@dataclass(frozen=True)
class MemoryShare:
    """Memory that a command or call needs on a device, and its purpose, such as "cpu: 3 resources"."""

    device: Device
    bytes: int
    purpose: str

    def __str__(self) -> str:
        return f"{self.purpose}, {amount(self.bytes)}"


def check_memory(subject: str, shares: Iterable[MemoryShare], limit: int | None, remedies: Sequence[str]) -> None:
    """Raise TooLargeError if `shares` need more than a device's free memory, or more than `limit` bytes of host memory."""
    by_device: dict[Device, list[MemoryShare]] = {}
    for share in shares:
        by_device.setdefault(share.device, []).append(share)
    for device, parts in by_device.items():
        needed, free = sum(share.bytes for share in parts), free_memory(device)
        allowed, because, fixes = free, "are free", [*remedies]
        if limit is not None and not device.on_gpu and (free is None or limit < free):
            allowed, because, fixes = limit, "are allowed", [*remedies, "raise --memory-limit"]
        if allowed is not None and needed > allowed:
            where = f"on {device}" if device.on_gpu else "of host memory"
            purposes = "; ".join(str(share) for share in parts if share.bytes)
            raise TooLargeError(
                f"{subject} needs {amount(needed)} {where}, and {amount(allowed)} {because}: {purposes}; "
                f"fix: {alternatives(fixes)}"
            )


def free_memory(device: Device) -> int | None:
    """Return the free bytes of a device, or None if the system does not report them."""
    if not device.on_gpu:
        return available_memory()
    from dmlgather.backends import cuda

    cupy = cuda.require(device.index)
    with device.current():
        free, _ = cupy.cuda.runtime.memGetInfo()
        return int(free) + int(cupy.get_default_memory_pool().free_bytes())
