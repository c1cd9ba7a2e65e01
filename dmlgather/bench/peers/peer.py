"""What a peer is: a library that says the four kinds of workload in its own words."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from dmlgather.bench.kinds import Along, Take, Tuples, View
from dmlgather.bench.problem import Array, Problem


@dataclass(frozen=True, slots=True)
class Stage:
    """Where peers run. device: "cpu" or "cuda". threads: how many each may use on the CPU. stream: CUDA stream (CuPy's) that
    those without streams of their own run on.
    """

    device: str
    threads: int
    stream: Any = None


@dataclass(frozen=True, slots=True)
class Spelling:
    """One way to say a problem. text: as one would type it; x, i, out are the arrays. run: does it and returns what holds the
    result. preallocated: whether that is the problem's `out`.
    """

    text: str
    run: Callable[[], Any]
    preallocated: bool = True


class Peer(ABC):
    """A library, set up for a stage. packages: whose versions matter, by the names pip knows.
    extra: of this project, which brings them. bounds: what it does with an
    index out of range in these spellings. own_clock: whether it runs on streams of its own on a GPU.

    Making one raises ImportError without its packages and CannotSayError where it cannot run on that stage.
    """

    name: ClassVar[str]
    packages: ClassVar[tuple[str, ...]]
    extra: ClassVar[str] = "bench"
    devices: ClassVar[tuple[str, ...]]
    bounds: ClassVar[str]
    own_clock: ClassVar[bool] = False

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    def spellings(self, problem: Problem) -> Iterator[Spelling]:
        """Its ways to say the problem. CannotSayError, with the reason, when there is none."""
        match problem.kind:
            case Take():
                return self.take(problem, problem.kind)
            case Along():
                return self.along(problem, problem.kind)
            case Tuples():
                return self.tuples(problem, problem.kind)
            case View():
                return self.view(problem, problem.kind)

    @abstractmethod
    def take(self, problem: Problem, kind: Take, /) -> Iterator[Spelling]:
        """Positions along an axis."""

    @abstractmethod
    def along(self, problem: Problem, kind: Along, /) -> Iterator[Spelling]:
        """An index per element."""

    @abstractmethod
    def tuples(self, problem: Problem, kind: Tuples, /) -> Iterator[Spelling]:
        """Tuples of coordinates."""

    @abstractmethod
    def view(self, problem: Problem, kind: View, /) -> Iterator[Spelling]:
        """A copy of a view."""

    @abstractmethod
    def array(self, result: Any) -> Array:
        """What `run` returned as an array of the problem's library."""
