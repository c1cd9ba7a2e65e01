"""Rules for nodes that onnxruntime's DirectML provider refuses or runs wrongly. Each yields faults."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from dmlgather.dialects.problem import Problem
from dmlgather.directml import FeatureLevel, Finding, validate
from dmlgather.directml.rules.rule import Fault
from dmlgather.onnx.problems.export import FRONT
from dmlgather.onnx.problems.partial_types import PartialType
from dmlgather.onnx_checking.checked_model import Certainty, ProviderVerdict
from dmlgather.onnx_checking.contradictions import numbers_may_be
from dmlgather.onnx_checking.provider.case import NUMBER, ProviderCase, Shape
from dmlgather.onnx_checking.provider.codes import CODES
from dmlgather.onnx_checking.provider.descriptors import descriptor
from dmlgather.onnx_checking.provider.kernels import MOST_DIMENSIONS
from dmlgather.onnx_checking.provider.sizes import HIGHEST, LOWEST, SlicedBounds, lost_elements
from dmlgather.onnx_checking.sizes.conditions import Conditions
from dmlgather.onnx_checking.sizes.expressions import KnownSize
from dmlgather.wording import braces, printable, typed

INT64_HIGHEST = 2**63 - 1


def _is_stale(case: ProviderCase) -> Iterator[Fault]:
    """Yield a fault if onnxruntime's graph has wrong output sizes, because the model declares them. The node always fails."""
    computed = case.sizes
    if computed is not None and case.is_misled and differ(case.output.shape, computed):
        yield from stale(case.node.outputs[0].name, case.output, case.output.sized(computed), case.failure, "")


def _may_be_stale(case: ProviderCase) -> Iterator[Fault]:
    """Yield a fault if the model declares a fixed size, but some runs give another size. These runs fail."""
    graph_type, computed, sometimes = case.output, case.sizes, f"the run fails: {NUMBER}"
    misled = case.is_misled and computed is not None and not differ(graph_type.shape, computed)
    faults = list(stale(case.node.outputs[0].name, graph_type, graph_type.sized(computed), "", sometimes)) if misled else []
    yield from faults
    for input_ in case.arrays if case.is_early and not faults else ():
        failure = f"this node, or an earlier one, ends with {NUMBER}"
        for fault in stale(input_.value.name, case.graph_type(input_.value), input_.value.type, failure, sometimes):
            yield fault._replace(path=f"{input_.role}.shape")


def differ(shape: Shape | None, computed: Shape) -> bool:
    """Return True if two shapes have different ranks, or different numbers for the same dimension."""
    return shape is not None and (len(shape) != len(computed) or not all(map(numbers_may_be, shape, computed)))


def stale(name: str, graph_type: PartialType, computed: PartialType, failure: str, sometimes: str) -> Iterator[Fault]:
    """Yield a fault if a tensor's sizes in onnxruntime's graph may differ from the sizes that the provider computes."""
    pairs = [pair for pair in zip(graph_type.shape or (), computed.shape or (), strict=False) if isinstance(pair[0], int)]
    equalities = " and ".join(f"{printable(size)} = {number}" for number, size in pairs if isinstance(size, str))
    if computed.shape is not None and differ(graph_type.shape, computed.shape):
        remedy = "remove stale sizes from the model's value_info and outputs, or mend the exporter that wrote them"
    elif equalities:
        failure = f"{sometimes}, unless {equalities}"
        remedy = "export the model with dynamic sizes, or remove the numbers from its value_info and outputs"
    else:
        return
    yield Fault(
        "output.shape",
        expected=f"{computed}, as its inputs give",
        got=f"{graph_type}, which onnxruntime's graph has for {printable(name)!r} by what the model states; {failure}",
        remedy=remedy,
    )


def _has_many_dimensions(case: ProviderCase) -> Iterator[Fault]:
    shapes = {input_.role: input_.value.type.shape for input_ in case.arrays} | {"output": case.sizes}
    for role, shape in shapes.items():
        if shape is not None and len(shape) > MOST_DIMENSIONS:
            yield Fault(
                f"{role}.shape",
                expected=f"at most {MOST_DIMENSIONS}",
                got=f"{len(shape)}: {typed(None, shape)[1:]}; {case.failure}",
                remedy="reshape it before the node, so that dimensions that are not indexed become one",
            )


def _is_scalar(case: ProviderCase) -> Iterator[Fault]:
    if case.operator == "GatherND" and case.sizes == ():
        yield Fault(
            "output.shape",
            expected="one dimension or more",
            got=f"[], from data {typed(None, case.shape('data'))[1:]} and indices {typed(None, case.shape('indices'))[1:]}; "
            f"{case.failure}",
            remedy="give indices a leading dimension of 1, and reshape the result to a scalar behind the node",
        )


def _lacks_axes(case: ProviderCase) -> Iterator[Fault]:
    if "steps" in case.inputs and "axes" not in case.inputs:
        yield Fault(
            "axes",
            expected="axes, as there are steps",
            got=f"steps alone; {case.failure}",
            remedy="state axes: 0, 1, … as many as there are starts",
        )


def _has_small_indices(case: ProviderCase) -> Iterator[Fault]:
    """Yield a fault if GatherElements' indices tensor is always shorter than data along a dimension other than the axis."""
    for dimension, size, other in _unequal_sizes(case):
        if Conditions(case.model_sizes).holds((size,), (other,), 1):
            yield Fault(
                f"indices.shape[{dimension}]",
                expected=f"{_text(size)}, as data has it",
                got=f"{_text(other)} in {typed(None, case.shape('indices'))[1:]}; {case.failure}",
                remedy=f"slice data to {_text(other)} along dimension {dimension} before the node",
            )
            return


def _may_have_small_indices(case: ProviderCase) -> Iterator[Fault]:
    """Yield a fault if, in some runs, GatherElements' indices are shorter than data along a dimension other than the axis."""
    if any(_has_small_indices(case)):
        return
    unequal = [(size, other) if isinstance(other, int) else (other, size) for _, size, other in _unequal_sizes(case)]
    if unequal:
        yield Fault(
            "indices.shape",
            expected=f"the sizes of data, {typed(None, case.shape('data'))[1:]}, except along the axis",
            got=f"{typed(None, case.shape('indices'))[1:]}; the run fails: {NUMBER}, unless "
            + " and ".join(dict.fromkeys(f"{_text(name)} = {_text(size)}" for name, size in unequal)),
            remedy="if these sizes are equal in every run, give them one name in the model; otherwise slice data to the sizes of "
            "indices before the node",
        )


def _unequal_sizes(case: ProviderCase) -> Iterator[tuple[int, KnownSize, KnownSize]]:
    """Yield each dimension along which GatherElements' indices may be shorter than data, and the sizes of data and indices."""
    data, indices = case.named_shape("data"), case.named_shape("indices")
    if case.operator != "GatherElements" or data is None or indices is None or len(data) != len(indices):
        return
    axis = case.node.integers.get("axis", 0) % max(len(data), 1)
    for dimension, (size, other) in enumerate(zip(data, indices, strict=True)):
        if dimension != axis and Conditions(case.model_sizes).holds((size,), (other,), 1) is not False:
            yield dimension, size, other


def _text(size: KnownSize) -> str:
    return printable(str(size))


def _breaks_directml(case: ProviderCase) -> Iterator[Fault]:
    """Yield a fault for each rule of DirectML that the provider's descriptor breaks."""
    problem = case.problem
    if problem is None or any(0 in tensor.shape for tensor in problem.tensors) or 0 in (case.sizes or ()):
        return  # the provider does nothing for an empty tensor
    if any(len(tensor.shape) > MOST_DIMENSIONS for tensor in problem.tensors):
        return
    for role in (*problem.inputs, "output"):
        size = max(getattr(problem, role).shape, default=0)
        if size >= 2**32:
            expected = "sizes of at most 4294967295, which DirectML's descriptors can state"
            yield Fault(f"{role}.shape", expected=expected, got=f"{size}; {case.failure}", remedy="split the tensor")
            return
    for finding in _errors(problem, case.level):
        if finding.code not in COVERED:
            yield Fault(
                finding.path,
                expected=f"{finding.expected} ({finding.code}: {finding.message})",
                got=f"{finding.got}; {case.failure}",
                remedy=finding.remedy,
                level=finding.level,
            )


COVERED = ("DML401",)
"""Rules of DirectML that this module checks itself, with messages about the ONNX node."""


def _errors(problem: Problem, level: FeatureLevel) -> tuple[Finding, ...]:
    if problem.name == "GatherND" and not problem.output.shape:
        return ()
    return validate(descriptor(problem), level).errors


def _is_out_of_range(case: ProviderCase) -> Iterator[Fault]:
    wrong = case.judgement.beyond
    if wrong is not None:
        yield Fault(
            wrong.path,
            expected=wrong.expected,
            got=f"{wrong.got}, for which the provider takes the nearest element; the CPU provider refuses it",
            remedy="correct the constant",
        )


def _repeats_axes(case: ProviderCase) -> Iterator[Fault]:
    """Yield a fault if a Slice has an axis twice. ONNX already refuses repeated axes that are constant."""
    axes = [bounds.axis for bounds in case.axes]
    axes_input = case.inputs.get("axes")
    if len(set(axes)) < len(axes) and (axes_input is None or axes_input.at not in case.placed.constants):
        yield Fault(
            "axes",
            expected="each axis once",
            got=f"{braces(axes)}, of which the provider takes the last; the CPU provider refuses it",
            remedy="remove the bounds of all but the last",
        )


def _ends_behind(case: ProviderCase) -> Iterator[Fault]:
    for each in _reversed(case):
        if each.end in (HIGHEST, INT64_HIGHEST):
            yield Fault(
                "ends",
                expected="an end before the start: -(size + 1) or less to reverse the whole axis",
                got=f"{each.end} with step {each.step}, which is empty in ONNX and in the provider, and a reversal on the CPU",
                remedy=f"write {FRONT} for the end, if the reversal is meant",
            )


def _starts_too_early(case: ProviderCase, *, stated: bool, always: bool) -> Iterator[Fault]:
    """Yield a fault if a slice starts before its axis: the provider takes no element, unlike ONNX.
    `stated`: True to check only axes with a fixed output size in onnxruntime's graph. The provider fails there.
    `always`: True to yield only faults that occur for all sizes, False for faults that occur for some sizes.
    """
    data = case.named_shape("data") or ()
    for bounds in case.axes:
        size = data[bounds.axis]
        has_elements = Conditions(case.model_sizes)
        has_elements.require((size,), (), 1)
        lost = lost_elements(has_elements, size, bounds).solved()
        conditions = [each.text for each in lost.stated()] if lost.stated() != has_elements.stated() else []
        in_graph = case.output.shape is not None and isinstance(case.output.shape[bounds.axis], int)
        if lost.tightened() is None or in_graph is not stated or always is not (not conditions):
            continue
        nearest = "0" if isinstance(bounds.step, int) and bounds.step > 0 else f"-{_text(size)}"
        start = f"write {nearest} for the start"
        if nearest != "0" and not isinstance(size, int):
            start = f"compute the start, Max({bounds.start}, {nearest})"
        failure = f"; {case.failure if always else f'the run fails: {NUMBER}'}" if stated else ""
        yield Fault(
            "starts",
            expected=f"a start of {nearest}, or behind it",
            got=f"{bounds.start} with end {bounds.end} and step {bounds.step}, from which the provider takes no element, unlike "
            f"ONNX{', for ' if conditions else ''}{' and '.join(conditions)}{failure}",
            remedy=f"{start}, which means the same in ONNX",
        )


def _ends_at_lowest(case: ProviderCase) -> Iterator[Fault]:
    for bounds in _reversed(case):
        if isinstance(bounds.end, int) and bounds.end < LOWEST:
            yield Fault(
                "ends",
                expected=f"an end of {FRONT} or more",
                got=f"{bounds.end} with step {bounds.step}: the provider's source reads right, but four of onnxruntime's tests "
                "with such an end are skipped for it",
                remedy=f"write {FRONT} for the end, with which no test is skipped, and compare with the CPU provider",
            )


def _reversed(case: ProviderCase) -> Iterator[SlicedBounds]:
    return (bounds for bounds in case.axes if isinstance(bounds.step, int) and bounds.step < 0)


def _has_unequal_batches(case: ProviderCase) -> Iterator[Fault]:
    data, indices = case.shape("data"), case.shape("indices")
    if case.operator != "GatherND" or data is None or indices is None:
        return
    batch = case.node.integers.get("batch_dims", 0)
    if 0 < batch < min(len(data), len(indices)) and differ(data[:batch], indices[:batch]):
        yield Fault(
            "indices.shape",
            expected=f"{typed(None, data[:batch])[1:]}, the batches of data",
            got=f"{typed(None, indices[:batch])[1:]}: ONNX gives the output the batches of indices, the provider those of data: "
            f"{case.failure}, where both are known before; else DirectML decides, whose documents refuse them",
            remedy="expand the smaller one to the batches of the other before the node",
        )


class ProviderRule(NamedTuple):
    """A rule of the provider. `text`: the verdict in words, with the placeholders `{failure}` and `{codes}`."""

    code: str
    verdict: ProviderVerdict
    certainty: Certainty
    text: str
    check: Callable[[ProviderCase], Iterator[Fault]]

    @property
    def sometimes(self) -> bool:
        """Return True if only some runs fail or give a different result."""
        return self.text in (_SOMETIMES, _SOMETIMES_OTHER)


_FAILS, _DIFFERS, _UNCLEAR = ProviderVerdict.FAILS, ProviderVerdict.DIFFERS, ProviderVerdict.UNCLEAR
_READ, _INFERRED, _OPEN = Certainty.READ, Certainty.INFERRED, Certainty.UNKNOWN
_ALWAYS, _SOMETIMES = "{failure} ({codes})", f"some runs fail: {NUMBER} ({{codes}})"
_OTHER, _SOMETIMES_OTHER = "runs, and differs from the CPU ({codes})", "some runs differ from the CPU ({codes})"
_CONTRADICTED = "unclear ({codes})"

RULES = (
    ProviderRule("ORT101", _FAILS, _READ, _ALWAYS, _is_stale),
    ProviderRule("ORT103", _FAILS, _READ, _ALWAYS, _has_many_dimensions),
    ProviderRule("ORT104", _FAILS, _READ, _ALWAYS, _is_scalar),
    ProviderRule("ORT105", _FAILS, _READ, _ALWAYS, _lacks_axes),
    ProviderRule("ORT106", _FAILS, _READ, _ALWAYS, _has_small_indices),
    ProviderRule("ORT107", _FAILS, _READ, _ALWAYS, _breaks_directml),
    ProviderRule("ORT204", _FAILS, _INFERRED, _ALWAYS, partial(_starts_too_early, stated=True, always=True)),
    ProviderRule("ORT110", _FAILS, _READ, _SOMETIMES, _may_have_small_indices),
    ProviderRule("ORT204", _FAILS, _INFERRED, _SOMETIMES, partial(_starts_too_early, stated=True, always=False)),
    ProviderRule("ORT102", _FAILS, _INFERRED, _SOMETIMES, _may_be_stale),
    ProviderRule("ORT302", _UNCLEAR, _OPEN, _CONTRADICTED, _has_unequal_batches),
    ProviderRule("ORT301", _UNCLEAR, _OPEN, _CONTRADICTED, _ends_at_lowest),
    ProviderRule("ORT201", _DIFFERS, _READ, _OTHER, _is_out_of_range),
    ProviderRule("ORT202", _DIFFERS, _READ, _OTHER, _repeats_axes),
    ProviderRule("ORT203", _DIFFERS, _READ, _OTHER, _ends_behind),
    ProviderRule("ORT204", _DIFFERS, _INFERRED, _OTHER, partial(_starts_too_early, stated=False, always=True)),
    ProviderRule("ORT204", _DIFFERS, _INFERRED, _SOMETIMES_OTHER, partial(_starts_too_early, stated=False, always=False)),
)
"""All rules, in order of priority. The first broken rule decides the verdict."""


def broken(case: ProviderCase) -> list[tuple[ProviderRule, Finding]]:
    """Return each broken rule, with a finding about the node."""
    return [(rule, CODES[rule.code].finding(**fault._asdict())) for rule in RULES for fault in rule.check(case)]
