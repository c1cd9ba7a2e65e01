"""What the elements of a tensor are, as formulas over their coordinates.

A tensor is walked in row-major order over `sizes`, whatever its shape. Equal formulas over equal sizes give equal elements, and
equal elements get equal formulas as far as these are canonical.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.dialects.index_graph import Elementwise
from dmlgather.plan import dot
from dmlgather.plan.index_function import IndexFunction, Intervals, common

MAY_BE_KNOWN = ("constant", "concatenation")
"""The kinds of leaves of which something may be known."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The tensors that a concatenation puts one after the other: each is [outer, its length, inner]."""

    tensors: tuple[SymbolicTensor, ...]
    lengths: tuple[int, ...]
    outer: int
    inner: int


class Leaves:
    """Gives every array that is not looked into a leaf, the same one for the same key."""

    def __init__(self) -> None:
        self.constants: dict[Leaf, NDArray[Any]] = {}
        self.integers: dict[Leaf, NDArray[np.int64]] = {}
        self.concatenations: dict[Leaf, Parts] = {}
        self._known: dict[Hashable, Leaf] = {}

    def leaf(self, kind: str, key: Hashable, dtype: np.dtype[Any], elements: int, what: str) -> Leaf:
        """The leaf of an array that has this key among those of its kind. what: the array, for messages."""
        key = (kind, key, dtype, elements)
        if key not in self._known:
            self._known[key] = Leaf(len(self._known), kind, dtype, elements, what)
        return self._known[key]

    def constant(self, array: NDArray[Any]) -> Leaf:
        """The leaf of a known array."""
        if array.dtype.hasobject:
            key: Hashable = tuple(array.ravel().tolist())
        else:
            key = hashlib.sha256(array.tobytes()).hexdigest()
        leaf = self.leaf("constant", key, array.dtype, array.size, f"constant {array.dtype} {list(array.shape)}")
        if leaf not in self.constants:
            self.constants[leaf] = array.reshape(-1)
            if array.dtype.kind in "biu" and (array.dtype != np.uint64 or not array.size or int(array.max()) < 2**63):
                self.integers[leaf] = self.constants[leaf].astype(np.int64, copy=False)
        return leaf

    def tensor(self, tensor: SymbolicTensor, what: str) -> Leaf:
        """The leaf of a tensor that strides cannot walk over."""
        return self.leaf("tensor", tensor, tensor.dtype, tensor.elements, what)

    def concatenation(self, parts: Sequence[SymbolicTensor], shapes: Sequence[tuple[int, ...]], axis: int, what: str) -> Leaf:
        """The leaf of a concatenation. Parts that are such concatenations themselves are taken apart, empty ones left out."""
        outer, inner = prod(shapes[0][:axis]), prod(shapes[0][axis + 1 :])
        tensors: list[SymbolicTensor] = []
        lengths: list[int] = []
        for tensor, shape in zip(parts, shapes, strict=True):
            content = tensor.formula.content
            within = self.concatenations.get(content.leaf) if isinstance(content, Read) and is_whole(tensor) else None
            if within is not None and (within.outer, within.inner) == (outer, inner):
                tensors += within.tensors
                lengths += within.lengths
            elif shape[axis]:
                tensors.append(tensor)
                lengths.append(shape[axis])
        found = Parts(tuple(tensors), tuple(lengths), outer, inner)
        leaf = self.leaf("concatenation", found, tensors[0].dtype, outer * inner * sum(lengths), what)
        self.concatenations.setdefault(leaf, found)
        return leaf


def whole_leaf(leaf: Leaf) -> Formula:
    """The formula of a tensor that is the whole leaf, walked as one dimension (none where it has one element)."""
    return Formula(Read(leaf, Sum(0, (1,) if leaf.elements > 1 else ())))


def is_whole(tensor: SymbolicTensor) -> bool:
    """Whether a tensor is one leaf from the first element to the last one."""
    content = tensor.formula.content
    return isinstance(content, Read) and tensor.elements == content.leaf.elements and tensor.formula == whole_leaf(content.leaf)


# What the elements of a tensor are, as formulas over their coordinates. A tensor is walked in row-major order over `sizes`,
# whatever its shape. Equal formulas over equal sizes give equal elements, and equal elements get equal formulas as far as
# these are canonical.


@dataclass(frozen=True, slots=True)
class Leaf:
    """An array that formulas read: an input, a constant, what an opaque step writes. Equal numbers mean equal arrays.

    elements: how many it has. what: for messages.
    """

    number: int
    kind: str = field(compare=False)
    dtype: np.dtype[Any] = field(compare=False)
    elements: int = field(compare=False)
    what: str = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Addend:
    """function(the element that `formula` gives), an integer."""

    function: IndexFunction
    formula: Formula


@dataclass(frozen=True, slots=True)
class Sum:
    """offset + coordinates · strides + the addends: an integer at each point. Made by `total`."""

    offset: int
    strides: tuple[int, ...]
    addends: tuple[Addend, ...] = ()

    @property
    def fixed(self) -> bool:
        """Whether it does not depend on the coordinates, but for those of elements that are looked up."""
        return not any(self.strides)


@dataclass(frozen=True, slots=True)
class Read:
    """The element of a leaf at an address, counted in row-major order."""

    leaf: Leaf
    at: Sum


@dataclass(frozen=True, slots=True)
class Pointwise:
    """Arithmetic on elements at the same point that is not followed further. dtypes: of the operands."""

    work: Elementwise
    dtypes: tuple[np.dtype[Any], ...]
    operands: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class Guard:
    """Writes `fill` where what `formula` gives is not among `allowed`: an integer, or the bytes of an element of another type."""

    formula: Formula
    allowed: Intervals
    fill: int | bytes


@dataclass(frozen=True, slots=True)
class Formula:
    """What the element at each point is: the fill of the first guard that refuses, else the content."""

    content: Read | Sum | Pointwise
    guards: tuple[Guard, ...] = ()
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.content, self.guards)))

    def __hash__(self) -> int:
        """Kept, because formulas hold formulas, and each is a key many times."""
        return self._hash


@dataclass(frozen=True, slots=True)
class SymbolicTensor:
    """A tensor as a formula over the points of `sizes`, whose product is its number of elements."""

    sizes: tuple[int, ...]
    formula: Formula
    dtype: np.dtype[Any]

    @property
    def elements(self) -> int:
        """The number of its elements."""
        return prod(self.sizes)


NOTHING = Formula(Sum(0, (0,)))
"""The formula of a tensor without elements."""


def order(value: object) -> str:
    """What addends and guards are sorted by."""
    return repr(value)


def total(offset: int, strides: Sequence[int], addends: Sequence[Addend] = ()) -> Sum:
    """The sum in canonical form: one addend for each formula, whose function is 0 for the first value of its domain."""
    functions: dict[Formula, IndexFunction] = {}
    for each in addends:
        before = functions.get(each.formula)
        functions[each.formula] = each.function if before is None else before.plus(each.function)
    kept = []
    for formula, function in functions.items():
        if not function.pieces:
            continue  # no point of the sum is reached
        first = function.pieces[0].at(function.pieces[0].low)
        offset += first
        if function.single is None:
            kept.append(Addend(function.scaled(1, -first), formula))
    if len(kept) > 1:
        kept.sort(key=order)
    return Sum(offset, tuple(strides), tuple(kept))


def plus(one: Sum, other: Sum) -> Sum:
    """The sum of two sums over the same points."""
    strides = [a + b for a, b in zip(one.strides, other.strides, strict=True)]
    return total(one.offset + other.offset, strides, (*one.addends, *other.addends))


def scaled(each: Sum, factor: int, constant: int = 0) -> Sum:
    """The sum factor · each + constant."""
    addends = [Addend(addend.function.scaled(factor), addend.formula) for addend in each.addends]
    return total(factor * each.offset + constant, [factor * stride for stride in each.strides], addends)


def simplest(formula: Formula) -> Formula:
    """The formula; where it is a sum that only gives the element of another one, that one."""
    content = formula.content
    if isinstance(content, Sum) and content.fixed and len(content.addends) == 1:
        (addend,) = content.addends
        if all(end == piece.at(end) + content.offset for piece in addend.function.pieces for end in (piece.low, piece.high)):
            return guarded(addend.formula, formula.guards)
    return formula


def guarded(formula: Formula, guards: Sequence[Guard]) -> Formula:
    """The formula behind further guards, which refuse before its own do. Guards in a row with the same fill are in canonical
    order, and one for each formula. What the formula makes of elements that they refuse is forgotten.
    """
    for guard in guards:
        formula = _narrowed(formula, guard)
    merged: list[Guard] = []
    for guard in (*guards, *formula.guards):
        same = next((i for i, each in enumerate(merged) if (each.formula, each.fill) == (guard.formula, guard.fill)), None)
        if same is None or any(each.fill != guard.fill for each in merged[same:]):
            merged.append(guard)
        else:
            merged[same] = Guard(guard.formula, common(merged[same].allowed, guard.allowed), guard.fill)
    runs: list[list[Guard]] = []
    for guard in merged:
        if runs and runs[-1][0].fill == guard.fill:
            runs[-1].append(guard)
        else:
            runs.append([guard])
    return Formula(formula.content, tuple(guard for run in runs for guard in sorted(run, key=order)))


def _narrowed(formula: Formula, guard: Guard) -> Formula:
    """The formula, its functions of what the guard looks at defined only where the guard does not refuse."""

    def narrow(each: Sum) -> Sum:
        addends = [
            Addend(addend.function.restricted(guard.allowed), addend.formula) if addend.formula == guard.formula else addend
            for addend in each.addends
        ]
        return total(each.offset, each.strides, addends)

    return simplest(mapped(formula, Sum, narrow))


def mapped(
    formula: Formula,
    change: Callable[[int, tuple[int, ...]], Sum],
    finish: Callable[[Sum], Sum] = lambda each: each,
    compute: Callable[[Pointwise], Formula] = Formula,
) -> Formula:
    """The formula with every sum changed: `change` takes its offset and strides and returns what stands for them.

    Called for guards first, then for the content; for a sum before its addends. finish: applied to each sum in the end. compute:
    what becomes of arithmetic with changed operands.
    """

    def of_sum(each: Sum) -> Sum:
        base = change(each.offset, each.strides)
        addends = [Addend(addend.function, of(addend.formula)) for addend in each.addends]
        return finish(total(base.offset, base.strides, (*base.addends, *addends)) if base.addends or addends else base)

    def of(formula: Formula) -> Formula:
        guards = tuple(Guard(of(guard.formula), guard.allowed, guard.fill) for guard in formula.guards)
        match formula.content:
            case Read(leaf, at):
                return Formula(Read(leaf, of_sum(at)), guards)
            case Pointwise(work, dtypes, operands):
                found = compute(Pointwise(work, dtypes, tuple(of(operand) for operand in operands)))
                return guarded(found, guards) if guards else found
            case Sum():
                return Formula(of_sum(formula.content), guards)

    return of(formula)


def sums(formula: Formula) -> Iterator[Sum]:
    """Every sum of a formula, in the order of `mapped`."""
    for guard in formula.guards:
        yield from sums(guard.formula)
    content = formula.content
    if isinstance(content, Pointwise):
        for operand in content.operands:
            yield from sums(operand)
    else:
        each = content.at if isinstance(content, Read) else content
        yield each
        for addend in each.addends:
            yield from sums(addend.formula)


def leaves_of(formula: Formula) -> Iterator[Leaf]:
    """Every leaf that a formula reads, those of guards first."""
    for guard in formula.guards:
        yield from leaves_of(guard.formula)
    content = formula.content
    if isinstance(content, Pointwise):
        for operand in content.operands:
            yield from leaves_of(operand)
        return
    if isinstance(content, Read):
        yield content.leaf
    for addend in (content.at if isinstance(content, Read) else content).addends:
        yield from leaves_of(addend.formula)


def moved(formula: Formula, start: Sequence[int], steps: Sequence[Sequence[int]], looked_up: Sequence[Addend]) -> Formula:
    """The formula over other points: their coordinates lead to start + steps, and what is looked up moves along as well.

    steps: for each dimension of the new points, how far it leads along each of the old ones; then the same for each addend of
    `looked_up`, whose formula is one over the new points.
    """
    along = len(steps) - len(looked_up)

    def change(offset: int, strides: tuple[int, ...]) -> Sum:
        factors = [dot(step, strides) for step in steps]
        addends = [
            Addend(addend.function.scaled(factor), addend.formula)
            for factor, addend in zip(factors[along:], looked_up, strict=True)
        ]
        return total(offset + dot(start, strides), factors[:along], addends)

    return mapped(formula, change)
