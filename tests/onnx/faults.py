"""Every way to break a good call by exactly one fault, and what it raises."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from tests.dialects import drafting
from tests.onnx.drafts import EXTREMES, Draft, elements
from tests.onnx.specification import BOUNDS, LOOKS_UP, VERSIONS, listed, type_name

UNLISTED: tuple[Any, ...] = (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.bfloat16)
"""Types of ONNX that no version takes, and one that only the newest do."""

NO_BOUNDS = ("int8", "int16", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64", "bool")


@dataclass(frozen=True)
class Fault(drafting.Fault):
    """One way to break a good call of some operators and versions."""

    operators: tuple[str, ...]
    versions: range = range(100)


def _bad_index(value: Callable[[random.Random, int, int], int]) -> Callable[[random.Random, Draft], bool]:
    """Puts value(…, axis size, lowest valid index) at one position of the indices."""

    def breaks(rng: random.Random, draft: Draft) -> bool:
        info = np.iinfo(draft.indices.dtype)
        if not draft.indices.size:
            return False
        position = tuple(rng.randrange(size) for size in draft.indices.shape)
        if draft.operator == "GatherND":
            size = draft.data.shape[int(draft.named.get("batch_dims", 0)) + position[-1]]
        else:
            size = draft.data.shape[draft.named.get("axis", 0)]
        chosen = value(rng, size, 0 if draft.operator == "Gather" and draft.opset < 11 else -size)
        if not info.min <= chosen <= info.max:
            return False
        draft.indices[position] = chosen
        return True

    return breaks


def _on_an_empty_axis(rng: random.Random, draft: Draft) -> bool:
    if not draft.indices.size:
        return False
    axis, shape = draft.named.get("axis", 0), list(draft.data.shape)
    if draft.operator == "GatherND":
        axis = draft.named.get("batch_dims", 0) + rng.randrange(draft.indices.shape[-1])
    shape[axis] = 0
    draft.data = draft.data.reshape(-1)[:0].reshape(shape)
    return True


def _axis_outside(rng: random.Random, draft: Draft, *, above: bool) -> None:
    rank, far = draft.data.ndim, rng.choice((0, 0, 1, 5, 2**31, 2**32))
    draft.named["axis"] = rank + far if above else -rank - 1 - far


def _index_type(rng: random.Random, draft: Draft) -> None:
    kinds = (*NO_BOUNDS, "int32") if draft.operator == "GatherND" else NO_BOUNDS
    draft.indices = np.asarray(np.abs(draft.indices), rng.choice(kinds))


def _data_type(rng: random.Random, draft: Draft) -> None:
    kinds = [item for item in UNLISTED if type_name(np.dtype(item)) not in listed(draft.operator, draft.opset, "data")]
    draft.data = elements(rng, rng.choice(kinds), draft.data.shape)


def _scalar_data(rng: random.Random, draft: Draft) -> None:
    draft.data = elements(rng, "float32", ())
    draft.named.pop("axis", None)
    draft.named.pop("batch_dims", None)
    if draft.operator == "GatherElements":
        draft.indices = np.array(0, rng.choice(("int32", "int64")))


def _rank_mismatch(rng: random.Random, draft: Draft) -> None:
    fewer = draft.indices.ndim > 1 and rng.random() < 0.5
    draft.indices = draft.indices.take(0, -1) if fewer and draft.indices.shape[-1] else draft.indices[None]


def _larger_off_the_axis(rng: random.Random, draft: Draft) -> bool:
    axis = draft.named.get("axis", 0) % draft.data.ndim
    others = [dim for dim in range(draft.data.ndim) if dim != axis]
    if not others or 0 in draft.data.shape:
        return False
    shape = list(draft.indices.shape)
    dim = rng.choice(others)
    shape[dim] = draft.data.shape[dim] + rng.choice((1, 1, 3))
    draft.indices = np.zeros(shape, draft.indices.dtype)
    return True


def _batch_dims(rng: random.Random, draft: Draft, *, above: bool) -> None:
    most = min(draft.data.ndim, draft.indices.ndim)
    draft.named["batch_dims"] = most + rng.choice((0, 0, 1, 5)) if above else -rng.choice((1, 1, 2, most))


def _unequal_batch(rng: random.Random, draft: Draft) -> bool:
    batch = draft.named.get("batch_dims", 0)
    if not batch or 0 in draft.data.shape or not draft.indices.size:
        return False
    draft.indices = np.repeat(draft.indices, rng.choice((2, 3)), rng.randrange(batch))
    return True


def _batch_dims_before_12(rng: random.Random, draft: Draft) -> None:
    draft.named["batch_dims"] = rng.choice((1, 1, 2, -1))


def _long_tuple(rng: random.Random, draft: Draft) -> None:
    count = draft.data.ndim - int(draft.named.get("batch_dims", 0)) + rng.choice((1, 1, 2))
    draft.indices = np.zeros((*draft.indices.shape[:-1], count), np.int64)


def _scalar_indices(rng: random.Random, draft: Draft) -> None:
    draft.indices = np.array(0, np.int64)
    draft.named.pop("batch_dims", None)


def _before_the_first(rng: random.Random, draft: Draft) -> None:
    draft.opset = rng.randint(1, VERSIONS[draft.operator][0] - 1)
    draft.data = elements(rng, "float32", draft.data.shape)
    draft.named.pop("batch_dims", None)


def _step_0(rng: random.Random, draft: Draft) -> bool:
    count = len(draft.named["starts"])
    if not count:
        return False
    draft.named.setdefault("steps", [1] * count)[rng.randrange(count)] = 0
    return True


def _repeated_axes(rng: random.Random, draft: Draft, *, alias: bool) -> bool:
    rank = draft.data.ndim
    if rank < 2:
        return False
    axis = rng.randrange(rank)
    draft.named = {"starts": [0, 0], "ends": [1, 1], "axes": [axis, axis - rank] if alias else [axis, axis]}
    rng.shuffle(draft.named["axes"])
    return True


def _slice_axis_outside(rng: random.Random, draft: Draft, *, above: bool) -> bool:
    count, rank = len(draft.named["starts"]), draft.data.ndim
    if not count:
        return False
    far = rng.choice((0, 0, 1, 5, 2**31 - 10))
    axes = draft.named.setdefault("axes", list(range(count)))
    axes[rng.randrange(count)] = rank + far if above else -rank - 1 - far
    return True


def _wrong_length(rng: random.Random, draft: Draft) -> bool:
    if draft.data.ndim < 2:
        return False
    changed = rng.choice([name for name in BOUNDS if name in draft.named])
    count = len(draft.named["starts"])
    # Too short or too long, but never more of them than there are axes: that is a fault of its own.
    if changed == "axes" and count == draft.data.ndim:
        draft.named["axes"].pop()
    elif count and (count == draft.data.ndim or rng.random() < 0.5):
        draft.named[changed].pop()
    elif changed == "axes":
        draft.named["axes"].append(next(axis for axis in range(draft.data.ndim) if axis not in _front(draft)))
    else:
        draft.named[changed].append(1)
    return len({len(draft.named[name]) for name in BOUNDS if name in draft.named}) > 1


def _front(draft: Draft) -> list[int]:
    return [axis % draft.data.ndim for axis in draft.named["axes"]]


def _too_many_bounds(rng: random.Random, draft: Draft) -> None:
    count = draft.data.ndim + rng.choice((1, 2))
    draft.named = {"starts": [0] * count, "ends": [1] * count}


def _bound_shape(rng: random.Random, draft: Draft) -> bool:
    changed = rng.choice(("starts", "ends"))
    if len(draft.named["starts"]) != 1:
        return False
    shape: tuple[int, ...] = rng.choice(((), (1, 1)))
    for name in [name for name in BOUNDS if name in draft.named]:
        values = np.array(draft.named[name], np.int64)
        draft.named[name] = values.reshape(shape) if name == changed else values
    return True


def _bound_types(rng: random.Random, draft: Draft, *kinds: str) -> None:
    """Bounds that take the first element of each axis, as arrays of the types `kinds`: the first for one of them."""
    rank = draft.data.ndim
    draft.named = {"starts": [0] * rank, "ends": [1] * rank, "axes": list(range(rank)), "steps": [1] * rank}
    odd = rng.choice(BOUNDS)
    for name, values in draft.named.items():
        draft.named[name] = np.array(values, kinds[0] if name == odd else kinds[-1])


def _steps_before_10(rng: random.Random, draft: Draft) -> None:
    draft.named["steps"] = [1] * len(draft.named["starts"])


def _bounded_scalar(rng: random.Random, draft: Draft) -> None:
    draft.data = elements(rng, "int16", ())
    draft.named = {"starts": [0], "ends": [1]}


def _block(rng: random.Random, draft: Draft) -> None:
    draft.named["blocksize"] = rng.choice((0, 0, -1, -2, -(2**31)))


def _remainder(rng: random.Random, draft: Draft) -> bool:
    block = draft.named["blocksize"]
    axis, unit = (1, block**2) if draft.operator == "DepthToSpace" else (rng.choice((2, 3)), block)
    if block == 1:
        return False
    shape = list(draft.data.shape)
    shape[axis] += rng.randrange(1, unit)
    draft.data = elements(rng, "float32", tuple(shape))
    return True


def _other_rank(rng: random.Random, draft: Draft) -> None:
    shape = draft.data.shape
    draft.data = draft.data.reshape(rng.choice(((*shape, 1), (1, *shape), (shape[0] * shape[1], *shape[2:]))))


def _unknown_mode(rng: random.Random, draft: Draft) -> None:
    draft.data = elements(rng, "float32", draft.data.shape)
    draft.named["mode"] = rng.choice(("", "dcr", "CDR", "DCR "))


def _mode_before_there_was_one(rng: random.Random, draft: Draft) -> None:
    draft.named["mode"] = "CRD"


_HAS_AXIS = ("Gather", "GatherElements")
_ND = ("GatherND",)
_SLICE = ("Slice",)
_BLOCKS = ("DepthToSpace", "SpaceToDepth")

FAULTS = (
    Fault("index below", IndexError, _bad_index(lambda rng, size, lowest: lowest - rng.choice((1, 1, 2, 7))), LOOKS_UP),
    Fault("index above", IndexError, _bad_index(lambda rng, size, lowest: size + rng.choice((0, 0, 1, 7))), LOOKS_UP),
    Fault("index far outside", IndexError, _bad_index(lambda rng, size, lowest: rng.choice(EXTREMES)), LOOKS_UP),
    Fault("index on an axis of size 0", IndexError, _on_an_empty_axis, LOOKS_UP),
    Fault("index type", TypeError, _index_type, LOOKS_UP),
    Fault("data type", TypeError, _data_type, (*LOOKS_UP, *_SLICE, *_BLOCKS)),
    Fault("scalar data", ValueError, _scalar_data, LOOKS_UP),
    Fault("axis below", ValueError, lambda rng, draft: _axis_outside(rng, draft, above=False), _HAS_AXIS),
    Fault("axis above", ValueError, lambda rng, draft: _axis_outside(rng, draft, above=True), _HAS_AXIS),
    Fault("rank mismatch", ValueError, _rank_mismatch, ("GatherElements",)),
    Fault("indices larger off the axis", ValueError, _larger_off_the_axis, ("GatherElements",)),
    Fault("before the first version", ValueError, _before_the_first, ("GatherElements", "GatherND"), range(11, 12)),
    Fault("batch_dims below", ValueError, lambda rng, draft: _batch_dims(rng, draft, above=False), _ND, range(12, 100)),
    Fault("batch_dims above", ValueError, lambda rng, draft: _batch_dims(rng, draft, above=True), _ND, range(12, 100)),
    Fault("batch_dims before version 12", ValueError, _batch_dims_before_12, _ND, range(12)),
    Fault("unequal batch", ValueError, _unequal_batch, _ND, range(12, 100)),
    Fault("tuple too long", ValueError, _long_tuple, _ND),
    Fault("scalar indices", ValueError, _scalar_indices, _ND),
    Fault("step 0", ValueError, _step_0, _SLICE, range(10, 100)),
    Fault("repeated axes", ValueError, lambda rng, draft: _repeated_axes(rng, draft, alias=False), _SLICE),
    Fault("repeated axes by an alias", ValueError, lambda rng, draft: _repeated_axes(rng, draft, alias=True), _SLICE),
    Fault("axes entry below", ValueError, lambda rng, draft: _slice_axis_outside(rng, draft, above=False), _SLICE),
    Fault("axes entry above", ValueError, lambda rng, draft: _slice_axis_outside(rng, draft, above=True), _SLICE),
    Fault("wrong length", ValueError, _wrong_length, _SLICE),
    Fault("more bounds than axes", ValueError, _too_many_bounds, _SLICE),
    Fault("bounds not one-dimensional", ValueError, _bound_shape, _SLICE, range(10, 100)),
    Fault(
        "bounds of two types", TypeError, lambda rng, draft: _bound_types(rng, draft, "int32", "int64"), _SLICE, range(10, 100)
    ),
    Fault("bound type", TypeError, lambda rng, draft: _bound_types(rng, draft, rng.choice(NO_BOUNDS)), _SLICE, range(10, 100)),
    Fault("steps before version 10", ValueError, _steps_before_10, _SLICE, range(10)),
    Fault("bounds for a scalar", ValueError, _bounded_scalar, _SLICE),
    Fault("no block", ValueError, _block, _BLOCKS),
    Fault("a remainder of a block", ValueError, _remainder, _BLOCKS),
    Fault("another rank", ValueError, _other_rank, _BLOCKS),
    Fault("unknown mode", ValueError, _unknown_mode, ("DepthToSpace",), range(11, 100)),
    Fault("unknown mode", ValueError, _unknown_mode, ("SpaceToDepth",), range(28, 100)),
    Fault("mode before there was one", ValueError, _mode_before_there_was_one, ("DepthToSpace",), range(11)),
    Fault("mode before there was one", ValueError, _mode_before_there_was_one, ("SpaceToDepth",), range(28)),
)
"""Every fault, with what it raises and the operators and versions that can have it."""
