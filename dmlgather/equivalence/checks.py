"""What a program checks under RAISE: which values of which elements it takes. It raises exactly where one check fails."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

import numpy as np

from dmlgather.equivalence.parts import PartMaker
from dmlgather.equivalence.points import moving
from dmlgather.equivalence.symbols import Formula, Leaf, Read, Sum, SymbolicTensor, leaves_of, mapped
from dmlgather.equivalence.tables import among
from dmlgather.plan.index_function import Intervals, common, united, within

Place: TypeAlias = tuple[int, ...] | SymbolicTensor
"""One element: the numbers of a part's sums at a point. Of a tensor that is too large for parts: all elements, as a tensor."""


_INDEX = np.dtype(np.int64)
"""The type of tensors that are checked: only their values count."""


class RaisesAlways(Exception):  # noqa: N818 - no error: the program that is looked at raises whatever its inputs are
    """A check fails whatever the inputs are."""


class Checks:
    """Which values each element may have where a program does not raise. Programs with equal checks raise for the same inputs."""

    def __init__(self, parts: PartMaker) -> None:
        self.parts = parts
        self.allowed: dict[Formula, dict[Place, Intervals]] = {}
        """By the formula of an element without its numbers, and by its place."""
        self.added = 0
        """How many were added: what is known changes with it."""
        self._leaves: set[Leaf] = set()

    def copy(self) -> Checks:
        """Checks that can be added to without changing these."""
        other = Checks(self.parts)
        other.allowed = {formula: dict(places) for formula, places in self.allowed.items()}
        other._leaves = set(self._leaves)
        return other

    def of_inputs(self) -> Checks:
        """Those on elements of the program's inputs alone."""
        other = Checks(self.parts)
        for formula, places in self.allowed.items():
            content = formula.content
            if isinstance(content, Read) and content.leaf.kind == "input" and not content.at.addends:
                other.allowed[formula] = dict(places)
                other._leaves.add(content.leaf)
        return other

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
        formula, places = self._places(tensor)
        self.added += 1
        found = self.allowed.setdefault(formula, {})
        for place in places:
            found[place] = common(found.get(place, allowed), allowed)
            if not found[place]:
                raise RaisesAlways
        if isinstance(formula.content, Read):
            self._leaves.add(formula.content.leaf)

    def known_of(self, formula: Formula, sizes: tuple[int, ...]) -> Intervals | None:
        """The values that an element has where no check fails, at any of its points; None where they are not known."""
        if not self.allowed or (isinstance(formula.content, Read) and formula.content.leaf not in self._leaves):
            return None
        tensor = moving(SymbolicTensor(sizes, formula, _INDEX))
        stripped, places = self._places(tensor)
        found = self.allowed.get(stripped, {})
        if any(place not in found for place in places):
            return self._known_of_leaf(tensor)
        return united(each for allowed in {found[place] for place in places} for each in allowed)

    def _known_of_leaf(self, tensor: SymbolicTensor) -> Intervals | None:
        """The values of all elements of a leaf that an index may lead to; None where they are not known, or without an index."""
        content = tensor.formula.content
        if not isinstance(content, Read) or tensor.formula.guards or not content.at.addends:
            return None
        found = self.allowed.get(Formula(Read(content.leaf, Sum(0, ()))), {})
        low, high = self.parts.tables.span(content.at, tensor.sizes)
        if len(found) <= high - low or any((place,) not in found for place in range(low, high + 1)):
            return None
        return united(each for allowed in {found[place,] for place in range(low, high + 1)} for each in allowed)

    def difference(self, other: Checks) -> str:
        """In what other checks differ from these, in words; empty where they do not."""
        for formula in {**self.allowed, **other.allowed}:
            ones, others = self.allowed.get(formula, {}), other.allowed.get(formula, {})
            for place in {**ones, **others}:
                if ones.get(place) != others.get(place):
                    leaf = next(leaves_of(formula), None)
                    what = "computed indices" if leaf is None else f"indices from {leaf.what}"
                    return f"the first program takes {_shown(ones.get(place))} for {what}, the second {_shown(others.get(place))}"
        return ""

    def _places(self, tensor: SymbolicTensor) -> tuple[Formula, list[Place]]:
        """The formula without its numbers, and every place where it is looked at."""
        parts = self.parts.parts(tensor)
        if parts is None or len(parts) > 1:
            return mapped(tensor.formula, lambda *_: Sum(0, ())), [tensor]
        (part,) = parts
        return part.formula, list(set(zip(*(each.tolist() for each in part.numbers), strict=True)))


def _shown(allowed: Intervals | None) -> str:
    """Values in words."""
    return (
        "any value" if allowed is None else " and ".join(f"{low} … {high}" if low < high else str(low) for low, high in allowed)
    )
