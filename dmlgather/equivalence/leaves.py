"""The leaves that the formulas of both programs read: equal arrays are one leaf."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.equivalence.symbols import Formula, Leaf, Read, Sum, SymbolicTensor

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
