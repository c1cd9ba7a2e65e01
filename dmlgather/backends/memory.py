"""Memory checks. Before anything is allocated, the required bytes are compared with the free memory of each device."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dmlgather.backends.devices import Device
from dmlgather.host import available_memory
from dmlgather.wording import alternatives, amount


class TooLargeError(MemoryError):
    """Error of a command or call that needs more memory than is free or allowed.

    The message has the amounts, their purposes, and remedies.
    """


@dataclass(frozen=True)
class MemoryShare:
    """A number of bytes that a command or call needs in the memory of `device`.

    `purpose`: what the bytes hold, for example "cpu: 3 resources".
    """

    device: Device
    bytes: int
    purpose: str

    def __str__(self) -> str:
        return f"{self.purpose}, {amount(self.bytes)}"


def check_memory(subject: str, shares: Iterable[MemoryShare], limit: int | None, remedies: Sequence[str]) -> None:
    """Raise TooLargeError if `shares` add up to more than a device's free memory, or in host memory to more than `limit` bytes.

    `subject`: the command or call, which begins the message. `remedies`: sentences after "fix:". Raise DeviceError for a GPU
    that cannot be used.
    """
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
    """Return the free bytes in the memory of a device, or None if the system does not report them."""
    if not device.on_gpu:
        return available_memory()
    from dmlgather.backends import cuda

    cupy = cuda.require(device.index)
    with device.current():
        free, _ = cupy.cuda.runtime.memGetInfo()
        return int(free) + int(cupy.get_default_memory_pool().free_bytes())
