"""ONNX nodes with their arrays; what takes them by the documents of DirectML; and how their descriptors are run."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import AttributeProto, NodeProto, helper

import dmlgather as dg
from dmlgather.directml import FeatureLevel
from tests.dialects import binding
from tests.dialects.binding import held
from tests.directml.pages import PAGES
from tests.onnx import specification
from tests.onnx.drafts import elements

NAMES = {
    "Gather": "GATHER",
    "GatherElements": "GATHER_ELEMENTS",
    "GatherND": "GATHER_ND",
    "Slice": "SLICE",
    "DepthToSpace": "DEPTH_TO_SPACE1",
    "SpaceToDepth": "SPACE_TO_DEPTH1",
}
"""The DirectML operator that does the same."""


@dataclass(frozen=True)
class Node:
    """A good node, its arrays, the constants that its bounds are, and what the specification says comes out."""

    operator: str
    opset: int
    data: NDArray[Any]
    indices: NDArray[Any] | None = None
    named: Mapping[str, Any] = field(default_factory=dict)

    @property
    def inputs(self) -> dict[str, NDArray[Any]]:
        return {"x": self.data} | ({} if self.indices is None else {"i": self.indices})

    @property
    def constants(self) -> dict[str, Any]:
        return dict(self.named) if self.operator == "Slice" and self.opset >= 10 else {}

    @property
    def node(self) -> NodeProto:
        bounds = [name if name in self.named else "" for name in ("starts", "ends", "axes", "steps")] if self.constants else []
        node = helper.make_node(self.operator, [*self.inputs, *bounds], ["y"])
        for name, value in self.named.items():
            if name not in self.constants:
                kinds = {int: AttributeProto.INT, str: AttributeProto.STRING}
                kind = kinds.get(type(value), AttributeProto.INTS)
                node.attribute.append(helper.make_attribute(name, value, attr_type=kind))
        return node

    @property
    def expected(self) -> NDArray[Any]:
        arrays = [self.data] if self.indices is None else [self.data, self.indices]
        found: NDArray[Any] = specification.FUNCTIONS[self.operator](*arrays, **self.named, opset=self.opset)
        return found

    def described(self, level: FeatureLevel | str) -> Any:
        return dg.onnx.to_directml(
            self.node,
            {name: array.shape for name, array in self.inputs.items()},
            {name: array.dtype for name, array in self.inputs.items()},
            level,
            opset=self.opset,
            constants=self.constants,
        )


def refusals(case: Node, level: FeatureLevel) -> set[str]:
    """The codes that DirectML's documents call for at `level`; empty where it takes the node."""
    indices = () if case.indices is None else case.indices.shape
    empty_tuple = case.operator == "GatherND" and indices[-1] == 0
    shapes = (case.data.shape, indices[:-1] if empty_tuple else indices, case.expected.shape)
    if any(0 in shape for shape in shapes):
        return {"EXP102"}
    if "blocksize" in case.named:
        return _block_refusals(case, level)
    if unspeakable := _operator_missing(case, level, empty_tuple):
        return {unspeakable}
    name = "SLICE" if empty_tuple else NAMES[case.operator]
    return set() if held(case.data.dtype)[0] in PAGES[name].at(level).data else {"DML201"}


def _block_refusals(case: Node, level: FeatureLevel) -> set[str]:
    """Blocks have operators of their own from 2_1 on; what these do not take is sliced by strides, in 5 dimensions before 3_0."""
    kind, count = held(case.data.dtype)
    if level < FeatureLevel.LEVEL_2_1:
        return {"EXP106"}
    if count == 1 and kind in PAGES[NAMES[case.operator]].at(level).data:
        return set()
    if level < FeatureLevel.LEVEL_3_0 and _walked_dimensions(case) > 5:
        return {"EXP104"}
    return set() if kind in PAGES["SLICE1"].at(level).data else {"DML201"}


def _walked_dimensions(case: Node) -> int:
    """In how many dimensions blocks are walked, once those that are neighbours in both tensors are one."""
    depth, space = (case.data, case.expected)[:: 1 if case.operator == "DepthToSpace" else -1]
    size, (n, c, height, width) = case.named["blocksize"], space.shape
    h, w, parts = height // size, width // size, held(case.data.dtype)[1]
    flat = np.empty((2, space.size * parts), np.uint8)
    last = case.named.get("mode", "DCR") == "DCR"
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


def _operator_missing(case: Node, level: FeatureLevel, empty_tuple: bool) -> str | None:
    if case.operator == "Slice":
        steps = case.named.get("steps", ())
        axes = case.named["axes"]
        backwards = any(step < 0 and case.expected.shape[axis] > 1 for step, axis in zip(steps, axes, strict=False))
        return "EXP106" if backwards and level < FeatureLevel.LEVEL_2_1 else None
    if case.operator == "Gather" or empty_tuple:
        return None
    if level < FeatureLevel.LEVEL_2_1:
        return "EXP106"
    return _tuples_missing(case, level) if case.operator == "GatherND" else None


def _tuples_missing(case: Node, level: FeatureLevel) -> str | None:
    """GATHER_ND before 3_0 has no batch, 4 dimensions then and 8 later; only what is not indexed can be merged."""
    assert case.indices is not None
    batch, count = case.named.get("batch_dims", 0), case.indices.shape[-1]
    batched = prod(case.data.shape[:batch]) > 1
    if level < FeatureLevel.LEVEL_3_0 and batched:
        return "EXP106" if count > 1 else None
    behind = prod(case.data.shape[batch + count :]) * held(case.data.dtype)[1] > 1
    natural = max(case.data.ndim + held(case.data.dtype)[1] - 1, case.indices.ndim, case.expected.ndim)
    most = 4 if level < FeatureLevel.LEVEL_3_0 else 8
    return "EXP104" if natural > most and batched + count + behind > most else None


def _indexed_sizes(case: Node) -> NDArray[np.int64]:
    """The size of the axis that each index counts along, or each component of a tuple."""
    batch, axis = case.named.get("batch_dims", 0), case.named.get("axis", 0)
    if case.operator == "GatherND" and case.indices is not None:
        return np.array(case.data.shape[batch : batch + case.indices.shape[-1]], np.int64)
    return np.array(case.data.shape[axis] if case.data.ndim else 1, np.int64)


def array(kind: Any, *sizes: int) -> Any:
    """Elements that follow from their type and sizes, because parameters of tests are made at import."""
    return elements(random.Random(f"{kind} {sizes}"), kind, sizes)


def positions(size: int, *shape: int, kind: str = "int64") -> Any:
    return np.random.default_rng((size, *shape)).integers(-size, size, shape, kind)


def gather(data: Any, indices: Any, axis: int) -> Node:
    return Node("Gather", 13, data, indices, {"axis": axis})


def sliced(data: Any, **bounds: Sequence[int]) -> Node:
    return Node("Slice", 13, data, None, {name: np.array(values, np.int64) for name, values in bounds.items()})


def nd(data: Any, indices: Any, batch_dims: int = 0) -> Node:
    return Node("GatherND", 13, data, indices, {"batch_dims": batch_dims})


def tuples(shape: Sequence[int], *sizes: int) -> Any:
    return np.stack([positions(size, *shape) for size in sizes], -1)


def run(case: Node, descs: Sequence[dg.OperatorDesc], level: FeatureLevel, device: str) -> bytes:
    """The bytes of the node's output."""
    buffer = binding.run(descs, **_arrays(case), level=level, device=device)
    return buffer[: case.expected.nbytes].tobytes()


def check(case: Node, level: FeatureLevel | str) -> Sequence[dg.OperatorDesc]:
    """The descriptors of a node that DirectML takes at `level`: they validate there and, run, give the bytes of its output."""
    return binding.check(case.described(level), level, case.expected, **_arrays(case))


def _arrays(case: Node) -> dict[str, Any]:
    return {"data": case.data, "indices": case.indices, "sizes": _indexed_sizes(case)}
