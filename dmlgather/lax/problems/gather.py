"""Rules and lowering of jax.lax.gather. Source: its page in JAX's documentation."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np

from dmlgather.calls.keys import plain
from dmlgather.dialects.element_types import ElementTypes
from dmlgather.dialects.problem import Problem, TensorType, whole
from dmlgather.dialects.problem import index_type as plan_index_type
from dmlgather.plan import IndexPlan, Layout, Lookup, OutOfBounds, build
from dmlgather.wording import alternatives


@plain
@dataclass(frozen=True)
class GatherDimensionNumbers:
    """The roles of the dimensions of a lax.gather, like jax.lax.GatherDimensionNumbers.

    The last dimension of the indices holds the index vectors. The other dimensions of the indices become, in order, the
    dimensions of the result that are not in offset_dims. The fields accept any sequences of integers and store tuples.

    >>> dg.lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=[0], start_index_map=[0]).start_index_map
    (0,)
    """

    offset_dims: tuple[int, ...]
    """The dimensions of the result that span a window, in ascending order."""

    collapsed_slice_dims: tuple[int, ...]
    """The dimensions of the operand that the result drops, in ascending order. The window has size 1 there."""

    start_index_map: tuple[int, ...]
    """For each component of an index vector, the dimension of the operand that it indexes."""

    operand_batching_dims: tuple[int, ...] = ()
    """The batch dimensions of the operand, in ascending order. The window has size 1 there, and the result drops them."""

    start_indices_batching_dims: tuple[int, ...] = ()
    """The batch dimensions of the indices. Each belongs to the entry of operand_batching_dims at the same position."""

    def __post_init__(self) -> None:
        for field in fields(self):
            values = getattr(self, field.name)
            if not isinstance(values, Sequence) or isinstance(values, str | bytes):
                raise TypeError(f"{field.name} is {values!r}, expected a tuple of integers")
            dims = tuple(whole(f"{field.name}[{number}]", value) for number, value in enumerate(values))
            object.__setattr__(self, field.name, dims)

    @classmethod
    def of(cls, numbers: Any) -> GatherDimensionNumbers:
        """Convert JAX's GatherDimensionNumbers to this class. Return an object of this class unchanged.

        Raises TypeError for other objects and, like JAX, if a field of JAX's object is a list.
        """
        if isinstance(numbers, cls):
            return numbers
        names = [field.name for field in fields(cls)]
        if not all(hasattr(numbers, name) for name in names):
            raise TypeError(
                f"dimension_numbers is of type {type(numbers).__name__}, expected GatherDimensionNumbers, JAX's or dmlgather's"
            )
        values = {name: getattr(numbers, name) for name in names}
        for name, dims in values.items():
            if not isinstance(dims, Hashable):
                raise TypeError(
                    f"{name} is {dims!r} of type {type(dims).__name__}, but JAX's GatherDimensionNumbers takes only a tuple"
                )
        return cls(**values)


MODES = {
    "clip": OutOfBounds.CLAMP,
    "fill": OutOfBounds.FILL,
    "drop": OutOfBounds.FILL,
    "promise_in_bounds": OutOfBounds.PROMISE,
}

_NANS = {"float8_e5m2": b"\x7f"}
"""JAX's bytes of NaN for types where ml_dtypes has other bytes."""

NON_NUMBERS = (np.character, np.void, np.object_, np.datetime64, np.timedelta64)
"""NumPy's scalar types that cannot be a fill value."""


def mode_of(mode: Any) -> OutOfBounds:
    """Return the policy for a mode of JAX.

    `mode`: a name, a member of JAX's GatherScatterMode, or None. Raises ValueError for other values, also for "one_hot".
    """
    name = "promise_in_bounds" if mode is None else mode
    if type(mode).__name__ == "GatherScatterMode":
        name = mode.name.lower().removesuffix("_or_drop")  # CLIP, FILL_OR_DROP or PROMISE_IN_BOUNDS
    policy = MODES.get(name) if isinstance(name, str) else None
    if policy is None:
        raise ValueError(f"mode is {mode!r}, expected {alternatives(map(repr, MODES))}, a GatherScatterMode, or None")
    return policy


def fill_bytes(value: Any, dtype: np.dtype[Any]) -> bytes:
    """Return the bytes of a fill value, cast to `dtype` by NumPy's rules.

    None means JAX's default: NaN, the smallest signed integer, the largest unsigned integer, or True. Raises TypeError if the
    value is no number, or complex for a real type; OverflowError for an integer of more than 64 bits in an integer type, and
    for an integer that is too large for a float.
    """
    if value is None:
        return _NANS.get(dtype.name) or _default(dtype).tobytes()
    if not isinstance(value, bool | int | float | complex | np.generic) or isinstance(value, NON_NUMBERS):
        raise TypeError(f"fill_value is {value!r} of type {type(value).__name__}, expected one number (array.item() gives it)")
    array = np.asarray(value)
    if array.dtype.kind == "O":
        assert isinstance(value, int), "NumPy has an object for an integer of more than 64 bits"
        array = np.asarray(_rounded(value, dtype))
    if array.dtype.kind == "c" and dtype.kind not in "cb":
        raise TypeError(f"fill_value is {value!r}, a complex number, but the operand has type {dtype}")
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # NumPy warns about values that do not fit
        element = array.astype(dtype)
        return _NANS[dtype.name] if dtype.name in _NANS and np.isnan(element) else element.tobytes()


def is_integer(dtype: np.dtype[Any]) -> bool:
    """Return True for an integer type. The name decides, because the `kind` of ml_dtypes.int4 is "V" in NumPy."""
    return dtype.name.startswith(("int", "uint"))


def _rounded(value: int, dtype: np.dtype[Any]) -> float | bool:
    """Convert an integer of more than 64 bits to a float or bool, according to `dtype`. NumPy cannot cast such an integer."""
    try:
        if not is_integer(dtype):
            return True if dtype.kind == "b" else float(value)
    except OverflowError:
        pass
    raise OverflowError(f"fill_value is an integer of {value.bit_length()} bits, which cannot be cast to {dtype}")


def _default(dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    if dtype.kind == "b":
        return np.array(True, dtype)
    if is_integer(dtype):
        if dtype.kind in "iu":
            limits: Any = np.iinfo(dtype)
        else:
            import ml_dtypes

            limits = ml_dtypes.iinfo(dtype)  # type: ignore[no-untyped-call] # it ships no types
        return np.array(limits.max if dtype.name.startswith("uint") else limits.min, dtype)
    return np.array(complex(np.nan, 0) if dtype.kind == "c" else np.nan, dtype)


def check_shapes(
    operand: tuple[int, ...], indices: tuple[int, ...], numbers: GatherDimensionNumbers, sizes: tuple[int, ...]
) -> None:
    """Check the rules for shapes, dimension numbers and slice sizes, in the same order as JAX.

    Raises TypeError if a rule is broken. Two rules are stricter than JAX's checks. First, the slice size of a batching
    dimension must be 1. JAX also allows 0, but its results then depend on the backend. Second, this function refuses
    some slice sizes that JAX refuses only when it compiles the call.
    """
    if not indices:
        _refuse("start_indices has rank 0", "rank 1 or more, index vectors along its last dimension")
    _check_dims(numbers, "offset_dims", "sorted unique range", len(numbers.offset_dims) + len(indices) - 1, "the result")
    _check_operand_dims(numbers, operand, indices)
    _check_indices_batching(numbers, operand, indices)
    _check_sizes(numbers, operand, indices, sizes)


def _check_operand_dims(numbers: GatherDimensionNumbers, operand: Sequence[int], indices: Sequence[int]) -> None:
    dims, rank = numbers.start_index_map, len(operand)
    if len(dims) != indices[-1]:
        _refuse(
            f"start_index_map is {dims}", f"{indices[-1]} entries, one per component of start_indices, shape {tuple(indices)}"
        )
    _check_dims(numbers, "start_index_map", "range unique", rank, "operand")
    _check_dims(numbers, "collapsed_slice_dims", "sorted range unique", rank, "operand")
    _check_dims(numbers, "operand_batching_dims", "unique sorted range", rank, "operand")
    batching = numbers.operand_batching_dims
    for name in ("collapsed_slice_dims", "start_index_map"):
        if not set(getattr(numbers, name)).isdisjoint(batching):
            _refuse(f"{name} is {getattr(numbers, name)} and operand_batching_dims is {batching}", "no dimension in both")


def _check_indices_batching(numbers: GatherDimensionNumbers, operand: Sequence[int], indices: Sequence[int]) -> None:
    of_operand, of_indices = numbers.operand_batching_dims, numbers.start_indices_batching_dims
    _check_dims(numbers, "start_indices_batching_dims", "unique range", len(indices), "start_indices")
    if len(indices) - 1 in of_indices:
        _refuse(
            f"start_indices_batching_dims is {of_indices}",
            f"other dimensions than {len(indices) - 1}, which holds the index vectors",
        )
    if len(of_operand) != len(of_indices):
        _refuse(f"operand_batching_dims is {of_operand} and start_indices_batching_dims is {of_indices}", "equal lengths")
    for dim, other in zip(of_operand, of_indices, strict=True):
        if operand[dim] != indices[other]:
            _refuse(
                f"batching dimension {dim} of operand has size {operand[dim]}, and dimension {other} of start_indices has size "
                f"{indices[other]}",
                "equal sizes",
            )


def _check_sizes(numbers: GatherDimensionNumbers, operand: Sequence[int], indices: Sequence[int], sizes: tuple[int, ...]) -> None:
    if len(sizes) != len(operand):
        _refuse(f"slice_sizes is {sizes}", f"{len(operand)} entries, one per dimension of operand")
    offset, collapsed, batching = numbers.offset_dims, numbers.collapsed_slice_dims, numbers.operand_batching_dims
    if len(sizes) != len(offset) + len(collapsed) + len(batching):
        _refuse(
            f"slice_sizes is {sizes}, offset_dims {offset}, collapsed_slice_dims {collapsed}, operand_batching_dims {batching}",
            f"each of operand's {len(sizes)} dimensions to be kept, collapsed or batching",
        )
    # JAX takes any window size if the indices and the result are both empty.
    windows = [size for dim, size in enumerate(sizes) if dim not in (*collapsed, *batching)]
    empty = 0 in indices and 0 in (*indices[:-1], *windows)
    for dim, (size, most) in enumerate(zip(sizes, operand, strict=True)):
        if size < 0 or (size > most and not empty):
            _refuse(f"slice_sizes[{dim}] is {size}", f"0 … {most}, because operand has size {most} there")
    for name in ("collapsed_slice_dims", "operand_batching_dims"):
        for dim in getattr(numbers, name):
            if sizes[dim] != 1:
                _refuse(f"slice_sizes[{dim}] is {sizes[dim]}", f"1, because {name} contains {dim}")


def _check_dims(numbers: GatherDimensionNumbers, name: str, rules: str, rank: int, array: str) -> None:
    """Check one field of GatherDimensionNumbers.

    `rules`: the words "sorted", "unique" and "range", in the order in which JAX checks them.
    `rank`: the rank of the array that the field's dimensions belong to. `array`: the name of this array in messages.
    """
    dims = getattr(numbers, name)
    for rule in rules.split():
        if rule == "sorted" and any(after < before for before, after in pairwise(dims)):
            _refuse(f"{name} is {dims}", "ascending order")
        if rule == "unique" and len(set(dims)) < len(dims):
            _refuse(f"{name} is {dims}", "each dimension once")
        if rule == "range" and (bad := [dim for dim in dims if not 0 <= dim < rank]):
            legal = f"0 … {rank - 1}" if rank else "none"
            _refuse(f"{name} is {dims}", f"dimensions of {array}, which has rank {rank} ({legal}), and {bad[0]} is not one")


def _refuse(got: str, expected: str) -> NoReturn:
    raise TypeError(f"{got}; expected {expected}")


INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")

OPERANDS = (
    "bool",
    *INTEGERS,
    *("int2", "int4", "uint2", "uint4"),
    *("bfloat16", "float16", "float32", "float64"),
    *("float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz"),
    *("float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn"),
    *("complex64", "complex128"),
)

TYPES = ElementTypes({name: name for name in OPERANDS})
"""JAX's element types. Those of ml_dtypes use at least one byte per element in arrays."""


@dataclass(frozen=True)
class LaxGather(Problem):
    """A call of jax.lax.gather. Each index vector is the start of a window of the operand, and the result has all windows.

    `data`, `indices`: JAX's operand and start_indices. `numbers`: the roles of the dimensions.
    `out_of_bounds`: CLAMP moves a window into bounds; FILL fills it with the bytes `fill`; PROMISE runs like CLAMP.
    """

    data: TensorType
    indices: TensorType
    numbers: GatherDimensionNumbers
    slice_sizes: tuple[int, ...]
    out_of_bounds: OutOfBounds = OutOfBounds.PROMISE
    fill: bytes = b""

    name = "gather"
    inputs = ("data", "indices")
    arguments = ("operand", "start_indices")

    def __post_init__(self) -> None:
        TYPES.check("lax.gather", "operand", self.data.dtype, OPERANDS)
        index_type = TYPES.name_of(self.indices.dtype)
        if index_type in INTEGERS or index_type not in OPERANDS:
            TYPES.check("lax.gather", "start_indices", self.indices.dtype, INTEGERS)
        object.__setattr__(self, "slice_sizes", _sizes(self.slice_sizes))
        check_shapes(self.data.shape, self.indices.shape, self.numbers, self.slice_sizes)
        if index_type not in INTEGERS:  # as in JAX, a ValueError, and checked after the shapes
            raise ValueError(f"start_indices has type {index_type}, but lax.gather takes {', '.join(INTEGERS)}")

    @classmethod
    def from_call(
        cls, data: TensorType, indices: TensorType, dimension_numbers: Any, slice_sizes: Any, *, mode: Any, fill_value: Any
    ) -> LaxGather:
        """Return the problem of a call with JAX's arguments. Raises the errors of `dmlgather.lax.gather`."""
        policy, numbers = mode_of(mode), GatherDimensionNumbers.of(dimension_numbers)
        problem = cls(data, indices, numbers, slice_sizes, policy)
        return replace(problem, fill=fill_bytes(fill_value, data.dtype)) if policy is OutOfBounds.FILL else problem

    @property
    def windowed(self) -> tuple[int, ...]:
        """The dimensions of the operand that the result keeps."""
        removed = (*self.numbers.collapsed_slice_dims, *self.numbers.operand_batching_dims)
        return tuple(dimension for dimension in range(self.data.rank) if dimension not in removed)

    @property
    def sources(self) -> tuple[tuple[str, int], ...]:
        """The origin of each dimension of the result.

        It is ("window", dimension of the operand) or ("indices", dimension of start_indices).
        """
        windows, batches = iter(self.windowed), iter(range(self.indices.rank - 1))
        rank = len(self.windowed) + self.indices.rank - 1
        return tuple(
            ("window", next(windows)) if dimension in self.numbers.offset_dims else ("indices", next(batches))
            for dimension in range(rank)
        )

    @property
    def output(self) -> TensorType:
        sizes = {"window": self.slice_sizes, "indices": self.indices.shape}
        return TensorType(tuple(sizes[kind][dimension] for kind, dimension in self.sources), self.data.dtype)

    @property
    def lookup_axes(self) -> tuple[int, ...]:
        return self.numbers.start_index_map

    @property
    def lookup_windows(self) -> tuple[int, ...]:
        return tuple(self.slice_sizes[axis] for axis in self.lookup_axes)

    def _lower(self, layouts: Sequence[Layout]) -> IndexPlan:
        data, indices, output = layouts
        batching = dict(zip(self.numbers.start_indices_batching_dims, self.numbers.operand_batching_dims, strict=True))
        in_strides, index_strides = [], []
        for source, dimension in self.sources:
            is_window = source == "window"
            data_axis = dimension if is_window else batching.get(dimension)
            in_strides.append(0 if data_axis is None else data.strides[data_axis])
            index_strides.append(0 if is_window else indices.strides[dimension])
        lookups = [
            Lookup(
                index_strides=tuple(index_strides),
                index_offset=indices.offset + component * indices.strides[-1],
                limit=max(data.sizes[axis] - self.slice_sizes[axis] + 1, 0),
                wrap=0,
                in_stride=data.strides[axis],
            )
            for component, axis in enumerate(self.lookup_axes)
        ]
        kind = plan_index_type(self.indices.dtype)
        return build(data, output, in_strides, self.data.dtype.itemsize, lookups=lookups, indices=indices, index_type=kind)


def _sizes(sizes: Any) -> tuple[int, ...]:
    try:
        values = (sizes,) if isinstance(sizes, int) else tuple(sizes)
    except TypeError:
        raise TypeError(f"slice_sizes is {sizes!r} of type {type(sizes).__name__}, expected a sequence of integers") from None
    return tuple(whole(f"slice_sizes[{number}]", value) for number, value in enumerate(values))
