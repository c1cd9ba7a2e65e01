"""Offsets beyond 2^31 elements and 2^32 bytes: sparse memory, of which only the pages that are touched exist."""

from __future__ import annotations

import mmap
import random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dmlgather.backends.cuda.families import launches_for
from dmlgather.backends.cuda.variants import KernelKind
from dmlgather.plan import IndexPlan, IndexType, Lookup, OutOfBounds
from tests.kernels import host

FAR = 3 * 2**31
"""Elements: beyond 32 bits also as a byte offset, whatever the element."""


@pytest.fixture
def sparse() -> NDArray[np.uint32]:
    no_reserve = getattr(mmap, "MAP_NORESERVE", 0x4000)  # Python 3.11 does not name Linux's number
    memory = mmap.mmap(-1, 4 * (FAR + 2**20), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | no_reserve)
    return np.frombuffer(memory, np.uint32)


def gather(
    plan: IndexPlan, data: NDArray[Any], indices: NDArray[Any] | None, out: NDArray[Any], alignment: int = 4, **how: Any
) -> set[KernelKind]:
    launches = launches_for(plan, alignment, 0, **how)
    pointer = 0 if indices is None else indices.ctypes.data
    for launch in launches:
        host.run_launch(launch, data.ctypes.data, pointer, out.ctypes.data, 0)
    return {launch.variant.kind for launch in launches}


@pytest.mark.parametrize(("row", "family"), [(12, KernelKind.GATHER), (131, KernelKind.SPAN), (12, KernelKind.GENERAL)])
@pytest.mark.parametrize("kind", [IndexType.INT32, IndexType.INT64, IndexType.UINT64], ids=lambda kind: kind.name)
def test_a_gather_reads_a_table_of_more_than_2_to_the_31_elements(
    sparse: NDArray[np.uint32], kind: IndexType, row: int, family: KernelKind
) -> None:
    rows = FAR // row
    wanted = [0, 1, rows - 1, rows - 2, 2**31 // row, 2**31 // row + 1, 2**32 // row + 5, random.randrange(rows)]
    for number in wanted:
        sparse[number * row : number * row + row] = np.arange(row) + (number % 65521) * 16
    indices = np.array(wanted, kind.value.lower())
    plan = IndexPlan(
        shape=(len(wanted), row),
        out_strides=(row, 1),
        in_strides=(0, 1),
        element_bytes=4,
        in_extent=rows * row,
        out_extent=len(wanted) * row,
        lookups=(Lookup((1, 0), 0, rows, 0, row),),
        index_type=kind,
        index_extent=len(wanted),
    )
    out = np.zeros(plan.out_extent, np.uint32)
    assert gather(plan, sparse, indices, out, specialise=family is not KernelKind.GENERAL) == {family}
    expected = [[(number % 65521) * 16 + column for column in range(row)] for number in wanted]
    assert out.reshape(-1, row).tolist() == expected


def test_a_limit_beyond_31_bits_goes_through_the_general_kernel(sparse: NDArray[np.uint32]) -> None:
    wanted = [2**32 + 1, 2**31, FAR - 1, -1, 2**33, -(2**63)]
    for number in (2**32 + 1, 2**31, FAR - 1, 0):
        sparse[number] = number % 999_983 + 1
    plan = IndexPlan(
        shape=(len(wanted),),
        out_strides=(1,),
        in_strides=(0,),
        element_bytes=4,
        in_extent=FAR,
        out_extent=len(wanted),
        lookups=(Lookup((1,), 0, FAR, FAR, 1),),
        index_type=IndexType.INT64,
        index_extent=len(wanted),
        out_of_bounds=OutOfBounds.CLAMP,
    )
    out = np.zeros(len(wanted), np.uint32)
    assert gather(plan, sparse, np.array(wanted), out) == {KernelKind.GENERAL}
    read = [2**32 + 1, 2**31, FAR - 1, FAR - 1, FAR - 1, 0]
    assert out.tolist() == [number % 999_983 + 1 for number in read]


@pytest.mark.parametrize(("row", "family"), [(3, KernelKind.COPY), (301, KernelKind.SPAN), (3, KernelKind.GENERAL)])
def test_a_slice_writes_far_apart(sparse: NDArray[np.uint32], row: int, family: KernelKind) -> None:
    step = 2**29 - 3  # bytes that fit 31 bits: coordinates times steps go beyond 2^31 elements
    count = FAR // step
    data = np.arange(1, count * row + 1, dtype=np.uint32)
    plan = IndexPlan((count, row), (step, 1), (row, 1), 4, count * row, (count - 1) * step + row)
    assert gather(plan, data, None, sparse, specialise=family is not KernelKind.GENERAL) == {family}
    written = [sparse[number * step : number * step + row].tolist() for number in range(count)]
    assert written == data.reshape(-1, row).tolist()


def test_a_step_of_2_to_the_31_bytes_goes_through_the_general_kernel(sparse: NDArray[np.uint32]) -> None:
    step = 2**30
    data = np.arange(1, 11, dtype=np.uint32)
    plan = IndexPlan((5, 2), (step, 1), (2, 1), 4, 10, 4 * step + 2)
    assert gather(plan, data, None, sparse) == {KernelKind.GENERAL}
    assert [sparse[number * step : number * step + 2].tolist() for number in range(5)] == data.reshape(-1, 2).tolist()


@pytest.mark.parametrize("each", [False, True], ids=["once", "each"])
def test_rows_far_apart_come_into_shared_memory(sparse: NDArray[np.uint32], each: bool) -> None:
    step, width = 2**29 - 3, 70  # bytes that fit 31 bits: coordinates times steps go beyond 2^32 bytes
    rows = FAR // step
    for row in range(rows):
        sparse[row * step : row * step + width] = np.arange(width) + 100 * row
    wanted = np.array([[(7 * column + row * each) % width for column in range(40)] for row in range(rows)])
    plan = IndexPlan(
        shape=(rows, 40),
        out_strides=(40, 1),
        in_strides=(step, 0),
        element_bytes=4,
        in_extent=(rows - 1) * step + width,
        out_extent=rows * 40,
        lookups=(Lookup((40 if each else 0, 1), 0, width, 0, 1),),
        index_type=IndexType.INT64,
        index_extent=wanted.size if each else 40,
    )
    out = np.zeros(rows * 40, np.uint32)
    assert gather(plan, sparse, wanted, out, alignment=16) == {KernelKind.STAGED}
    assert out.reshape(rows, 40).tolist() == (wanted + 100 * np.arange(rows)[:, None]).tolist()
