"""What a program checks under RAISE: which values of which elements it takes. It raises exactly where one check fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.equivalence.parts import Part, PartMaker
from dmlgather.equivalence.symbols import Formula, Leaf, Read, Sum, SymbolicTensor, leaves_of
from dmlgather.equivalence.tables import Integers, among, moving
from dmlgather.plan.index_function import Intervals, common, united, within

# Which values the elements at places may have: places in arrays, so that a million of them cost what a few arrays do.


def rows(numbers: Sequence[NDArray[Any]]) -> Integers:
    """Places: [places, numbers], each once, in rising order. numbers: of the sums of a part, [points] or [points, bytes]."""
    count = len(numbers[0])
    found: Integers = np.concatenate([each.reshape(count, -1).astype(np.int64, copy=False) for each in numbers], axis=1)
    if (np.diff(found[:, 0]) > 0).all():
        return found
    found = found[_order(found)]
    new = np.concatenate([[True], (found[1:] != found[:-1]).any(axis=1)])
    return np.compress(new, found, axis=0)


def _order(places: Integers) -> NDArray[np.intp]:
    return np.lexsort(places.T[::-1])


def _among(places: Integers, others: Integers) -> NDArray[np.bool_]:
    """Whether each place is one of the others. Both have each place once."""
    if np.array_equal(places, others):
        return np.ones(len(places), bool)
    both = np.concatenate([places, others])
    order = _order(both)
    twice = np.ones(len(both) - 1, bool)
    for column in both.T:
        ordered = column[order]
        twice &= ordered[1:] == ordered[:-1]
    found = np.zeros(len(both), bool)
    found[order[1:][twice]] = found[order[:-1][twice]] = True
    return found[: len(places)]


class AllowedValues:
    """The values that elements of one formula may have, by their places: `found` has the places of each set of values, and no
    place twice.
    """

    def __init__(self) -> None:
        self.found: dict[Intervals, Integers] = {}

    def __len__(self) -> int:
        return sum(map(len, self.found.values()))

    def copy(self) -> AllowedValues:
        """The same, which can be added to."""
        other = AllowedValues()
        other.found = dict(self.found)
        return other

    def add(self, places: Integers, allowed: Intervals) -> bool:
        """Elements at these places must also be among those that are allowed. Whether each of them still may have a value."""
        found: dict[Intervals, list[Integers]] = {}
        for values, before in self.found.items():
            here = _among(before, places)
            found.setdefault(values, []).append(before[~here])
            found.setdefault(common(values, allowed), []).append(before[here])
            places = places[~_among(places, before)]
        found.setdefault(allowed, []).append(places)
        kept = {values: [each for each in parts if len(each)] for values, parts in found.items()}
        self.found = {
            values: parts[0] if len(parts) == 1 else rows([np.concatenate(parts)]) for values, parts in kept.items() if parts
        }
        return () not in self.found

    def at(self, places: Integers) -> Intervals | None:
        """The values that elements at these places may have; None where one is at another place."""
        values: list[Intervals] = []
        for allowed, known in self.found.items():
            if not len(places):
                break
            here = _among(places, known)
            values += [allowed] if here.any() else []
            places = places[~here]
        return None if len(places) else united(each for allowed in values for each in allowed)

    def difference(self, other: AllowedValues) -> tuple[Intervals | None, Intervals | None] | None:
        """What these and others allow at the first place found where that is not equal; None where it is equal everywhere."""
        for one, two, turned in ((self, other, False), (other, self, True)):
            for allowed, places in one.found.items():
                alike = two.found.get(allowed)
                apart = places if alike is None else places[~_among(places, alike)]
                if len(apart):
                    second = two.at(apart[:1])
                    return (second, allowed) if turned else (allowed, second)
        return None


_INDEX = np.dtype(np.int64)
"""The type of tensors that are checked: only their values count."""


class RaisesAlways(Exception):  # noqa: N818 - no error: the program that is looked at raises whatever its inputs are
    """A check fails whatever the inputs are."""


class Checks:
    """Which values each element may have where a program does not raise. Programs with equal checks raise for the same inputs."""

    def __init__(self, parts: PartMaker) -> None:
        self.parts = parts
        self.allowed: dict[Formula, AllowedValues] = {}
        """By the formula of an element without its numbers: by its place, which is these numbers."""
        self.tensors: dict[SymbolicTensor, Intervals] = {}
        """Of all elements of tensors that are too large for parts."""
        self.added = 0
        """How many were added: what is known changes with it."""
        self._leaves: set[Leaf] = set()

    def copy(self) -> Checks:
        """Checks that can be added to without changing these."""
        other = Checks(self.parts)
        other.allowed = {formula: places.copy() for formula, places in self.allowed.items()}
        other.tensors = dict(self.tensors)
        other._leaves = set(self._leaves)
        return other

    def of_inputs(self) -> Checks:
        """Those on elements of the program's inputs alone."""
        other = Checks(self.parts)
        for formula, places in self.allowed.items():
            if (leaf := _input_read(formula)) is not None:
                other.allowed[formula] = places.copy()
                other._leaves.add(leaf)
        for tensor, allowed in self.tensors.items():
            if (leaf := _input_read(tensor.formula)) is not None:
                other.tensors[tensor] = allowed
                other._leaves.add(leaf)
        return other

    @property
    def empty(self) -> bool:
        """Whether nothing is checked."""
        return not self.allowed and not self.tensors

    def add(self, tensor: SymbolicTensor, allowed: Intervals) -> None:
        """Every element of an integer tensor must be one of those that are allowed. RaisesAlways where one never is."""
        tensor = self.parts.settled(moving(replace(tensor, dtype=_INDEX)))
        known = self.parts.tables.known_over(tensor.formula, tensor.sizes)
        if known is not None:
            if not among(known, allowed).all():
                raise RaisesAlways
            return
        parts = self.parts.parts(tensor)
        if parts and len(parts) > 1:
            for part in parts:
                self.add(self.parts.tensor(part, tensor.dtype), allowed)
            return
        content = tensor.formula.content
        if isinstance(content, Sum) and not tensor.formula.guards and content.fixed and len(content.addends) == 1:
            (addend,) = content.addends
            function = addend.function.scaled(1, content.offset)
            allowed = united(values for low, high in allowed for values in function.preimage(low, high))
            tensor = replace(tensor, formula=addend.formula)
        self._add(moving(tensor), allowed)

    def _add(self, tensor: SymbolicTensor, allowed: Intervals) -> None:
        if within((self.parts.tables.value_range(tensor.formula, tensor.sizes),), allowed):
            return
        allowed = common(allowed, (self.parts.tables.value_range(tensor.formula, tensor.sizes),))
        known = self._known_of_leaf(tensor)
        if known is not None and within(known, allowed):
            return
        self.added += 1
        part = self._part(tensor)
        if part is None:
            formula = tensor.formula
            self.tensors[tensor] = common(self.tensors.get(tensor, allowed), allowed)
            possible = bool(self.tensors[tensor])
        else:
            formula = part.formula
            possible = self.allowed.setdefault(formula, AllowedValues()).add(rows(part.numbers), allowed)
        if not possible:
            raise RaisesAlways
        if isinstance(formula.content, Read):
            self._leaves.add(formula.content.leaf)

    def known_of(self, formula: Formula, sizes: tuple[int, ...]) -> Intervals | None:
        """The values that an element has where no check fails, at any of its points; None where they are not known."""
        if self.empty or (isinstance(formula.content, Read) and formula.content.leaf not in self._leaves):
            return None
        tensor = moving(SymbolicTensor(sizes, formula, _INDEX))
        part = self._part(tensor)
        if part is None:
            allowed = self.tensors.get(tensor)
        else:
            known = self.allowed.get(part.formula)
            allowed = None if known is None else known.at(rows(part.numbers))
        return self._known_of_leaf(tensor) if allowed is None else allowed

    def _known_of_leaf(self, tensor: SymbolicTensor) -> Intervals | None:
        """The values of all elements of a leaf that an index may lead to; None where they are not known, or without an index."""
        content = tensor.formula.content
        if not isinstance(content, Read) or tensor.formula.guards or not content.at.addends:
            return None
        found = self.allowed.get(Formula(Read(content.leaf, Sum(0, ()))))
        low, high = self.parts.tables.span(content.at, tensor.sizes)
        if found is None or len(found) <= high - low:
            return None
        return found.at(np.arange(low, high + 1, dtype=np.int64)[:, None])

    def difference(self, other: Checks) -> str:
        """In what other checks differ from these, in words; empty where they do not."""
        none = AllowedValues()
        for formula in {**self.allowed, **other.allowed}:
            found = self.allowed.get(formula, none).difference(other.allowed.get(formula, none))
            if found is not None:
                return _told(formula, *found)
        for tensor in {**self.tensors, **other.tensors}:
            one, two = self.tensors.get(tensor), other.tensors.get(tensor)
            if one != two:
                return _told(tensor.formula, one, two)
        return ""

    def _part(self, tensor: SymbolicTensor) -> Part | None:
        """The tensor as its only part; None where it is too large for parts, or has several."""
        parts = self.parts.parts(tensor)
        return parts[0] if parts and len(parts) == 1 else None


def _input_read(formula: Formula) -> Leaf | None:
    """The input that a formula reads at places that are known; None for another formula."""
    content = formula.content
    fixed = isinstance(content, Read) and content.leaf.kind == "input" and not content.at.addends
    return content.leaf if isinstance(content, Read) and fixed else None


def _told(formula: Formula, one: Intervals | None, two: Intervals | None) -> str:
    leaf = next(leaves_of(formula), None)
    what = "computed indices" if leaf is None else f"indices from {leaf.what}"
    return f"the first program takes {_shown(one)} for {what}, the second {_shown(two)}"


def _shown(allowed: Intervals | None) -> str:
    """Values in words."""
    return (
        "any value" if allowed is None else " and ".join(f"{low} … {high}" if low < high else str(low) for low, high in allowed)
    )
