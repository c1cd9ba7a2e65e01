"""Random problems of every dialect, translated: the same bits in onnxruntime, and found equal."""

from __future__ import annotations

import numpy as np
import pytest

import dmlgather as dg
from tests.translation.judging import LEFT_OUT, in_onnxruntime, judge


def test_a_translation_gives_the_same_bits() -> None:
    found = judge(range(40), checked=True)
    assert found["equal"] > 40 / 3
    assert found[LEFT_OUT] <= 0.3 * found["equal"]


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
    made = dg.translate(desc)
    data, indices = (made.source.types[name] for name in made.source.inputs)
    array = np.arange(np.prod(data.shape)).astype(data.dtype).reshape(data.shape)
    picked = np.array([[2, 0]], indices.dtype)
    found = np.asarray(dg.compile(desc)(array, picked))
    steps = strides or (3, 1)
    assert found.tolist() == [[array.ravel()[row * steps[0] + column * steps[1]] for column in range(3)] for row in (2, 0)]
    assert np.asarray(in_onnxruntime(made.form, [array, picked])[0]).tobytes() == found.tobytes()
    assert made.check
