"""What fusing makes of a DxDispatch model: launches, and the regions of resources that they read and write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dmlgather.dialects.planned import Planned
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.directml import BufferTensorDesc
from dmlgather.directml.dxdispatch.commands import Dispatch
from dmlgather.directml.dxdispatch.model_file import CheckedFile
from dmlgather.fusion import Fused
from dmlgather.plan import packed_strides
from dmlgather.wording import amount, counted


class Region(NamedTuple):
    """Bytes of a resource, as an array of one dimension: elements of `dtype` from byte `start` to before `stop`.

    owner: the dispatchable and the tensor that DirectML owns, whose copy it is; None for the resource itself.
    """

    resource: str
    start: int
    stop: int
    dtype: np.dtype[Any]
    owner: tuple[str, str] | None = None

    @property
    def elements(self) -> int:
        """The number of its elements."""
        return (self.stop - self.start) // self.dtype.itemsize

    @property
    def tensor(self) -> TensorType:
        """Its type as an array."""
        return TensorType((self.elements,), self.dtype)

    def part(self, first: int, last: int) -> Region:
        """The elements `first` … `last`."""
        itemsize = self.dtype.itemsize
        return self._replace(start=self.start + first * itemsize, stop=self.start + (last + 1) * itemsize)

    def meets(self, other: Region) -> bool:
        """Whether they share bytes."""
        same = self.resource == other.resource and self.owner is None and other.owner is None
        return same and self.start < other.stop and other.start < self.stop

    def covers(self, other: Region) -> bool:
        """Whether all bytes of the other, of the same resource, are among its own."""
        return self.start <= other.start and other.stop <= self.stop


@dataclass(frozen=True)
class ModelLaunch:
    """Dispatches that run as one.

    commands: their numbers in the model, in order; it runs at the last one's place. whole: what it does with all of the tensors
    that it reads. problem: the same, on arrays that are the regions `inputs`, which it reads, and `output`. Elements of `output`
    between the strides of the last one's OutputTensor are left as they are.
    """

    commands: tuple[int, ...]
    whole: Planned
    problem: Problem
    inputs: tuple[Region, ...]
    output: Region


@dataclass(frozen=True)
class FusedModel:
    """A model with its launches, by the number of the command at whose place each runs.

    fused: what `fuse` made of the dispatches, whose values are regions of resources; its cuts also say why a resource has to be
    written. unneeded: the numbers of the dispatches that no launch holds, because what they write is overwritten before anything
    reads or shows it.
    """

    model: CheckedFile
    fused: Fused
    launches: dict[int, ModelLaunch]
    unneeded: tuple[int, ...]

    def names(self, number: int) -> tuple[str, ...]:
        """The dispatchables of the launch at the place of a command, in order."""
        commands = (self.model.commands[each] for each in self.launches[number].commands)
        return tuple(command.dispatchable for command in commands if isinstance(command, Dispatch))

    def shaped(self, number: int) -> Problem:
        """What the launch at the place of a command does with its tensors, of their Sizes where they are packed: for people."""
        whole, descs = self.launches[number].whole, [self.model.dispatchables[name].desc for name in self.names(number)]
        read = [
            _sized(tensor, [desc.tensor(field) for desc in descs if field in desc.operator.inputs])
            for tensor, field in zip(whole.tensors[:-1], ("input_tensor", "indices_tensor"), strict=False)
        ]
        output = _sized(whole.output, [descs[-1].tensor(descs[-1].operator.output)])
        return Planned(read[0], read[1] if whole.packed.lookups else None, output, whole.packed)

    @property
    def bytes_saved(self) -> int:
        """Bytes that the dispatches one by one would read and write more, those that no launch holds aside."""
        return self.fused.bytes_saved

    def __str__(self) -> str:
        held = {number for launch in self.launches.values() for number in launch.commands}
        made = f"{counted(len(held), 'dispatch')} in {counted(len(self.launches), 'launch')}"
        unneeded = f"; {counted(len(self.unneeded), 'dispatch')} left out, whose results nothing reads" if self.unneeded else ""
        return f"Fused: {made}, {amount(self.bytes_saved)} less read and written{unneeded}"


def _sized(flat: TensorType, tensors: Sequence[BufferTensorDesc]) -> TensorType:
    """A tensor of one dimension under the Sizes of the first that is packed and has as many elements, if there is one."""
    for tensor in tensors:
        if (tensor.elements,) == flat.shape and tensor.element_strides == packed_strides(tensor.sizes):
            return TensorType(tensor.sizes, flat.dtype)
    return flat
