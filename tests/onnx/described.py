"""Nodes of calls as descriptors: what takes them by the documents of DirectML, and what they are bound to."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

import dmlgather as dg
from dmlgather.directml import FeatureLevel
from tests.dialects import binding
from tests.dialects.binding import held
from tests.directml.pages import PAGES
from tests.onnx.drafts import elements
from tests.onnx.specification import LOOKS_UP, Call

NAMES = {
    "Gather": "GATHER",
    "GatherElements": "GATHER_ELEMENTS",
    "GatherND": "GATHER_ND",
    "Slice": "SLICE",
    "DepthToSpace": "DEPTH_TO_SPACE1",
    "SpaceToDepth": "SPACE_TO_DEPTH1",
}
"""The DirectML operator that does the same."""


def described(call: Call, level: FeatureLevel | str) -> Any:
    """What `to_directml` returns for the node of a call."""
    inputs = dict(zip(("data", "indices"), call.arrays, strict=False))
    shapes, dtypes = ({name: getattr(array, what) for name, array in inputs.items()} for what in ("shape", "dtype"))
    return dg.onnx.to_directml(call.node, shapes, dtypes, level, opset=call.opset, constants=call.bounds)


def refusals(call: Call, level: FeatureLevel) -> set[str]:
    """The codes that DirectML's documents call for at `level`; empty where it takes the node."""
    indices = () if call.operator not in LOOKS_UP else call.indices.shape
    empty_tuple = call.operator == "GatherND" and indices[-1] == 0
    shapes = (call.data.shape, indices[:-1] if empty_tuple else indices, call.right.shape)
    if any(0 in shape for shape in shapes):
        return {"EXP102"}
    if "blocksize" in call.named:
        return _block_refusals(call, level)
    if unspeakable := _operator_missing(call, level, empty_tuple):
        return {unspeakable}
    name = "SLICE" if empty_tuple else NAMES[call.operator]
    return set() if held(call.data.dtype)[0] in PAGES[name].at(level).data else {"DML201"}


def _block_refusals(call: Call, level: FeatureLevel) -> set[str]:
    """Blocks have operators of their own from 2_1 on; what these do not take is sliced by strides, in 5 dimensions before 3_0."""
    kind, count = held(call.data.dtype)
    if level < FeatureLevel.LEVEL_2_1:
        return {"EXP106"}
    if count == 1 and kind in PAGES[NAMES[call.operator]].at(level).data:
        return set()
    if level < FeatureLevel.LEVEL_3_0 and _walked_dimensions(call) > 5:
        return {"EXP104"}
    return set() if kind in PAGES["SLICE1"].at(level).data else {"DML201"}


def _walked_dimensions(call: Call) -> int:
    """In how many dimensions blocks are walked, once those that are neighbours in both tensors are one."""
    depth, space = (call.data, call.right)[:: 1 if call.operator == "DepthToSpace" else -1]
    size, (n, c, height, width) = call.named["blocksize"], space.shape
    h, w, parts = height // size, width // size, held(call.data.dtype)[1]
    flat = np.empty((2, space.size * parts), np.uint8)
    last = call.named.get("mode", "DCR") == "DCR"
    shape, order = ((size, size, c), (0, 3, 4, 1, 5, 2, 6)) if last else ((c, size, size), (0, 1, 4, 2, 5, 3, 6))
    assert depth.shape == (n, c * size**2, h, w)
    both = (
        flat[0].reshape(n, *shape, h, w, parts).transpose(order),
        flat[1].reshape(n, c, h, size, w, size, parts),
    )
    walks = [step for step in zip(both[0].shape, both[0].strides, both[1].strides, strict=True) if step[0] > 1]
    apart = [
        outer
        for outer, (count, *steps) in pairwise(walks)
        if any(before != count * step for before, step in zip(outer[1:], steps, strict=True))
    ]
    return len(apart) + bool(walks)


def _operator_missing(call: Call, level: FeatureLevel, empty_tuple: bool) -> str | None:
    if call.operator == "Slice":
        steps = call.named.get("steps", ())
        axes = call.named.get("axes", range(len(steps)))
        backwards = any(step < 0 and call.right.shape[axis] > 1 for step, axis in zip(steps, axes, strict=False))
        return "EXP106" if backwards and level < FeatureLevel.LEVEL_2_1 else None
    if call.operator == "Gather" or empty_tuple:
        return None
    if level < FeatureLevel.LEVEL_2_1:
        return "EXP106"
    return _tuples_missing(call, level) if call.operator == "GatherND" else None


def _tuples_missing(call: Call, level: FeatureLevel) -> str | None:
    """GATHER_ND before 3_0 has no batch, 4 dimensions then and 8 later; only what is not indexed can be merged."""
    batch, count = call.named.get("batch_dims", 0), call.indices.shape[-1]
    batched = prod(call.data.shape[:batch]) > 1
    if level < FeatureLevel.LEVEL_3_0 and batched:
        return "EXP106" if count > 1 else None
    behind = prod(call.data.shape[batch + count :]) * held(call.data.dtype)[1] > 1
    natural = max(call.data.ndim + held(call.data.dtype)[1] - 1, call.indices.ndim, call.right.ndim)
    most = 4 if level < FeatureLevel.LEVEL_3_0 else 8
    return "EXP104" if natural > most and batched + count + behind > most else None


def bound(call: Call) -> dict[str, Any]:
    """What descriptors of a call are bound to. sizes: of the axis that each index counts along, or each component of a tuple."""
    batch, axis = call.named.get("batch_dims", 0), call.named.get("axis", 0)
    sizes = np.array(call.data.shape[axis] if call.data.ndim else 1, np.int64)
    if call.operator == "GatherND":
        sizes = np.array(call.data.shape[batch : batch + call.indices.shape[-1]], np.int64)
    return {"data": call.data, "indices": call.indices if call.operator in LOOKS_UP else None, "sizes": sizes}


def array(kind: Any, *sizes: int) -> Any:
    """Elements that follow from their type and sizes, because parameters of tests are made at import."""
    return elements(random.Random(f"{kind} {sizes}"), kind, sizes)


def positions(size: int, *shape: int, kind: str = "int64") -> Any:
    return np.random.default_rng((size, *shape)).integers(-size, size, shape, kind)


def gather(data: Any, indices: Any, axis: int) -> Call:
    return Call("Gather", 13, (data, indices), {"axis": axis})


def elementwise(data: Any, indices: Any, axis: int = 0) -> Call:
    return Call("GatherElements", 13, (data, indices), {"axis": axis})


def sliced(data: Any, **bounds: Sequence[int]) -> Call:
    return Call("Slice", 13, (data,), {name: np.array(values, np.int64) for name, values in bounds.items()})


def nd(data: Any, indices: Any, batch_dims: int = 0) -> Call:
    return Call("GatherND", 13, (data, indices), {"batch_dims": batch_dims})


def blocks(operator: str, data: Any, mode: str = "DCR") -> Call:
    return Call(operator, 13, (data,), {"blocksize": 2} | ({} if mode == "DCR" else {"mode": mode}))


def tuples(shape: Sequence[int], *sizes: int) -> Any:
    return np.stack([positions(size, *shape) for size in sizes], -1)


def check(call: Call, level: FeatureLevel | str) -> Sequence[dg.OperatorDesc]:
    """The descriptors of a call that DirectML takes at `level`: they validate there and, run, give the bytes of its output."""
    return binding.check(described(call, level), level, call.right, **bound(call))
