"""The bytes that a case must move, counted by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from benchmarks.kinds import ALL, BACK, EVERY_OTHER, Along, OneOperator, Take, Tuples, ViewCopy
from benchmarks.traffic import traffic
from dmlgather.directml import lower
from tests import seeds


def counted(kind: OneOperator, dtype: str, indices: Any, sector: int) -> tuple[int, int, int, int]:
    """Return the bytes of indices, output, fetched sectors and touched sectors."""
    index = None if indices is None else np.asarray(indices, np.int64)
    found = traffic(lower(kind.descriptor(dtype)), index, sector)
    assert found.bound_bytes == found.index_bytes + found.output_bytes + min(found.fetched_bytes, found.touched_bytes)
    assert found.useful_bytes == found.index_bytes + 2 * found.output_bytes
    return found.index_bytes, found.output_bytes, found.fetched_bytes, found.touched_bytes


@pytest.mark.parametrize(
    ("kind", "dtype", "indices", "expected"),
    [
        # rows of 64 bytes: two sectors each; row 3 twice
        (Take((10, 16), 3), "float32", [3, 7, 3], (24, 192, 192, 128)),
        # rows of 12 bytes: row 0 in sector 0, row 2 (bytes 24 to 35) in 0 and 1
        (Take((8, 3), 2), "float32", [0, 2], (16, 24, 96, 64)),
        # rows of 400 bytes: row 1 is bytes 400 to 799, sectors 12 to 24
        (Take((4, 100), 1), "float32", [1], (8, 400, 13 * 32, 13 * 32)),
        # two of eight columns of 4 bytes, one sector a row: fetched for each element, touched once a row
        (Take((5, 8), 2, axis=1), "float32", [0, 7], (16, 40, 10 * 32, 5 * 32)),
        # single bytes 0, 31, 32
        (Take((64,), 3), "uint8", [0, 31, 32], (24, 3, 96, 64)),
        # every element of a 2 x 8 matrix from its first row: one sector of the two
        (Along((2, 8), 0), "float32", np.zeros((2, 8)), (128, 64, 16 * 32, 32)),
        # rows (0, 1) and (1, 0) of 8 bytes: bytes 8 to 15 and 32 to 39
        (Tuples((2, 4, 2), 2, 2), "float32", [[0, 1], [1, 0]], (32, 16, 64, 64)),
        # a crop of bytes 8 to 23 of each row of 32 bytes
        (ViewCopy((3, 8), (ALL, slice(2, 6))), "float32", None, (0, 48, 96, 96)),
        # reversed rows are read whole
        (ViewCopy((3, 8), (ALL, BACK)), "float32", None, (0, 96, 96, 96)),
        # every other element of every other row of one sector
        (ViewCopy((4, 8), (EVERY_OTHER, EVERY_OTHER)), "float32", None, (0, 32, 8 * 32, 2 * 32)),
        # windows of 64 bytes that overlap by half: 3 windows over 128 bytes
        (ViewCopy((3, 64), (ALL, ALL), strides=(32, 1)), "uint8", None, (0, 192, 192, 128)),
    ],
)  # fmt: skip
def test_traffic_equals_the_count_by_hand(
    kind: OneOperator, dtype: str, indices: Sequence[Any] | None, expected: tuple[int, int, int, int]
) -> None:
    assert counted(kind, dtype, indices, 32) == expected


def test_a_cpu_counts_lines_of_64_bytes() -> None:
    assert counted(Take((10, 16), 3), "float32", [3, 7, 3], 64) == (24, 192, 192, 128)
    assert counted(Take((64,), 3), "uint8", [0, 31, 32], 64) == (24, 3, 192, 64)


def test_the_copied_transposition_touches_everything_once() -> None:
    assert counted(ViewCopy((8, 8), (ALL, ALL), strides=(1, 8)), "float32", None, 32) == (0, 256, 64 * 32, 256)


def test_long_problems_are_counted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    indices = seeds.numpy_rng().integers(0, 40, (30, 40))
    whole = counted(Along((30, 40), 1), "float32", indices, 32)
    monkeypatch.setattr("benchmarks.traffic._CHUNK", 100)
    assert counted(Along((30, 40), 1), "float32", indices, 32) == whole
