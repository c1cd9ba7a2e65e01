"""Steps of an index expression: brackets with their entries, take_along_axis, transpose and reshape."""

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
class WrittenEntry:
    """An entry as it was written. arrays: the index arrays that it stands for, of a mask `mask.nonzero()`; None for those of
    which only shape and type are known.
    """

    entry: Entry
    arrays: tuple[Any, ...] | None = ()

    @property
    def is_array(self) -> bool:
        """Whether it is an index array or a mask."""
        return isinstance(self.entry, TensorType | Mask)

    @property
    def form(self) -> WrittenEntry:
        """The entry without its arrays."""
        return WrittenEntry(self.entry, None) if self.arrays else self

    def __str__(self) -> str:
        entry = self.entry
        if isinstance(entry, slice):
            bounds = ["" if bound is None else str(bound) for bound in (entry.start, entry.stop, entry.step)]
            return ":".join(bounds if bounds[2] else bounds[:2])
        if isinstance(entry, Mask):
            return f"bool {list(entry.shape)}"
        return "..." if entry is ... else str(entry)


def is_placeholder(item: Any) -> bool:
    """Whether `item` stands for an index array of which only shape and type are known: a pair (shape, dtype), or anything that
    has `shape` and `dtype` and is no array. No pair of a tuple and a type is an index expression of NumPy's.
    """
    if hasattr(item, "shape") and hasattr(item, "dtype"):
        return not any(hasattr(item, name) for name in ("__array__", "__dlpack__", "__cuda_array_interface__"))
    return type(item) is tuple and len(item) == 2 and isinstance(item[0], tuple) and is_type(item[1])


def written_array(item: Any) -> WrittenEntry:
    """An array of integers, as an argument that is no entry. IndexError, as NumPy, for any other type; otherwise as `written`."""
    if not is_placeholder(item):
        item = item if isinstance(item, np.ndarray) or hasattr(item, "__cuda_array_interface__") else np.asarray(item)
        if item.dtype.kind not in "iu":
            raise IndexError(f"indices has type {item.dtype}, but must be an array of integers")
        if not item.ndim:
            kind = _index_type(item.dtype)
            return WrittenEntry(TensorType((), kind), (item.astype(kind, copy=False),))
    return written(0, item)


def written(number: int, item: Any) -> WrittenEntry:
    """Entry `number`. An array is NumPy's, or CuPy's on its current GPU, which a mask or an array without dimensions waits for.

    Raises IndexError for what NumPy takes for no index; OverflowError for integers from 2^63 to 2^64 - 1, as NumPy does;
    ValueError for nested lists of unequal lengths; TypeError for placeholders of masks, whose values decide the shape.
    """
    if item is None or item is ... or isinstance(item, slice):
        return WrittenEntry(item)
    if is_placeholder(item):
        return _placeholder(number, item)
    if not isinstance(item, np.ndarray | np.generic) and not hasattr(item, "__cuda_array_interface__"):
        if not isinstance(item, bool) and hasattr(item, "__index__"):
            return WrittenEntry(_position(number, operator.index(item)))
        item = _converted(number, item)
    if item.dtype.kind not in "biu":
        what = f"of type {item.dtype} and shape {list(item.shape)}" if item.ndim else repr(item.item())
        raise IndexError(
            f"entry {number} is {what}, but must be an integer, a slice, ..., None, or an array of integers or bools"
        )
    if item.dtype.kind == "b":
        return WrittenEntry(Mask.of(item), item.nonzero() if item.ndim else ())
    if not item.ndim:
        return WrittenEntry(_position(number, int(item)))
    # As NumPy: unsigned 64-bit integers are read as signed ones.
    item = item.astype(_index_type(item.dtype), copy=False)
    return WrittenEntry(TensorType(item.shape, item.dtype), (item,))


def _index_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return POSITIONS if dtype == np.uint64 else dtype.newbyteorder("=")


def _placeholder(number: int, item: Any) -> WrittenEntry:
    try:
        found = TensorType.stated(*((item.shape, item.dtype) if hasattr(item, "shape") else item))
    except TypeError as error:
        raise TypeError(f"entry {number} is {item!r}: {error}") from None
    shape, dtype = found.shape, found.dtype
    if dtype.kind == "b":
        raise TypeError(f"entry {number} is {item!r}, but a mask's values decide the result's shape: write the mask itself")
    if dtype.kind not in "iu":
        raise IndexError(f"entry {number} is {item!r}, but an index array must have an integer type")
    if not shape or min(shape) < 0:
        raise ValueError(f"entry {number} is {item!r}, but an index array has at least one dimension, and sizes of 0 or more")
    return WrittenEntry(TensorType(shape, _index_type(dtype)), None)


def _position(number: int, value: int) -> int:
    if 2**63 <= value < 2**64:
        raise OverflowError(f"entry {number} is {value}, which is no 64-bit integer: expected at most {2**63 - 1}")
    if not -(2**63) <= value < 2**63:
        raise IndexError(f"entry {number} is {value}, which is no 64-bit integer: expected {-(2**63)} … {2**63 - 1}")
    return value


def _converted(number: int, item: Any) -> np.ndarray[Any, Any]:
    """A list, or whatever else NumPy makes an array of. Without elements it is one of integers."""
    try:
        array = np.asarray(item)
    except ValueError as error:
        raise ValueError(f"entry {number} is {item!r}, of which NumPy makes no array: {error}") from None
    return array if array.size else array.astype(POSITIONS)


# The links of a chain in NumPy's spelling: brackets, transpose and reshape. Each makes a problem for the data that it gets.


MOST_DIMENSIONS = 64
"""Of NumPy's arrays."""


@dataclass(frozen=True, slots=True, eq=False)
class Brackets:
    """x[…]."""

    written: tuple[WrittenEntry, ...]

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.written))}]"

    def problem(self, data: TensorType) -> Problem:
        """IndexError, ValueError and TypeError as of `indexing`, and IndexError for more than 64 dimensions."""
        problem = indexing(data, self._entries)
        if problem.output.rank > MOST_DIMENSIONS:
            raise IndexError(f"the result would have {problem.output.rank} dimensions, expected at most {MOST_DIMENSIONS}")
        return problem

    @property
    def form(self) -> Brackets:
        """The brackets without their arrays."""
        return Brackets(tuple(each.form for each in self.written))

    @property
    def looks_up(self) -> bool:
        """Whether there are indices to look up. True alone is a new dimension."""
        found = [each.entry for each in self.written if each.is_array]
        return any(not isinstance(entry, Mask) or entry.shape or not entry.count for entry in found)

    @property
    def has_placeholder(self) -> bool:
        """Whether the values of an index array are not known."""
        return any(each.arrays is None for each in self.written)

    @property
    def arrays(self) -> tuple[Any, ...]:
        """The index arrays. There is no placeholder."""
        return tuple(array for each in self.written for array in each.arrays or ())

    def indices(self, arrays: Sequence[Any]) -> Any:
        """The problem's `indices`, of `arrays`, which all lie in one place. IndexError for those that cannot be broadcast."""
        return stacked(self._entries, arrays)

    @property
    def _entries(self) -> list[Entry]:
        return [each.entry for each in self.written]


@dataclass(frozen=True, slots=True, eq=False)
class TakenAlong:
    """numpy.take_along_axis(x, …, axis)."""

    written: WrittenEntry
    axis: int
    looks_up = True

    def __str__(self) -> str:
        return f".take_along_axis({self.written}, {self.axis})"

    def problem(self, data: TensorType) -> Problem:
        """ValueError for another axis or number of dimensions; IndexError for sizes that cannot be broadcast."""
        assert isinstance(self.written.entry, TensorType)
        return TakeAlongAxis(data, self.written.entry, self.axis)

    @property
    def form(self) -> TakenAlong:
        """The same without the array."""
        return TakenAlong(self.written.form, self.axis)

    @property
    def has_placeholder(self) -> bool:
        """Whether the values of the indices are not known."""
        return self.written.arrays is None

    @property
    def arrays(self) -> tuple[Any, ...]:
        """The indices, which are one array. There is no placeholder."""
        return self.written.arrays or ()

    def indices(self, arrays: Sequence[Any]) -> Any:
        """The problem's `indices`, of `arrays`."""
        return arrays[0]


MODES = ("raise", "clip", "wrap")
"""What numpy.take does with an index out of range."""


@dataclass(frozen=True, slots=True, eq=False)
class TakenByMode(TakenAlong):
    """numpy.take(x, …, axis, mode) of a mode that is not "raise": a negative index means the first element under "clip", and is
    counted modulo the size under "wrap".
    """

    mode: str

    def __str__(self) -> str:
        return f".take({self.written}, {self.axis}, mode={self.mode!r})"

    def problem(self, data: TensorType) -> Problem:
        """As `clipped`; ValueError for the mode "wrap"."""
        if self.mode == "wrap":
            raise ValueError(f"{self} takes indices modulo a size, which no problem or plan says: fused(x) has the steps of it")
        return self.clipped(data)

    def clipped(self, data: TensorType) -> Problem:
        """What is taken, by indices that are clipped; under "wrap", by remainders. ValueError for another axis, IndexError where
        there is no element to take.
        """
        assert isinstance(self.written.entry, TensorType)
        axis = check_axis("axis", self.axis, data.rank, "data")
        indices = TensorType(self.written.entry.shape, POSITIONS) if self.mode == "wrap" else self.written.entry
        found = indexing(data, [*[slice(None)] * axis, indices])
        if not data.shape[axis] and 0 not in found.output.shape:
            raise IndexError(f"axis {axis} of data, {data}, has no element to take: expected a size of 1 or more")
        plan = found.plan(OutOfBounds.CLAMP)
        lookups = tuple(replace(lookup, wrap=0) for lookup in plan.lookups)
        return Planned(data, indices, found.output, replace(plan, lookups=lookups))

    @property
    def form(self) -> TakenByMode:
        """The same without the array."""
        return TakenByMode(self.written.form, self.axis, self.mode)


def taken_array(item: Any) -> WrittenEntry:
    """An array that numpy.take takes: of integers, or of bools that count as 0 and 1. TypeError for any other type."""
    if not is_placeholder(item):
        if not isinstance(item, np.ndarray | np.generic) and not hasattr(item, "__cuda_array_interface__"):
            item = _converted(0, item)
        if item.dtype.kind not in "biu":
            raise TypeError(f"indices has type {item.dtype}, but take needs integers")
        item = item.astype(POSITIONS) if item.dtype.kind == "b" else item
    return written_array(item)


@dataclass(frozen=True, slots=True)
class Transposed:
    """x.transpose(axes): the dimensions in that order; None for the reverse order."""

    axes: tuple[Any, ...] | None

    def __str__(self) -> str:
        return f".transpose({'' if self.axes is None else _written(self.axes)})"

    def problem(self, data: TensorType) -> Problem:
        """ValueError unless `axes` names each dimension once, counted from either end."""
        if self.axes is None:
            return TransposeView(data, tuple(range(data.rank)[::-1]))
        axes = tuple(whole(f"axes[{number}]", axis) for number, axis in enumerate(self.axes))
        if len(axes) != data.rank:
            raise ValueError(f"axes is {axes}, but there are {counted(data.rank, 'dimension')}: expected each once")
        return TransposeView(data, check_axes("axes", axes, data.rank, "data"))


@dataclass(frozen=True, slots=True)
class Reshaped:
    """x.reshape(shape), in row-major order; one size may be -1: whatever is left. None for the shape as it is."""

    shape: tuple[Any, ...] | None

    def __str__(self) -> str:
        return f".reshape({None if self.shape is None else _written(self.shape)})"

    def problem(self, data: TensorType) -> Problem:
        """ValueError for another number of elements, and for a size below -1 or a second -1."""
        if self.shape is None:
            return ReshapeView(data, data.shape)
        sizes = [whole(f"shape[{number}]", size) for number, size in enumerate(self.shape)]
        if min(sizes, default=0) < -1 or sizes.count(-1) > 1:
            raise ValueError(f"shape is {self.shape}, expected sizes of 0 or more, and at most one -1")
        if -1 in sizes:
            others = prod(size for size in sizes if size != -1)
            if not others or prod(data.shape) % others:
                raise ValueError(f"shape is {self.shape}, but data is {data}: no size in the place of -1 gives as many elements")
            sizes[sizes.index(-1)] = prod(data.shape) // others
        return ReshapeView(data, tuple(sizes))


def listed(given: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The integers of a method that takes them as several arguments, as one sequence, or as an array; None for None alone."""
    if len(given) > 1:
        return given
    (only,) = given
    return None if only is None else tuple(only) if isinstance(only, Sequence) or getattr(only, "ndim", None) else given


def _written(integers: Sequence[Any]) -> str:
    """Integers as arguments; no integers as one argument."""
    return ", ".join(map(str, integers)) or "()"


Link = Brackets | TakenAlong | Transposed | Reshaped


@dataclass(frozen=True, slots=True)
class Form:
    """Links without their index arrays. Equal forms make equal problems, and raise equal errors: 1 and 1.0 are not equal.

    key: what forms are compared by. It has no hash where a bound, an axis or a size has none.
    """

    key: tuple[Any, ...]
    links: tuple[Link, ...] = field(compare=False)

    @classmethod
    def of(cls, links: Sequence[Link]) -> Form:
        """Of any links."""
        forms = tuple(link.form if isinstance(link, Brackets | TakenAlong) else link for link in links)
        return cls(tuple(map(_key, forms)), forms)


def _key(value: Any) -> Any:
    """A value with the type of each part."""
    if isinstance(value, Brackets):
        return tuple(_key(each.entry) for each in value.written)
    if isinstance(value, TakenAlong):
        return type(value), value.written.entry, _key(value.axis), getattr(value, "mode", None)
    if isinstance(value, Transposed | Reshaped):
        integers = value.axes if isinstance(value, Transposed) else value.shape
        return type(value), None if integers is None else tuple(map(_key, integers))
    if isinstance(value, slice):
        return slice, _key(value.start), _key(value.stop), _key(value.step)
    return type(value), value


def problems(links: Sequence[Link], data: TensorType) -> tuple[Problem, ...]:
    """The problem of each link; each reads what the one before it writes."""
    found: list[Problem] = []
    for link in links:
        found.append(link.problem(found[-1].output if found else data))
    return tuple(found)
