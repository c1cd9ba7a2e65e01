"""Conditions that several nodes of a model state, and that no sizes meet together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from dmlgather.dialects.export_codes import CODES
from dmlgather.directml import Finding
from dmlgather.onnx_checking.checked_model import Verdict
from dmlgather.onnx_checking.following.model_nodes import ModelNode
from dmlgather.onnx_checking.sizes.expressions import Sizes
from dmlgather.onnx_checking.sizes.ranges import Range
from dmlgather.onnx_checking.verdicts import Judged
from dmlgather.wording import printable

MOST_COMPARED = 16
"""How many of the conditions on a symbol that leave the fewest sizes are compared."""

BRANCHES = {"then_branch", "else_branch"}

Verdicts = list[tuple[ModelNode, Judged]]
"""The nodes of a model, each with its verdict."""

Claim = tuple[str, Range]
"""The place of a node, and what it states of a symbol."""


def reconciled(verdicts: Verdicts, sizes: Sizes, wider: Callable[[ModelNode], Judged]) -> Verdicts:
    """The verdicts without conflicts, as far as that can be. wider: the verdict on a node of which bounds may be cut off, as ONNX
    does; it replaces that on a node in a conflict which DirectML takes so.
    """
    cut: set[str] = set()
    while more := {place for _, pairs in _pairs(verdicts, sizes) for pair in pairs for place, _ in pair} - cut:
        cut |= more
        again = {site.place: wider(site) for site, _ in verdicts if site.place in more}
        taken = {place: each for place, each in again.items() if each.verdict is Verdict.TAKEN}
        verdicts = [(site, taken.get(site.place, each)) for site, each in verdicts]
    return verdicts


def conflicts(verdicts: Verdicts, sizes: Sizes) -> Iterator[tuple[str, Finding]]:
    """A finding, with its place, for each symbol of which two nodes state what cannot be both."""
    for symbol, pairs in _pairs(verdicts, sizes):
        (here, one), (there, two) = pairs[0]
        own, other = printable(one.condition(symbol)), printable(two.condition(symbol))
        finding = CODES["EXP305"].finding(
            "data",
            expected="sizes for which no tensor of the model is empty and each bound that depends on sizes has one sign",
            got=f"{own} for this node, but {other} for {printable(there)}",
            remedy="correct the bounds of one of them; if the model never runs both, build descriptors for the sizes that occur",
        )
        yield here, finding


def _pairs(verdicts: Verdicts, sizes: Sizes) -> Iterator[tuple[str, list[tuple[Claim, Claim]]]]:
    """The symbols of which nodes state what cannot be both, with pairs of such nodes."""
    of_symbol: dict[str, list[Claim]] = {}
    for symbol, claim in _claims(verdicts, sizes):
        of_symbol.setdefault(symbol, []).append(claim)
    for symbol, claims in of_symbol.items():
        bounded = [(place, known) for place, known in claims if known.high is not None]
        least = sorted(claims, key=lambda each: -each[1].low)[:MOST_COMPARED]
        most = sorted(bounded, key=lambda each: each[1].high or 0)[:MOST_COMPARED]
        pairs = [(one, two) for one in least for two in most if one[1].both(two[1]).empty and not exclusive(one[0], two[0])]
        if pairs:
            yield symbol, pairs


def _claims(verdicts: Verdicts, sizes: Sizes) -> Iterator[tuple[str, Claim]]:
    """What the nodes that are taken state of each symbol of the model; their conditions may have symbols of their own."""
    for site, each in verdicts:
        if each.verdict is Verdict.TAKEN and each.within is not None and each.conditions:
            named = chain.from_iterable((*(value.type.shape or ()), *value.names) for value in site.inputs)
            symbols = _symbols((size for size in named if isinstance(size, str)), sizes)
            yield from ((symbol, (site.place, known)) for symbol, known in each.within.ranges.items() if symbol in symbols)


def _symbols(named: Iterable[str], sizes: Sizes) -> set[str]:
    return set(chain.from_iterable(map(sizes.symbols, named)))


def exclusive(one: str, two: str) -> bool:
    """Whether two places are in different branches of one If, so that only one of them is run."""
    differing = ((a, b) for a, b in zip(one.split("/"), two.split("/"), strict=False) if a != b)
    (node, _, branch), (other, _, other_branch) = (each.rpartition(".") for each in next(differing, ("", "")))
    return node == other and {branch, other_branch} == BRANCHES
