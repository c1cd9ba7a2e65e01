"""How much memory work needs, and whether every device has it, before anything is allocated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dmlgather.backends.devices import Device
from dmlgather.host import available_memory
from dmlgather.wording import alternatives, amount


class TooLargeError(MemoryError):
    """Work needs more memory than is free or allowed. The message says how much, for what, and what to do."""


@dataclass(frozen=True)
class MemoryShare:
    """Bytes that work needs in the memory of `device`, and what they are for: "cpu: 3 resources"."""

    device: Device
    bytes: int
    purpose: str

    def __str__(self) -> str:
        return f"{self.purpose}, {amount(self.bytes)}"


def check_memory(subject: str, shares: Iterable[MemoryShare], limit: int | None, remedies: Sequence[str]) -> None:
    """TooLargeError when the `subject` needs more than is free in the memory of a device, or more host memory than `limit` bytes.

    remedies: what a user can do, after "fix:". DeviceError for a GPU that cannot be used.
    """
    by_device: dict[Device, list[MemoryShare]] = {}
    for share in shares:
        by_device.setdefault(share.device, []).append(share)
    for device, found in by_device.items():
        needed, free = sum(share.bytes for share in found), free_memory(device)
        allowed, because, fixes = free, "are free", [*remedies]
        if limit is not None and not device.on_gpu and (free is None or limit < free):
            allowed, because, fixes = limit, "are allowed", [*remedies, "raise --memory-limit"]
        if allowed is not None and needed > allowed:
            whose = f"on {device}" if device.on_gpu else "of host memory"
            parts = "; ".join(str(share) for share in found if share.bytes)
            raise TooLargeError(
                f"{subject} needs {amount(needed)} {whose}, and {amount(allowed)} {because}: {parts}; fix: {alternatives(fixes)}"
            )


def free_memory(device: Device) -> int | None:
    """Bytes that can still be had in the memory of a device; None where the system does not tell."""
    if not device.on_gpu:
        return available_memory()
    from dmlgather.backends import cuda

    cupy = cuda.require(device.index)
    with device.current():
        free, _ = cupy.cuda.runtime.memGetInfo()
        return int(free) + int(cupy.get_default_memory_pool().free_bytes())
