"""Every way to break a good call by exactly one fault, and what it raises."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from tests.dialects import drafting
from tests.dialects.drafting import EXTREMES, setting
from tests.dialects.outcomes import Array
from tests.openvino.drafts import MASKS, Draft
from tests.openvino.specification import INDICES, VERSIONS

NO_DATA: tuple[Any, ...] = (
    *("complex64", "complex128", "datetime64[s]", "timedelta64[D]", "V4"),
    *(ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.int2, ml_dtypes.float4_e2m1fn, ml_dtypes.float6_e2m3fn),
    *(ml_dtypes.float8_e4m3, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2fnuz),
)
"""NumPy's types that are no types of OpenVINO, or no whole bytes there."""

NO_INDICES: tuple[Any, ...] = (
    *("bool", "float16", "float32", "float64", "complex64", ">i4", ">u8"),
    *(ml_dtypes.int4, ml_dtypes.bfloat16),
)
"""Types that are no integers of whole bytes in the machine's byte order."""

NO_AXIS = (0.0, None, "0", [0], np.array(0.0, np.float32), np.array([0.0]), np.array(False), np.array([True]), np.zeros(1, ">f4"))
"""What is not one integer by its type."""

NO_VERSION = (0, 2, 3, 4, 5, 6, 9, -8, 78)
"""Operation sets without a Gather of their own."""


@dataclass(frozen=True)
class Fault(drafting.Fault):
    """One way to break a good call of some operations and versions."""

    operations: tuple[str, ...]
    versions: tuple[int, ...] = (1, 5, 6, 7, 8)


Breaks = Callable[[random.Random, Draft], bool | None]


def _set(name: str, choose: Callable[[random.Random, Draft], Any]) -> Breaks:
    return lambda rng, draft: draft.more.update({name: choose(rng, draft)})


def _array(number: int, change: Callable[[random.Random, Draft], Any]) -> Breaks:
    """Puts another array in the place of data or indices, unless `change` says False."""

    def breaks(rng: random.Random, draft: Draft) -> bool | None:
        found = change(rng, draft)
        if found is False:
            return False
        draft.arrays[number] = found
        return None

    return breaks


def _like_indices(shape: Callable[[random.Random, Draft], Any]) -> Breaks:
    """Puts zeros of another shape in the place of indices, unless `shape` says None."""

    def change(rng: random.Random, draft: Draft) -> Any:
        found = shape(rng, draft)
        return False if found is None else np.zeros(found, draft.arrays[1].dtype)

    return _array(1, change)


def _another(rng: random.Random, sizes: Sequence[int], place: int) -> list[int]:
    """The sizes, one of which is changed."""
    return [*sizes[:place], rng.choice([size for size in (0, 1, 2, 6) if size != sizes[place]]), *sizes[place + 1 :]]


def _data_type(rng: random.Random, draft: Draft) -> Array:
    return np.zeros(draft.data.shape, rng.choice(NO_DATA))


def _index_type(rng: random.Random, draft: Draft) -> Array:
    more = ("int16", "uint32", "uint64") if draft.operation == "GatherElements" else ()
    return np.zeros(draft.arrays[1].shape, rng.choice(NO_INDICES + more))


def _scalar_data(rng: random.Random, draft: Draft) -> None:
    draft.arrays[0] = np.zeros((), draft.data.dtype)
    if draft.operation == "Gather":
        draft.more = {"axis": 0, "batch_dims": 0}


def _far(rng: random.Random) -> int:
    return rng.choice((0, 0, 1, 2, *(abs(value) for value in EXTREMES if abs(value) < 2**62)))


def _above(rng: random.Random, draft: Draft) -> int:
    return draft.data.ndim + _far(rng)


def _below(rng: random.Random, draft: Draft) -> int:
    return -draft.data.ndim - 1 - _far(rng)


def _above_indices(rng: random.Random, draft: Draft) -> int:
    return draft.arrays[1].ndim + 1 + _far(rng)


def _below_indices(rng: random.Random, draft: Draft) -> int:
    return -draft.arrays[1].ndim - 1 - _far(rng)


def _no_integer(rng: random.Random, _: Draft) -> Any:
    return rng.choice((0.0, 1.0, "1", None, [0]))


# Gather


def _axis_of_many(rng: random.Random, draft: Draft) -> Any:
    values = np.zeros(rng.choice((0, 2, 3)), rng.choice(("int32", "int64", "uint8")))
    return rng.choice((values, np.zeros((1, 1), values.dtype), values.reshape(1, -1)))


def _plain(draft: Draft) -> tuple[int, int]:
    """Axis and number of batch dimensions, counted from the front."""
    axis, batch = int(np.asarray(draft.more["axis"]).item()), draft.more["batch_dims"]
    return axis % draft.data.ndim, batch + draft.arrays[1].ndim if batch < 0 else batch


def _batch_beyond_axis(rng: random.Random, draft: Draft) -> bool | None:
    axis, _ = _plain(draft)
    if axis >= draft.data.ndim - 1:
        return False
    rank = draft.data.ndim + rng.randrange(2)
    draft.arrays[1] = np.zeros((*draft.data.shape, 2)[:rank], draft.arrays[1].dtype)
    batch = rng.randint(axis + 1, draft.data.ndim)
    draft.more["batch_dims"] = batch - rank if batch < rank and rng.random() < 0.5 else batch
    return None


def _unequal_batches(rng: random.Random, draft: Draft) -> Any:
    batch = _plain(draft)[1] if draft.operation == "Gather" else draft.more["batch_dims"]
    return _another(rng, draft.arrays[1].shape, rng.randrange(batch)) if batch else None


# the other gathers


def _one_index(rng: random.Random, draft: Draft) -> Any:
    """The indices with one that is out of range."""
    indices = draft.arrays[1].copy()
    if not indices.size:
        return False
    place = tuple(rng.randrange(size) for size in indices.shape)
    axis = draft.more["batch_dims"] + place[-1] if draft.operation == "GatherND" else draft.more["axis"]
    size, limits = draft.data.shape[axis], np.iinfo(indices.dtype)
    values = [value for value in (size, -size - 1, limits.max, limits.min) if limits.min <= value <= limits.max]
    indices[place] = rng.choice([value for value in values if not -size <= value < size])
    return indices


def _off_the_axis(rng: random.Random, draft: Draft) -> Any:
    others = [number for number in range(draft.data.ndim) if number != draft.more["axis"] % draft.data.ndim]
    return _another(rng, draft.arrays[1].shape, rng.choice(others)) if others else None


# the slices


def _longer(name: str) -> Breaks:
    return _set(name, lambda rng, draft: [*map(int, draft.more[name]), 1])


def _zero(name: str) -> Breaks:
    def breaks(rng: random.Random, draft: Draft) -> bool | None:
        values = [*map(int, draft.more.get(name, ()))]
        marks = [draft.more.get(mask, ()) for mask in MASKS[2:]]
        places = [k for k in range(len(values)) if not any(k < len(mask) and mask[k] for mask in marks)]
        if not places:
            return False
        values[rng.choice(places)] = 0
        draft.more[name] = values
        return None

    return breaks


def _bounds_fault(name: str) -> Breaks:
    def breaks(rng: random.Random, draft: Draft) -> bool | None:
        count = len(draft.more.get(name, ()))
        if not count:
            return False
        one = rng.choice((1.0, "1", None, True, np.float32(1), np.bool_(True)))
        values = np.array([one] * count) if isinstance(one, np.generic) else [one] * count
        draft.more[name] = rng.choice((values, rng.choice((3, "1"))))
        return None

    return breaks


def _no_element(rng: random.Random, draft: Draft) -> None:
    size = rng.randrange(3)
    draft.arrays[0] = np.zeros((size, 2), draft.data.dtype)
    draft.more = {"begin": [rng.choice((size, -size - 1, 2**63 - 1))], "end": [1], "shrink_axis_mask": [1], "begin_mask": [1]}


def _too_many(rng: random.Random, draft: Draft) -> None:
    count = draft.data.ndim + 1
    draft.more = {"start": [0] * count, "stop": [1] * count, "step": [1] * count}


def _too_many_entries(rng: random.Random, draft: Draft) -> None:
    count = draft.data.ndim + 1
    draft.more = {"begin": [0] * (count + 1), "end": [1] * (count + 1), "ellipsis_mask": [0] * (count + 1)}
    draft.more[rng.choice(("ellipsis_mask", "new_axis_mask"))] = [1] + [0] * count


def _axes(rng: random.Random, draft: Draft, *axes: int) -> None:
    ones = [1] * len(axes)
    draft.more.update(start=[0] * len(axes), stop=ones, step=ones, axes=list(axes))


_GATHER, _ELEMENTS, _ND, _SLICE, _STRIDED = (("Gather",), ("GatherElements",), ("GatherND",), ("Slice",), ("StridedSlice",))
_BATCHED = (7, 8)

FAULTS = (
    Fault("data type", TypeError, _array(0, _data_type), tuple(VERSIONS)),
    Fault("index type", TypeError, _array(1, _index_type), tuple(INDICES)),
    Fault("scalar data", ValueError, _scalar_data, ("Gather", "GatherElements", "GatherND", "Slice")),
    Fault("axis above", ValueError, _set("axis", _above), ("Gather", "GatherElements")),
    Fault("axis below", ValueError, _set("axis", _below), ("Gather", "GatherElements")),
    Fault("axis type", TypeError, _set("axis", _no_integer), _ELEMENTS),
    Fault("batch_dims type", TypeError, _set("batch_dims", _no_integer), ("Gather", "GatherND")),
    Fault("axis type", TypeError, lambda rng, draft: draft.more.update(axis=rng.choice(NO_AXIS), batch_dims=0), _GATHER),
    Fault("axis of no element, several, or two dimensions", ValueError, _set("axis", _axis_of_many), _GATHER),
    Fault("batch_dims beyond the axis", ValueError, _batch_beyond_axis, _GATHER, _BATCHED),
    Fault("batch_dims beyond the rank of indices", ValueError, _set("batch_dims", _above_indices), _GATHER, _BATCHED),
    Fault("batch_dims below minus the rank of indices", ValueError, _set("batch_dims", _below_indices), _GATHER, _BATCHED),
    Fault("batch_dims in version 1", ValueError, _set("batch_dims", lambda rng, draft: rng.choice((1, -1, 2))), _GATHER, (1,)),
    Fault("unequal batches", ValueError, _like_indices(_unequal_batches), ("Gather", "GatherND"), (5, 7, 8)),
    Fault("unknown version", ValueError, setting("version", lambda rng, draft: rng.choice(NO_VERSION)), _GATHER),
    Fault("an index out of range", IndexError, _array(1, _one_index), ("GatherElements", "GatherND")),
    Fault("ranks", ValueError, _array(1, lambda rng, draft: draft.arrays[1][..., None]), _ELEMENTS),
    Fault("sizes off the axis", ValueError, _like_indices(_off_the_axis), _ELEMENTS),
    Fault("batch_dims above", ValueError, _set("batch_dims", _above), _ND),
    Fault("batch_dims below", ValueError, _set("batch_dims", _below), _ND),
    Fault("scalar indices", ValueError, _like_indices(lambda rng, draft: ()), _ND),
    Fault(
        "tuples too long",
        ValueError,
        _like_indices(lambda rng, draft: (*draft.arrays[1].shape[:-1], draft.data.ndim + 1)),
        _ND,
    ),
    *(Fault(f"length of {name}", ValueError, _longer(name), _SLICE) for name in ("start", "stop", "step")),
    *(Fault(f"type of {name}", TypeError, _bounds_fault(name), _SLICE) for name in ("start", "stop", "step")),
    Fault("a step of 0", ValueError, _zero("step"), _SLICE),
    Fault("more bounds than dimensions", ValueError, _too_many, _SLICE),
    Fault(
        "an axis out of range", ValueError, lambda rng, draft: _axes(rng, draft, rng.choice((_above, _below))(rng, draft)), _SLICE
    ),
    Fault("an axis twice", ValueError, lambda rng, draft: _axes(rng, draft, 0, -draft.data.ndim), _SLICE),
    Fault("bounds of two dimensions", ValueError, _set("start", lambda rng, draft: np.zeros((1, 1), np.int32)), _SLICE),
    *(Fault(f"length of {name}", ValueError, _longer(name), _STRIDED) for name in ("begin", "end")),
    *(Fault(f"type of {name}", TypeError, _bounds_fault(name), _STRIDED) for name in ("begin", "end", "strides")),
    Fault("a stride of 0", ValueError, _zero("strides"), _STRIDED),
    Fault("no such element", ValueError, _no_element, _STRIDED),
    Fault("more entries than dimensions", ValueError, _too_many_entries, _STRIDED),
    Fault("two ellipses", ValueError, _set("ellipsis_mask", lambda rng, draft: [1, 0, 1]), _STRIDED),
    *(Fault(f"{name} of 2", ValueError, _set(name, lambda rng, draft: [2]), _STRIDED) for name in MASKS),
)
"""Every fault, with what it raises and the operations and versions that can have it."""
