"""Arrays that a caller gave for the outputs of a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dmlgather.backends import arrays
from dmlgather.backends.addresses import address_of
from dmlgather.backends.devices import Device
from dmlgather.backends.footprints import check_output, logical, share_memory, signature_on
from dmlgather.dialects.index_graph import IndexGraph
from dmlgather.dialects.problem import TensorType


def check_type(what: str, found: TensorType, expected: TensorType) -> None:
    """TypeError for another data type, ValueError for another shape."""
    if found != expected:
        error = TypeError if found.dtype != expected.dtype else ValueError
        raise error(f"{what} is {found}, expected {expected}")


class Targets:
    """The array for each output, None where the result is a new one.

    direct: by name, those that lie in the memory where the graph runs, so that a launch can write them.
    """

    def __init__(self, graph: IndexGraph, given: Sequence[Any], memory: Device, inputs: Mapping[str, Any]) -> None:
        """given: an array, or None, for each of the graph's outputs. inputs: the arrays that are read, by name.

        TypeError and ValueError for arrays of another type or shape, that cannot be written, or that overlap an input or another
        output.
        """
        self._memory = memory
        self.direct: dict[str, Any] = {}
        self._given: list[tuple[Any, Any, Device] | None] = []
        taken = {f"input {name!r}": array for name, array in inputs.items()}
        for name, out in zip(graph.outputs, given, strict=True):
            if out is None:
                self._given.append(None)
                continue
            try:
                array, home = arrays.adopt_output(out)
            except TypeError as error:
                raise TypeError(f"out for {name!r}: {error}") from None
            check_type(f"out for {name!r}", TensorType(tuple(array.shape), array.dtype), graph.types[name])
            check_output(logical(f"out for {name!r}", signature_on(home, array)))
            self._given.append((out, array, home))
            if home == memory:
                self._check_apart(name, array, taken)
                self.direct.setdefault(name, array)
                taken[f"out for {name!r}"] = array

    def returned(self, number: int, result: Any) -> Any:
        """The array that was given for an output, filled with the result; None where none was."""
        given = self._given[number]
        if given is None:
            return None
        out, array, home = given
        if array is not result:
            arrays.fill_from(array, home, arrays.move(result, self._memory, home))
        return out

    def _check_apart(self, name: str, array: Any, others: Mapping[str, Any]) -> None:
        for other, taken in others.items():
            if overlap(self._memory, array, taken):
                raise ValueError(f"out for {name!r} overlaps {other}: pass another array")


def overlap(memory: Device, one: Any, other: Any) -> bool:
    """Whether two arrays in one memory have elements that share bytes, or may have."""
    try:
        found = [logical("", signature_on(memory, array)) for array in (one, other)]
    except ValueError:  # strides that are no whole elements, which no GPU has
        return np.may_share_memory(one, other)
    pointers = [array.data.ptr if memory.on_gpu else address_of(array) for array in (one, other)]
    return share_memory(found[0], pointers[0], found[1], pointers[1])
