"""The steps of an index expression, called links: brackets, take, take_along_axis, transpose and reshape."""

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
    """An entry between brackets, after its checks.

    `entry`: the entry, with the type of an array in place of the array. `arrays`: the index arrays of the entry, such as
    `mask.nonzero()` for a mask; None for a placeholder.
    """

    entry: Entry
    arrays: tuple[Any, ...] | None = ()

    @property
    def form(self) -> ParsedEntry:
        """A copy of the entry without index arrays, so that they can be freed."""
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
    """Return True if an entry is only the type of an index array.

    It is a pair (shape, dtype), or an object with `shape` and `dtype` that is no array. NumPy rejects such a pair as an entry,
    so the pair has no other meaning.
    """
    if hasattr(item, "shape") and hasattr(item, "dtype"):
        return not any(hasattr(item, name) for name in ("__array__", "__dlpack__", "__cuda_array_interface__"))
    return type(item) is tuple and len(item) == 2 and isinstance(item[0], tuple) and is_type(item[1])


def parse_integer_array(item: Any) -> ParsedEntry:
    """Parse the argument `indices` of numpy.take_along_axis. Like NumPy, raise IndexError if it is not an array of integers."""
    if not is_placeholder(item):
        item = item if isinstance(item, np.ndarray) or hasattr(item, "__cuda_array_interface__") else np.asarray(item)
        if item.dtype.kind not in "iu":
            raise IndexError(f"indices has type {item.dtype}, but must be an array of integers")
        if not item.ndim:
            kind = _index_type(item.dtype)
            return ParsedEntry(TensorType((), kind), (item.astype(kind, copy=False),))
    return parse_entry(0, item)


def parse_entry(number: int, item: Any) -> ParsedEntry:
    """Parse one entry of an index expression. `number`: its position. CuPy arrays must be on the current GPU.

    Raises the error that NumPy raises for a wrong entry. Raises TypeError for a pair (shape, bool), because a mask needs values.
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
    """Return the type that an index array is converted to: native byte order, and int64 for uint64."""
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
    """Convert a list to an array. An empty list becomes an array of integers."""
    try:
        array = np.asarray(item)
    except ValueError as error:
        raise ValueError(f"entry {number} is {item!r}, which NumPy cannot convert to an array: {error}") from None
    return array if array.size else array.astype(POSITIONS)


MOST_DIMENSIONS = 64
"""NumPy's limit."""


@dataclass(frozen=True, slots=True, eq=False)
class Brackets:
    """The step x[entries]."""

    entries: tuple[ParsedEntry, ...]

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.entries))}]"

    def problem(self, data: TensorType) -> Problem:
        """Return the problem of this step."""
        problem = indexing(data, self._plain_entries)
        if problem.output.rank > MOST_DIMENSIONS:
            raise IndexError(f"the result would have {problem.output.rank} dimensions, expected at most {MOST_DIMENSIONS}")
        return problem

    @property
    def form(self) -> Brackets:
        """A copy of the step without its index arrays."""
        return Brackets(tuple(entry.form for entry in self.entries))

    @property
    def looks_up(self) -> bool:
        """True if the step reads index arrays. The entry True reads none: it only adds a dimension."""
        masks = [entry for entry in self._plain_entries if isinstance(entry, Mask)]
        tensors = any(isinstance(entry, TensorType) for entry in self._plain_entries)
        return tensors or any(mask.shape or not mask.count for mask in masks)

    @property
    def has_placeholder(self) -> bool:
        """True if an entry is a placeholder: a type in place of an index array."""
        return any(entry.arrays is None for entry in self.entries)

    @property
    def arrays(self) -> tuple[Any, ...]:
        """The index arrays of the step. Placeholders are left out."""
        return tuple(array for entry in self.entries for array in entry.arrays or ())

    def indices(self, arrays: Sequence[Any]) -> Any:
        """Combine index arrays on one device to one index tensor."""
        return stacked(self._plain_entries, arrays)

    @property
    def _plain_entries(self) -> list[Entry]:
        return [parsed.entry for parsed in self.entries]


@dataclass(frozen=True, slots=True, eq=False)
class TakenAlong:
    """The step numpy.take_along_axis(x, indices, axis)."""

    indices_entry: ParsedEntry
    axis: int
    looks_up = True

    def __str__(self) -> str:
        return f".take_along_axis({self.indices_entry}, {self.axis})"

    def problem(self, data: TensorType) -> Problem:
        """Return the problem of this step."""
        assert isinstance(self.indices_entry.entry, TensorType)
        return TakeAlongAxis(data, self.indices_entry.entry, self.axis)

    @property
    def form(self) -> TakenAlong:
        """A copy of the step without its index array."""
        return replace(self, indices_entry=self.indices_entry.form)

    @property
    def has_placeholder(self) -> bool:
        """True if the step has a placeholder: a type in place of the index array."""
        return self.indices_entry.arrays is None

    @property
    def arrays(self) -> tuple[Any, ...]:
        """The step's index array as a tuple, which is empty for a placeholder."""
        return self.indices_entry.arrays or ()

    def indices(self, arrays: Sequence[Any]) -> Any:
        """Return the index tensor, which is the only element of `arrays`."""
        return arrays[0]


MODES = ("raise", "clip", "wrap")
"""The modes of numpy.take."""


@dataclass(frozen=True, slots=True, eq=False)
class TakenByMode(TakenAlong):
    """The step numpy.take(x, indices, axis, mode) with mode "clip" or "wrap"."""

    mode: str

    def __str__(self) -> str:
        return f".take({self.indices_entry}, {self.axis}, mode={self.mode!r})"

    def problem(self, data: TensorType) -> Problem:
        """Return the problem of this step in mode "clip". Raise ValueError in mode "wrap", which no plan can compute."""
        if self.mode == "wrap":
            raise ValueError(f"{self} takes indices modulo a size, but a plan cannot compute remainders: call fused(x)")
        return self.clipped(data)

    def clipped(self, data: TensorType) -> Problem:
        """Return a problem that clips indices to 0 … size - 1. In mode "wrap", pass the remainders as int64 indices."""
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
    """Parse the argument `indices` of numpy.take. Bools become 0 and 1. Raise TypeError for other types."""
    if not is_placeholder(item):
        if not isinstance(item, np.ndarray | np.generic) and not hasattr(item, "__cuda_array_interface__"):
            item = _converted(0, item)
        if item.dtype.kind not in "biu":
            raise TypeError(f"indices has type {item.dtype}, but take needs integers")
        item = item.astype(POSITIONS) if item.dtype.kind == "b" else item
    return parse_integer_array(item)


@dataclass(frozen=True, slots=True)
class Transposed:
    """The step x.transpose(axes). None reverses the order of dimensions."""

    axes: tuple[Any, ...] | None

    def __str__(self) -> str:
        return f".transpose({'' if self.axes is None else _as_arguments(self.axes)})"

    def problem(self, data: TensorType) -> Problem:
        """Return the problem of this step. Negative axes count from the end."""
        if self.axes is None:
            return TransposeView(data, tuple(range(data.rank)[::-1]))
        axes = tuple(whole(f"axes[{number}]", axis) for number, axis in enumerate(self.axes))
        if len(axes) != data.rank:
            raise ValueError(f"axes is {axes}, but there are {counted(data.rank, 'dimension')}: expected each once")
        return TransposeView(data, check_axes(axes, data.rank, "data"))


@dataclass(frozen=True, slots=True)
class Reshaped:
    """The step x.reshape(shape), in row-major order. None keeps the shape."""

    shape: tuple[Any, ...] | None

    def __str__(self) -> str:
        return f".reshape({None if self.shape is None else _as_arguments(self.shape)})"

    def problem(self, data: TensorType) -> Problem:
        """Return the problem of this step. One size may be -1."""
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
    """Return the integers in `args`, which are several arguments or one sequence: (1, 0) and ((1, 0),) give (1, 0).

    A single None gives None.
    """
    if len(args) > 1:
        return args
    (only,) = args
    return None if only is None else tuple(only) if isinstance(only, Sequence) or getattr(only, "ndim", None) else args


def _as_arguments(integers: Sequence[Any]) -> str:
    return ", ".join(map(str, integers)) or "()"


Link = Brackets | TakenAlong | Transposed | Reshaped


@dataclass(frozen=True, slots=True)
class Form:
    """A cache key for an expression: the steps, without index arrays. Unlike the steps, a key distinguishes 1 from 1.0.

    The key is not hashable if a slice's bound, an axis or a size is not hashable.
    """

    key: tuple[Any, ...]
    links: tuple[Link, ...] = field(compare=False)

    @classmethod
    def of(cls, links: Sequence[Link]) -> Form:
        """Return the Form of an expression with these steps."""
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
    """Return one problem per step. Each problem reads the output of the problem before it."""
    result: list[Problem] = []
    for link in links:
        result.append(link.problem(result[-1].output if result else data))
    return tuple(result)
