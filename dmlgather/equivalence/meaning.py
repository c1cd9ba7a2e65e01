"""What a program means: a formula for each output, and the checks that raise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from dmlgather.dialects.index_arithmetic import arithmetic, computed_in, truths, whole_range
from dmlgather.dialects.index_graph import Concatenation, Elementwise, IndexGraph, Opaque, Step
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.equivalence.checks import Checks, RaisesAlways
from dmlgather.equivalence.parts import PartMaker
from dmlgather.equivalence.reading import Pointed, Reader, Refusal
from dmlgather.equivalence.symbols import (
    NOTHING,
    Addend,
    Formula,
    Guard,
    Leaf,
    Pointwise,
    Read,
    Sum,
    SymbolicTensor,
    guarded,
    order,
    plus,
    scaled,
    simplest,
    total,
    whole_leaf,
)
from dmlgather.equivalence.tables import MOST_POINTS, as_table
from dmlgather.plan import IndexPlan, Lookup, OutOfBounds, packed_strides
from dmlgather.plan.canonical import simplify
from dmlgather.plan.index_function import IndexFunction, lookup_function, within

# Arithmetic on integers, and selection, as formulas.

_COMMUTATIVE = {"add", "multiply", "minimum", "maximum", "and", "or", "equal", "not_equal"}

_EVERYWHERE = -(2**70), 2**70
"""More than the integers of any type."""


def computed(
    reader: Reader, work: Elementwise, sizes: tuple[int, ...], operands: Sequence[Formula], dtypes: Sequence[np.dtype[Any]]
) -> Formula:
    """What a step makes of its operands. dtypes: theirs."""
    if all(dtype.kind in "biu" for dtype in (*dtypes, work.dtype)):
        behind = _behind_guards(reader, work, sizes, operands, dtypes)
        if behind is not None:
            return behind
        found = _integers(reader, work, sizes, [reader.as_sum(operand, sizes) for operand in operands], dtypes)
        if found is not None:
            return simplest(Formula(found))
    if work.operator == "where" and dtypes[1] == dtypes[2] == work.dtype:
        selected = _selected(reader, sizes, operands, dtypes)
        if selected is not None:
            return selected
    if work.operator in _COMMUTATIVE and len(set(dtypes)) == 1:
        operands = sorted(operands, key=order)
    return Formula(Pointwise(work, tuple(dtypes), tuple(operands)))


def _behind_guards(
    reader: Reader, work: Elementwise, sizes: tuple[int, ...], operands: Sequence[Formula], dtypes: Sequence[np.dtype[Any]]
) -> Formula | None:
    """The step on an operand behind guards and on constants: done on the content and on what the guards write; else None."""
    varying = [
        number
        for number, operand in enumerate(operands)
        if operand.guards or not isinstance(operand.content, Sum) or operand.content.addends
    ]
    if len(varying) != 1 or not operands[varying[0]].guards:
        return None
    (number,) = varying
    given = operands[number]

    def of(inner: Formula) -> Formula:
        return computed(reader, work, sizes, [*operands[:number], inner, *operands[number + 1 :]], dtypes)

    guards = []
    for guard in given.guards:
        if not isinstance(guard.fill, int):
            return None
        fill = reader.constant(of(Formula(Sum(guard.fill, (0,) * len(sizes)))), sizes, work.dtype)
        if fill is None:
            return None
        guards.append(Guard(guard.formula, guard.allowed, fill))
    return guarded(of(Formula(given.content)), guards)


def _integers(
    reader: Reader, work: Elementwise, sizes: tuple[int, ...], operands: Sequence[Sum], dtypes: Sequence[np.dtype[Any]]
) -> Sum | None:
    """The step as a sum: known, linear, or a function of what one formula gives. None where it is none of these."""
    values = [reader.tables.known_over(Formula(operand), sizes) for operand in operands]
    arrays = [each.astype(dtype) for each, dtype in zip(values, dtypes, strict=True) if each is not None]
    if len(arrays) == len(values) and prod(np.broadcast_shapes(*(each.shape for each in arrays))) <= MOST_POINTS:
        found = as_table(work.compute(arrays))
        with suppress(OverflowError):
            return None if found is None else reader.tables.table(found)
    if not all(operand.fixed and len(operand.addends) < 2 for operand in operands):
        linear = _linear(reader, work, sizes, operands, dtypes)
        if linear is not None:
            return linear
    functions = [reader.as_function(operand, sizes) for operand in operands]
    sources = {each[1] for each in functions if each is not None}
    if len(sources) != 1:
        return _linear(reader, work, sizes, operands, dtypes)
    given = [
        IndexFunction.constant(operand.offset, *_EVERYWHERE) if each is None else each[0]
        for operand, each in zip(operands, functions, strict=True)
    ]
    result = arithmetic(work, given, dtypes)
    return None if result is None else total(0, (0,) * len(sizes), [Addend(result, sources.pop())])


def _linear(
    reader: Reader, work: Elementwise, sizes: tuple[int, ...], operands: Sequence[Sum], dtypes: Sequence[np.dtype[Any]]
) -> Sum | None:
    """The step as a sum of its operands, where no result can overflow; None where it is no such sum."""
    first, *others = operands
    constant = next((each.offset for each in operands if each.fixed and not each.addends), None)
    match work.operator:
        case "add":
            found = plus(first, others[0])
        case "subtract":
            found = plus(first, scaled(others[0], -1))
        case "negative":
            found = scaled(first, -1)
        case "cast":
            found = first
        case "multiply" if constant is not None:
            found = scaled(next(each for each in operands if not each.fixed or each.addends), constant)
        case _:
            chosen = _decided(reader, work.operator, sizes, operands)
            if chosen is None:
                return None
            found = chosen
    low, high = reader.tables.span(found, sizes)
    for dtype in (computed_in(work, dtypes), work.dtype):
        if dtype.kind not in "biu" or low < whole_range(dtype)[0] or high > whole_range(dtype)[1]:
            return None
    return found


def _decided(reader: Reader, operator: str, sizes: tuple[int, ...], operands: Sequence[Sum]) -> Sum | None:
    """The operand that a step always selects, or the answer that it always gives; None where that depends on elements."""
    if operator == "where":
        low, high = reader.tables.span(operands[0], sizes)
        return operands[1] if low > 0 or high < 0 else operands[2] if low == high == 0 else None
    if operator in ("minimum", "maximum"):
        low, high = reader.tables.span(plus(operands[0], scaled(operands[1], -1)), sizes)
        smaller, larger = operands if operator == "minimum" else operands[::-1]
        return smaller if high <= 0 else larger if low >= 0 else None
    if operator not in _ANSWERS:
        return None
    low, high = reader.tables.span(plus(operands[0], scaled(operands[1], -1)), sizes)
    true, false = _ANSWERS[operator](low, high)
    return Sum(int(true), (0,) * len(sizes)) if true or false else None


_ANSWERS: dict[str, Callable[[int, int], tuple[bool, bool]]] = {
    "less": lambda low, high: (high < 0, low >= 0),
    "less_equal": lambda low, high: (high <= 0, low > 0),
    "greater": lambda low, high: (low > 0, high <= 0),
    "greater_equal": lambda low, high: (low >= 0, high < 0),
    "equal": lambda low, high: (low == high == 0, low > 0 or high < 0),
    "not_equal": lambda low, high: (low > 0 or high < 0, low == high == 0),
}
"""Whether a comparison is always true, and whether it is always false, from the range of the difference of its operands."""


def _selected(
    reader: Reader, sizes: tuple[int, ...], operands: Sequence[Formula], dtypes: Sequence[np.dtype[Any]]
) -> Formula | None:
    """A selection between a value and something else of one value, as guards; None where it is no such selection."""
    condition, one, other = operands
    for truth, value, rest, dtype in ((True, one, other, dtypes[2]), (False, other, one, dtypes[1])):
        refusals = _conditions(reader, condition, sizes, truth)
        fill = None if refusals is None else reader.constant(rest, sizes, dtype)
        if refusals is None or fill is None:
            continue
        if any(not allowed for _, allowed in refusals):
            return rest
        return guarded(value, [Guard(formula, allowed, fill) for formula, allowed in refusals])
    return None


def _conditions(reader: Reader, condition: Formula, sizes: tuple[int, ...], truth: bool) -> list[Refusal] | None:
    """What formulas must give, all together, for a condition to be true, or to be false. None where it is no such condition."""
    content = condition.content
    if isinstance(content, Pointwise) and not condition.guards:
        if content.work.operator == "not":
            return _conditions(reader, content.operands[0], sizes, not truth)
        if content.work.operator == ("and" if truth else "or"):
            found = [_conditions(reader, operand, sizes, truth) for operand in content.operands]
            return None if None in found else [refusal for refusals in found for refusal in refusals or ()]
    each = reader.as_sum(condition, sizes)
    given = reader.as_function(each, sizes)
    if given is None:
        return [] if bool(each.offset) == truth else [(Formula(Sum(0, each.strides)), ())]
    function, source = given
    true, false = truths(function)
    allowed = true if truth else false
    return [] if within(function.domain, allowed) else [(source, allowed)]


@dataclass(frozen=True, slots=True)
class Meaning:
    """outputs: in the program's order. checks: of all steps; None where the program raises whatever the inputs are.

    makers: the step that wrote each opaque leaf, by its number. stops: the step at which a leaf had to be made of a tensor that
    is followed no further, and why.
    """

    outputs: tuple[SymbolicTensor, ...]
    checks: Checks | None
    makers: dict[int, str]
    stops: dict[int, tuple[str, str]]


def meaning(
    graph: IndexGraph, inputs: Sequence[Leaf], parts: PartMaker, given: Checks | None = None, *, valid: bool = False
) -> Meaning:
    """What a program means.

    inputs: the leaf of each input. given: what is known to hold. valid: every index is taken to be in range, by the rules of its
    own step, and is checked for it.
    """
    known = Checks(parts) if given is None else given.copy()
    interpreter = _Interpreter(graph, Reader(parts, known, computed), valid)
    try:
        outputs = interpreter.run(inputs)
    except RaisesAlways:
        return Meaning((), None, interpreter.makers, interpreter.reader.stops)
    return Meaning(outputs, known, interpreter.makers, interpreter.reader.stops)


class _Interpreter:
    """Follows a program step by step."""

    def __init__(self, graph: IndexGraph, reader: Reader, valid: bool) -> None:
        self.graph, self.reader, self.valid = graph, reader, valid
        self.parts, self.leaves = reader.parts, reader.leaves
        self.values: dict[str, SymbolicTensor] = {}
        self.makers: dict[int, str] = {}

    def run(self, inputs: Sequence[Leaf]) -> tuple[SymbolicTensor, ...]:
        """The outputs. RaisesAlways where a check always fails."""
        graph = self.graph
        for name, leaf in zip(graph.inputs, inputs, strict=True):
            self.values[name] = self._whole(leaf, graph.types[name].dtype)
        for name, array in graph.constants.items():
            self.values[name] = self.parts.settled(self._whole(self.leaves.constant(array)))
        for step in graph.steps:
            self._step(step)
        return tuple(self.values[name] for name in graph.outputs)

    @staticmethod
    def _whole(leaf: Leaf, dtype: np.dtype[Any] | None = None) -> SymbolicTensor:
        """The tensor that is a leaf. dtype: an integer type that holds more than the leaf's values; None for the leaf's own."""
        dtype = dtype or leaf.dtype
        if not leaf.elements:
            return SymbolicTensor((0,), NOTHING, dtype)
        return SymbolicTensor((leaf.elements,) if leaf.elements > 1 else (), whole_leaf(leaf), dtype)

    def _step(self, step: Step) -> None:
        tensors = [self.values[name] for name in step.inputs]
        types = [self.graph.types[name] for name in step.inputs]
        output = self.graph.types[step.outputs[0]]
        match step.work:
            case Problem():
                found = self._problem(step.work, tensors, output, step)
                if found is None:
                    self._opaque(step, Opaque("plan", simplify(step.work.plan())), tensors, types)
                    return
            case _ if 0 in output.shape and not isinstance(step.work, Opaque):
                found = SymbolicTensor((0,), NOTHING, output.dtype)
            case Elementwise():
                pointed = [self._broadcast(tensor, each, output, step) for tensor, each in zip(tensors, types, strict=True)]
                sizes, formulas = self.reader.aligned(pointed, step.name)
                formula = computed(self.reader, step.work, sizes, formulas, [each.dtype for each in types])
                found = self.reader.shortened(SymbolicTensor(sizes, formula, output.dtype), step.name)
            case Concatenation(axis):
                what = f"the output of {step.name}"
                found = self._whole(self.leaves.concatenation(tensors, [each.shape for each in types], axis, what))
            case Opaque():
                self._opaque(step, step.work, tensors, types)
                return
        self.values[step.outputs[0]] = self.parts.settled(replace(found, formula=simplest(found.formula)))

    def _opaque(self, step: Step, work: Opaque, tensors: Sequence[SymbolicTensor], types: Sequence[TensorType]) -> None:
        """Outputs that are known by what makes them."""
        forms = tuple((each, self.parts.form(tensor)) for tensor, each in zip(tensors, types, strict=True))
        for number, name in enumerate(step.outputs):
            output = self.graph.types[name]
            key = (work.operator, work.attributes, repr(work.attributes), forms, number, output.shape)  # 0.0 and -0.0 are equal
            leaf = self.leaves.leaf("opaque", key, output.dtype, prod(output.shape), f"the output of {step.name}")
            self.makers.setdefault(leaf.number, step.name)
            self.values[name] = self._whole(leaf)

    def _broadcast(self, tensor: SymbolicTensor, own: TensorType, output: TensorType, step: Step) -> Pointed:
        """A tensor at each point of the output, by NumPy's broadcasting."""
        new = (0,) * (output.rank - own.rank)
        packed = packed_strides(own.shape)
        strides = (*new, *(0 if size == 1 else stride for size, stride in zip(own.shape, packed, strict=True)))
        kept = [axis for axis, size in enumerate(output.shape) if size > 1]
        at = Sum(0, tuple(strides[axis] for axis in kept))
        return self.reader.read(tensor, tuple(output.shape[axis] for axis in kept), at, step.name)

    def _problem(
        self, problem: Problem, tensors: Sequence[SymbolicTensor], output: TensorType, step: Step
    ) -> SymbolicTensor | None:
        plan = problem.plan()
        if self.valid and plan.lookups:
            plan = replace(plan, out_of_bounds=OutOfBounds.RAISE, fill=b"")
        plan = simplify(plan)
        if plan.out_of_bounds is OutOfBounds.RAISE:
            self._check(plan, tensors[1], step)
        if plan.empty:
            return SymbolicTensor((0,), NOTHING, output.dtype)
        fill = _fill(plan.fill, output.dtype)
        if plan.constant:
            return self._filled(fill, output.dtype, plan.elements)
        size, packed = output.dtype.itemsize, packed_strides(plan.shape)
        if (plan.element_bytes, plan.out_strides, plan.out_offset, plan.elements) != (size, packed, 0, prod(output.shape)):
            return None
        return self._gather(plan, tensors, fill, output.dtype, step)

    def _gather(
        self, plan: IndexPlan, tensors: Sequence[SymbolicTensor], fill: int | bytes, dtype: np.dtype[Any], step: Step
    ) -> SymbolicTensor:
        """What a plan in canonical form writes."""
        address = Formula(Sum(plan.in_offset, plan.in_strides))
        pointed = [self._indices(lookup, plan.shape, tensors[1], step) for lookup in plan.lookups]
        sizes, (address, *indices) = self.reader.aligned([(plan.shape, address), *pointed], step.name)
        at = self.reader.as_sum(address, sizes)
        guards = []
        for lookup, formula in zip(plan.lookups, indices, strict=True):
            function = lookup_function(lookup, plan.out_of_bounds, *whole_range(tensors[1].dtype))
            position, refusal = self.reader.looked_up(function, formula, sizes)
            at = plus(at, scaled(position, lookup.in_stride))
            if refusal is not None and plan.out_of_bounds is OutOfBounds.FILL:
                guards.append(Guard(*refusal, fill))
        if any(not guard.allowed for guard in guards):
            return self._filled(fill, dtype, plan.elements)
        finer, formula = self.reader.read(tensors[0], sizes, at, step.name)
        refusals = [(sizes, guard.formula) for guard in guards]
        sizes, (formula, *looked_at) = self.reader.aligned([(finer, formula), *refusals], step.name)
        guards = [replace(guard, formula=each) for guard, each in zip(guards, looked_at, strict=True)]
        return SymbolicTensor(sizes, guarded(formula, guards), dtype)

    def _indices(self, lookup: Lookup, sizes: tuple[int, ...], indices: SymbolicTensor, step: Step) -> Pointed:
        """What a lookup reads in the index tensor, at each point."""
        return self.reader.read(indices, sizes, Sum(lookup.index_offset, lookup.index_strides), step.name)

    def _check(self, plan: IndexPlan, indices: SymbolicTensor, step: Step) -> None:
        """Every index that the plan looks up is in range."""
        if 0 in plan.index_shape:
            return
        for lookup in plan.lookups:
            sizes, formula = self._indices(lookup, plan.index_shape, indices, step)
            allowed = lookup_function(lookup, plan.out_of_bounds, *whole_range(indices.dtype)).domain
            self.reader.checks.add(SymbolicTensor(sizes, formula, indices.dtype), allowed)

    def _filled(self, fill: int | bytes, dtype: np.dtype[Any], elements: int) -> SymbolicTensor:
        """A tensor of one value."""
        if isinstance(fill, int):
            formula = Formula(Sum(fill, (0,)))
        else:
            formula = Formula(Read(self.leaves.constant(np.frombuffer(fill, dtype)), Sum(0, (0,))))
        return SymbolicTensor((elements,), formula, dtype)


def _fill(fill: bytes, dtype: np.dtype[Any]) -> int | bytes:
    """The fill of a plan as a guard has it."""
    if fill and dtype.kind in "biu" and (value := int(np.frombuffer(fill, dtype)[0])) < 2**63:
        return value
    return fill
