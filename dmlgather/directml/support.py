"""The support tables: data types and dimension counts that the tensors of each operator may have, by feature level.

A row is valid from its feature level on, until a row with a newer level replaces it.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from dmlgather.directml.types import DataType, FeatureLevel

_D, _L = DataType, FeatureLevel

FLOATS = (_D.FLOAT32, _D.FLOAT16)
SIXTEEN_OR_32_BITS = (_D.FLOAT32, _D.FLOAT16, _D.INT32, _D.INT16, _D.UINT32, _D.UINT16)
UP_TO_32_BITS = (_D.FLOAT32, _D.FLOAT16, _D.INT32, _D.INT16, _D.INT8, _D.UINT32, _D.UINT16, _D.UINT8)
UP_TO_64_BITS = (_D.FLOAT64, _D.INT64, _D.UINT64, *UP_TO_32_BITS)
UINT32_ALONE = (_D.UINT32,)
NO_INDICES: tuple[DataType, ...] = ()
INDICES = (_D.INT64, _D.INT32, _D.UINT64, _D.UINT32)

FOUR = (4,)
FOUR_OR_FIVE = (4, 5)
ONE_TO_EIGHT = (1, 2, 3, 4, 5, 6, 7, 8)


class Row(NamedTuple):
    """Data types and dimension counts of one tensor of one operator, from feature level `level` on."""

    operator: str
    level: FeatureLevel
    tensor: str
    data_types: tuple[DataType, ...]
    dimension_counts: tuple[int, ...]
    source: str


_SUPPORT: tuple[tuple[str, FeatureLevel, tuple[DataType, ...], tuple[DataType, ...], tuple[int, ...], str], ...] = (
    ("GATHER", _L.LEVEL_1_0, FLOATS, UINT32_ALONE, FOUR, "[G] Tensor support"),
    ("GATHER", _L.LEVEL_2_1, UP_TO_32_BITS, UINT32_ALONE, FOUR, "[G] Tensor support"),
    ("GATHER", _L.LEVEL_3_0, UP_TO_32_BITS, INDICES, ONE_TO_EIGHT, "[G] Tensor support"),
    ("GATHER", _L.LEVEL_4_1, UP_TO_64_BITS, INDICES, ONE_TO_EIGHT, "[G] Tensor support"),
    ("GATHER_ELEMENTS", _L.LEVEL_2_1, UP_TO_32_BITS, UINT32_ALONE, FOUR, "[GE] Tensor support"),
    ("GATHER_ELEMENTS", _L.LEVEL_3_0, UP_TO_32_BITS, INDICES, ONE_TO_EIGHT, "[GE] Tensor support"),
    ("GATHER_ELEMENTS", _L.LEVEL_4_1, UP_TO_64_BITS, INDICES, ONE_TO_EIGHT, "[GE] Tensor support"),
    ("GATHER_ND", _L.LEVEL_2_1, UP_TO_32_BITS, UINT32_ALONE, FOUR, "[GN] Tensor support"),
    ("GATHER_ND", _L.LEVEL_3_0, UP_TO_32_BITS, INDICES, ONE_TO_EIGHT, "[GN] Tensor support"),
    ("GATHER_ND", _L.LEVEL_4_1, UP_TO_64_BITS, INDICES, ONE_TO_EIGHT, "[GN] Tensor support"),
    ("GATHER_ND1", _L.LEVEL_3_0, UP_TO_32_BITS, INDICES, ONE_TO_EIGHT, "[GN1] Tensor support"),
    ("GATHER_ND1", _L.LEVEL_4_1, UP_TO_64_BITS, INDICES, ONE_TO_EIGHT, "[GN1] Tensor support"),
    ("SLICE", _L.LEVEL_1_0, SIXTEEN_OR_32_BITS, NO_INDICES, FOUR_OR_FIVE, "[S] Tensor support"),
    ("SLICE", _L.LEVEL_2_1, UP_TO_32_BITS, NO_INDICES, FOUR_OR_FIVE, "[S] Tensor support"),
    ("SLICE", _L.LEVEL_3_0, UP_TO_32_BITS, NO_INDICES, ONE_TO_EIGHT, "[S] Tensor support"),
    ("SLICE", _L.LEVEL_4_1, UP_TO_64_BITS, NO_INDICES, ONE_TO_EIGHT, "[S] Tensor support"),
    ("SLICE1", _L.LEVEL_2_1, UP_TO_32_BITS, NO_INDICES, FOUR_OR_FIVE, "[S1] Tensor support"),
    ("SLICE1", _L.LEVEL_3_0, UP_TO_32_BITS, NO_INDICES, ONE_TO_EIGHT, "[S1] Tensor support"),
    ("SLICE1", _L.LEVEL_4_1, UP_TO_64_BITS, NO_INDICES, ONE_TO_EIGHT, "[S1] Tensor support"),
    ("DEPTH_TO_SPACE1", _L.LEVEL_2_1, UP_TO_32_BITS, NO_INDICES, FOUR, "[DS1] Tensor support"),
    ("DEPTH_TO_SPACE1", _L.LEVEL_5_0, UP_TO_64_BITS, NO_INDICES, FOUR, "[DS1] Tensor support"),
    ("SPACE_TO_DEPTH1", _L.LEVEL_2_1, UP_TO_32_BITS, NO_INDICES, FOUR, "[SD1] Tensor support"),
    ("SPACE_TO_DEPTH1", _L.LEVEL_5_0, UP_TO_64_BITS, NO_INDICES, FOUR, "[SD1] Tensor support"),
)
"""Columns: operator, feature level, data types of input and output, data types of indices, dimension counts, source."""

TABLE = tuple(
    Row(operator, level, tensor, kinds, counts, source)
    for operator, level, types, indices, counts, source in _SUPPORT
    for tensor, kinds in (("InputTensor", types), ("IndicesTensor", indices), ("OutputTensor", types))
    if kinds
)


@cache
def rows_of(operator: str) -> tuple[Row, ...]:
    """Return the rows of one operator ("GATHER"), oldest level first."""
    return tuple(row for row in TABLE if row.operator == operator)


@cache
def row_at(operator: str, tensor: str, level: FeatureLevel) -> Row | None:
    """Return the row of a tensor ("GATHER", "IndicesTensor") at `level`, or None if the operator is newer."""
    rows = [row for row in rows_of(operator) if row.tensor == tensor and row.level <= level]
    return rows[-1] if rows else None
