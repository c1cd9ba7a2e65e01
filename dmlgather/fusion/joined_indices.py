"""Index tensors one behind the other in one buffer, because a plan looks up one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.dialects.index_graph import Concatenation, Elementwise, Step, Work
from dmlgather.dialects.lowering import index_type
from dmlgather.dialects.problem import TensorType
from dmlgather.dialects.views import ReshapeView
from dmlgather.plan import IndexPlan, IndexType

Parts = tuple[str, ...]
"""The names of index tensors, in the order in which they lie in a buffer."""


class JoinedIndices:
    """Makes the values that hold several index tensors, and the steps that write them."""

    def __init__(self, types: dict[str, TensorType], constants: dict[str, NDArray[Any]], steps: Iterable[Step]) -> None:
        """types, constants: of the graph with these steps. What is made is added to them."""
        self._types, self._constants = types, constants
        self._taken = {step.name for step in steps}
        self._made: dict[Parts, tuple[str, list[Step]]] = {}

    def common_type(self, parts: Parts) -> np.dtype[Any] | None:
        """The smallest index type that holds the values of all; None where there is none: of int64 and uint64."""
        found = np.result_type(*(self._types[name].dtype for name in parts))
        return found if found.name.upper() in IndexType.__members__ else None

    def cost(self, parts: Parts) -> int:
        """Bytes that joining moves in each run: none for one part, and none where all are known."""
        kind = self.common_type(parts)
        if kind is None or len(parts) == 1 or self._known(parts):
            return 0
        return 2 * kind.itemsize * sum(map(self._size, parts))

    def read_by(self, plan: IndexPlan, own: Parts, parts: Parts) -> IndexPlan:
        """The plan, which looks up its `own` parts, as one that looks up all `parts`: its own are among them, in one piece."""
        if not plan.lookups:
            return plan
        kind = self.common_type(parts)
        assert kind is not None
        before = sum(map(self._size, parts[: parts.index(own[0])]))
        lookups = tuple(replace(lookup, index_offset=lookup.index_offset + before) for lookup in plan.lookups)
        return replace(plan, lookups=lookups, index_type=index_type(kind), index_extent=sum(map(self._size, parts)))

    def value(self, parts: Parts) -> tuple[str, list[Step]]:
        """The value that holds the parts, and the steps that make it; that there is already, if it is one part."""
        if len(parts) == 1:
            return parts[0], []
        if parts not in self._made:
            self._made[parts] = self._joined(parts)
            return self._made[parts]
        return self._made[parts][0], []

    def _joined(self, parts: Parts) -> tuple[str, list[Step]]:
        kind, name = self.common_type(parts), f"{' and '.join(parts)} joined"
        assert kind is not None
        if self._known(parts):
            name = self._named(name, TensorType((sum(map(self._size, parts)),), kind))
            self._constants[name] = np.concatenate([self._constants[part].reshape(-1).astype(kind) for part in parts])
            return name, []
        steps: list[Step] = []

        def added(what: str, work: Work, result: TensorType, *inputs: str) -> str:
            written = self._named(what, result)
            steps.append(Step(written, work, inputs, (written,)))
            return written

        flat = []
        for part in parts:
            value, given = part, self._types[part]
            tensor, row = TensorType(given.shape, kind), TensorType((prod(given.shape),), kind)
            if given.dtype != kind:
                value = added(f"{part} as {kind}", Elementwise("cast", kind), tensor, value)
            if given.shape != row.shape:
                value = added(f"{part} in one row", ReshapeView(tensor, row.shape), row, value)
            flat.append(value)
        return added(name, Concatenation(0), TensorType((sum(map(self._size, parts)),), kind), *flat), steps

    def _named(self, name: str, tensor: TensorType) -> str:
        """The name of a new value, and of the step that writes it; with a number behind it where it is taken."""
        free, number = name, 1
        while free in self._types or free in self._taken:
            number += 1
            free = f"{name} ({number})"
        self._types[free] = tensor
        return free

    def _size(self, name: str) -> int:
        return prod(self._types[name].shape)

    def _known(self, parts: Parts) -> bool:
        return all(name in self._constants for name in parts)
