"""Conditions of different nodes of a model that no sizes meet together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dmlgather.dialects.conditions import Conditions, Range
from dmlgather.dialects.export_codes import CODES
from dmlgather.directml import Finding
from dmlgather.wording import printable

MOST_COMPARED = 16
"""How many of the conditions on a symbol that leave the fewest sizes are compared."""

BRANCHES = {"then_branch", "else_branch"}


@dataclass(frozen=True)
class Stated:
    """The conditions of a node. place: its path. symbols: those of the model; the others are the node's own."""

    place: str
    conditions: Conditions
    symbols: frozenset[str]


Claim = tuple[str, Range]
"""The place of a node, and what it states of a symbol."""


def contradictions(stated: Iterable[Stated]) -> Iterator[tuple[str, Finding]]:
    """A finding, with its place, for each symbol of which two nodes state what cannot be both."""
    for symbol, pairs in _pairs(stated):
        (here, one), (there, two) = pairs[0]
        yield here, _finding(one.condition(symbol), two.condition(symbol), there)


def contradicting(stated: Iterable[Stated]) -> set[str]:
    """The places of nodes of which two state what cannot be both."""
    return {place for _, pairs in _pairs(stated) for pair in pairs for place, _ in pair}


def _pairs(stated: Iterable[Stated]) -> Iterator[tuple[str, list[tuple[Claim, Claim]]]]:
    """The symbols of which nodes state what cannot be both, with pairs of such nodes."""
    of_symbol: dict[str, list[Claim]] = {}
    for node in stated:
        for symbol, known in node.conditions.ranges.items():
            if symbol in node.symbols:
                of_symbol.setdefault(symbol, []).append((node.place, known))
    for symbol, ranges in of_symbol.items():
        bounded = [(place, known) for place, known in ranges if known.high is not None]
        least = sorted(ranges, key=lambda each: -each[1].low)[:MOST_COMPARED]
        most = sorted(bounded, key=lambda each: each[1].high or 0)[:MOST_COMPARED]
        pairs = [(one, two) for one in least for two in most if one[1].both(two[1]).empty and not exclusive(one[0], two[0])]
        if pairs:
            yield symbol, pairs


def exclusive(one: str, two: str) -> bool:
    """Whether two places are in different branches of one If, so that only one of them is run."""
    differing = ((a, b) for a, b in zip(one.split("/"), two.split("/"), strict=False) if a != b)
    (node, _, branch), (other, _, other_branch) = (each.rpartition(".") for each in next(differing, ("", "")))
    return node == other and {branch, other_branch} == BRANCHES


def _finding(here: str, there: str, place: str) -> Finding:
    return CODES["EXP305"].finding(
        "data",
        expected="sizes for which no tensor of the model is empty and each bound that depends on sizes has one sign",
        got=f"{printable(here)} for this node, but {printable(there)} for {printable(place)}",
        remedy="correct the bounds of one of them; if the model never runs both, build descriptors for the sizes that occur",
    )
