"""A call's arguments as a key: equal for two calls only if both mean the same, whatever the addresses and elements of arrays."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from enum import Enum
from struct import pack
from typing import Any, TypeVar

import numpy as np

PLAIN: set[type] = {int, str, bool, type(None)}
"""Types whose values mean what they equal. Of others, -0.0 equals 0.0, and a subclass may define anything."""
LONGEST = 64
"""Items of a sequence, and elements of an array, that a key may hold."""

T = TypeVar("T")

_NDARRAY = np.ndarray


def plain(kind: type[T]) -> type[T]:
    """Class decorator: says that equal instances of the class mean the same, and that they are hashable."""
    PLAIN.add(kind)
    return kind


def read_call(
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    slots: Mapping[int | str, int],
    inputs: list[Any],
    signature: Callable[[Any], tuple[Hashable, ...] | None],
) -> tuple[Hashable, ...] | None:
    """The key of a call; None where an array argument has none, or where no key says what another argument means.

    slots: the number of each array argument, by position and by name. inputs: an entry per array argument, which is set here.
    signature: of an array, `backends.arrays.signature`; the room that rules are in knows no arrays.
    """
    items: list[Any] = []
    last = len(inputs) - 1  # `out`, which has to be writable
    places: Iterable[tuple[int | str, Any]] = (*enumerate(args), *kwargs.items()) if kwargs else enumerate(args)
    for place, value in places:
        if type(place) is str:
            items.append(place)
        slot = slots.get(place)
        if slot is None:
            if not _added(items, value):
                return None
        elif type(value) is _NDARRAY and slot != last:
            inputs[slot] = value
            items += (value.dtype, value.shape, value.strides)
        elif value is None and place == "out":
            items.append(None)
        elif (found := signature(value)) is not None:
            inputs[slot] = value
            items.append(found)
        else:
            return None
    return tuple(items)


def _added(items: list[Any], value: Any) -> bool:
    """Add what an argument means: its type, because True, 1 and 1.0 are equal, and its value. False where that is not known."""
    kind = type(value)
    if kind in PLAIN:
        items += (kind, value)
        return True
    items.append(kind)
    if kind is float:
        items.append(pack("d", value))
        return True
    if kind is tuple or kind is list:
        kinds = tuple(map(type, value))
        items += (kinds, tuple(value))
        return len(kinds) <= LONGEST and PLAIN.issuperset(kinds)
    if kind is _NDARRAY or (issubclass(kind, np.generic) and kind.__module__ == "numpy"):
        if value.size > LONGEST or value.dtype.hasobject:
            return False
        items += (value.dtype, value.shape, value.tobytes())
        return True
    if isinstance(value, Enum):
        items.append(value)
        return True
    if "__dataclass_params__" in vars(kind) and kind.__dataclass_params__.frozen:
        return all(hasattr(value, name) and _added(items, getattr(value, name)) for name in kind.__dataclass_fields__)
    if issubclass(kind, tuple) and not kind.__dictoffset__ and hasattr(kind, "_fields"):  # which holds its fields alone
        return all(_added(items, item) for item in value)
    return False
