"""Which values the elements at places may have: places in arrays, so that a million of them cost what a few arrays do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.equivalence.tables import Integers
from dmlgather.plan.index_function import Intervals, common, united


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
