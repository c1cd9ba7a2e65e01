"""What the provider computes: sizes of slices, judged by NumPy; descriptors, judged by running them beside onnxruntime."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import helper

import dmlgather as dg
from dmlgather.dialects.problem import TensorType
from dmlgather.onnx.problems.node_reading import problem_of
from dmlgather.onnx_checking.provider.descriptors import descriptor
from dmlgather.onnx_checking.provider.sizes import HIGHEST, LOWEST, window
from tests import seeds
from tests.onnx_checking.sessions import run_node

BOUNDS = (LOWEST + 1, -9, -6, -5, -4, -1, 0, 1, 3, 4, 5, 9, HIGHEST, 2**63 - 1)
STEPS = (1, 2, 3, 9, -1, -2, -3, -9)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_a_slice_is_numpys(size: int) -> None:
    """But for a start before the axis and a negative step, of which NumPy makes nothing, as the provider."""
    for start, end, step in itertools.product(BOUNDS, BOUNDS, STEPS):
        found = window(size, start, end, step)
        taken = np.arange(size)[start:end:step]
        assert found.size == len(taken), (start, end, step)
        if len(taken):
            inside = np.arange(size)[found.offset : found.offset + found.window]
            assert (inside[::step] if step > 0 else inside[::-1][::-step]).tolist() == taken.tolist()


LOWEST_STARTS = {
    # By the source: the end counts from the end of the axis only where the start is above INT32_MIN.
    (LOWEST, -1, 1): 0,
    (-(2**63), -1, 1): 0,
    (LOWEST, 3, 1): 3,
    (LOWEST, HIGHEST, 1): 5,
    (LOWEST, LOWEST, -1): 0,
    (-1, LOWEST, -1): 5,
    (-1, -(2**63), -1): 5,
}


@pytest.mark.parametrize("bounds", LOWEST_STARTS)
def test_a_slice_from_the_lowest_number(bounds: tuple[int, int, int]) -> None:
    assert window(5, *bounds).size == LOWEST_STARTS[bounds]


def _calls(rng: np.random.Generator) -> list[tuple[onnx.NodeProto, list[NDArray[Any]]]]:
    data = rng.integers(-99, 99, (3, 4, 5)).astype(np.float32)
    image = rng.integers(-99, 99, (2, 8, 4, 6)).astype(np.uint8)

    def indices(*shape: int) -> NDArray[Any]:
        return rng.integers(-3, 3, shape).astype(np.int64)

    start, end, step = rng.integers(-3, 6, 3), rng.integers(-6, 6, 3), rng.choice([-2, -1, 1, 2], 3)
    return [
        (helper.make_node("Gather", ["x", "i"], ["out"], axis=1), [data, indices(2, 2)]),
        (helper.make_node("Gather", ["x", "i"], ["out"], axis=-1), [data, indices()]),
        (helper.make_node("GatherElements", ["x", "i"], ["out"], axis=1), [data, indices(3, 7, 5)]),
        (helper.make_node("GatherND", ["x", "i"], ["out"]), [data, indices(6, 2)]),
        (helper.make_node("GatherND", ["x", "i"], ["out"], batch_dims=1), [data, indices(3, 2, 2)]),
        (helper.make_node("Slice", ["x", "s", "e", "a", "t"], ["out"]), [data, start, end, np.array([0, 1, 2]), step]),
        (helper.make_node("DepthToSpace", ["x"], ["out"], blocksize=2), [image]),
        (helper.make_node("DepthToSpace", ["x"], ["out"], blocksize=2, mode="CRD"), [image]),
        (helper.make_node("SpaceToDepth", ["x"], ["out"], blocksize=2), [image]),
    ]


def test_the_descriptors_do_what_onnx_means() -> None:
    rng = seeds.numpy_rng()
    ran = 0
    for _ in range(8):
        for node, arrays in _calls(rng):
            (judged,) = run_node(node, arrays, 13)
            if not judged.size:
                continue
            types = [TensorType(array.shape, array.dtype) for array in arrays]
            problem = problem_of(node, 13, types, list(arrays) if node.op_type == "Slice" else [None] * len(arrays))
            found = dg.compile(descriptor(problem))
            fields = [field for field in found.desc.operator.tensors if field != found.desc.operator.output]
            inputs = [array.reshape(found.desc.tensor(field).sizes) for array, field in zip(arrays, fields, strict=False)]
            assert np.array_equal(np.asarray(found(*inputs)).reshape(judged.shape), judged), (node.op_type, problem)
            ran += 1
    assert ran > 60
