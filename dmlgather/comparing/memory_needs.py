"""The memory that a comparison needs on all its devices, estimated before anything is allocated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dmlgather.backends.devices import CPU, Device
from dmlgather.backends.memory import MemoryShare, check_memory
from dmlgather.comparing.comparison import least_devices
from dmlgather.comparing.given_outputs import GivenOutput
from dmlgather.directml.descriptors import OperatorDesc
from dmlgather.directml.dxdispatch.commands import Dispatch
from dmlgather.directml.dxdispatch.model_file import CheckedFile
from dmlgather.directml.fields import wire_name
from dmlgather.directml.types import TensorFlags
from dmlgather.model_runner import memory_shares, resource_shares


def check_model_memory(
    model: CheckedFile, devices: Sequence[str], against: Mapping[int, Sequence[GivenOutput]] | None, limit: int | None
) -> None:
    """TooLargeError when `compare_model` would take more memory than there is, or more host memory than `limit` bytes."""
    shares = [*memory_shares(model, devices), *_compared_shares(model, devices, against or {})]
    check_memory(f"comparing {model.file}", shares, limit, _remedies(devices, against is not None))


def check_descriptor_memory(subject: str, desc: OperatorDesc, devices: Sequence[str], limit: int | None) -> None:
    """TooLargeError when comparing one dispatch of `desc`, with a resource per tensor, takes more memory than there is, or more
    host memory than `limit` bytes.
    """
    tensors = {wire_name(name): desc.tensor(name) for name in desc.operator.tensors}
    sizes = {name: tensor.total_bytes for name, tensor in tensors.items()}
    owned = sum(sizes[name] for name, tensor in tensors.items() if tensor.flags & TensorFlags.OWNED_BY_DML)
    output = sizes[wire_name(desc.operator.output)]
    shares = [*resource_shares(sizes, owned, devices), _copied(devices, output, sum(sizes.values()) - output)]
    check_memory(f"comparing {subject}", shares, limit, _remedies(devices, given=False))


def _remedies(devices: Sequence[str], given: bool) -> list[str]:
    """What helps where a comparison takes too much memory."""
    fewer = ["compare fewer --devices at a time"] if len(devices) > least_devices(given) else []
    return [*fewer, "use smaller tensors"]


def _compared_shares(
    model: CheckedFile, devices: Sequence[str], given: Mapping[int, Sequence[GivenOutput]]
) -> Iterator[MemoryShare]:
    """What comparing needs beside the resources: of all dispatches the most, since one follows the other."""
    copied = [MemoryShare(CPU, 0, "")]
    for command in model.commands:
        if isinstance(command, Dispatch):
            desc = model.dispatchables[command.dispatchable].desc
            output = desc.tensor(desc.operator.output).total_bytes
            copied.append(_copied(devices, output, sum(desc.tensor(name).total_bytes for name in desc.operator.inputs)))
    yield max(copied, key=lambda share: share.bytes)
    yield MemoryShare(
        CPU, max((sum(file.bytes for file in files) for files in given.values()), default=0), "outputs to compare with"
    )


def _copied(devices: Sequence[str], output: int, inputs: int) -> MemoryShare:
    """Copies from GPUs: the output of each, and for the report of a mismatch the inputs of the first device."""
    on_gpu = [Device.parse(name).on_gpu for name in devices]
    return MemoryShare(CPU, output * sum(on_gpu) + inputs * on_gpu[0], "copies of a dispatch's tensors from GPUs")
