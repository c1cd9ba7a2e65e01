"""Keys of calls, for caches. Calls with equal keys differ at most in the addresses and elements of their arrays."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from enum import Enum
from struct import pack
from typing import Any, TypeVar

import numpy as np

PLAIN: set[type] = {int, str, bool, type(None)}
"""Types of values that can be part of a key. Float is not among them, because -0.0 equals 0.0."""
LONGEST = 64
"""Most items of a sequence, and most elements of an array, in a key."""

T = TypeVar("T")

_NDARRAY = np.ndarray


def plain(kind: type[T]) -> type[T]:
    """Class decorator: let values of a class be part of keys. It adds the class to `PLAIN`.

    Instances of the class must be hashable, and equal instances must be interchangeable.
    """
    PLAIN.add(kind)
    return kind


def read_call(
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    slots: Mapping[int | str, int],
    inputs: list[Any],
    signature: Callable[[Any], tuple[Hashable, ...] | None],
) -> tuple[Hashable, ...] | None:
    """Return the key of a call, or None if it has none. Also store each array argument in the list `inputs`.

    `slots`: where in `inputs` to store an array argument, by the argument's position and by its name. `out` comes last.
    `signature`: function that returns an array's signature, or None.
    """
    items: list[Any] = []
    last = len(inputs) - 1  # the number of `out`, whose key must say if the array is writeable
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
        elif (array_signature := signature(value)) is not None:
            inputs[slot] = value
            items.append(array_signature)
        else:
            return None
    return tuple(items)


def _added(items: list[Any], value: Any) -> bool:
    """Append the type and the value of an argument to a key. Return False if the value cannot be part of a key."""
    kind = type(value)  # part of the key, because True, 1 and 1.0 are equal
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
    if issubclass(kind, tuple) and not kind.__dictoffset__ and hasattr(kind, "_fields"):  # a named tuple without attributes
        return all(_added(items, item) for item in value)
    return False
