"""Links: the steps of an index expression. They are brackets, take, take_along_axis, transpose and reshape."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from dmlgather.dialects.advanced_indexing import POSITIONS, Entry, Mask, indexing, stacked
from dmlgather.dialects.element_types import is_type
from dmlgather.dialects.planned import Planned
from dmlgather.dialects.problem import Problem, TensorType, check_axes, check_axis, whole
from dmlgather.dialects.views import ReshapeView, TransposeView
from dmlgather.numpy.problems.take_along_axis import TakeAlongAxis
from dmlgather.plan import OutOfBounds
from dmlgather.wording import counted


@dataclass(frozen=True, slots=True)
class ParsedEntry:
    """An entry of brackets. `arrays`: its index arrays, which are `mask.nonzero()` for a mask; None for a placeholder."""

    entry: Entry
    arrays: tuple[Any, ...] | None = ()

    @property
    def form(self) -> ParsedEntry:
        """The entry without its arrays."""
        return ParsedEntry(self.entry, None) if self.arrays else self

    def __str__(self) -> str:
        entry = self.entry
        if isinstance(entry, slice):
            bounds = ["" if bound is None else str(bound) for bound in (entry.start, entry.stop, entry.step)]
            return ":".join(bounds if bounds[2] else bounds[:2])
        if isinstance(entry, Mask):
            return f"bool {list(entry.shape)}"
        return "..." if entry is ... else str(entry)


def is_placeholder(item: Any) -> bool:
    """Return True for a placeholder: a pair (shape, dtype), or an object with `shape` and `dtype` that is not an array.

    The pair is unambiguous, because NumPy takes no type as an entry.
    """
    if hasattr(item, "shape") and hasattr(item, "dtype"):
        return not any(hasattr(item, name) for name in ("__array__", "__dlpack__", "__cuda_array_interface__"))
    return type(item) is tuple and len(item) == 2 and isinstance(item[0], tuple) and is_type(item[1])


def parse_integer_array(item: Any) -> ParsedEntry:
    """Return an integer array of any rank as an entry.

    Raises IndexError, like NumPy, for an array of another type, and the errors of `parse_entry`.
    """
    if not is_placeholder(item):
        item = item if isinstance(item, np.ndarray) or hasattr(item, "__cuda_array_interface__") else np.asarray(item)
        if item.dtype.kind not in "iu":
            raise IndexError(f"indices has type {item.dtype}, but must be an array of integers")
        if not item.ndim:
            kind = _index_type(item.dtype)
            return ParsedEntry(TensorType((), kind), (item.astype(kind, copy=False),))
    return parse_entry(0, item)


def parse_entry(number: int, item: Any) -> ParsedEntry:
    """Return `item`, entry `number` of brackets, as a ParsedEntry.

    CuPy arrays must be on the current GPU; reading a mask or an array of rank 0 waits for the GPU. Raises IndexError for an item
    that is not an index in NumPy; OverflowError, like NumPy, for integers from 2^63 to 2^64 - 1; ValueError for nested lists of
    unequal lengths; TypeError for placeholders of masks, because the values of a mask determine the shape.
    """
    if item is None or item is ... or isinstance(item, slice):
        return ParsedEntry(item)
    if is_placeholder(item):
        return _placeholder(number, item)
    if not isinstance(item, np.ndarray | np.generic) and not hasattr(item, "__cuda_array_interface__"):
        if not isinstance(item, bool) and hasattr(item, "__index__"):
            return ParsedEntry(_position(number, operator.index(item)))
        item = _converted(number, item)
    if item.dtype.kind not in "biu":
        description = f"of type {item.dtype} and shape {list(item.shape)}" if item.ndim else repr(item.item())
        raise IndexError(
            f"entry {number} is {description}, but must be an integer, a slice, ..., None, or an array of integers or bools"
        )
    if item.dtype.kind == "b":
        return ParsedEntry(Mask.of(item), item.nonzero() if item.ndim else ())
    if not item.ndim:
        return ParsedEntry(_position(number, int(item)))
    item = item.astype(_index_type(item.dtype), copy=False)
    return ParsedEntry(TensorType(item.shape, item.dtype), (item,))


def _index_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of an index array in native byte order; int64 for uint64, as in NumPy."""
    return POSITIONS if dtype == np.uint64 else dtype.newbyteorder("=")


def _placeholder(number: int, item: Any) -> ParsedEntry:
    try:
        tensor = TensorType.stated(*((item.shape, item.dtype) if hasattr(item, "shape") else item))
    except TypeError as error:
        raise TypeError(f"entry {number} is {item!r}: {error}") from None
    shape, dtype = tensor.shape, tensor.dtype
    if dtype.kind == "b":
        raise TypeError(f"entry {number} is {item!r}, but a mask's values decide the result's shape: write the mask itself")
    if dtype.kind not in "iu":
        raise IndexError(f"entry {number} is {item!r}, but an index array must have an integer type")
    if not shape or min(shape) < 0:
        raise ValueError(f"entry {number} is {item!r}, but an index array has at least one dimension, and sizes of 0 or more")
    return ParsedEntry(TensorType(shape, _index_type(dtype)), None)


def _position(number: int, value: int) -> int:
    if 2**63 <= value < 2**64:
        raise OverflowError(f"entry {number} is {value}, which is no 64-bit integer: expected at most {2**63 - 1}")
    if not -(2**63) <= value < 2**63:
        raise IndexError(f"entry {number} is {value}, which is no 64-bit integer: expected {-(2**63)} … {2**63 - 1}")
    return value


def _converted(number: int, item: Any) -> np.ndarray[Any, Any]:
    """Return a list, or another object that NumPy can convert, as an array. An empty array gets an integer type."""
    try:
        array = np.asarray(item)
    except ValueError as error:
        raise ValueError(f"entry {number} is {item!r}, which NumPy cannot convert to an array: {error}") from None
    return array if array.size else array.astype(POSITIONS)


MOST_DIMENSIONS = 64
"""Largest rank of NumPy's arrays."""


@dataclass(frozen=True, slots=True, eq=False)
class Brackets:
    """The link x[…]."""

    entries: tuple[ParsedEntry, ...]

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.entries))}]"

    def problem(self, data: TensorType) -> Problem:
        """Return the problem. Raises the errors of `indexing`, and IndexError for a result of more than 64 dimensions."""
        problem = indexing(data, self._plain_entries)
        if problem.output.rank > MOST_DIMENSIONS:
            raise IndexError(f"the result would have {problem.output.rank} dimensions, expected at most {MOST_DIMENSIONS}")
        return problem

    @property
    def form(self) -> Brackets:
        """The brackets without index arrays."""
        return Brackets(tuple(entry.form for entry in self.entries))

    @property
    def looks_up(self) -> bool:
        """True if there are indices to look up. The entry True has none, because it only adds a dimension."""
        masks = [entry for entry in self._plain_entries if isinstance(entry, Mask)]
        tensors = any(isinstance(entry, TensorType) for entry in self._plain_entries)
        return tensors or any(mask.shape or not mask.count for mask in masks)

    @property
    def has_placeholder(self) -> bool:
        """True if an index array is a placeholder."""
        return any(entry.arrays is None for entry in self.entries)

    @property
    def arrays(self) -> tuple[Any, ...]:
        """The index arrays. There must be no placeholder."""
        return tuple(array for entry in self.entries for array in entry.arrays or ())

    def indices(self, arrays: Sequence[Any]) -> Any:
        """Return the index tensor. `arrays`: the index arrays, on one device. Raises IndexError if they cannot be broadcast."""
        return stacked(self._plain_entries, arrays)

    @property
    def _plain_entries(self) -> list[Entry]:
        return [parsed.entry for parsed in self.entries]


@dataclass(frozen=True, slots=True, eq=False)
class TakenAlong:
    """The link numpy.take_along_axis(x, …, axis)."""

    indices_entry: ParsedEntry
    axis: int
    looks_up = True

    def __str__(self) -> str:
        return f".take_along_axis({self.indices_entry}, {self.axis})"

    def problem(self, data: TensorType) -> Problem:
        """Return the problem. Raises ValueError for a bad axis or unequal ranks, IndexError for sizes that do not fit."""
        assert isinstance(self.indices_entry.entry, TensorType)
        return TakeAlongAxis(data, self.indices_entry.entry, self.axis)

    @property
    def form(self) -> TakenAlong:
        """The link without the index array."""
        return replace(self, indices_entry=self.indices_entry.form)

    @property
    def has_placeholder(self) -> bool:
        """True if the indices are a placeholder."""
        return self.indices_entry.arrays is None

    @property
    def arrays(self) -> tuple[Any, ...]:
        """The index array. There must be no placeholder."""
        return self.indices_entry.arrays or ()

    def indices(self, arrays: Sequence[Any]) -> Any:
        """Return the index tensor, which is the only one of `arrays`."""
        return arrays[0]


MODES = ("raise", "clip", "wrap")
"""numpy.take's modes for an index out of range."""


@dataclass(frozen=True, slots=True, eq=False)
class TakenByMode(TakenAlong):
    """The link numpy.take(x, …, axis, mode) with mode "clip" or "wrap".

    "clip" takes the first element for a negative index; "wrap" takes indices modulo the size.
    """

    mode: str

    def __str__(self) -> str:
        return f".take({self.indices_entry}, {self.axis}, mode={self.mode!r})"

    def problem(self, data: TensorType) -> Problem:
        """Return the problem of mode "clip". Raises ValueError for mode "wrap", and the errors of `clipped`."""
        if self.mode == "wrap":
            raise ValueError(f"{self} takes indices modulo a size, but a plan cannot compute remainders: call fused(x)")
        return self.clipped(data)

    def clipped(self, data: TensorType) -> Problem:
        """Return the problem that clips its indices. In mode "wrap", its indices are the remainders, in int64.

        Raises ValueError for an axis out of range, IndexError if the axis has no elements.
        """
        assert isinstance(self.indices_entry.entry, TensorType)
        axis = check_axis("axis", self.axis, data.rank, "data")
        entry = self.indices_entry.entry
        indices = TensorType(entry.shape, POSITIONS) if self.mode == "wrap" else entry
        problem = indexing(data, [*[slice(None)] * axis, indices])
        if not data.shape[axis] and 0 not in problem.output.shape:
            raise IndexError(f"axis {axis} of data, {data}, has no element to take: expected a size of 1 or more")
        plan = problem.plan(OutOfBounds.CLAMP)
        lookups = tuple(replace(lookup, wrap=0) for lookup in plan.lookups)
        return Planned(data, indices, problem.output, replace(plan, lookups=lookups))


def parse_take_indices(item: Any) -> ParsedEntry:
    """Return the indices of numpy.take as an entry. Bools become 0 and 1. Raises TypeError for indices of another type."""
    if not is_placeholder(item):
        if not isinstance(item, np.ndarray | np.generic) and not hasattr(item, "__cuda_array_interface__"):
            item = _converted(0, item)
        if item.dtype.kind not in "biu":
            raise TypeError(f"indices has type {item.dtype}, but take needs integers")
        item = item.astype(POSITIONS) if item.dtype.kind == "b" else item
    return parse_integer_array(item)


@dataclass(frozen=True, slots=True)
class Transposed:
    """The link x.transpose(axes). `axes`: None for the reverse order."""

    axes: tuple[Any, ...] | None

    def __str__(self) -> str:
        return f".transpose({'' if self.axes is None else _as_arguments(self.axes)})"

    def problem(self, data: TensorType) -> Problem:
        """Return the problem. Raises ValueError unless `axes` is a permutation; negative axes count from the end."""
        if self.axes is None:
            return TransposeView(data, tuple(range(data.rank)[::-1]))
        axes = tuple(whole(f"axes[{number}]", axis) for number, axis in enumerate(self.axes))
        if len(axes) != data.rank:
            raise ValueError(f"axes is {axes}, but there are {counted(data.rank, 'dimension')}: expected each once")
        return TransposeView(data, check_axes(axes, data.rank, "data"))


@dataclass(frozen=True, slots=True)
class Reshaped:
    """The link x.reshape(shape), in row-major order. `shape`: one size may be -1; None keeps the shape."""

    shape: tuple[Any, ...] | None

    def __str__(self) -> str:
        return f".reshape({None if self.shape is None else _as_arguments(self.shape)})"

    def problem(self, data: TensorType) -> Problem:
        """Return the problem. Raises ValueError for another number of elements, and for a size below -1 or a second -1."""
        if self.shape is None:
            return ReshapeView(data, data.shape)
        sizes = [whole(f"shape[{number}]", size) for number, size in enumerate(self.shape)]
        if min(sizes, default=0) < -1 or sizes.count(-1) > 1:
            raise ValueError(f"shape is {self.shape}, expected sizes of 0 or more, and at most one -1")
        if -1 in sizes:
            others = prod(size for size in sizes if size != -1)
            if not others or prod(data.shape) % others:
                raise ValueError(f"shape is {self.shape}, but data is {data}: no size for -1 fits its elements")
            sizes[sizes.index(-1)] = prod(data.shape) // others
        return ReshapeView(data, tuple(sizes))


def unpacked(args: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Return the integers that are arguments of a method. `args`: integers, or one sequence or array of integers, or None."""
    if len(args) > 1:
        return args
    (only,) = args
    return None if only is None else tuple(only) if isinstance(only, Sequence) or getattr(only, "ndim", None) else args


def _as_arguments(integers: Sequence[Any]) -> str:
    return ", ".join(map(str, integers)) or "()"


Link = Brackets | TakenAlong | Transposed | Reshaped


@dataclass(frozen=True, slots=True)
class Form:
    """Links without their index arrays, as a cache key. Equal forms have equal problems and raise equal errors.

    `key`: distinguishes 1 from 1.0, so forms are compared by the key, not by the links. It is not hashable if a bound, an axis or
    a size is not.
    """

    key: tuple[Any, ...]
    links: tuple[Link, ...] = field(compare=False)

    @classmethod
    def of(cls, links: Sequence[Link]) -> Form:
        """Return the form of links."""
        forms = tuple(link.form if isinstance(link, Brackets | TakenAlong) else link for link in links)
        return cls(tuple(map(_key, forms)), forms)


def _key(value: Any) -> Any:
    if isinstance(value, Brackets):
        return tuple(_key(parsed.entry) for parsed in value.entries)
    if isinstance(value, TakenAlong):
        return type(value), value.indices_entry.entry, _key(value.axis), getattr(value, "mode", None)
    if isinstance(value, Transposed | Reshaped):
        integers = value.axes if isinstance(value, Transposed) else value.shape
        return type(value), None if integers is None else tuple(map(_key, integers))
    if isinstance(value, slice):
        return slice, _key(value.start), _key(value.stop), _key(value.step)
    return type(value), value


def problems(links: Sequence[Link], data: TensorType) -> tuple[Problem, ...]:
    """Return the problems of a chain of links. The data of a problem are the output of the problem before it."""
    result: list[Problem] = []
    for link in links:
        result.append(link.problem(result[-1].output if result else data))
    return tuple(result)
