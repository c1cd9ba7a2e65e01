"""Conflicts between nodes: no size meets the conditions of both, for example "N >= 8" and "N <= 4"."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

from dmlgather.dialects.export_codes import CODES
from dmlgather.directml import Finding
from dmlgather.onnx_checking.checked_model import Verdict
from dmlgather.onnx_checking.following.control_flow import BRANCHES
from dmlgather.onnx_checking.following.model_nodes import ModelNode
from dmlgather.onnx_checking.sizes.expressions import Sizes
from dmlgather.onnx_checking.sizes.ranges import Range
from dmlgather.onnx_checking.verdicts import Judgement
from dmlgather.wording import printable

MOST_COMPARED = 16
"""For each symbol, only so many of the largest minimums and of the smallest maximums are compared."""

Verdicts = list[tuple[ModelNode, Judgement]]

Claim = tuple[str, Range]
"""A node's place, and the range that it allows for a symbol."""


def reconciled(verdicts: Verdicts, sizes: Sizes, judge_clamped: Callable[[ModelNode], Judgement]) -> Verdicts:
    """Judge nodes with contradictory conditions a second time. Return the verdicts on all nodes.
    The first judgement requires that slice bounds lie within the axis. The second allows all bounds, because ONNX clamps them.
    The second judgement replaces the first only if DirectML takes the node.
    """
    clamped: set[str] = set()
    while conflicting := {place for _, pairs in _pairs(verdicts, sizes) for pair in pairs for place, _ in pair} - clamped:
        clamped |= conflicting
        rejudged = {node.place: judge_clamped(node) for node, _ in verdicts if node.place in conflicting}
        taken = {place: judgement for place, judgement in rejudged.items() if judgement.verdict is Verdict.TAKEN}
        verdicts = [(node, taken.get(node.place, judgement)) for node, judgement in verdicts]
    return verdicts


def conflicts(verdicts: Verdicts, sizes: Sizes) -> Iterator[tuple[str, Finding]]:
    """Yield a place and a finding for each symbol with contradictory conditions."""
    for symbol, pairs in _pairs(verdicts, sizes):
        (here, own_range), (there, other_range) = pairs[0]
        own, other = printable(own_range.condition(symbol)), printable(other_range.condition(symbol))
        finding = CODES["EXP305"].finding(
            "data",
            expected="sizes for which no tensor of the model is empty and no bound changes its sign",
            got=f"{own} for this node, but {other} for {printable(there)}",
            remedy="correct the bounds of one of them; if the model never runs both, build descriptors for the sizes that occur",
        )
        yield here, finding


def _pairs(verdicts: Verdicts, sizes: Sizes) -> Iterator[tuple[str, list[tuple[Claim, Claim]]]]:
    """Yield each symbol with contradictory conditions, and the pairs of contradictory conditions."""
    of_symbol: dict[str, list[Claim]] = {}
    for symbol, claim in _claims(verdicts, sizes):
        of_symbol.setdefault(symbol, []).append(claim)
    for symbol, claims in of_symbol.items():
        bounded = [(place, allowed) for place, allowed in claims if allowed.high is not None]
        least = sorted(claims, key=lambda claim: -claim[1].low)[:MOST_COMPARED]
        most = sorted(bounded, key=lambda claim: claim[1].high or 0)[:MOST_COMPARED]
        pairs = [(one, two) for one in least for two in most if one[1].both(two[1]).empty and not exclusive(one[0], two[0])]
        if pairs:
            yield symbol, pairs


def _claims(verdicts: Verdicts, sizes: Sizes) -> Iterator[tuple[str, Claim]]:
    """Yield each symbol and the range that a node requires. Made-up symbols such as "data[0]" are left out."""
    for node, judgement in verdicts:
        if judgement.verdict is Verdict.TAKEN and judgement.within is not None and judgement.conditions:
            names = chain.from_iterable((*(value.type.shape or ()), *value.names) for value in node.inputs)
            symbols = set(chain.from_iterable(map(sizes.symbols, names)))
            ranges = judgement.within.ranges
            yield from ((symbol, (node.place, ranges[symbol])) for symbol in ranges if symbol in symbols)


def exclusive(first: str, second: str) -> bool:
    """Return True if two places are in different branches of one If."""
    differing = ((one, two) for one, two in zip(first.split("/"), second.split("/"), strict=False) if one != two)
    (node, _, branch), (other, _, other_branch) = (each.rpartition(".") for each in next(differing, ("", "")))
    return node == other and {branch, other_branch} == set(BRANCHES)
