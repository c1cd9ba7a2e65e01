"""The interface of peers: libraries that run the kinds of workload."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from benchmarks.chains import Chain
from benchmarks.errors import UnsupportedWorkloadError
from benchmarks.kinds import Along, Take, Tuples, ViewCopy
from benchmarks.workload_arrays import Array, WorkloadArrays


@dataclass(frozen=True, slots=True)
class Stage:
    """The device of peers.

    `device`: "cpu", "cuda" or "cluster". `threads`: CPU threads of each peer. `stream`: CuPy's stream for peers without their
    own.
    """

    device: str
    threads: int
    stream: Any = None


@dataclass(frozen=True, slots=True)
class Spelling:
    """One way to run a workload.

    `text`: the call as code, with the arrays x, i and out. `preallocated`: True if it writes to `out`.
    """

    text: str
    run: Callable[[], Any]
    preallocated: bool = True


class Peer(ABC):
    """A library that is ready to run on a stage.

    `packages`: names on PyPI; their versions are reported. `extra`: the extra of this project that installs them. `bounds`: the
    rule for indices out of range. `own_clock`: True if it creates its own streams on a GPU. The constructor raises ImportError
    without the packages, and UnsupportedWorkloadError if the library cannot run on the stage.
    """

    name: ClassVar[str]
    packages: ClassVar[tuple[str, ...]]
    extra: ClassVar[str] = "bench"
    devices: ClassVar[tuple[str, ...]]
    bounds: ClassVar[str]
    own_clock: ClassVar[bool] = False

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    def spellings(self, data: WorkloadArrays) -> Iterator[Spelling]:
        """Yield the peer's ways to run a workload. Raises UnsupportedWorkloadError if there is none."""
        match data.kind:
            case Take():
                return self.take(data, data.kind)
            case Along():
                return self.along(data, data.kind)
            case Tuples():
                return self.tuples(data, data.kind)
            case ViewCopy():
                return self.view(data, data.kind)
            case Chain():
                return self.chain(data, data.kind)

    @abstractmethod
    def take(self, data: WorkloadArrays, kind: Take, /) -> Iterator[Spelling]:
        """Yield ways to take positions along an axis."""

    @abstractmethod
    def along(self, data: WorkloadArrays, kind: Along, /) -> Iterator[Spelling]:
        """Yield ways to take elements with one index each."""

    @abstractmethod
    def tuples(self, data: WorkloadArrays, kind: Tuples, /) -> Iterator[Spelling]:
        """Yield ways to take by tuples of coordinates."""

    @abstractmethod
    def view(self, data: WorkloadArrays, kind: ViewCopy, /) -> Iterator[Spelling]:
        """Yield ways to copy a view."""

    def chain(self, data: WorkloadArrays, kind: Chain, /) -> Iterator[Spelling]:  # noqa: ARG002 - subclasses use them
        """Yield ways to run a chain. By default, a peer has none."""
        raise UnsupportedWorkloadError("one operation is measured, and this is several")

    def array(self, result: Any) -> Array:
        """Convert a result to an array of the workload's library."""
        return result


class GraphPeer(Peer):
    """A peer that runs models of one operation. A view is a Slice or a Transpose; both would be two operations."""

    title: ClassVar[str]
    operations: ClassVar[str] = "operations"

    def view(self, data: WorkloadArrays, kind: ViewCopy, /) -> Iterator[Spelling]:
        order = kind.order
        if order is None:
            raise UnsupportedWorkloadError(f"{self.title} has no strided views")
        if order == tuple(range(len(order))):
            ends = [-(2**31) if part.stop < 0 else part.stop for part in kind.ranges]  # -1 would mean the last element
            yield self.sliced(data, [part.start for part in kind.ranges], ends, [part.step for part in kind.ranges])
        elif kind.out_shape == kind.shape:
            packed = data.base.reshape([kind.shape[axis] for axis in order])
            yield self.transposed(data, packed, [int(axis) for axis in np.argsort(order)])
        else:
            raise UnsupportedWorkloadError(f"a Slice of a Transpose takes two {self.operations}")

    @abstractmethod
    def sliced(self, data: WorkloadArrays, starts: list[int], ends: list[int], steps: list[int]) -> Spelling:
        """Return a Slice: x[start:end:step] in every dimension."""

    @abstractmethod
    def transposed(self, data: WorkloadArrays, packed: Array, order: list[int]) -> Spelling:
        """Return a Transpose of `packed`."""
