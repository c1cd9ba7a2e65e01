"""Peers' own faults: where a library that judges random tests is wrong, crashes, or refuses what its own specification allows.

Each fault is a row in the table of its peer, a module beside this one. Judges leave out what a row covers: they ask
`Peer.known_fault`, and no other place knows. `test_faults.py` runs the smallest input of each row, so that the row goes when the
peer is mended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, wraps
from importlib import metadata
from typing import Any, Generic, TypeVar

from packaging.specifiers import SpecifierSet

Problem = TypeVar("Problem")


@dataclass(frozen=True)
class PeerFault(Generic[Problem]):
    """One fault of a peer.

    does, should: what it does, and what its specification says. covers: whether a problem may meet the fault. example: the
    smallest one that does. versions: those of the peer that have the fault, as a specifier. ends_process: running the example
    ends the process. processors: a processor shows the fault if it has one of these flags of /proc/cpuinfo; (): all do. unseen:
    why the example is not run; "" where it is.
    """

    title: str
    does: str
    should: str
    covers: Callable[[Problem], bool]
    example: Problem
    versions: str = ""
    ends_process: bool = False
    processors: tuple[str, ...] = ()
    unseen: str = ""


@dataclass(frozen=True)
class Peer(Generic[Problem]):
    """A library that is asked about one kind of problems.

    distribution: whose version decides which faults it has. answers: what it makes of a problem, and what its specification says,
    to be compared with ==.
    """

    name: str
    distribution: str
    answers: Callable[[Problem], tuple[object, object]]
    faults: tuple[PeerFault[Problem], ...]

    def known_fault(self, problem: Problem) -> PeerFault[Problem] | None:
        """The fault of the installed version that a problem may meet; None where the peer is a judge of it."""
        found = next((fault for fault in self.has if fault.covers(problem)), None)
        for count in _counts:
            count.asked += 1
            count.left_out.update([f"{self.name}: {found.title}"] if found else [])
        return found

    @cached_property
    def has(self) -> tuple[PeerFault[Problem], ...]:
        return tuple(fault for fault in self.faults if self.may_have(fault))

    def may_have(self, fault: PeerFault[Any]) -> bool:
        """Whether the row names the installed version. A peer that is not installed judges nothing, and has none."""
        try:
            version = metadata.version(self.distribution)
        except metadata.PackageNotFoundError:
            return False
        return SpecifierSet(fault.versions).contains(version, prereleases=True)


@dataclass
class Count:
    """How many problems were brought to peers, and how many of them each known fault left out."""

    asked: int = 0
    left_out: Counter[str] = field(default_factory=Counter)


_counts: list[Count] = []


@contextmanager
def leaving_out_at_most(share: float) -> Iterator[Count]:
    """Fail where known faults leave out more than this share of the problems that are brought to peers meanwhile."""
    count = Count()
    _counts.append(count)
    try:
        yield count
    finally:
        _counts.remove(count)
    told = f"known faults of peers left out {count.left_out.total()} of {count.asked} problems: {dict(count.left_out)}"
    assert count.left_out.total() <= share * count.asked, told


Test = TypeVar("Test", bound=Callable[..., None])


def leaves_out_at_most(share: float) -> Callable[[Test], Test]:
    """`leaving_out_at_most` for a whole test, hypothesis's examples together. It stands above all other decorators but marks."""

    def decorated(test: Test) -> Test:
        @wraps(test)
        def counted(*arguments: Any, **named: Any) -> None:
            with leaving_out_at_most(share):
                test(*arguments, **named)

        return counted  # type: ignore[return-value] # it is called as the test is

    return decorated
