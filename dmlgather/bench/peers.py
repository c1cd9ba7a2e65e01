"""Whom the operators are compared with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dmlgather.bench.case import Array, Problem
from dmlgather.bench.errors import BenchError


@dataclass(frozen=True, slots=True)
class Peer:
    """into: whether it writes to an array that exists; then so does the operator it is compared with. Otherwise both make a
    new one. bind: the problem and that array -> a call without arguments that returns the result.
    """

    what: str
    into: bool
    bind: Callable[[Problem, Array], Callable[[], Array]]


def _numpy(problem: Problem, _: Array) -> Callable[[], Array]:
    return lambda: problem.numpy.call(*problem.arrays)


def _numpy_out(problem: Problem, out: Array) -> Callable[[], Array]:
    def call() -> Array:
        problem.numpy.into(*problem.arrays, out)
        return out

    return call


PEERS = {
    "numpy": Peer("NumPy as one would type it; a new array per call on both sides", into=False, bind=_numpy),
    "numpy-out": Peer("NumPy's quickest spelling into an array that exists, on both sides", into=True, bind=_numpy_out),
}


def find(names: tuple[str, ...]) -> dict[str, Peer]:
    """The peers called `names`. BenchError for a name that is none."""
    unknown = [name for name in names if name not in PEERS]
    if unknown or not names:
        raise BenchError(f"unknown peer {', '.join(unknown) or '(none)'}; expected some of: {', '.join(PEERS)}")
    return {name: PEERS[name] for name in dict.fromkeys(names)}
