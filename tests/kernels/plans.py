"""Plans of known shapes, and the fields of their launches."""

from __future__ import annotations

import struct
from math import prod

from dmlgather.backends.cuda.arguments import LAYOUT
from dmlgather.backends.cuda.launch import Launch
from dmlgather.plan import IndexPlan, IndexType, Lookup, packed_strides


def row_gather(rows: int, tokens: int, row: int, element_bytes: int = 2, kind: IndexType = IndexType.INT64) -> IndexPlan:
    """out[t, c] = table[index[t], c]"""
    return IndexPlan(
        (tokens, row), (row, 1), (0, 1), element_bytes, rows * row, tokens * row,
        lookups=(Lookup((1, 0), 0, rows, rows if kind.signed else 0, row),), index_type=kind, index_extent=tokens,
    )  # fmt: skip


def axis_gather(outer: int, axis: int, picked: int, inner: int, element_bytes: int = 4) -> IndexPlan:
    """out[o, k, i] = data[o, index[k], i]"""
    return IndexPlan(
        (outer, picked, inner), (picked * inner, inner, 1), (axis * inner, 0, 1), element_bytes, outer * axis * inner,
        outer * picked * inner, lookups=(Lookup((0, 1, 0), 0, axis, axis, inner),), index_type=IndexType.INT32,
        index_extent=picked,
    )  # fmt: skip


def points(batches: int, size: int, picked: int, row: int) -> IndexPlan:
    """out[b, k, c] = data[b, index[b, k], c]"""
    return IndexPlan(
        (batches, picked, row), (picked * row, row, 1), (size * row, 0, 1), 4, batches * size * row, batches * picked * row,
        lookups=(Lookup((picked, 1, 0), 0, size, size, row),), index_type=IndexType.INT64, index_extent=batches * picked,
    )  # fmt: skip


def gather_elements(rows: int, columns: int, picked: int) -> IndexPlan:
    """out[r, c] = data[index[r, c], c]"""
    return IndexPlan(
        (picked, columns), (columns, 1), (0, 1), 4, rows * columns, picked * columns,
        lookups=(Lookup((columns, 1), 0, rows, rows, columns),), index_type=IndexType.INT64, index_extent=picked * columns,
    )  # fmt: skip


def slice_of(shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0, element_bytes: int = 4) -> IndexPlan:
    high = offset + sum((size - 1) * max(step, 0) for size, step in zip(shape, strides, strict=True))
    return IndexPlan(shape, packed_strides(shape), strides, element_bytes, high + 1, prod(shape), offset)


def columns_of(rows: int, width: int, picked: int, element_bytes: int = 4) -> IndexPlan:
    """out[r, c] = data[r, index[c]]"""
    return IndexPlan(
        (rows, picked), (picked, 1), (width, 0), element_bytes, rows * width, rows * picked,
        lookups=(Lookup((0, 1), 0, width, 0, 1),), index_type=IndexType.INT64, index_extent=picked,
    )  # fmt: skip


def part(launch: Launch, name: str, code: str) -> tuple[int, ...]:
    """Return the numbers of this format with which a field of a launch's argument block begins."""
    before = "".join(code for _, code in LAYOUT[: [name for name, _ in LAYOUT].index(name)])
    return struct.unpack_from(f"<{code}", launch.arguments, struct.calcsize(f"<{before}"))


def fields(launch: Launch) -> dict[str, int]:
    """Return the scalar fields of a launch's argument block."""
    return {name: part(launch, name, code)[0] for name, code in LAYOUT if len(code) == 1}
