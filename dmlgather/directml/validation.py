"""Checking a descriptor: every rule runs, every finding is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from dmlgather.directml.descriptors import OperatorDesc
from dmlgather.directml.fields import wire_name
from dmlgather.directml.findings import Finding, Report, Severity
from dmlgather.directml.rules.rule import Case, Rule, TensorRules, run
from dmlgather.directml.rules.shared import OPERATOR_LEVEL, SHARED_RULES, TENSOR_LEVEL_RULES
from dmlgather.directml.rules.tensors import TENSOR_RULES
from dmlgather.directml.types import FeatureLevel
from dmlgather.wording import alternatives, braces

_OF_TENSORS = TensorRules((*TENSOR_RULES, *TENSOR_LEVEL_RULES))
_OF_LEVELS = TensorRules(TENSOR_LEVEL_RULES)


def validate(desc: OperatorDesc, level: FeatureLevel | str = FeatureLevel.LEVEL_6_4) -> Report:
    """Everything that is wrong with `desc` at a feature level ("6_4"). Never raises for a descriptor, however wrong.

    ValueError for an unknown level, TypeError for anything but an operator descriptor.
    """
    _check_type(desc)
    case = Case(desc, FeatureLevel.parse(level))
    return Report(subject=desc.operator.type, level=case.level, findings=tuple(_findings(case)))


def minimum_level(desc: OperatorDesc) -> FeatureLevel | None:
    """The lowest feature level at which `desc` has no ERROR; None when no level accepts it.

    TypeError for anything but an operator descriptor.
    """
    if not validate(desc, max(FeatureLevel)).ok:
        return None
    # Levels contain those before them, so only the rules that look at the level can still object.
    return next(level for level in FeatureLevel if not any(_tensor_and_level(Case(desc, level), _OF_LEVELS, set())))


def _check_type(desc: object) -> None:
    if not isinstance(desc, OperatorDesc) or not hasattr(desc, "operator"):
        raise TypeError(
            f"expected an operator descriptor such as GatherOperatorDesc, got {type(desc).__name__}; "
            'parse_descriptor reads {"type": "DML_OPERATOR_…", "desc": {…}}'
        )


def _findings(case: Case[OperatorDesc]) -> Iterator[Finding]:
    unjudged: set[str] = set()
    yield from _tensor_and_level(case, _OF_TENSORS, unjudged)
    of_tensors = frozenset(unjudged)
    found = _operator_findings(case, of_tensors)
    errors = _errors(found)
    for rule, finding in found:

        def mends(other: Case[OperatorDesc], others: set[str] = errors - {rule.code}) -> bool:
            return _errors(_operator_findings(other, of_tensors)) <= others

        meant = _meant(case, rule, mends)
        yield finding.model_copy(update={"remedy": f"{meant}; or {finding.remedy}"}) if meant else finding


def _tensor_and_level(case: Case[OperatorDesc], rules: TensorRules, unjudged: set[str]) -> Iterator[Finding]:
    """The findings of `rules` for each tensor, and of the rules that look at the level. A rule that one tensor leaves
    nothing to judge still runs for the others.
    """
    for _, finding in run((OPERATOR_LEVEL,), case, unjudged):
        yield finding
    before = frozenset(unjudged)
    for tensor in case.tensors:
        here = set(before)
        for _, finding in run(rules.of(tensor.tensor), tensor, here):
            yield finding
        unjudged |= here


def _operator_findings(case: Case[OperatorDesc], unjudged: Iterable[str]) -> list[tuple[Rule, Finding]]:
    """The findings of the rules between an operator's fields, where `unjudged` came out of its tensors."""
    return list(run(chain(SHARED_RULES, case.desc.operator.rules), case, set(unjudged)))


def _errors(found: Iterable[tuple[Rule, Finding]]) -> set[str]:
    return {finding.code for _, finding in found if finding.severity is Severity.ERROR}


def _meant(case: Case[OperatorDesc], rule: Rule, mends: Callable[[Case[OperatorDesc]], bool]) -> str:
    """Values of single fields that mend a fault of `rule`: "IndexDimensions = 1 gives the stated output {3,2}"."""
    output = case.desc.tensor(case.desc.operator.output)
    values = [(field, value) for field in rule.alternatives for value in range(output.rank + 1)]
    found = [
        f"{wire_name(field)} = {value}"
        for field, value in values
        if mends(Case(case.desc.model_copy(update={field: value}), case.level))
    ]
    return f"{alternatives(found)} gives the stated output {braces(output.sizes)}" if found else ""
