"""The differential check: run a program and an ONNX model on the same inputs, and compare the outputs bit for bit."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.dialects.descriptor_problem import DescriptorProblem
from dmlgather.dialects.index_graph import IndexGraph
from dmlgather.dialects.problem import TensorType
from dmlgather.differential.judges import CannotRunError, Judge, RaisedError, checker_error, judges, read_model
from dmlgather.differential.matching import DifferentValuesError, Matching, MismatchError, match_names
from dmlgather.differential.positions import decoded, element
from dmlgather.differential.reference_run import ReferenceRun
from dmlgather.differential.trials import RANDOM_DRAWS, Arrays, Trials
from dmlgather.plan import unravel
from dmlgather.wording import alternatives, counted, shortened

_MAX_ELEMENTS = 2**28
"""Programs that read or write more elements in one run are not checked."""

_SHOWN_ELEMENTS = 16
"""A message shows an index tensor only up to this size."""

_SHOWN_INPUTS = 3
"""A message shows at most this many index tensors."""

_LISTED_ELEMENTS = 4096
"""JSON has null for larger index tensors."""


@dataclass(frozen=True)
class Counterexample:
    """Inputs for which a program and an ONNX model give different results.

    `judge`: the library that ran the model. `output`: the name of the output that differs; None if only one of the two raises
    an error. `position`: the coordinates of the first different element.
    `values`: the different element as text, from the program and from the model. If only one raises: its error, and "raises
    nothing" for the other. If the output types differ: the two types.
    `sources`: the input element that the program copied, such as "data[3, 4]", and the one that the model copied; None if
    unknown.
    `indices`: the names of the index inputs that influence the output.
    """

    judge: str
    inputs: Mapping[str, NDArray[Any]] = field(repr=False)
    output: str | None
    position: tuple[int, ...]
    values: tuple[str, str]
    sources: tuple[str | None, str | None] = (None, None)
    indices: tuple[str, ...] = ()

    def __str__(self) -> str:
        shown = [f"{name} = {_shown(self.inputs[name])}" for name in self.indices[:_SHOWN_INPUTS]]
        more = " and others" if len(self.indices) > _SHOWN_INPUTS else ""
        suffix = f", for {', '.join(shown)}{more}" if shown else ""
        if self.output is None:
            return f"{self.values[0]}, and the model {self.values[1]}{suffix}"
        ours, theirs = (
            value + (f", which is {source}" if source else "") for value, source in zip(self.values, self.sources, strict=True)
        )
        return f"{element(self.output, self.position)} must be {ours}; the model gives {theirs}{suffix}"

    def to_json(self) -> dict[str, Any]:
        """Return the counterexample as plain data for JSON. Index tensors of more than 4096 elements are null."""
        return {
            "judge": self.judge,
            "output": self.output,
            "position": list(self.position),
            "values": list(self.values),
            "sources": list(self.sources),
            "indices": {name: _listed(self.inputs[name]) for name in self.indices},
        }


@dataclass(frozen=True)
class Agreement:
    """The result of a differential check. The verdict "equal" holds for the inputs that were tried; it is not a proof.

    `judges`: the libraries that ran the model, with versions. `index_values`: the number of index values that were tried.
    `elements`: the number of output elements that were compared. `remarks`: what the check did not cover, as sentences.
    `difference`: a counterexample, or the reason why the two cannot be compared. None if all results were equal.
    """

    judges: tuple[str, ...]
    index_values: int = 0
    elements: int = 0
    remarks: tuple[str, ...] = ()
    difference: Counterexample | str | None = None

    @property
    def verdict(self) -> str:
        """The result as text: "equal" or "different", or "not checked" if no library ran the model."""
        return "different" if self.difference is not None else "equal" if self.judges else "not checked"

    def __bool__(self) -> bool:
        return self.verdict == "equal"

    def __str__(self) -> str:
        if isinstance(self.difference, Counterexample):
            head = f"differs in {self.difference.judge}: {self.difference}"
        elif self.difference is not None:
            head = f"differs: {self.difference}"
        elif not self.judges:
            head = "not checked"
        else:
            count = counted(self.index_values, "index value") if self.index_values else counted(self.elements, "output element")
            head = f"checked in {' and '.join(self.judges)}: {count}, equal"
        return "\n".join([head, *(f"  {remark}" for remark in self.remarks)])

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain data for JSON."""
        difference = self.difference
        return {
            "verdict": self.verdict,
            "judges": list(self.judges),
            "index_values": self.index_values,
            "elements": self.elements,
            "remarks": list(self.remarks),
            "difference": difference.to_json() if isinstance(difference, Counterexample) else difference and {"text": difference},
            "text": str(self),
        }


def check_agreement(
    graph: IndexGraph, model: Any, *, initial: Mapping[str, NDArray[Any]] | None = None, seed: int = 0
) -> Agreement:
    """Run a program and an ONNX model on the same inputs, and compare the outputs bit for bit.

    The program runs in the reference backend, the model in onnx's reference evaluator and in onnxruntime, if installed. If the
    program raises an error for an index, the model must raise one, too.

    `model`: a path or an onnx.ModelProto.
    `initial`: values for inputs of the program that the model may store as constants.

    Each data element contains its own position, so that an element copied from a wrong position is visible. If a data type has
    too few values for this, the program runs once for each digit of the positions. One more run has data with random bits. The
    indices take all boundary values, such as the first index out of range, and random values.

    Descriptors describe buffers, in which an output of shape [2, 3] may be given as [6]. So if the graph contains descriptors,
    a tensor of the model may have another shape with as many elements. A remark says so.

    Raises FileError for an unreadable model, ModuleNotFoundError if onnx is not installed.
    """
    proto, loadable = read_model(model)
    fault = checker_error(proto)
    if fault is not None:
        return Agreement((), remarks=(f"onnx's checker refuses the model: {fault}",))
    described = any(isinstance(step.work, DescriptorProblem) for step in graph.steps)
    try:
        matching = match_names(graph, proto, buffers=described, initial=initial or {})
    except MismatchError as error:
        return Agreement((), remarks=(str(error),))
    except DifferentValuesError as error:
        return Agreement((), difference=str(error))
    names = {*graph.inputs, *graph.outputs, *(name for step in graph.steps for name in step.outputs)}
    size = sum(prod(graph.types[name].shape) for name in names)
    if size > _MAX_ELEMENTS:
        remark = f"one run has {size} elements, and at most {_MAX_ELEMENTS} are tried: run it on your own inputs"
        return Agreement((), remarks=(remark,))
    libraries, remarks = judges(proto, loadable)
    max_index, name = min(((judge.max_index, judge.name) for judge in libraries if judge.max_index), default=(None, ""))
    if max_index is not None:
        remarks.append(f"indices beyond {max_index} were not tried: {name} is wrong about them")
    trials = Trials(graph, matching.types, matching.constants, seed, max_index)
    return _Check(graph, matching, trials).run(libraries, [*matching.remarks, *remarks])


class _Check:
    """One differential check of a program and a model, with its counters."""

    def __init__(self, graph: IndexGraph, matching: Matching, trials: Trials) -> None:
        self.graph, self.matching, self.trials = graph, matching, trials
        self.program = ReferenceRun(graph)
        self.index_values = self.elements = 0
        self.missed_errors = set[str]()
        """Libraries that returned a result where an error is required, and are known to do so."""
        self.lost_bits = set[tuple[str, tuple[str, ...]]]()
        """Libraries that changed the sign of a zero or the bits of a NaN, with their operators that do so."""

    def run(self, libraries: Sequence[Judge], remarks: list[str]) -> Agreement:
        """Compare the results of the program and of each library, up to the first difference.

        A library that cannot run the model is left out from then on, with a remark.
        """
        remaining = list(libraries)
        draws, tried = self.trials.draws(), 0
        for draw in draws:
            if tried == self.trials.max_draws:
                total = tried + 1 + sum(1 for _ in draws)
                count = counted(self.trials.work, "element")
                remarks.append(f"{tried} of {total} draws of indices were tried: one run has {count}")
                break
            tried += 1
            for number, data in enumerate(self.trials.data()):
                expected = self.program({**draw, **data, **self.matching.constants})
                for judge in [*remaining]:
                    try:
                        has_positions = number < self.trials.positions.digits
                        difference = self._difference(judge, draw, data, expected, has_positions=has_positions)
                    except CannotRunError as error:
                        remaining.remove(judge)
                        remarks.append(f"{judge.name} cannot run it: {error}")
                        continue
                    if difference is not None:
                        return self._result(remaining, [*remarks, *self._in_range_remarks(judge, draw)], difference)
                if isinstance(expected, list):
                    self.elements += sum(array.size for array in expected)
            self.index_values += sum(array.size for array in draw.values())
            if not remaining:
                break
        return self._result(remaining, remarks, None)

    def _in_range_remarks(self, judge: Judge, draw: Arrays) -> Iterator[str]:
        """Yield a remark if the program and the model seem to differ only for indices out of range."""
        if self.trials.all_in_range(draw):
            return
        draws = [self.trials.draw_in_range() for _ in range(min(RANDOM_DRAWS, self.trials.max_draws))]
        for indices, (number, data) in product(draws, enumerate(self.trials.data())):
            expected = self.program({**indices, **data, **self.matching.constants})
            try:
                has_positions = number < self.trials.positions.digits
                if self._difference(judge, indices, data, expected, has_positions=has_positions) is not None:
                    return
            except CannotRunError:
                return
        count = counted(sum(array.size for indices in draws for array in indices.values()), "index value")
        yield f"here an index is out of range; {count} in range were tried as well, and no difference was found"

    def _result(self, libraries: Sequence[Judge], remarks: Sequence[str], difference: Counterexample | None) -> Agreement:
        names = tuple(judge.name for judge in libraries)
        if names and self.missed_errors.issuperset(names):
            remarks = [*remarks, f"errors for indices out of range were not compared: {names[0]} does not raise all of them"]
        for name, operators in sorted(self.lost_bits):
            either = alternatives(operators)
            remarks = [*remarks, f"{name} loses the sign of a zero, or the bits of a NaN, in {either}: these were not compared"]
        return Agreement(names, self.index_values, self.elements, tuple(remarks), difference)

    def _difference(
        self, judge: Judge, draw: Arrays, data: Arrays, expected: list[NDArray[Any]] | str, *, has_positions: bool
    ) -> Counterexample | None:
        """Return the first difference between the model's result and `expected`, or None.

        `expected`: the outputs of the program, or its error as text.
        `has_positions`: True if the data elements contain positions, so that the difference can name its source.
        """
        inputs = draw | data
        try:
            got = self.matching.outputs(judge.run(self.matching.feeds(inputs)))
        except RaisedError as error:
            if isinstance(expected, str):
                return None
            return self._error(judge, inputs, ("the program raises nothing", f"raises: {error}"))
        if isinstance(expected, str):
            if judge.misses_errors or not any(array.size for array in got):  # libraries check no index if outputs are empty
                self.missed_errors.add(judge.name)
                return None
            return self._error(judge, inputs, (f"the program raises ({expected})", "raises nothing"))
        for name, ours, theirs in zip(self.graph.outputs, expected, got, strict=True):
            label = self.graph.label(name)
            if theirs.dtype != ours.dtype or theirs.shape != ours.shape:
                if not (ours.size or theirs.size or judge.knows_empty):
                    raise CannotRunError(f"it returns an empty output of shape {list(theirs.shape)}")
                types = str(TensorType(ours.shape, ours.dtype)), str(TensorType(theirs.shape, theirs.dtype))
                return Counterexample(judge.name, inputs, label, (), types)
            differs = _different_bits(ours, theirs)
            if judge.inexact and differs.any():
                lost = differs & _both_zero_or_nan(ours, theirs)
                differs &= ~lost
                self.lost_bits |= {(judge.name, judge.inexact)} if lost.any() else set()
            if differs.any():
                first = int(np.flatnonzero(differs)[0])
                values = _element_texts(ours.reshape(-1)[first], theirs.reshape(-1)[first])
                position = unravel(first, ours.shape)
                sources = self._sources(judge, draw, name, first) if has_positions else (None, None)
                return Counterexample(judge.name, inputs, label, position, values, sources, self._indices(name))
        return None

    def _error(self, judge: Judge, inputs: Arrays, values: tuple[str, str]) -> Counterexample:
        return Counterexample(judge.name, inputs, None, (), values, indices=self._indices(*self.graph.outputs))

    def _indices(self, *outputs: str) -> tuple[str, ...]:
        """Return the names of the index inputs that influence these outputs."""
        needed = {*outputs}
        for step in reversed(self.graph.steps):
            needed.update(step.inputs if needed.intersection(step.outputs) else ())
        return tuple(name for name in self.trials.ranges if name in needed)

    def _sources(self, judge: Judge, draw: Arrays, output: str, place: int) -> tuple[str | None, str | None]:
        """Return the input element that the program copied to an output element, and the one that the model copied.

        Each is None if it is unknown. `place`: the position of the element in the flattened output.
        """
        digits: tuple[list[int], list[int]] = [], []
        number = self.graph.outputs.index(output)
        for data in islice(self.trials.data(), self.trials.positions.digits):
            expected = self.program({**draw, **data, **self.matching.constants})
            try:
                got = self.matching.outputs(judge.run(self.matching.feeds(draw | data)))
            except (RaisedError, CannotRunError):
                return None, None
            if isinstance(expected, str):
                return None, None
            for own_digits, array in zip(digits, (expected[number], got[number]), strict=True):
                own_digits.append(int(decoded(array.reshape(-1)[place : place + 1])[0]))
        positions = self.trials.positions
        return positions.origin(digits[0]), positions.origin(digits[1])


def _different_bits(one: NDArray[Any], other: NDArray[Any]) -> NDArray[np.bool_]:
    """Return a flat mask: True for elements with different bits."""
    if one.dtype.hasobject:
        return np.asarray(one.astype(str) != other.astype(str), bool).reshape(-1)
    size = one.dtype.itemsize
    ours, theirs = (np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(-1, size) for array in (one, other))
    return np.asarray((ours != theirs).any(axis=1), bool)


def _both_zero_or_nan(one: NDArray[Any], other: NDArray[Any]) -> NDArray[np.bool_]:
    """Return a flat mask: True for elements that are 0 in both arrays, or NaN in both."""
    if one.dtype.kind not in "fcV":
        return np.zeros(one.size, bool)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # casts of signalling NaNs warn
        ours, theirs = (array.astype(np.complex128).reshape(-1) for array in (one, other))
        zero, nan = (ours == 0) & (theirs == 0), np.isnan(ours) & np.isnan(theirs)
    return np.asarray(zero | nan, bool)


def _element_texts(ours: Any, theirs: Any) -> tuple[str, str]:
    """Return two different elements as text. If both texts are equal, as for different NaNs, they include the bits."""
    if str(ours) != str(theirs):
        return str(ours), str(theirs)
    return f"{ours} (bits {ours.tobytes()[::-1].hex()})", f"{theirs} (bits {theirs.tobytes()[::-1].hex()})"


def _shown(array: NDArray[Any]) -> str:
    if array.size <= _SHOWN_ELEMENTS:
        return str(array.tolist())
    return shortened(str(array.reshape(-1)[:_SHOWN_ELEMENTS].tolist())) + " …"


def _listed(array: NDArray[Any]) -> Any:
    return array.tolist() if array.size <= _LISTED_ELEMENTS else None
