"""From a dialect's problems to DirectML: what all dialects share. A dialect has one `Exporter`, with a form per problem."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from dmlgather.dialects.descriptors import Dim, InexpressibleError, View, gather_elements, gather_nd, slices, storage_type
from dmlgather.dialects.export_codes import CODES
from dmlgather.dialects.gathers import GatherElementsProblem, GatherNDProblem
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.dialects.windows import Window, WindowProblem
from dmlgather.directml import DataType, FeatureLevel, Finding, OperatorDesc, Report, validate
from dmlgather.directml.support import TABLE
from dmlgather.wording import alternatives

Descriptors = tuple[OperatorDesc, ...]

LEVELS = tuple(sorted({row.level for row in TABLE}))
"""The feature levels that take more of this family than the level before."""


def tensors_by_name(problem: Problem) -> dict[str, TensorType]:
    """The array inputs by their names, and the output."""
    return dict(zip((*problem.inputs, "output"), problem.tensors, strict=True))


class Unlike(NamedTuple):
    """Which indices of a problem DirectML treats otherwise than its dialect, in words.

    path: what the dialect calls the indices. outside: what it gives for those out of `bounds`, where DirectML takes the nearest
    element; None where it does so too. negative: what it gives for negative ones, which DirectML counts from the end; likewise.
    Behind each of them: what to do about it. what: what indices are.
    """

    path: str
    bounds: str
    outside: str | None
    mend: str
    negative: str | None = None
    mend_negative: str = ""
    what: str = "indices"


@dataclass(frozen=True, eq=False)
class Exporter:
    """How a dialect's problems become descriptors. Compared by identity, and hashable.

    forms: from a problem, whose tensors all have elements that are numbers, and a level to the descriptors; InexpressibleError
    where there are none. title: what a report calls a problem: "ONNX Gather-13". required: the tensors that must have elements,
    by name. names: what the dialect calls an input or attribute, where it is not the problem's own name: {"data": "operand"}.
    unlike: how the dialect treats indices, from a problem and their values, if they are known; None for as DirectML does.
    emptied: what is to be done about an output that has no elements along an axis, where that is not what others give: from the
    problem and the axis; None otherwise.
    """

    forms: Mapping[type[Problem], Callable[[Any, FeatureLevel], Descriptors]]
    title: Callable[[Any], str]
    required: Callable[[Any], Mapping[str, TensorType]] = tensors_by_name
    names: Mapping[str, str] = field(default_factory=dict)
    unlike: Callable[[Any, Any], Unlike | None] | None = None
    emptied: Callable[[Any, int], str | None] | None = None

    def to_directml(
        self, call: Callable[[], Problem], level: FeatureLevel, dialect: str, operator: str
    ) -> OperatorDesc | Descriptors | Report:
        """What a public `to_directml` returns. call: makes the problem; TypeError, ValueError and IndexError become an EXP101."""
        try:
            problem = call()
        except (TypeError, ValueError, IndexError) as error:
            finding = CODES["EXP101"].finding(
                "",
                expected=f"a call that {operator} allows",
                got=str(error),
                remedy=f"correct the call; {dialect} refuses it too",
            )
            return Report(subject=f"{dialect} {operator}", level=level, findings=(finding,))
        descriptors = self.express(problem, level)
        return descriptors if isinstance(descriptors, Report) or len(descriptors) > 1 else descriptors[0]

    def express(self, problem: Problem, level: FeatureLevel) -> Descriptors | Report:
        """The descriptors for a problem at `level`, in the order in which they run, or a report of why there are none.

        Usually there is one descriptor. The report's findings have severity error: codes EXP1xx, with the dialect's names, or
        those of `validate` where the level has the operator but not for this data type.
        """
        try:
            return self._at(level, problem)
        except InexpressibleError as refusal:
            finding = refusal.finding if not refusal.newer else self._with_level(refusal.finding, problem)
            return self._report(problem, level, finding)

    def lowest(self, problem: Problem) -> tuple[FeatureLevel, Descriptors] | None:
        """The lowest feature level that takes a problem, and its descriptors there; None where no level does."""
        for level in LEVELS:
            with suppress(InexpressibleError):
                descriptors = self._at(level, problem)
                if not isinstance(descriptors, Report):
                    return level, descriptors
        return None

    def differences(self, problem: Problem, known: Any = None) -> tuple[Finding, ...]:
        """The indices for which the descriptors read other elements than the dialect, at any level: warnings EXP201, EXP202.

        known: the values of the indices, if they are known.
        """
        found, at = [], None if self.unlike is None else self.unlike(problem, known)
        if at is not None and at.outside is not None:
            got = f"{at.outside}, the nearest element in DirectML"
            expected = f"{at.what} from {at.bounds}"
            found.append(CODES["EXP201"].finding(at.path, expected=expected, got=got, remedy=at.mend))
        if at is not None and at.negative is not None:
            got = f"{at.negative}, an element counted from the end in DirectML from level 3_0 on"
            found.append(CODES["EXP202"].finding(at.path, expected=f"{at.what} from 0 on", got=got, remedy=at.mend_negative))
        return tuple(found)

    def _at(self, level: FeatureLevel, problem: Problem) -> Descriptors | Report:
        """As `express`, but InexpressibleError where a form raises it."""
        findings = tuple(_findings_at_every_level(problem, self.required(problem), self.emptied))
        if findings:
            return self._report(problem, level, *findings)
        descriptors = self.forms[type(problem)](problem, level)
        reports = (validate(desc, level) for desc in descriptors)
        refused = next((report for report in reports if not report.ok), None)
        return descriptors if refused is None else _with_own_type(refused, problem)

    def _report(self, problem: Problem, level: FeatureLevel, *findings: Finding) -> Report:
        return Report(subject=self.title(problem), level=level, findings=tuple(map(self._renamed, findings)))

    def _with_level(self, finding: Finding, problem: Problem) -> Finding:
        """The finding with the lowest level that takes the problem; where none does, with what the last level needs."""
        lowest = self.lowest(problem)
        if lowest is not None:
            level, way, remark = lowest[0], f"use feature level {lowest[0]} or newer", ""
        else:
            last = self.express(problem, LEVELS[-1])
            assert isinstance(last, Report), "no level takes the problem"
            level, way, remark = None, last.findings[0].remedy, "; no feature level takes it as it is"
        ways = dict.fromkeys(filter(None, (way, finding.remedy)))
        return finding.model_copy(update={"level": level, "remedy": ", or ".join(ways) + remark})

    def _renamed(self, finding: Finding) -> Finding:
        """The finding with the dialect's name at the start of its path."""
        path = re.sub(r"^\w+", lambda first: self.names.get(first[0], first[0]), finding.path)
        return finding.model_copy(update={"path": path})


def index_bounds(sizes: Iterable[int], wraps: bool) -> str:
    """The indices into dimensions of these sizes that are in range, in words."""
    ranges = dict.fromkeys(f"{-size if wraps else 0} to {size - 1}" for size in sizes)
    return alternatives(ranges) + (", by the dimension that they index" if len(ranges) > 1 else "")


def views(problem: Problem) -> list[View]:
    """Data, indices where there are any, and output, packed; with the dimensions that the data type adds to data and output."""
    storage = storage_type(problem.data.dtype)
    assert storage is not None, "such types are refused before"
    data_type, parts = storage
    indices = [View.packed("indices", DataType[each.dtype.name.upper()], each.shape) for each in problem.tensors[1:-1]]
    data, output = (
        View.packed(name, data_type, tensor.shape + parts)
        for name, tensor in (("data", problem.data), ("output", problem.output))
    )
    return [data, *indices, output]


def slice_form(problem: WindowProblem, level: FeatureLevel) -> Descriptors:
    """The form of every problem of windows. The described output has the dimensions of data."""
    data, output = views(problem)
    windows = [*problem.windows, *(Window.whole(dim.size) for dim in data.dims[problem.data.rank :])]
    output = View.packed(output.name, output.data_type, [window.count for window in windows])
    return slices(data, output, windows, level)


def gather_elements_form(problem: GatherElementsProblem, level: FeatureLevel) -> Descriptors:
    """The form of every problem of one element per index."""
    data, indices, output = views(problem)
    parts = tuple(Dim(dim.size, 0) for dim in data.dims[problem.data.rank :])
    return gather_elements(data, replace(indices, dims=indices.dims + parts), output, problem.axis, level)


def gather_nd_form(problem: GatherNDProblem, level: FeatureLevel) -> Descriptors:
    """The form of every problem of index tuples. The described output has a dimension for each one of the batch."""
    data, indices, output = views(problem)
    behind = data.sizes[problem.batch_dims + problem.tuple_size :]
    output = View.packed(output.name, output.data_type, (*indices.sizes[:-1], *behind))
    return gather_nd(data, indices, output, problem.batch_dims, level)


def needed_by_tuples(problem: Problem) -> dict[str, TensorType]:
    """`tensors_by_name`, where a last size of 0 of the indices of a problem of tuples is an empty tuple, which needs none."""
    tensors = tensors_by_name(problem)
    if isinstance(problem, GatherNDProblem):
        tensors["indices"] = replace(problem.indices, shape=problem.indices.shape[:-1])
    return tensors


def _with_own_type(report: Report, problem: Problem) -> Report:
    """The report with the problem's own data type where the descriptor has another: "UINT64, which holds complex64"."""
    dtype = problem.data.dtype
    storage = storage_type(dtype)
    if storage is None or storage[0].name == dtype.name.upper():
        return report
    findings = (
        finding.model_copy(update={"got": f"{finding.got}, which holds {dtype.name}"})
        if finding.path in ("InputTensor.DataType", "OutputTensor.DataType")
        else finding
        for finding in report.findings
    )
    return report.model_copy(update={"findings": tuple(findings)})


def not_whole_bytes(expected: str, got: str) -> Finding:
    """The finding about data that DirectML's gathers cannot move: "strings", or a type of less than a byte."""
    remedy = "convert the data to a type of whole bytes first"
    if got == "strings":
        remedy = "gather positions of strings in DirectML and look the strings up on the host"
    return CODES["EXP103"].finding("data", expected=expected, got=got, remedy=remedy)


def _findings_at_every_level(
    problem: Problem, required: Mapping[str, TensorType], emptied: Callable[[Any, int], str | None] | None
) -> Iterator[Finding]:
    """Findings about a problem that no level takes in any form. emptied: as of Exporter."""
    dtype = problem.data.dtype
    if storage_type(dtype) is None:
        strings = dtype.hasobject
        yield not_whole_bytes("numbers or bool" if strings else "elements of whole bytes", "strings" if strings else dtype.name)
    empty = {name: tensor.shape for name, tensor in required.items() if 0 in tensor.shape}
    if len(empty) > 1:
        empty.pop("output", None)  # it is empty because an input is
    shapes = {name: list(tensor.shape) for name, tensor in tensors_by_name(problem).items()}
    for name, shape in empty.items():
        for axis, size in enumerate(shape):
            if size == 0:
                yield CODES["EXP102"].finding(
                    f"{name}.shape[{axis}]",
                    expected="at least 1",
                    got=f"0 in {shapes[name]}",
                    remedy=(emptied(problem, axis) if emptied is not None and name == "output" else None)
                    or "leave the node out where a tensor has no elements: DirectML cannot describe one",
                )


class OutOfRange(NamedTuple):
    """An index that is out of range. place: in the array of indices, "indices[0,2]". valid: "-5 … 4, as data has size 5 …"."""

    place: str
    value: int
    valid: str


def first_out_of_range(problem: Problem, indices: Any, most: Mapping[int, int | None] | None = None) -> OutOfRange | None:
    """The first index, in the order of the array, that is out of range; None where there is none.

    problem: one that looks up `indices`, an array on the host. most: the dimensions of data whose size is not known, with the
    most that it can be; None where that is not known either.
    """
    if 0 in problem.output.shape or not problem.lookup_axes:
        return None
    most = most or {}
    per_place = len(problem.lookup_axes)  # 1, but for index tuples
    values = np.asarray(indices).reshape(-1, per_place)
    ends = [most.get(axis, problem.data.shape[axis]) for axis in problem.lookup_axes]
    sizes = np.array([_ANY_SIZE if size is None else size for size in ends], np.int64)
    bad = (values < (-sizes if problem.wraps else 0)) | (values >= sizes)
    if not bad.any():
        return None
    first = int(np.argmax(bad))
    place = np.unravel_index(first, np.shape(indices))
    axis, size = problem.lookup_axes[first % per_place], ends[first % per_place]
    valid = "0 or more"
    if size is not None:
        known = "at most size" if axis in most else "size"
        valid = f"{-size if problem.wraps else 0} … {size - 1}" if size else "no index"
        valid += f", as data has {known} {size} in dimension {axis}"
    return OutOfRange(f"indices[{','.join(str(each) for each in place)}]", int(values.reshape(-1)[first]), valid)


_ANY_SIZE = 2**63 - 1
"""A size for which every index is in range that is not below it."""
