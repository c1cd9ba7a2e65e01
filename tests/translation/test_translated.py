"""Random problems of every dialect, translated to every library: the same bits there, and proven."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlgather as dg
from tests.translation.judging import LEFT_OUT, VERSIONS, always_equal, judge
from tests.translation.live import in_jax, in_onnxruntime
from tests.translation.random_problems import random_problem


@pytest.mark.parametrize(
    ("to", "seeds"), [("onnx", range(30)), ("openvino", range(30)), ("directml", range(30)), ("jax", range(3))]
)
def test_a_translation_gives_the_same_bits(to: str, seeds: range) -> None:
    found = judge(seeds, [to])
    assert found[to] > len(seeds) / 3
    assert found[LEFT_OUT] <= 0.3 * found[to]


@pytest.mark.parametrize("to", ["onnx", "openvino", "directml"])
def test_a_translation_is_proven(to: str) -> None:
    proven = []
    for seed in range(12):
        problem = random_problem(seed)
        made = dg.translate(problem, to, **VERSIONS[to][0])  # type: ignore[arg-type] # each has its own type
        if made.proof is not None:
            assert made.proof.verdict != "different", (seed, str(made), str(made.proof))
            proven.append(bool(made.proof) and (made.proof.given == "any" or not always_equal(problem, to)))
    assert sum(proven) >= 0.9 * len(proven)


@pytest.mark.parametrize(
    ("starts", "sizes", "expected"),
    [
        (np.array([[2**32 + 1], [1], [-1]]), (1, 4), [[-1] * 4, [4, 5, 6, 7], [-1] * 4]),
        (np.array([[-(2**32)], [-(2**63)], [2**63 - 1]]), (1, 4), [[-1] * 4] * 3),
        (np.array([[2**32 - 1], [2**31], [2]], np.uint32), (1, 4), [[-1] * 4, [-1] * 4, [8, 9, 10, 11]]),
        (np.array([[2**64 - 1], [2**32], [0]], np.uint64), (1, 4), [[-1] * 4, [-1] * 4, [0, 1, 2, 3]]),
        (np.array([[0, 2**32 + 1], [2**33, 0], [2, 1], [2, 3]]), (1, 2), [[-1, -1], [-1, -1], [9, 10], [-1, -1]]),
    ],
    ids=["int64", "the ends of int64", "uint32", "uint64", "two components and a window"],
)
def test_jax_fills_for_starts_beyond_32_bits(starts: Any, sizes: tuple[int, ...], expected: list[list[int]]) -> None:
    data = np.arange(20, dtype=np.int32).reshape(5, 4)
    numbers = dg.lax.GatherDimensionNumbers((1,), (0,), (*range(starts.shape[1]),))
    problem = dg.lax.gather.problem(data, starts, numbers, sizes, mode="fill", fill_value=-1)
    made = dg.translate(problem, "jax")
    assert np.asarray(in_jax(made, [data, starts])[0]).tolist() == expected
    assert made.proof
    assert made.proof.given == "any"


@pytest.mark.parametrize(
    ("kind", "strides", "total"),
    [
        ("FLOAT16", (4, 1), None),
        ("UINT8", (5, 1), None),
        ("FLOAT32", (4, 1), 96),
        ("INT64", (1, 3), 76),
        ("UINT8", None, 64),
    ],
)
def test_buffers_of_the_stated_sizes_can_be_bound(kind: str, strides: tuple[int, ...] | None, total: int | None) -> None:
    """A padded tensor is the whole buffer, to the translation and to the compiled operator."""
    table = dg.BufferTensorDesc(data_type=kind, sizes=(3, 3), strides=strides, total_tensor_size_in_bytes=total)
    ids = dg.BufferTensorDesc(data_type="INT32", sizes=(1, 2))
    rows = dg.BufferTensorDesc(data_type=kind, sizes=(2, 3))
    desc = dg.GatherOperatorDesc(input_tensor=table, indices_tensor=ids, output_tensor=rows, axis=0, index_dimensions=1)
    made = dg.translate(desc, "onnx")
    data, indices = (made.source.types[name] for name in made.source.inputs)
    array = np.arange(np.prod(data.shape)).astype(data.dtype).reshape(data.shape)
    picked = np.array([[2, 0]], indices.dtype)
    found = np.asarray(dg.compile(desc)(array, picked))
    steps = strides or (3, 1)
    assert found.tolist() == [[array.ravel()[row * steps[0] + column * steps[1]] for column in range(3)] for row in (2, 0)]
    assert np.asarray(in_onnxruntime(made, [array, picked])[0]).tobytes() == found.tobytes()
