"""Whether an ONNX model does what a program of problems does, as far as running both on many inputs shows."""

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
from dmlgather.differential.judges import CannotRunError, Judge, RaisedError, broken, judges, read_model
from dmlgather.differential.matching import Matched, MismatchError, OtherValuesError, matched
from dmlgather.differential.positions import decoded, element
from dmlgather.differential.reference_run import ReferenceRun
from dmlgather.differential.trials import RANDOM_DRAWS, Arrays, Trials
from dmlgather.plan import unravel
from dmlgather.wording import alternatives, counted, shortened

LARGEST = 2**28
"""Elements that one run of a program may read and write; larger programs are not run."""

SHOWN = 16
"""Elements of an index tensor that a message shows."""

SHOWN_INPUTS = 3
"""Index tensors that a message shows."""


@dataclass(frozen=True)
class Counterexample:
    """Inputs for which a program and a model differ.

    judge: the library that ran the model. inputs: by name. output, position: of the first element that differs; None where one
    of both raises. values: of this element, or what was raised: of the program, then of the model. sources: the input elements
    that the two values are, where that is known.
    """

    judge: str
    inputs: Mapping[str, NDArray[Any]] = field(repr=False)
    output: str | None
    position: tuple[int, ...]
    values: tuple[str, str]
    sources: tuple[str | None, str | None] = (None, None)
    indices: tuple[str, ...] = ()

    def __str__(self) -> str:
        shown = [f"{name} = {_shown(self.inputs[name])}" for name in self.indices[:SHOWN_INPUTS]]
        more = " and others" if len(self.indices) > SHOWN_INPUTS else ""
        given = f", for {', '.join(shown)}{more}" if shown else ""
        if self.output is None:
            return f"{self.values[0]}, and the model {self.values[1]}{given}"
        ours, theirs = (
            value + (f", which is {source}" if source else "") for value, source in zip(self.values, self.sources, strict=True)
        )
        return f"{element(self.output, self.position)} must be {ours}; the model gives {theirs}{given}"

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON-able data."""
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
    """What a differential check found.

    judges: the libraries that ran the model, with versions. index_values, elements: how many elements of index tensors, and of
    outputs, were compared. remarks: what limits the check. difference: in what the two differ, in words, or the inputs for which
    they do; None where no difference was found. Equal here is no proof: it holds for the inputs that were tried.
    """

    judges: tuple[str, ...]
    index_values: int = 0
    elements: int = 0
    remarks: tuple[str, ...] = ()
    difference: Counterexample | str | None = None

    @property
    def verdict(self) -> str:
        """Return "equal", "different" or "not checked"."""
        return "different" if self.difference is not None else "equal" if self.judges else "not checked"

    def __bool__(self) -> bool:
        return self.verdict == "equal"

    def __str__(self) -> str:
        if isinstance(self.difference, Counterexample):
            head = f"differs in {self.difference.judge}: {self.difference}"
        elif self.difference is not None:
            head = f"differs: {self.difference}"
        elif not self.judges:
            return "\n".join(["not checked", *(f"  {each}" for each in self.remarks)])
        else:
            what = counted(self.index_values, "index value") if self.index_values else counted(self.elements, "output element")
            head = f"checked in {' and '.join(self.judges)}: {what}, equal"
        return "\n".join([head, *(f"  {each}" for each in self.remarks)])

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON-able data."""
        found = self.difference
        return {
            "verdict": self.verdict,
            "judges": list(self.judges),
            "index_values": self.index_values,
            "elements": self.elements,
            "remarks": list(self.remarks),
            "difference": {"text": found} if isinstance(found, str) else None if found is None else found.to_json(),
            "text": str(self),
        }


def check_agreement(
    graph: IndexGraph, model: Any, *, initial: Mapping[str, NDArray[Any]] | None = None, seed: int = 0
) -> Agreement:
    """Run a program in the reference backend and an ONNX model in other libraries on the same inputs, and compare outputs bit for
    bit, and errors.

    model: a path or an onnx.ModelProto. initial: values of inputs that the model may hold as constants, by name. seed: of the
    random draws. Of a program of descriptors, whose tensors are buffers, only the order of elements counts; another
    shape is a remark.

    Elements of data hold their position, in several runs where a type has too few values, and random bits in one more run.
    Indices take every boundary of each lookup, and random values. FileError for a file that cannot be read, ModuleNotFoundError
    without onnx.
    """
    proto, loaded = read_model(model)
    said = broken(proto)
    if said is not None:
        return Agreement((), remarks=(f"onnx's checker refuses the model: {said}",))
    try:
        pair = matched(graph, proto, buffers=_is_described(graph), initial=initial or {})
    except MismatchError as error:
        return Agreement((), remarks=(str(error),))
    except OtherValuesError as error:
        return Agreement((), difference=str(error))
    names = {*graph.inputs, *graph.outputs, *(name for step in graph.steps for name in step.outputs)}
    size = sum(prod(graph.types[name].shape) for name in names)
    if size > LARGEST:
        remark = f"one run has {size} elements, and at most {LARGEST} are tried: run it on your own inputs"
        return Agreement((), remarks=(remark,))
    libraries, remarks = judges(proto, loaded)
    most_index, name = min(((judge.most_index, judge.name) for judge in libraries if judge.most_index), default=(None, ""))
    if most_index is not None:
        remarks.append(f"indices beyond {most_index} were not tried: {name} is wrong about them")
    return _Check(graph, pair, Trials(graph, pair.types, pair.known, seed, most_index)).run(libraries, [*pair.remarks, *remarks])


def _is_described(graph: IndexGraph) -> bool:
    return any(isinstance(step.work, DescriptorProblem) for step in graph.steps)


class _Check:
    """One check. pair: how the model's inputs and outputs belong to the program's."""

    def __init__(self, graph: IndexGraph, pair: Matched, trials: Trials) -> None:
        self.graph, self.pair, self.trials = graph, pair, trials
        self.program = ReferenceRun(graph)
        self.index_values = self.elements = 0
        self.missed = set[str]()
        """Libraries that gave a result where they should have raised, as they are known to do."""
        self.lost = set[tuple[str, tuple[str, ...]]]()
        """Libraries that lost bits, as they are known to do, and the operators that may have."""

    def run(self, libraries: Sequence[Judge], remarks: list[str]) -> Agreement:
        """Try all draws, until a library differs."""
        left = list(libraries)
        draws, tried = self.trials.draws(), 0
        for draw in draws:
            if tried == self.trials.most_draws:
                more = tried + 1 + sum(1 for _ in draws)
                count = counted(self.trials.work, "element")
                remarks.append(f"{tried} of {more} draws of indices were tried: one run has {count}")
                break
            tried += 1
            for number, data in enumerate(self.trials.data()):
                expected = self.program({**draw, **data, **self.pair.known})
                for judge in [*left]:
                    try:
                        found = self._compared(judge, draw, data, expected, exact=number < self.trials.positions.digits)
                    except CannotRunError as error:
                        left.remove(judge)
                        remarks.append(f"{judge.name} cannot run it: {error}")
                        continue
                    if found is not None:
                        return self._result(left, [*remarks, *self._of_indices_in_range(judge, draw)], found)
                if isinstance(expected, list):
                    self.elements += sum(array.size for array in expected)
            self.index_values += sum(array.size for array in draw.values())
            if not left:
                break
        return self._result(left, remarks, None)

    def _of_indices_in_range(self, judge: Judge, draw: Arrays) -> Iterator[str]:
        """Yield a remark where a draw with an index out of range shows a difference, and draws in range show none."""
        if self.trials.are_in_range(draw):
            return
        draws = [self.trials.in_range() for _ in range(min(RANDOM_DRAWS, self.trials.most_draws))]
        for indices, (number, data) in product(draws, enumerate(self.trials.data())):
            expected = self.program({**indices, **data, **self.pair.known})
            try:
                if self._compared(judge, indices, data, expected, exact=number < self.trials.positions.digits) is not None:
                    return
            except CannotRunError:
                return
        count = counted(sum(array.size for indices in draws for array in indices.values()), "index value")
        yield f"here an index is out of range; {count} in range were tried as well, and no difference was found"

    def _result(self, left: Sequence[Judge], remarks: Sequence[str], found: Counterexample | str | None) -> Agreement:
        names = tuple(judge.name for judge in left)
        if names and self.missed.issuperset(names):
            remarks = [*remarks, f"errors for indices out of range were not compared: {names[0]} does not raise all of them"]
        for name, operators in sorted(self.lost):
            which = alternatives(operators)
            remarks = [*remarks, f"{name} loses the sign of a zero, or the bits of a NaN, in {which}: these were not compared"]
        return Agreement(names, self.index_values, self.elements, tuple(remarks), found)

    def _compared(
        self, judge: Judge, draw: Arrays, data: Arrays, expected: list[NDArray[Any]] | str, *, exact: bool
    ) -> Counterexample | None:
        """Return in what a library differs. exact: whether the data hold positions."""
        inputs = draw | data
        try:
            got = self.pair.outputs(judge.run(self.pair.feeds(inputs)))
        except RaisedError as error:
            if isinstance(expected, str):
                return None
            return self._error(judge, inputs, ("the program raises nothing", f"raises: {error}"))
        if isinstance(expected, str):
            if judge.misses_errors or not any(array.size for array in got):  # of no elements, libraries look at no index
                self.missed.add(judge.name)
                return None
            return self._error(judge, inputs, (f"the program raises ({expected})", "raises nothing"))
        for name, ours, theirs in zip(self.graph.outputs, expected, got, strict=True):
            label = self.graph.label(name)
            if theirs.dtype != ours.dtype or theirs.shape != ours.shape:
                if not (ours.size or theirs.size or judge.knows_empty):
                    raise CannotRunError(f"it gives no elements the shape {list(theirs.shape)}")
                words = [str(TensorType(each.shape, each.dtype)) for each in (ours, theirs)]
                return Counterexample(judge.name, inputs, label, (), (words[0], words[1]))
            differs = _differ(ours, theirs)
            if judge.inexact and differs.any():
                lost = differs & _alike(ours, theirs)
                differs &= ~lost
                self.lost |= {(judge.name, judge.inexact)} if lost.any() else set()
            places = np.flatnonzero(differs)
            if places.size:
                place = int(places[0])
                values = _values(ours.reshape(-1)[place], theirs.reshape(-1)[place])
                position = unravel(place, ours.shape)
                sources = self._sources(judge, draw, name, place) if exact else (None, None)
                return Counterexample(judge.name, inputs, label, position, values, sources, self._indices(name))
        return None

    def _error(self, judge: Judge, inputs: Arrays, values: tuple[str, str]) -> Counterexample:
        return Counterexample(judge.name, inputs, None, (), values, indices=self._indices(*self.graph.outputs))

    def _indices(self, *outputs: str) -> tuple[str, ...]:
        """Return the inputs that are looked up for these outputs."""
        needed = {*outputs}
        for step in reversed(self.graph.steps):
            needed.update(step.inputs if needed.intersection(step.outputs) else ())
        return tuple(name for name in self.trials.ranges if name in needed)

    def _sources(self, judge: Judge, draw: Arrays, output: str, place: int) -> tuple[str | None, str | None]:
        """Return the input elements that one output element is, of the program and of the model."""
        digits: tuple[list[int], list[int]] = [], []
        number = self.graph.outputs.index(output)
        for data in islice(self.trials.data(), self.trials.positions.digits):
            expected = self.program({**draw, **data, **self.pair.known})
            try:
                got = self.pair.outputs(judge.run(self.pair.feeds(draw | data)))
            except (RaisedError, CannotRunError):
                return None, None
            if isinstance(expected, str):
                return None, None
            for found, array in zip(digits, (expected[number], got[number]), strict=True):
                found.append(int(decoded(array.reshape(-1)[place : place + 1])[0]))
        positions = self.trials.positions
        return positions.origin(digits[0]), positions.origin(digits[1])


def _differ(one: NDArray[Any], other: NDArray[Any]) -> NDArray[np.bool_]:
    """Return where the bits of two arrays of one type and shape differ, in row-major order."""
    if one.dtype.hasobject:
        return np.asarray(one.astype(str) != other.astype(str), bool).reshape(-1)
    size = one.dtype.itemsize
    bits = [np.ascontiguousarray(each).reshape(-1).view(np.uint8).reshape(-1, size) for each in (one, other)]
    return np.asarray((bits[0] != bits[1]).any(axis=1), bool)


def _alike(one: NDArray[Any], other: NDArray[Any]) -> NDArray[np.bool_]:
    """Return where two arrays of floats both have a zero, or both a NaN, in row-major order."""
    if one.dtype.kind not in "fcV":
        return np.zeros(one.size, bool)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # of signalling NaNs
        values = [each.astype(np.complex128).reshape(-1) for each in (one, other)]
        zero, nan = ((values[0] == 0) & (values[1] == 0)), np.isnan(values[0]) & np.isnan(values[1])
    return np.asarray(zero | nan, bool)


def _values(ours: Any, theirs: Any) -> tuple[str, str]:
    """Return two elements as text, with their bits where they read alike, as NaNs do."""
    if str(ours) != str(theirs):
        return str(ours), str(theirs)
    return f"{ours} (bits {ours.tobytes()[::-1].hex()})", f"{theirs} (bits {theirs.tobytes()[::-1].hex()})"


def _shown(array: NDArray[Any]) -> str:
    return str(array.tolist()) if array.size <= SHOWN else shortened(str(array.reshape(-1)[:SHOWN].tolist())) + " …"


def _listed(array: NDArray[Any]) -> Any:
    return array.tolist() if array.size <= 4096 else None
