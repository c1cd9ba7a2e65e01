"""What fusing makes of a DxDispatch model: launches, and the regions of resources that they read and write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.directml.dxdispatch.commands import Dispatch
from dmlgather.directml.dxdispatch.model_file import CheckedFile
from dmlgather.fusion import Cut, Fused
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

    commands: their numbers in the model, in order; it runs at the last one's place. problem: what it does, on arrays that are the
    regions `inputs`, and writes `output`, of which it leaves the elements between the strides of the last one's OutputTensor.
    """

    commands: tuple[int, ...]
    problem: Problem
    inputs: tuple[Region, ...]
    output: Region


@dataclass(frozen=True)
class FusedModel:
    """A model with its launches, by the number of the command at whose place each runs.

    fused: what `fuse` made of the dispatches, whose values are regions of resources. cuts: where it was cut. unneeded: the
    numbers of the dispatches that no launch holds, because what they write is overwritten before anything reads or shows it.
    """

    model: CheckedFile
    fused: Fused
    launches: dict[int, ModelLaunch]
    cuts: tuple[Cut, ...]
    unneeded: tuple[int, ...]

    def names(self, number: int) -> tuple[str, ...]:
        """The dispatchables of the launch at the place of a command, in order."""
        commands = (self.model.commands[each] for each in self.launches[number].commands)
        return tuple(command.dispatchable for command in commands if isinstance(command, Dispatch))

    @property
    def bytes_saved(self) -> int:
        """Bytes that the dispatches one by one would read and write more, those that no launch holds aside."""
        return self.fused.bytes_saved

    def __str__(self) -> str:
        held = {number for launch in self.launches.values() for number in launch.commands}
        made = f"{counted(len(held), 'dispatch')} in {counted(len(self.launches), 'launch')}"
        unneeded = f"; {counted(len(self.unneeded), 'dispatch')} left out, whose results nothing reads" if self.unneeded else ""
        return f"Fused: {made}, {amount(self.bytes_saved)} less read and written{unneeded}"
