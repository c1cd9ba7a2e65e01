"""Whether DirectML takes a node of a model, whose sizes need not all be known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from dmlgather.dialects.checked_model import DirectMLForm, Verdict
from dmlgather.dialects.exporter import Descriptors, Exporter
from dmlgather.dialects.problem import Problem
from dmlgather.directml import FeatureLevel, Finding, OperatorDesc, Report
from dmlgather.wording import printable


@dataclass(frozen=True)
class Judged:
    """A verdict with what it rests on, as in `CheckedNode`. findings: what stands against the node, or what is missing."""

    verdict: Verdict
    findings: tuple[Finding, ...] = ()
    taken: DirectMLForm | None = None
    lowest: DirectMLForm | None = None
    provided: tuple[str, ...] = ()


def verdict(
    exporter: Exporter, trials: Sequence[tuple[Mapping[str, int], Problem]], provided: tuple[str, ...], level: FeatureLevel
) -> Judged:
    """Whether DirectML takes a node at a level: it does when it takes it with all sizes. The lowest level does for all as well.

    trials: sizes of what is not known, and the node's problem with them; ordinary ones first. provided: conditions under which
    no tensor is empty.
    """
    found = [_expressed(exporter, problem, level) for _, problem in trials]
    low = [_lowest(exporter, problem) for _, problem in trials]
    routes = [_route(problem, *step) for (_, problem), step in zip(trials, low, strict=True) if step is not None]
    first = max(routes, key=lambda route: route.level) if len(routes) == len(trials) else None
    provided = provided if first else ()
    for (sizes, _), report in zip(trials, found, strict=True):
        if isinstance(report, Report):
            alike = all(report == other for other in found)
            return Judged(Verdict.REFUSED, _told(report.findings, {} if alike else sizes), None, first, provided)
    ordinary = next(descs for descs in found if not isinstance(descs, Report))
    return Judged(Verdict.TAKEN, (), _route(trials[0][1], level, ordinary), first, provided)


def _route(problem: Problem, level: FeatureLevel, descs: tuple[OperatorDesc, ...]) -> DirectMLForm:
    types: dict[str, str] = {}
    for role, field in zip(problem.inputs, ("input_tensor", "indices_tensor"), strict=False):
        described = [desc.tensor(field).data_type.name for desc in descs if field in desc.operator.tensors]
        own = getattr(problem, role).dtype.name.upper()
        if described and described[-1] != own:
            types[role] = described[-1]
    return DirectMLForm(level=level, operators=tuple(desc.operator.name for desc in descs), types=types)


def _told(findings: tuple[Finding, ...], sizes: Mapping[str, int]) -> tuple[Finding, ...]:
    """The findings with the sizes that their numbers rest on. What is said of the data's type is not said again of the output."""
    data = {(finding.code, finding.got) for finding in findings if finding.path == "InputTensor.DataType"}
    return tuple(
        finding.model_copy(update={"got": f"{finding.got}{with_sizes(sizes)}"})
        for finding in findings
        if finding.path != "OutputTensor.DataType" or (finding.code, finding.got) not in data
    )


def with_sizes(sizes: Mapping[str, int]) -> str:
    """The sizes that numbers in a message rest on."""
    chosen = ", ".join(f"{printable(name)} = {size}" for name, size in sizes.items())
    return f" (with {chosen})" if chosen else ""


# Models repeat the same problem many times.
@lru_cache(maxsize=1024)
def _expressed(exporter: Exporter, problem: Problem, level: FeatureLevel) -> Descriptors | Report:
    return exporter.express(problem, level)


@lru_cache(maxsize=1024)
def _lowest(exporter: Exporter, problem: Problem) -> tuple[FeatureLevel, Descriptors] | None:
    return exporter.lowest(problem)
