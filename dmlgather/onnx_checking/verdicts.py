"""DirectML's verdict on a node at a feature level. Some sizes may be unknown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any

from dmlgather.dialects.problem import Problem
from dmlgather.directml import FeatureLevel, Finding, OperatorDesc, Report
from dmlgather.onnx.problems.export import EXPORTER, broken_rule, index_out_of_range
from dmlgather.onnx.problems.gather import Gather
from dmlgather.onnx.problems.node_reading import UnknownTypeError, UnknownValueError
from dmlgather.onnx_checking.checked_model import DirectMLForm, KnownCall, SizeCondition, Verdict
from dmlgather.onnx_checking.following.model_nodes import ModelNode
from dmlgather.onnx_checking.node_sizes import node_sizes, problem_with
from dmlgather.onnx_checking.sizes.conditions import Conditions
from dmlgather.onnx_checking.sizes.expressions import Sizes
from dmlgather.onnx_checking.sizes.unknown_sizes import NodeSizes, TrialSizes, trial_sizes
from dmlgather.onnx_checking.unknown_inputs import function_attribute, missing_facts, no_sizes_found, undefined_name
from dmlgather.wording import printable


@dataclass(frozen=True)
class Judgement:
    """DirectML's verdict on a node, with its reasons.
    `lowest`: the DirectML operators at the lowest level that takes the node.
    `within`: the conditions on unknown sizes under which `lowest` runs the node.
    `beyond`: a finding about a constant index that is out of range in onnxruntime, where negative indices count from the end.
    """

    verdict: Verdict
    findings: tuple[Finding, ...] = ()
    taken: DirectMLForm | None = None
    lowest: DirectMLForm | None = None
    within: Conditions | None = None
    call: KnownCall | None = None
    beyond: Finding | None = None
    symbols: tuple[str, ...] = ()

    @cached_property
    def conditions(self) -> tuple[SizeCondition, ...]:
        """Return the conditions on unknown sizes in the form for reports."""
        return self.within.stated() if self.within else ()

    @property
    def provided(self) -> tuple[str, ...]:
        """Return the conditions on unknown sizes in words: "N >= 1"."""
        return tuple(each.text for each in self.conditions)


WRONG = ("EXP101", "EXP111", "EXP304")
"""Codes of errors on every device, not only for DirectML."""


def for_shape_computation(judgement: Judgement) -> Judgement:
    """Return the judgement of a shape computation: `host`, unless the node is wrong on every device."""
    is_wrong = any(finding.code in WRONG for finding in judgement.findings)
    return judgement if is_wrong else Judgement(Verdict.HOST, call=judgement.call)


NO_SIZES: Mapping[str, int] = {}


def judge(
    node: ModelNode,
    level: FeatureLevel,
    sizes: Sizes,
    origins: Mapping[str, str],
    *,
    clamped: bool = False,
    given: Mapping[str, int] = NO_SIZES,
) -> Judgement:
    """Return DirectML's verdict on a node at a feature level.
    `clamped`: True if symbolic bounds may lie outside their axes. ONNX clamps them.
    `given`: numbers for unknown sizes. They affect only the judgement's `call`.
    """
    undefined = tuple(undefined_name(role, value.name, value.undefined) for role, value in node.roles.items() if value.undefined)
    if undefined:
        return Judgement(Verdict.REFUSED, undefined)
    if node.unreached is not None:
        return Judgement(Verdict.UNREACHED)
    try:
        own_sizes = node_sizes(node, sizes)
        trial = trial_sizes(own_sizes, clamped)
        only_separately = trial.possible is False and bool(own_sizes.least)
        if only_separately:
            trial = trial_sizes(replace(own_sizes, least={}), clamped)
        if trial.possible is None:
            return Judgement(Verdict.UNKNOWN, (no_sizes_found(own_sizes.symbols, origins),))
        trials = list(_trials(node, own_sizes, trial))
    except (UnknownTypeError, UnknownValueError) as error:
        return Judgement(Verdict.UNKNOWN, tuple(missing_facts(node, sizes, origins)) or (function_attribute(error),))
    except (TypeError, ValueError) as error:
        return Judgement(Verdict.REFUSED, (broken_rule(node.proto, node.opset, printable(str(error))),))
    judgement = replace(_judgement(trials, trial.provided, level), symbols=tuple(own_sizes.symbols))
    call = _call(node, own_sizes, given)
    values, problem = trials[0]
    wrong = beyond = _index_out_of_range(node, own_sizes, values, problem, only_separately=only_separately)
    if wrong is None:
        return replace(judgement, call=call)
    if isinstance(problem, Gather) and not problem.wraps:
        counting = replace(problem, opset=COUNTING)
        beyond = _index_out_of_range(node, own_sizes, values, counting, only_separately=only_separately)
    return Judgement(Verdict.REFUSED, (wrong, *judgement.findings), call=call, beyond=beyond)


def _call(node: ModelNode, own_sizes: NodeSizes, given: Mapping[str, int]) -> KnownCall | None:
    """Return the node with the sizes in `given`, or None if a size is missing or breaks a rule of the operator."""
    if not given.keys() >= set(own_sizes.symbols):
        return None
    shapes = {role: own_sizes.concrete(shape, given) for role, shape in own_sizes.shapes.items()}
    with suppress(TypeError, ValueError, ZeroDivisionError):
        return KnownCall(problem_with(node, shapes, partial(own_sizes.sizes.at, values=given)), node.numbers)
    return None


COUNTING = 11
"""The first opset in which negative indices of Gather count from the end."""


Trial = tuple[Mapping[str, int], Problem]
"""Numbers for a node's unknown sizes, and the operator with these sizes."""


def _trials(node: ModelNode, own_sizes: NodeSizes, trial: TrialSizes) -> Iterator[Trial]:
    """Yield numbers for unknown sizes, and the problem with them. Raise TypeError or ValueError for an ill-formed node."""
    for values in trial.values:
        shapes = {role: own_sizes.concrete(shape, values) for role, shape in own_sizes.shapes.items()}
        try:
            yield values, problem_with(node, shapes, partial(own_sizes.sizes.at, values=values))
        except (UnknownTypeError, UnknownValueError):
            raise
        except (TypeError, ValueError) as error:
            raise type(error)(f"{error}{_with_sizes(values) if len(trial.values) == 1 else ''}") from error


def _judgement(trials: Sequence[Trial], conditions: Conditions, level: FeatureLevel) -> Judgement:
    """Return the verdict on a node: taken if DirectML takes every trial. The first trial gives the operators to report."""
    results = [_expressed(problem, level) for _, problem in trials]
    forms = [_form(problem, *low) for _, problem in trials if (low := _lowest(problem)) is not None]
    lowest = max(forms, key=lambda form: form.level) if len(forms) == len(trials) else None
    known: dict[str, Any] = {"lowest": lowest, "within": conditions if lowest else None}
    for (sizes, _), result in zip(trials, results, strict=True):
        if isinstance(result, Report):
            same = all(result == other for other in results)
            return Judgement(Verdict.REFUSED, _for_sizes(result.findings, {} if same else sizes), **known)
    ordinary = next(result for result in results if not isinstance(result, Report))
    return Judgement(Verdict.TAKEN, taken=_form(trials[0][1], level, ordinary), **known)


def _form(problem: Problem, level: FeatureLevel, descs: tuple[OperatorDesc, ...]) -> DirectMLForm:
    types: dict[str, str] = {}
    for role, field in zip(problem.inputs, ("input_tensor", "indices_tensor"), strict=False):
        described = [desc.tensor(field).data_type.name for desc in descs if field in desc.operator.tensors]
        own = getattr(problem, role).dtype.name.upper()
        if described and described[-1] != own:
            types[role] = described[-1]
    return DirectMLForm(level=level, operators=tuple(desc.operator.name for desc in descs), types=types)


def _for_sizes(findings: tuple[Finding, ...], sizes: Mapping[str, int]) -> tuple[Finding, ...]:
    """Add sizes to the texts of findings. Findings about the output's data type that repeat one about the input are dropped."""
    data = {(finding.code, finding.got) for finding in findings if finding.path == "InputTensor.DataType"}
    return tuple(
        finding.model_copy(update={"got": f"{finding.got}{_with_sizes(sizes)}"})
        for finding in findings
        if finding.path != "OutputTensor.DataType" or (finding.code, finding.got) not in data
    )


def _with_sizes(sizes: Mapping[str, int]) -> str:
    shown = ", ".join(f"{printable(name)} = {size}" for name, size in sizes.items())
    return f" (with {shown})" if shown else ""


# Cached, because models repeat a problem many times.
_expressed = lru_cache(maxsize=1024)(EXPORTER.express)
_lowest = lru_cache(maxsize=1024)(EXPORTER.lowest)


def lowest_level(problem: Problem) -> FeatureLevel | None:
    """Return the lowest feature level at which DirectML can run a problem, or None."""
    lowest = _lowest(problem)
    return None if lowest is None else lowest[0]


def refusal(problem: Problem) -> tuple[Finding, ...]:
    """Return why the newest feature level refuses a problem, or () if it does not."""
    result = _expressed(problem, max(FeatureLevel))
    return result.findings if isinstance(result, Report) else ()


def _index_out_of_range(
    node: ModelNode, own_sizes: NodeSizes, values: Mapping[str, int], problem: Problem, *, only_separately: bool
) -> Finding | None:
    """Return a finding about the first constant index that is out of range, whatever the unknown sizes are. None if all fit.
    `only_separately`: True if each index fits some sizes, but no sizes fit all of them. The finding then names `values`.
    """
    indices = node.numbers.get("indices")
    if indices is None:
        return None
    unknown = {axis: size for axis, size in enumerate(own_sizes.shapes["data"]) if isinstance(size, str)}
    finding = index_out_of_range(problem, indices, {axis: own_sizes.sizes.most(size) for axis, size in unknown.items()})
    if finding is None and only_separately:
        finding = index_out_of_range(problem, indices)
        return finding and finding.model_copy(update={"got": f"{finding.got}{_with_sizes(values)}"})
    return finding
