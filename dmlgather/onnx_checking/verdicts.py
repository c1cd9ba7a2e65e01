"""Whether DirectML takes a node of a model at a feature level. Its sizes need not all be known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any

from dmlgather.dialects.exporter import Descriptors
from dmlgather.dialects.problem import Problem
from dmlgather.directml import FeatureLevel, Finding, OperatorDesc, Report
from dmlgather.onnx.problems.export import EXPORTER, broken_rule, index_out_of_range
from dmlgather.onnx.problems.node_reading import UnknownTypeError, UnknownValueError
from dmlgather.onnx_checking.checked_model import DirectMLForm, KnownCall, SizeCondition, Verdict
from dmlgather.onnx_checking.following.model_nodes import ModelNode
from dmlgather.onnx_checking.node_sizes import node_sizes, problem_with
from dmlgather.onnx_checking.sizes.conditions import Conditions
from dmlgather.onnx_checking.sizes.expressions import Sizes
from dmlgather.onnx_checking.sizes.unknown_sizes import NodeSizes, TrialSizes, trial_sizes
from dmlgather.onnx_checking.unknown_inputs import missing, no_sizes, reference, undefined_name
from dmlgather.wording import printable


@dataclass(frozen=True)
class Judged:
    """A verdict with its reasons. findings: why it is refused, or what is missing. taken, lowest: how DirectML takes the node at
    the level, and at the lowest one. within: the conditions on sizes under which the lowest one does. call: what the node
    computes; None where not all is known.
    """

    verdict: Verdict
    findings: tuple[Finding, ...] = ()
    taken: DirectMLForm | None = None
    lowest: DirectMLForm | None = None
    within: Conditions | None = None
    call: KnownCall | None = None

    @cached_property
    def conditions(self) -> tuple[SizeCondition, ...]:
        """The conditions that a report states."""
        return self.within.stated() if self.within else ()

    @property
    def provided(self) -> tuple[str, ...]:
        """These in words."""
        return tuple(each.text for each in self.conditions)


WRONG = ("EXP101", "EXP111", "EXP304")
"""The codes of what is wrong with a node wherever it is computed."""


def of_host(judged: Judged) -> Judged:
    """The verdict on a node that is the host's arithmetic; a node that is wrong wherever it is computed stays refused."""
    return judged if any(finding.code in WRONG for finding in judged.findings) else Judged(Verdict.HOST, call=judged.call)


def judge(site: ModelNode, level: FeatureLevel, sizes: Sizes, origins: Mapping[str, str], *, cut: bool = False) -> Judged:
    """Whether DirectML takes the node at a feature level, and why not. sizes: of the node's model. origins: the input of the
    model that decides a symbol of these. cut: as of `trial_sizes`.
    """
    undefined = tuple(undefined_name(role, each.name, each.undefined) for role, each in site.roles.items() if each.undefined)
    if undefined:
        return Judged(Verdict.REFUSED, undefined)
    if site.unreached is not None:
        return Judged(Verdict.UNREACHED)
    try:
        node = node_sizes(site, sizes)
        found = trial_sizes(node, cut)
        apart = found.possible is False and bool(node.least)
        if apart:
            found = trial_sizes(replace(node, least={}), cut)
        if found.possible is None:
            return Judged(Verdict.UNKNOWN, (no_sizes(node.symbols, origins),))
        trials = list(_trials(site, node, found))
    except (UnknownTypeError, UnknownValueError) as error:
        return Judged(Verdict.UNKNOWN, tuple(missing(site, sizes, origins)) or (reference(error),))
    except (TypeError, ValueError) as error:
        return Judged(Verdict.REFUSED, (broken_rule(site.node, site.opset, printable(str(error))),))
    judged = _judged(trials, found.provided, level)
    call = None if node.symbols else KnownCall(trials[0][1], site.numbers)
    wrong = _index_out_of_range(site, node, *trials[0], apart=apart)
    return replace(judged, call=call) if wrong is None else Judged(Verdict.REFUSED, (wrong, *judged.findings), call=call)


Trial = tuple[Mapping[str, int], Problem]
"""Values of the symbols in a node's sizes, and the node's problem with them."""


def _trials(site: ModelNode, node: NodeSizes, found: TrialSizes) -> Iterator[Trial]:
    """The node's trials. TypeError and ValueError as `problem_of`; those about sizes name them."""
    for values in found.values:
        shapes = {role: node.concrete(shape, values) for role, shape in node.shapes.items()}
        try:
            yield values, problem_with(site, shapes, partial(node.sizes.at, values=values))
        except (UnknownTypeError, UnknownValueError):
            raise
        except (TypeError, ValueError) as error:
            raise type(error)(f"{error}{_with_sizes(values) if len(found.values) == 1 else ''}") from error


def _judged(trials: Sequence[Trial], conditions: Conditions, level: FeatureLevel) -> Judged:
    """Whether DirectML takes a node at a level. It does if it takes the problem of each trial; so does the lowest level that is
    reported. trials: ordinary sizes first. conditions: those under which no tensor is empty.
    """
    results = [_expressed(problem, level) for _, problem in trials]
    forms = [_form(problem, *low) for _, problem in trials if (low := _lowest(problem)) is not None]
    lowest = max(forms, key=lambda form: form.level) if len(forms) == len(trials) else None
    known: dict[str, Any] = {"lowest": lowest, "within": conditions if lowest else None}
    for (sizes, _), result in zip(trials, results, strict=True):
        if isinstance(result, Report):
            same = all(result == other for other in results)
            return Judged(Verdict.REFUSED, _for_sizes(result.findings, {} if same else sizes), **known)
    ordinary = next(result for result in results if not isinstance(result, Report))
    return Judged(Verdict.TAKEN, taken=_form(trials[0][1], level, ordinary), **known)


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
        finding.model_copy(update={"got": f"{finding.got}{_with_sizes(sizes)}"})
        for finding in findings
        if finding.path != "OutputTensor.DataType" or (finding.code, finding.got) not in data
    )


def _with_sizes(sizes: Mapping[str, int]) -> str:
    """The end of a message that holds for these sizes: " (with N = 2)"."""
    shown = ", ".join(f"{printable(name)} = {size}" for name, size in sizes.items())
    return f" (with {shown})" if shown else ""


# Models repeat the same problem many times.
@lru_cache(maxsize=1024)
def _expressed(problem: Problem, level: FeatureLevel) -> Descriptors | Report:
    return EXPORTER.express(problem, level)


@lru_cache(maxsize=1024)
def _lowest(problem: Problem) -> tuple[FeatureLevel, Descriptors] | None:
    return EXPORTER.lowest(problem)


def _index_out_of_range(
    site: ModelNode, node: NodeSizes, values: Mapping[str, int], problem: Problem, *, apart: bool
) -> Finding | None:
    """The first constant index that is out of range whatever the unknown sizes are. values: of the symbols in these, with which
    `problem` is the node's. apart: whether the indices are in range for some sizes each, but not together.
    """
    indices = site.numbers.get("indices")
    if indices is None:
        return None
    unknown = {axis: size for axis, size in enumerate(node.shapes["data"]) if isinstance(size, str)}
    found = index_out_of_range(problem, indices, {axis: node.sizes.most(size) for axis, size in unknown.items()})
    if found is None and apart:
        found = index_out_of_range(problem, indices)
        return found and found.model_copy(update={"got": f"{found.got}{_with_sizes(values)}"})
    return found
