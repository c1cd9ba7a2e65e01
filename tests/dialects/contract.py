"""What is asked of every dialect, of its calls and of its descriptors: records that tests/DIALECT/test_contract.py fills in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dmlgather.dialects.exporter import Exporter
from dmlgather.dialects.problem import Problem
from dmlgather.directml import FeatureLevel
from tests.dialects.drafting import Fault
from tests.dialects.outcomes import Array, Refusal, content
from tests.peers.faults import Peer


def as_it_is(array: Array) -> Array:
    return array


@dataclass(frozen=True)
class Dialect:
    """Calls of a dialect's functions, and who judges them.

    rows: what calls are drawn of: versions, operations, modes of the judge. good, broken: the call of a seed and a row, without a
    fault and with one. run: the function under test, on arrays that `move` returns. arrays: of a call. expected: the
    specification; states_faults: whether it knows what is wrong with a broken call. is_judged: whether the live library is a
    judge of a call; judge: what it makes of such calls; as_judged: what it judges of an array. left_out: which share it may not
    judge, of good calls and of broken ones. examples: of good calls in each row, and of broken ones with each fault; together: of
    how many calls each good one consists.
    """

    rows: Sequence[Any]
    good: Callable[[int, Any], Any]
    faults: Callable[[Any], Sequence[Fault]]
    broken: Callable[[int, Any, Any], Any]
    run: Callable[..., Any]
    arrays: Callable[[Any], Sequence[Any]]
    expected: Callable[[Any], Array]
    is_judged: Callable[[Any], bool]
    judge: Callable[[Sequence[Any]], Sequence[Array | Refusal]]
    peers: Sequence[Peer[Any]]
    left_out: tuple[float, float]
    examples: tuple[int, int]
    as_judged: Callable[[Any, Array], object] = lambda call, array: content(array)
    states_faults: bool = True
    together: int = 1


@dataclass(frozen=True)
class Exported:
    """Calls of a dialect as descriptors.

    drawn: the call of a seed, mostly of a type that DirectML has at a level. refusals: the codes that DirectML's documents call
    for there, and codes that they may call for. bound: what `binding.check` binds the call's descriptors to. title, paths: what
    reports name: the call, and its arguments.
    """

    drawn: Callable[[int, FeatureLevel], Any]
    problem: Callable[[Any], Problem]
    described: Callable[[Any, FeatureLevel], Any]
    exporter: Exporter
    refusals: Callable[[Any, FeatureLevel], tuple[set[str], set[str]]]
    expected: Callable[[Any], Array]
    bound: Callable[[Any], dict[str, Any]]
    title: str
    paths: Sequence[str]
    examples: int
