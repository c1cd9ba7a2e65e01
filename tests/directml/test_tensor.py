"""Sizes in bytes and layouts of tensor descriptors, against the numbers of DirectML's pages."""

from __future__ import annotations

from typing import Any

import pytest

from dmlgather.directml import BufferTensorDesc
from dmlgather.plan import Layout


@pytest.mark.parametrize(
    ("data_type", "sizes", "strides", "expected"),
    [
        ("FLOAT32", (2, 3), (6, 2), 44),  # stops at the last reachable element, not at 48
        ("FLOAT32", (1, 1, 3, 5), None, 60),
        ("FLOAT32", (1, 1, 3, 5), (15, 1, 5, 1), 60),
        ("UINT8", (5,), None, 8),
        ("UINT8", (1,), None, 4),
        ("FLOAT16", (3,), None, 8),
        ("FLOAT16", (3,), (0,), 4),
        ("INT64", (2, 2), (0, 3), 32),
        ("FLOAT32", (2**16, 2**16), None, 2**34),
        ("FLOAT32", (2, 2), (2**31, 2**31), (2**32 + 1) * 4),  # where 32-bit sums wrap to 4
        ("UINT8", (2, 2), (2**32 - 1, 2**32 - 1), 2**33),
        ("UINT8", (2**32 - 1,) * 8, None, ((2**32 - 1) ** 8 + 3) // 4 * 4),
    ],
)
def test_minimum_bytes(data_type: str, sizes: Any, strides: Any, expected: int) -> None:
    tensor = BufferTensorDesc(data_type=data_type, sizes=sizes, strides=strides)
    assert tensor.minimum_bytes == expected
    assert tensor.total_bytes == expected


def test_layout_owns_the_whole_elements_of_the_total_size() -> None:
    tensor = BufferTensorDesc(data_type="FLOAT64", sizes=(2, 3), strides=(1, 4), total_tensor_size_in_bytes=92)
    assert tensor.layout() == Layout((2, 3), (1, 4), 0, 11)
    packed = BufferTensorDesc(data_type="INT8", sizes=(2, 3))
    assert packed.layout() == Layout((2, 3), (3, 1), 0, 8)  # 6 bytes, rounded up to 8


@pytest.mark.parametrize("kind", ["UNKNOWN", "UINT4", "INT4"])
def test_types_without_whole_bytes_have_no_size(kind: str) -> None:
    tensor = BufferTensorDesc(data_type=kind, sizes=(2,))
    for ask in (lambda: tensor.minimum_bytes, lambda: tensor.total_bytes, tensor.layout):
        with pytest.raises(ValueError, match=kind):
            ask()
