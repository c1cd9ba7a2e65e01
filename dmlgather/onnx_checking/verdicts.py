"""Whether DirectML takes a node of a model, whose sizes need not all be known; conditions that no sizes meet together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from dmlgather.dialects.export_codes import CODES
from dmlgather.dialects.exporter import Descriptors, Exporter
from dmlgather.dialects.problem import Problem
from dmlgather.directml import FeatureLevel, Finding, OperatorDesc, Report
from dmlgather.onnx_checking.checked_model import CheckedNode, DirectMLForm, KnownCall, SizeCondition, Verdict
from dmlgather.onnx_checking.sizes.conditions import Conditions
from dmlgather.onnx_checking.sizes.ranges import Range
from dmlgather.wording import printable


@dataclass(frozen=True)
class Judged:
    """A verdict with its reasons; the fields are those of `CheckedNode`. findings: why it is refused, or what is missing.
    call: what the node computes; None where not all is known. within: the conditions that `conditions` states, of a node that is
    taken.
    """

    verdict: Verdict
    findings: tuple[Finding, ...] = ()
    taken: DirectMLForm | None = None
    lowest: DirectMLForm | None = None
    provided: tuple[str, ...] = ()
    call: KnownCall | None = None
    conditions: tuple[SizeCondition, ...] = ()
    within: Conditions | None = None
    reason: str | None = None

    def checked_node(self, **known: Any) -> CheckedNode:
        """The node's entry in a report. known: the fields of CheckedNode besides the verdict."""
        return CheckedNode(
            **known,
            verdict=self.verdict,
            taken=self.taken,
            lowest=self.lowest,
            missing=tuple(finding.path for finding in self.findings) if self.verdict is Verdict.UNKNOWN else (),
            provided=self.provided,
            conditions=self.conditions,
            reason=self.reason,
        )


WRONG = ("EXP101", "EXP111", "EXP304")
"""The codes of what is wrong with a node wherever it is computed."""


def of_host(judged: Judged) -> Judged:
    """The verdict on a node that is the host's arithmetic; a node that is wrong wherever it is computed stays refused."""
    return judged if any(finding.code in WRONG for finding in judged.findings) else Judged(Verdict.HOST, call=judged.call)


def verdict(
    exporter: Exporter, trials: Sequence[tuple[Mapping[str, int], Problem]], conditions: Conditions, level: FeatureLevel
) -> Judged:
    """Whether DirectML takes a node at a level. It does if it takes the node's problem with each of the trial sizes; so does the
    lowest level that is reported.

    trials: sizes for the unknown ones, and the node's problem with them; ordinary sizes first. conditions: those under which no
    tensor is empty.
    """
    results = [_expressed(exporter, problem, level) for _, problem in trials]
    forms = [_form(problem, *low) for _, problem in trials if (low := _lowest(exporter, problem)) is not None]
    lowest = max(forms, key=lambda form: form.level) if len(forms) == len(trials) else None
    stated = conditions.stated() if lowest else ()
    known: dict[str, Any] = {"lowest": lowest, "provided": tuple(each.text for each in stated), "conditions": stated}
    for (sizes, _), result in zip(trials, results, strict=True):
        if isinstance(result, Report):
            same = all(result == other for other in results)
            return Judged(Verdict.REFUSED, _for_sizes(result.findings, {} if same else sizes), **known)
    ordinary = next(result for result in results if not isinstance(result, Report))
    return Judged(Verdict.TAKEN, taken=_form(trials[0][1], level, ordinary), within=conditions, **known)


def _form(problem: Problem, level: FeatureLevel, descs: tuple[OperatorDesc, ...]) -> DirectMLForm:
    types: dict[str, str] = {}
    for role, field in zip(problem.inputs, ("input_tensor", "indices_tensor"), strict=False):
        described = [desc.tensor(field).data_type.name for desc in descs if field in desc.operator.tensors]
        own = getattr(problem, role).dtype.name.upper()
        if described and described[-1] != own:
            types[role] = described[-1]
    return DirectMLForm(level=level, operators=tuple(desc.operator.name for desc in descs), types=types)


def _for_sizes(findings: tuple[Finding, ...], sizes: Mapping[str, int]) -> tuple[Finding, ...]:
    """The findings with the sizes that they were found with. A finding about the data's type is not repeated for the output."""
    data = {(finding.code, finding.got) for finding in findings if finding.path == "InputTensor.DataType"}
    return tuple(
        finding.model_copy(update={"got": f"{finding.got}{with_sizes(sizes)}"})
        for finding in findings
        if finding.path != "OutputTensor.DataType" or (finding.code, finding.got) not in data
    )


def with_sizes(sizes: Mapping[str, int]) -> str:
    """The end of a message that holds for these sizes: " (with N = 2)"."""
    shown = ", ".join(f"{printable(name)} = {size}" for name, size in sizes.items())
    return f" (with {shown})" if shown else ""


# Models repeat the same problem many times.
@lru_cache(maxsize=1024)
def _expressed(exporter: Exporter, problem: Problem, level: FeatureLevel) -> Descriptors | Report:
    return exporter.express(problem, level)


@lru_cache(maxsize=1024)
def _lowest(exporter: Exporter, problem: Problem) -> tuple[FeatureLevel, Descriptors] | None:
    return exporter.lowest(problem)


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
