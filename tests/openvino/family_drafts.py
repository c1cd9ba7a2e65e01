"""Random calls of GatherElements, GatherND, Slice and StridedSlice: good ones, and ones with exactly one fault."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from tests.dialects.drafting import laid_out, random_bits
from tests.openvino.family_specification import INDICES, VERSIONS, FamilyCall
from tests.openvino.specification import INTEGERS, NAMES, Array

MASKS = ("begin_mask", "end_mask", "new_axis_mask", "shrink_axis_mask", "ellipsis_mask")
FAR = (2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 2**32 + 1)


@dataclass
class FamilyDraft:
    """A call in the making; arrays are laid out at its end."""

    operation: str
    version: int
    arrays: list[Array]
    more: dict[str, Any]

    def finished(self, seed: int, fault: str = "") -> FamilyCall:
        return FamilyCall(self.operation, self.version, tuple(self.arrays), self.more, fault, seed)


def good(rng: random.Random, operation: str, version: int, dtypes: Sequence[Any] = tuple(NAMES)) -> FamilyDraft:
    """A draft without a fault."""
    least = 0 if operation == "StridedSlice" else 1
    shape = tuple(0 if rng.random() < 0.04 else rng.choice((1, 2, 2, 3, 4, 5)) for _ in range(rng.randint(least, 4)))
    while prod(shape) > 200:
        shape = shape[1:]
    data = random_bits(rng, np.dtype(rng.choice(dtypes)), shape)
    return _MAKERS[operation](rng, FamilyDraft(operation, version, [data], {}))


def _gather_elements(rng: random.Random, draft: FamilyDraft) -> FamilyDraft:
    sizes = list(draft.arrays[0].shape)
    axis = rng.randrange(len(sizes))
    size, sizes[axis] = sizes[axis], rng.choice((0, 1, 2, 3, 7)) if sizes[axis] else 0
    draft.arrays.append(_indices(rng, sizes, [size], rng.choice(INDICES["GatherElements"]))[..., 0])
    draft.more["axis"] = _counted(rng, axis, len(sizes))
    return draft


def _gather_nd(rng: random.Random, draft: FamilyDraft) -> FamilyDraft:
    sizes = draft.arrays[0].shape
    batch = rng.randint(0, len(sizes) - 1)
    size = rng.randint(0, len(sizes) - batch)
    moved = [rng.choice((1, 2, 3)) for _ in range(rng.randint(0, 2))]
    if 0 in sizes[batch : batch + size]:
        moved = [0]
    draft.arrays.append(_indices(rng, [*sizes[:batch], *moved], sizes[batch : batch + size], rng.choice(INTEGERS)))
    draft.more["batch_dims"] = batch
    return draft


def _indices(rng: random.Random, shape: Sequence[int], sizes: Sequence[int], kind: np.dtype[Any]) -> Array:
    """Tuples of positions in dimensions of these sizes."""
    found = np.zeros((*shape, len(sizes)), kind)
    for place in np.ndindex(*shape):
        found[place] = [rng.randrange(-size if kind.kind == "i" else 0, size) for size in sizes]
    return found


def _slice(rng: random.Random, draft: FamilyDraft) -> FamilyDraft:
    rank = draft.arrays[0].ndim
    axes = rng.sample(range(rank), rng.randint(0, rank))
    default = rng.random() < 0.3
    sizes = [draft.arrays[0].shape[axis] for axis in (range(len(axes)) if default else axes)]
    draft.more = dict(zip(("start", "stop", "step"), _bounds(rng, sizes), strict=True))
    if not default:
        draft.more["axes"] = _as_array(rng, [_counted(rng, axis, rank) for axis in axes])
    return draft


def _strided_slice(rng: random.Random, draft: FamilyDraft) -> FamilyDraft:
    sizes = list(draft.arrays[0].shape)
    count = rng.randint(0, len(sizes))
    kinds = ["plain"] * count + ["new"] * rng.choice((0, 0, 1, 2))
    rng.shuffle(kinds)
    if rng.random() < 0.4:
        kinds.insert(rng.randint(0, len(kinds)), "ellipsis")
    hidden, axis, marks = len(sizes) - count, 0, {name: [0] * len(kinds) for name in MASKS}
    along: list[int] = []
    for k, kind in enumerate(kinds):
        marks["begin_mask"][k], marks["end_mask"][k] = (int(rng.random() < 0.3) for _ in range(2))
        marks["shrink_axis_mask"][k] = int(rng.random() < (0.3 if kind == "plain" else 0.1))
        if kind != "plain":
            marks[f"{kind}_axis_mask" if kind == "new" else "ellipsis_mask"][k] = 1
            marks["new_axis_mask"][k] |= int(rng.random() < 0.1 and kind == "ellipsis")
        along.append(sizes[axis] if kind == "plain" else 3)
        axis += {"plain": 1, "new": 0, "ellipsis": hidden}[kind]
    begin, end, strides = (list(values) for values in _bounds(rng, along))
    for k, kind in enumerate(kinds):
        if kind != "plain" or marks["shrink_axis_mask"][k]:
            strides[k] = rng.choice((strides[k], 0))
        if kind == "plain" and marks["shrink_axis_mask"][k]:
            if along[k]:
                begin[k] = rng.randrange(-along[k], along[k])
            else:
                marks["shrink_axis_mask"][k], strides[k] = 0, strides[k] or 1
    draft.more = {"begin": _as_array(rng, begin), "end": _as_array(rng, end)}
    if all(stride == 1 for stride in strides) and rng.random() < 0.5:
        strides = []
    if strides or not begin:
        draft.more["strides"] = _as_array(rng, strides)
    draft.more |= {name: _mask(rng, mask) for name, mask in marks.items()}
    return draft


def _mask(rng: random.Random, mask: list[int]) -> Any:
    """The mask with fewer zeros at its end, or more."""
    while mask and not mask[-1] and rng.random() < 0.3:
        mask = mask[:-1]
    return [*mask, *[0] * rng.choice((0, 0, 0, 1, 2))]


def _bounds(rng: random.Random, sizes: Sequence[int]) -> list[list[int]]:
    """start, stop and step for dimensions of these sizes."""

    def bound(size: int) -> int:
        return rng.choice(FAR) if rng.random() < 0.05 else rng.randint(-2 * size - 2, 2 * size + 2)

    steps = [rng.choice((1, 1, 1, 2, 3, -1, -1, -2, -3, 2**40, -(2**40))) for _ in sizes]
    return [[bound(size) for size in sizes], [bound(size) for size in sizes], steps]


def _as_array(rng: random.Random, values: list[int]) -> Any:
    """A list, or an array of a type that holds the values."""
    if rng.random() < 0.5:
        return values
    kinds = [kind for kind in INTEGERS if all(np.iinfo(kind).min <= value <= np.iinfo(kind).max for value in values)]
    return np.array(values, rng.choice(kinds))


def _counted(rng: random.Random, axis: int, rank: int) -> int:
    return axis - rank if rng.random() < 0.4 else axis


_MAKERS = {"GatherElements": _gather_elements, "GatherND": _gather_nd, "Slice": _slice, "StridedSlice": _strided_slice}


@dataclass(frozen=True)
class FamilyFault:
    """One way to break a good call of an operation. breaks: changes a draft, or says False where it cannot be broken so."""

    operation: str
    name: str
    raises: type[Exception]
    breaks: Callable[[random.Random, FamilyDraft], bool | None]


def _set(name: str, choose: Callable[[random.Random, FamilyDraft], Any]) -> Callable[[random.Random, FamilyDraft], None]:
    return lambda rng, draft: draft.more.update({name: choose(rng, draft)})


def _array(number: int, change: Callable[[random.Random, FamilyDraft], Any]) -> Callable[[random.Random, FamilyDraft], Any]:
    def breaks(rng: random.Random, draft: FamilyDraft) -> bool | None:
        found = change(rng, draft)
        if found is False:
            return False
        draft.arrays[number] = found
        return None

    return breaks


def _one_index(rng: random.Random, draft: FamilyDraft) -> Any:
    """The indices with one that is out of range."""
    indices = draft.arrays[1].copy()
    if not indices.size:
        return False
    place = tuple(rng.randrange(size) for size in indices.shape)
    if draft.operation == "GatherND":
        size = draft.arrays[0].shape[draft.more["batch_dims"] + place[-1]]
    else:
        size = draft.arrays[0].shape[draft.more["axis"]]
    limits = np.iinfo(indices.dtype)
    values = [value for value in (size, -size - 1, limits.max, limits.min) if limits.min <= value <= limits.max]
    values = [value for value in values if not -size <= value < size]
    indices[place] = rng.choice(values)
    return indices


def _off_the_axis(rng: random.Random, draft: FamilyDraft) -> Any:
    data, axis = draft.arrays[0], draft.more["axis"] % draft.arrays[0].ndim
    if data.ndim < 2:
        return False
    sizes = list(draft.arrays[1].shape)
    other = rng.choice([number for number in range(data.ndim) if number != axis])
    sizes[other] = rng.choice([size for size in (0, 1, 2, 6) if size != sizes[other]])
    return np.zeros(sizes, draft.arrays[1].dtype)


def _unequal_batches(rng: random.Random, draft: FamilyDraft) -> Any:
    if not draft.more["batch_dims"]:
        return False
    sizes = list(draft.arrays[1].shape)
    sizes[0] = rng.choice([size for size in (0, 1, 2, 6) if size != sizes[0]])
    return np.zeros(sizes, draft.arrays[1].dtype)


def _longer(name: str) -> Callable[[random.Random, FamilyDraft], None]:
    return lambda rng, draft: draft.more.update({name: [*map(int, draft.more[name]), 1]})


def _zero(name: str) -> Callable[[random.Random, FamilyDraft], bool | None]:
    def breaks(rng: random.Random, draft: FamilyDraft) -> bool | None:
        values = [*map(int, draft.more.get(name, ()))]
        marks = [draft.more.get(mask, ()) for mask in MASKS[2:]]
        places = [k for k in range(len(values)) if not any(k < len(mask) and mask[k] for mask in marks)]
        if not places:
            return False
        values[rng.choice(places)] = 0
        draft.more[name] = values
        return None

    return breaks


def _no_element(rng: random.Random, draft: FamilyDraft) -> None:
    size = rng.randrange(3)
    draft.arrays[0] = np.zeros((size, 2), draft.arrays[0].dtype)
    draft.more = {"begin": [rng.choice((size, -size - 1, 2**63 - 1))], "end": [1], "shrink_axis_mask": [1], "begin_mask": [1]}


def _too_many(rng: random.Random, draft: FamilyDraft) -> None:
    count = draft.arrays[0].ndim + 1
    draft.more = {"begin": [0] * (count + 1), "end": [1] * (count + 1), "ellipsis_mask": [0] * (count + 1)}
    draft.more[rng.choice(("ellipsis_mask", "new_axis_mask"))] = [1] + [0] * count


def _too_many_for_slice(rng: random.Random, draft: FamilyDraft) -> None:
    count = draft.arrays[0].ndim + 1
    draft.more = {"start": [0] * count, "stop": [1] * count, "step": [1] * count}


NO_DATA = ("complex64", "datetime64[s]", "V4")
NO_INDICES = ("bool", "float32", "complex64", ">i4", ">i8")
NO_INTEGERS = (1.0, "1", None, True, np.float32(1), np.bool_(True))


def _data_type(rng: random.Random, draft: FamilyDraft) -> Array:
    return np.zeros(draft.arrays[0].shape, rng.choice(NO_DATA))


def _index_type(rng: random.Random, draft: FamilyDraft) -> Array:
    more = ("int16", "uint32", "uint64") if draft.operation == "GatherElements" else ()
    return np.zeros(draft.arrays[1].shape, rng.choice(NO_INDICES + more))


def _no_integer(rng: random.Random, _: FamilyDraft) -> Any:
    return rng.choice((0.0, "0", None, [0]))


def _outside(rng: random.Random, draft: FamilyDraft) -> int:
    rank = draft.arrays[0].ndim
    return rng.choice((rank, -rank - 1, 2**40))


def _bounds_fault(name: str) -> Callable[[random.Random, FamilyDraft], bool | None]:
    def breaks(rng: random.Random, draft: FamilyDraft) -> bool | None:
        count = len(draft.more.get(name, ()))
        if not count:
            return False
        one = rng.choice(NO_INTEGERS)
        values = np.array([one] * count) if isinstance(one, np.generic) else [one] * count
        draft.more[name] = rng.choice((values, rng.choice((3, "1"))))
        return None

    return breaks


FAULTS = (
    *(FamilyFault(operation, "data type", TypeError, _array(0, _data_type)) for operation in VERSIONS),
    *(
        FamilyFault(operation, "scalar data", ValueError, _array(0, lambda rng, draft: np.zeros((), draft.arrays[0].dtype)))
        for operation in ("GatherElements", "GatherND", "Slice")
    ),
    *(FamilyFault(operation, "index type", TypeError, _array(1, _index_type)) for operation in INDICES),
    *(FamilyFault(operation, "an index out of range", IndexError, _array(1, _one_index)) for operation in INDICES),
    FamilyFault("GatherElements", "axis out of range", ValueError, _set("axis", _outside)),
    FamilyFault("GatherElements", "axis type", TypeError, _set("axis", _no_integer)),
    FamilyFault("GatherElements", "ranks", ValueError, _array(1, lambda rng, draft: draft.arrays[1][..., None])),
    FamilyFault("GatherElements", "sizes off the axis", ValueError, _array(1, _off_the_axis)),
    FamilyFault("GatherND", "batch_dims out of range", ValueError, _set("batch_dims", _outside)),
    FamilyFault("GatherND", "batch_dims type", TypeError, _set("batch_dims", _no_integer)),
    FamilyFault("GatherND", "unequal batches", ValueError, _array(1, _unequal_batches)),
    FamilyFault("GatherND", "scalar indices", ValueError, _array(1, lambda rng, draft: np.zeros((), draft.arrays[1].dtype))),
    FamilyFault(
        "GatherND",
        "tuples too long",
        ValueError,
        _array(1, lambda rng, draft: np.zeros((*draft.arrays[1].shape[:-1], draft.arrays[0].ndim + 1), draft.arrays[1].dtype)),
    ),
    *(FamilyFault("Slice", f"length of {name}", ValueError, _longer(name)) for name in ("start", "stop", "step")),
    *(FamilyFault("Slice", f"type of {name}", TypeError, _bounds_fault(name)) for name in ("start", "stop", "step")),
    FamilyFault("Slice", "a step of 0", ValueError, _zero("step")),
    FamilyFault("Slice", "more bounds than dimensions", ValueError, _too_many_for_slice),
    FamilyFault(
        "Slice",
        "an axis out of range",
        ValueError,
        lambda rng, draft: draft.more.update(start=[0], stop=[1], step=[1], axes=[_outside(rng, draft)]),
    ),
    FamilyFault(
        "Slice",
        "an axis twice",
        ValueError,
        lambda rng, draft: draft.more.update(start=[0, 0], stop=[1, 1], step=[1, 1], axes=[0, -draft.arrays[0].ndim]),
    ),
    FamilyFault("Slice", "bounds of two dimensions", ValueError, _set("start", lambda rng, draft: np.zeros((1, 1), np.int32))),
    *(FamilyFault("StridedSlice", f"length of {name}", ValueError, _longer(name)) for name in ("begin", "end")),
    *(FamilyFault("StridedSlice", f"type of {name}", TypeError, _bounds_fault(name)) for name in ("begin", "end", "strides")),
    FamilyFault("StridedSlice", "a stride of 0", ValueError, _zero("strides")),
    FamilyFault("StridedSlice", "no such element", ValueError, _no_element),
    FamilyFault("StridedSlice", "more entries than dimensions", ValueError, _too_many),
    FamilyFault("StridedSlice", "two ellipses", ValueError, _set("ellipsis_mask", lambda rng, draft: [1, 0, 1])),
    *(FamilyFault("StridedSlice", f"{name} of 2", ValueError, _set(name, lambda rng, draft: [2])) for name in MASKS),
)


def good_call(seed: int, operations: Sequence[str] = tuple(VERSIONS), dtypes: Sequence[Any] = tuple(NAMES)) -> FamilyCall:
    """The good call of a seed."""
    rng = random.Random(seed)
    operation = rng.choice(operations)
    draft = good(rng, operation, rng.choice(VERSIONS[operation]), dtypes)
    data, *indices = draft.arrays
    draft.arrays = [laid_out(rng, data), *(laid_out(rng, array, same=True) for array in indices)]
    return draft.finished(seed)


def gathers_of_one_kind(number: int, kinds: Sequence[str]) -> Iterator[FamilyCall]:
    """Calls of a gather that differ in sizes and values alone, so that OpenVINO compiles one model for all. kinds: of data."""
    rng = random.Random(number)
    operation = rng.choice(("GatherElements", "GatherND"))
    rank, version = rng.randint(1, 4), rng.choice(VERSIONS[operation])
    axis, moved = rng.randrange(rank), rng.randint(0, 2)
    count = 1 if operation == "GatherElements" else rng.randint(1, rank - axis)
    kind, index_kind = np.dtype(kinds[number % len(kinds)]), rng.choice(INDICES[operation])
    for _ in range(25):
        shape = [rng.randint(1, 5) for _ in range(rank)]
        more = [rng.randint(1, 4) for _ in range(moved)]
        data = np.array([rng.randrange(2 if kind.kind == "b" else 100) for _ in range(prod(shape))]).reshape(shape).astype(kind)
        sizes = shape[:axis] + ([rng.randint(1, 6), *shape[axis + 1 :]] if operation == "GatherElements" else more)
        indices = _indices(rng, sizes, shape[axis : axis + count], index_kind)
        if operation == "GatherElements":
            yield FamilyCall(operation, version, (data, indices[..., 0]), {"axis": axis})
        else:
            yield FamilyCall(operation, version, (data, indices), {"batch_dims": axis})


def broken_call(seed: int, fault: FamilyFault) -> FamilyCall:
    """The call of a seed with that fault."""
    rng = random.Random(seed)
    for _ in range(1000):
        draft = good(rng, fault.operation, rng.choice(VERSIONS[fault.operation]))
        if 0 not in draft.arrays[0].shape and fault.breaks(rng, draft) is not False:
            return draft.finished(seed, fault.name)
    raise AssertionError(f"no good call of {fault.operation} can be broken by {fault.name!r}")
