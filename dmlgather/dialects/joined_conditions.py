"""The conditions of several nodes of a model as one list that says each size once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dmlgather.dialects.checked_model import SizeCondition
from dmlgather.dialects.conditions import ANY, Range, most_of
from dmlgather.wording import printable


def strongest(conditions: Iterable[SizeCondition]) -> list[SizeCondition]:
    """Conditions that hold together, of the nodes of one model: one for each size, and none that follows from the others."""
    found: dict[str, SizeCondition] = {}
    for each in conditions:
        found[each.size] = _both(found.setdefault(each.size, each), each)
    return [each for each in found.values() if len(each.terms or ()) < 2 or not _follows(each, found)]


def _both(one: SizeCondition, other: SizeCondition) -> SizeCondition:
    """Two conditions on one size as one."""
    both = Range(one.at_least, one.at_most).both(Range(other.at_least, other.at_most))
    for each in (one, other):
        if (each.at_least, each.at_most) == (both.low, both.high):
            return each
    ends = {"at_least": both.low, "at_most": both.high}
    return one.model_copy(update={**ends, "text": printable(both.condition(one.size))})


def _follows(each: SizeCondition, known: Mapping[str, SizeCondition]) -> bool:
    """Whether a condition on a sum follows from those on its symbols."""
    least = 0.0
    for symbol, factor in (each.terms or {}).items():
        of = known.get(symbol)
        least -= most_of(-factor, ANY if of is None else Range(of.at_least, of.at_most))
    return each.at_most is None and least >= each.at_least
