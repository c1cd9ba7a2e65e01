"""From a dialect's problems to DirectML: what holds for every form. A dialect has one `Exporter`, with a form per problem."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dmlgather.dialects.descriptors import InexpressibleError, View, storage_type
from dmlgather.dialects.export_codes import CODES
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.directml import DataType, FeatureLevel, Finding, OperatorDesc, Report, validate
from dmlgather.directml.support import TABLE

Descriptors = tuple[OperatorDesc, ...]

STEPS = tuple(sorted({row.level for row in TABLE}))
"""The levels that take more of this family than the one before."""


def tensors_by_name(problem: Problem) -> dict[str, TensorType]:
    """The array inputs by their names, and the output."""
    return dict(zip((*problem.inputs, "output"), problem.tensors, strict=True))


class BrokenRuleError(Exception):
    """A call breaks a rule of its operator: `cause` says which."""

    def __init__(self, cause: TypeError | ValueError) -> None:
        super().__init__(str(cause))
        self.cause = cause

    def report(self, subject: str, level: FeatureLevel, *, expected: str, peer: str) -> Report:
        """What `to_directml` answers. expected: what the rule allows. peer: who refuses the call too."""
        remedy = f"correct the call; {peer} itself refuses it as it stands"
        finding = CODES["EXP101"].finding("", expected=expected, got=str(self), remedy=remedy)
        return Report(subject=subject, level=level, findings=(finding,))


@dataclass(frozen=True, eq=False)
class Exporter:
    """How a dialect's problems become descriptors. Compared by identity, and hashable.

    forms: from a problem and a level to the descriptors that do it, with InexpressibleError where none do; called for problems
    whose tensors all have elements that are numbers. title: what a report calls a problem: "ONNX Gather-13". needed: the tensors
    that must have elements, by name.
    """

    forms: Mapping[type[Problem], Callable[[Any, FeatureLevel], Descriptors]]
    title: Callable[[Any], str]
    needed: Callable[[Any], Mapping[str, TensorType]] = tensors_by_name

    def express(self, problem: Problem, level: FeatureLevel) -> Descriptors | Report:
        """The descriptors that do at `level` what a problem does, in the order in which they run; or what stands against it.

        One descriptor as a rule. The report has findings of severity error: of the codes EXP1xx, in the dialect's names, or,
        where the level takes the form but not its data type, those of `validate`.
        """
        findings = tuple(_without_form(problem, self.needed(problem)))
        if not findings:
            try:
                found = self.forms[type(problem)](problem, level)
            except InexpressibleError as refusal:
                findings = (refusal.finding,)
        if findings:
            return Report(subject=self.title(problem), level=level, findings=findings)
        reports = (validate(desc, level) for desc in found)
        refused = next((report for report in reports if not report.ok), None)
        return found if refused is None else _naming_carried(refused, problem)

    def lowest(self, problem: Problem) -> tuple[FeatureLevel, Descriptors] | None:
        """The lowest feature level that takes a problem, and its descriptors there; None where no level does."""
        for level in STEPS:
            found = self.express(problem, level)
            if not isinstance(found, Report):
                return level, found
        return None


def views(problem: Problem) -> list[View]:
    """Data, indices where there are any, and output, packed; with the dimensions that the data type adds to data and output."""
    held = storage_type(problem.data.dtype)
    assert held is not None, "strings are refused before"
    data_type, parts = held
    indices = [View.packed("indices", DataType[each.dtype.name.upper()], each.shape) for each in problem.tensors[1:-1]]
    data, output = (
        View.packed(name, data_type, tensor.shape + parts)
        for name, tensor in (("data", problem.data), ("output", problem.output))
    )
    return [data, *indices, output]


def _naming_carried(report: Report, problem: Problem) -> Report:
    """The report, which says of a data type that only carries bits what it carries: "UINT64, which carries complex64"."""
    dtype = problem.data.dtype
    held = storage_type(dtype)
    if held is None or held[0].name == dtype.name.upper():
        return report
    findings = (
        finding.model_copy(update={"got": f"{finding.got}, which carries {dtype.name}"})
        if finding.path in ("InputTensor.DataType", "OutputTensor.DataType")
        else finding
        for finding in report.findings
    )
    return report.model_copy(update={"findings": tuple(findings)})


def _without_form(problem: Problem, needed: Mapping[str, TensorType]) -> Iterator[Finding]:
    """What stands against a problem at every level, whatever the form."""
    dtype = problem.data.dtype
    if storage_type(dtype) is None:
        yield CODES["EXP103"].finding(
            "data",
            expected="numbers or bool" if dtype.hasobject else "elements of whole bytes",
            got="strings" if dtype.hasobject else dtype.name,
            remedy="gather positions of strings in DirectML and look the strings up on the host"
            if dtype.hasobject
            else "convert to a type of whole bytes first",
        )
    empty = {name: tensor.shape for name, tensor in needed.items() if 0 in tensor.shape}
    if len(empty) > 1:
        empty.pop("output", None)  # for want of elements in an input
    whole = {name: list(tensor.shape) for name, tensor in tensors_by_name(problem).items()}
    for name, shape in empty.items():
        for axis, size in enumerate(shape):
            if size == 0:
                yield CODES["EXP102"].finding(
                    f"{name}.shape[{axis}]",
                    expected="at least 1",
                    got=f"0 in {whole.get(name, list(shape))}",
                    remedy="leave the node out where a tensor has no elements: DirectML cannot describe one",
                )
