"""The suites: ten shapes that between them use every kind of operator and every way of walking memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dmlgather.bench.case import Array, Case, Problem, Spelling, bits, indices, scaled, tensor
from dmlgather.directml import (
    GatherElementsOperatorDesc,
    GatherND1OperatorDesc,
    GatherOperatorDesc,
    Slice1OperatorDesc,
    SliceOperatorDesc,
)


@dataclass(frozen=True, slots=True)
class Suite:
    """Cases at one scale of their outermost sizes."""

    cases: tuple[Case, ...]
    scale: float


def _take(shape: tuple[int, ...], count: int, axis: int, data_type: str = "FLOAT32") -> Problem:
    lead = (1,) * (len(shape) - 1)
    desc = GatherOperatorDesc(
        input_tensor=tensor(data_type, shape),
        indices_tensor=tensor("INT64", (*lead, count)),
        output_tensor=tensor(data_type, (*shape[:axis], count, *shape[axis + 1 :])),
        axis=axis,
        index_dimensions=1,
    )
    spelling = Spelling(
        f"np.take(x, i, axis={axis})",
        lambda x, i: np.take(x, i.reshape(-1), axis),
        lambda x, i, out: np.take(x, i.reshape(-1), axis, out, "clip"),
    )
    return Problem(desc, (bits(shape, data_type.lower()), indices(shape[axis], (*lead, count))), spelling)


def _along(shape: tuple[int, int], axis: int) -> Problem:
    desc = GatherElementsOperatorDesc(
        input_tensor=tensor("FLOAT32", shape),
        indices_tensor=tensor("INT64", shape),
        output_tensor=tensor("FLOAT32", shape),
        axis=axis,
    )

    def into(x: Array, i: Array, out: Array) -> None:
        out[...] = np.take_along_axis(x, i, axis)

    spelling = Spelling(f"np.take_along_axis(x, i, axis={axis})", lambda x, i: np.take_along_axis(x, i, axis), into)
    return Problem(desc, (bits(shape, "float32"), indices(shape[axis], shape)), spelling)


def _tuples(shape: tuple[int, int, int], count: int) -> Problem:
    desc = GatherND1OperatorDesc(
        input_tensor=tensor("FLOAT32", shape),
        indices_tensor=tensor("INT64", (1, count, 2)),
        output_tensor=tensor("FLOAT32", (1, count, shape[2])),
        input_dimension_count=3,
        indices_dimension_count=2,
        batch_dimension_count=0,
    )

    def call(x: Array, i: Array) -> Array:
        return np.asarray(x[i[..., 0], i[..., 1]])

    def into(x: Array, i: Array, out: Array) -> None:
        out[...] = x[i[..., 0], i[..., 1]]

    return Problem(
        desc, (bits(shape, "float32"), indices(min(shape[:2]), (1, count, 2))), Spelling("x[i[..., 0], i[..., 1]]", call, into)
    )


def _view(desc: Any, array: Array, text: str, select: Callable[[Array], Array]) -> Problem:
    spelling = Spelling(text, lambda x: select(x).copy(), lambda x, out: np.copyto(out, select(x)))
    return Problem(desc, (array,), spelling)


def _crop(rows: int, columns: int) -> Problem:
    desc = Slice1OperatorDesc(
        input_tensor=tensor("FLOAT32", (rows, columns)),
        output_tensor=tensor("FLOAT32", (rows - 2, columns - 2)),
        input_window_offsets=(1, 1),
        input_window_sizes=(rows - 2, columns - 2),
        input_window_strides=(1, -1),
    )
    return _view(desc, bits((rows, columns), "float32"), "x[1:-1, -2:0:-1].copy()", lambda x: x[1:-1, -2:0:-1])


def _transposed(rows: int, columns: int) -> Problem:
    desc = SliceOperatorDesc(
        input_tensor=tensor("FLOAT32", (columns, rows)),
        output_tensor=tensor("FLOAT32", (columns, rows)),
        offsets=(0, 0),
        sizes=(columns, rows),
        strides=(1, 1),
    )
    spelling = Spelling("np.ascontiguousarray(x)", lambda x: np.array(x, order="C"), lambda x, out: np.copyto(out, x))
    return Problem(desc, (bits((rows, columns), "float32").T,), spelling)


SHAPES = (
    Case(
        "embedding", "16-bit rows of 768 bytes from a vocabulary of 30,522",
        lambda scale: _take((30522, 384), scaled(16384, scale), 0, "FLOAT16"),
    ),
    Case("narrow rows", "rows of 16 bytes from a table of a million", lambda scale: _take((10**6, 4), scaled(10**6, scale), 0)),
    Case("elements", "single elements from a line of 4 million", lambda scale: _take((2**22,), scaled(2**21, scale), 0)),
    Case("inner axis", "2,048 of 2,048 columns of a matrix", lambda scale: _take((scaled(2048, scale), 2048), 2048, 1)),
    Case("middle axis", "256 of 256 rows in each matrix of a stack", lambda scale: _take((scaled(64, scale), 256, 256), 256, 1)),
    Case("elements, last axis", "gather-elements along rows of 2,048", lambda scale: _along((scaled(1024, scale), 2048), 1)),
    Case("elements, axis 0", "gather-elements along columns", lambda scale: _along((scaled(1024, scale), 2048), 0)),
    Case("tuples", "pairs of indices that read 256 bytes each", lambda scale: _tuples((512, 512, 64), scaled(100_000, scale))),
    Case("crop, reversed", "a slice of a matrix, its rows reversed", lambda scale: _crop(scaled(3000, scale), 2000)),
    Case("transposed", "a copy of a transposed matrix", lambda scale: _transposed(scaled(2048, scale), 2048)),
)  # fmt: skip

SUITES = {
    "smoke": Suite(SHAPES, 1.0),
    "large": Suite(SHAPES, 8.0),
}
"""smoke: 8 to 26 MB per output, seconds in all. large: the same shapes, eight times as long."""
