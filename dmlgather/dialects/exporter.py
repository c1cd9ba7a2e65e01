"""Export of problems to DirectML. Each dialect has an `Exporter`, with a function for each class of problems: its *form*."""

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
"""Feature levels that add operators or types to the support table, ascending."""


def tensors_by_name(problem: Problem) -> dict[str, TensorType]:
    """Return the types of inputs and output by name: "data", "indices", "output"."""
    return dict(zip((*problem.inputs, "output"), problem.tensors, strict=True))


class IndexDifferences(NamedTuple):
    """Texts about indices that give another result in DirectML than in the dialect.

    `outside`: what the dialect does with indices outside `bounds`; None if DirectML does the same.
    `negative`: what the dialect does with negative indices; None if DirectML does the same.
    `noun`: word for the indices, in the plural.
    """

    path: str
    bounds: str
    outside: str | None
    remedy: str
    negative: str | None = None
    negative_remedy: str = ""
    noun: str = "indices"


@dataclass(frozen=True, eq=False)
class Exporter:
    """Conversion of a dialect's problems to DirectML descriptors.

    `forms`: for each class of problems, a function that returns the descriptors at a level or raises InexpressibleError. Before
    the call, the exporter has checked that DirectML can store the data type.
    `required`: a function that returns the tensors that must not be empty.
    `names`: the dialect's names of inputs and attributes, if they differ: {"data": "operand"}.
    `index_differences`: a function that takes a problem and its index values. None stands for unknown values.
    `empty_output_remedy`: a function that returns advice for an output axis of size 0, or None.
    """

    forms: Mapping[type[Problem], Callable[[Any, FeatureLevel], Descriptors]]
    title: Callable[[Any], str]
    required: Callable[[Any], Mapping[str, TensorType]] = tensors_by_name
    names: Mapping[str, str] = field(default_factory=dict)
    index_differences: Callable[[Any, Any], IndexDifferences | None] | None = None
    empty_output_remedy: Callable[[Any, int], str | None] | None = None

    def to_directml(
        self, call: Callable[[], Problem], level: FeatureLevel, dialect: str, operator: str
    ) -> OperatorDesc | Descriptors | Report:
        """Return a descriptor, a chain of descriptors, or a report.

        `call`: a function that returns the problem. If it raises TypeError, ValueError or IndexError, the report has a finding
        EXP101.
        """
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
        """Return the descriptors of a problem, in the order of execution, or a report that says why there are none.

        If `validate` refuses a descriptor, for example for its data type, return the report of `validate`.
        """
        try:
            return self._at(level, problem)
        except InexpressibleError as refusal:
            finding = self._with_level(refusal.finding, problem) if refusal.newer else refusal.finding
            return self._report(problem, level, finding)

    def lowest(self, problem: Problem) -> tuple[FeatureLevel, Descriptors] | None:
        """Return the lowest feature level that takes a problem, with the descriptors; or None."""
        for level in LEVELS:
            with suppress(InexpressibleError):
                descriptors = self._at(level, problem)
                if not isinstance(descriptors, Report):
                    return level, descriptors
        return None

    def differences(self, problem: Problem, indices: Any = None) -> tuple[Finding, ...]:
        """Return warnings (EXP201, EXP202) about indices for which DirectML gives another result than the dialect."""
        unlike = None if self.index_differences is None else self.index_differences(problem, indices)
        if unlike is None:
            return ()
        findings = []
        if unlike.outside is not None:
            got = f"{unlike.outside}, the nearest element in DirectML"
            expected = f"{unlike.noun} from {unlike.bounds}"
            findings.append(CODES["EXP201"].finding(unlike.path, expected=expected, got=got, remedy=unlike.remedy))
        if unlike.negative is not None:
            got = f"{unlike.negative}, an element counted from the end in DirectML from level 3_0 on"
            expected = f"{unlike.noun} from 0 on"
            findings.append(CODES["EXP202"].finding(unlike.path, expected=expected, got=got, remedy=unlike.negative_remedy))
        return tuple(findings)

    def _at(self, level: FeatureLevel, problem: Problem) -> Descriptors | Report:
        """Return descriptors or a report, like `express`. Raises InexpressibleError if there are no descriptors."""
        findings = tuple(self._findings_at_every_level(problem))
        if findings:
            return self._report(problem, level, *findings)
        descriptors = self.forms[type(problem)](problem, level)
        reports = (validate(desc, level) for desc in descriptors)
        refused = next((report for report in reports if not report.ok), None)
        return descriptors if refused is None else _with_own_type(refused, problem)

    def _report(self, problem: Problem, level: FeatureLevel, *findings: Finding) -> Report:
        return Report(subject=self.title(problem), level=level, findings=tuple(map(self._renamed, findings)))

    def _with_level(self, finding: Finding, problem: Problem) -> Finding:
        """Add to the remedy: use the lowest level that takes the problem. If none does, add the advice for the newest level."""
        lowest = self.lowest(problem)
        if lowest is not None:
            level, remedy, remark = lowest[0], f"use feature level {lowest[0]} or newer", ""
        else:
            newest = self.express(problem, LEVELS[-1])
            assert isinstance(newest, Report), "no level takes the problem"
            level, remedy, remark = None, newest.findings[0].remedy, "; no feature level takes it as it is"
        remedies = dict.fromkeys(filter(None, (remedy, finding.remedy)))
        return finding.model_copy(update={"level": level, "remedy": ", or ".join(remedies) + remark})

    def _renamed(self, finding: Finding) -> Finding:
        """Replace the name at the start of a finding's path: "data.shape" becomes "operand.shape" for JAX."""
        path = re.sub(r"^\w+", lambda first: self.names.get(first[0], first[0]), finding.path)
        return finding.model_copy(update={"path": path})

    def _findings_at_every_level(self, problem: Problem) -> Iterator[Finding]:
        """Yield the findings that do not depend on the level: about the data type, and about empty tensors."""
        dtype = problem.data.dtype
        if storage_type(dtype) is None:
            expected, got = "elements of whole bytes", dtype.name
            remedy = "convert the data to a type of whole bytes first"
            if dtype.hasobject:
                expected, got = "numbers or bool", "strings"
                remedy = "gather positions of strings in DirectML and look the strings up on the host"
            yield CODES["EXP103"].finding("data", expected=expected, got=got, remedy=remedy)
        empty = {name: tensor.shape for name, tensor in self.required(problem).items() if 0 in tensor.shape}
        if len(empty) > 1:
            empty.pop("output", None)  # the output is empty because an input is
        shapes = {name: list(tensor.shape) for name, tensor in tensors_by_name(problem).items()}
        for name, axis in ((name, axis) for name, shape in empty.items() for axis, size in enumerate(shape) if size == 0):
            special = self.empty_output_remedy(problem, axis) if self.empty_output_remedy and name == "output" else None
            yield CODES["EXP102"].finding(
                f"{name}.shape[{axis}]",
                expected="at least 1",
                got=f"0 in {shapes[name]}",
                remedy=special or "leave the node out where a tensor has no elements: DirectML cannot describe one",
            )


def index_bounds(sizes: Iterable[int], wraps: bool) -> str:
    """Return the valid indices of dimensions with these sizes, such as "-5 to 4"."""
    ranges = dict.fromkeys(f"{-size if wraps else 0} to {size - 1}" for size in sizes)
    return alternatives(ranges) + (", by the dimension that they index" if len(ranges) > 1 else "")


def views(problem: Problem) -> list[View]:
    """Return data, indices (if any) and output as packed Views. A complex type may add a dimension: see `storage_type`."""
    storage = storage_type(problem.data.dtype)
    assert storage is not None, "EXP103 refuses such types"
    data_type, parts = storage
    indices = [View.packed("indices", DataType[tensor.dtype.name.upper()], tensor.shape) for tensor in problem.tensors[1:-1]]
    data, output = (
        View.packed(name, data_type, tensor.shape + parts)
        for name, tensor in (("data", problem.data), ("output", problem.output))
    )
    return [data, *indices, output]


def slice_form(problem: WindowProblem, level: FeatureLevel) -> Descriptors:
    """Return descriptors of a slice. The output keeps all dimensions, even if the dialect drops some."""
    data, output = views(problem)
    windows = [*problem.windows, *(Window.whole(dim.size) for dim in data.dims[problem.data.rank :])]
    output = View.packed(output.name, output.data_type, [window.count for window in windows])
    return slices(data, output, windows, level)


def gather_elements_form(problem: GatherElementsProblem, level: FeatureLevel) -> Descriptors:
    """Return descriptors of a gather of one element per index."""
    data, indices, output = views(problem)
    parts = tuple(Dim(dim.size, 0) for dim in data.dims[problem.data.rank :])
    return gather_elements(data, replace(indices, dims=indices.dims + parts), output, problem.axis, level)


def gather_nd_form(problem: GatherNDProblem, level: FeatureLevel) -> Descriptors:
    """Return descriptors of a gather by index tuples. The output keeps all batch dimensions."""
    data, indices, output = views(problem)
    trail = data.sizes[problem.batch_dims + problem.tuple_size :]
    output = View.packed(output.name, output.data_type, (*indices.sizes[:-1], *trail))
    return gather_nd(data, indices, output, problem.batch_dims, level)


def needed_by_tuples(problem: Problem) -> dict[str, TensorType]:
    """Return the tensors that must not be empty. Index tuples may be empty, so the last dimension of indices is dropped."""
    tensors = tensors_by_name(problem)
    if isinstance(problem, GatherNDProblem):
        tensors["indices"] = replace(problem.indices, shape=problem.indices.shape[:-1])
    return tensors


def _with_own_type(report: Report, problem: Problem) -> Report:
    """Add the dialect's data type to findings about the DirectML type that stores it: "UINT64, which holds complex64"."""
    dtype = problem.data.dtype
    storage = storage_type(dtype)
    if storage is None or storage[0].name == dtype.name.upper():
        return report
    findings = (
        finding.model_copy(update={"got": f"{finding.got}, which holds {dtype.name}"} | _in_parts(finding, dtype))
        if finding.path in ("InputTensor.DataType", "OutputTensor.DataType")
        else finding
        for finding in report.findings
    )
    return report.model_copy(update={"findings": tuple(findings)})


class OutOfRange(NamedTuple):
    """An index out of range.

    `place`: the name of the index, such as "indices[0,2]".
    `valid`: the valid indices, such as "-5 … 4, as data has size 5 in dimension 0".
    """

    place: str
    value: int
    valid: str


def first_out_of_range(problem: Problem, indices: Any, most: Mapping[int, int | None] | None = None) -> OutOfRange | None:
    """Return the first index out of range, or None.

    `most`: for each axis of unknown size, the largest possible size; None if there is no limit.
    """
    if 0 in problem.output.shape or not problem.lookup_axes:
        return None
    most = most or {}
    per_tuple = len(problem.lookup_axes)  # 1 unless the indices are tuples
    values = np.asarray(indices).reshape(-1, per_tuple)
    bounds = [most.get(axis, problem.data.shape[axis]) for axis in problem.lookup_axes]
    sizes = np.array([_UNBOUNDED if size is None else size for size in bounds], np.int64)
    bad = (values < (-sizes if problem.wraps else 0)) | (values >= sizes)
    if not bad.any():
        return None
    first = int(np.argmax(bad))
    place = np.unravel_index(first, np.shape(indices))
    axis, size = problem.lookup_axes[first % per_tuple], bounds[first % per_tuple]
    valid = "0 or more"
    if size is not None:
        size_word = "at most size" if axis in most else "size"
        valid = f"{-size if problem.wraps else 0} … {size - 1}" if size else "no index"
        valid += f", as data has {size_word} {size} in dimension {axis}"
    return OutOfRange(f"indices[{','.join(map(str, place))}]", int(values.reshape(-1)[first]), valid)


def _in_parts(finding: Finding, dtype: np.dtype[Any]) -> dict[str, str]:
    """Return {"remedy": …} with advice for a complex type: move the parts as float32. Return {} for other types."""
    if dtype.kind != "c":
        return {}
    parts = ["move the real and the imaginary parts as elements of float32"] if dtype == np.complex64 else []
    newer = [f"use feature level {finding.level} or newer"] if finding.level else []
    return {"remedy": ", or ".join([*parts, *newer])}


_UNBOUNDED = 2**63 - 1
