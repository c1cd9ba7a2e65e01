"""lax.gather as its page and XLA's describe it, position by position in Python integers. Knows no plan, no backend and no JAX.

Out of range means out of range at the full width of the indices; promise_in_bounds is clip; negative starts are below 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from dmlgather.lax import GatherDimensionNumbers
from tests.dialects.outcomes import Array

WIDTHS = (8, 16, 32, 64)
INTEGERS = tuple(np.dtype(f"{kind}{width}") for kind in ("int", "uint") for width in WIDTHS)
"""What start_indices may be."""

DEFAULT_FILLS: dict[np.dtype[Any], Any] = {
    np.dtype(bool): True,
    **{np.dtype(f"int{width}"): -(2 ** (width - 1)) for width in WIDTHS},
    **{np.dtype(f"uint{width}"): 2**width - 1 for width in WIDTHS},
    np.dtype(ml_dtypes.int4): -8,
    np.dtype(ml_dtypes.uint4): 15,
    np.dtype(ml_dtypes.int2): -2,
    np.dtype(ml_dtypes.uint2): 3,
    **{np.dtype(name): np.nan for name in ("float16", "float32", "float64")},
    np.dtype(ml_dtypes.bfloat16): np.nan,
    **{
        np.dtype(getattr(ml_dtypes, f"float{name}")): np.nan
        for name in (
            *("8_e3m4", "8_e4m3", "8_e4m3b11fnuz", "8_e4m3fn", "8_e4m3fnuz"),
            *("8_e5m2", "8_e5m2fnuz", "8_e8m0fnu", "4_e2m1fn"),
        )
    },
    np.dtype("complex64"): complex(np.nan, 0),
    np.dtype("complex128"): complex(np.nan, 0),
}
"""JAX's element types -> what mode "fill" writes where fill_value is left out."""

TYPES = tuple(DEFAULT_FILLS)

FIELDS = ("offset_dims", "collapsed_slice_dims", "start_index_map", "operand_batching_dims", "start_indices_batching_dims")
"""The fields of GatherDimensionNumbers, in order."""


@dataclass(frozen=True)
class Call:
    """One call of lax.gather.

    numbers: the five fields in order. x64: JAX's mode in which the call is judged; None where it promises nothing of the starts.
    fault: the one thing that is wrong with it, "" for nothing. seed: what it was made from.
    """

    operand: Any = field(repr=False)
    start_indices: Any = field(repr=False)
    numbers: tuple[Any, ...]
    slice_sizes: Any
    mode: Any = None
    fill_value: Any = None
    x64: bool | None = True
    fault: str = ""
    seed: int | None = None

    @property
    def dimension_numbers(self) -> GatherDimensionNumbers:
        return GatherDimensionNumbers(*self.numbers)

    def __str__(self) -> str:
        shown = ", ".join(
            f"{array.dtype}{list(array.shape)} strides {array.strides}" if hasattr(array, "strides") else repr(array)
            for array in (self.operand, self.start_indices)
        )
        numbers = ", ".join(f"{name}={value}" for name, value in zip(FIELDS, self.numbers, strict=False))
        rest = f"mode {self.mode!r}, fill_value {self.fill_value!r}, x64 {self.x64}, fault {self.fault!r}, seed {self.seed}"
        return f"gather of {shown}; {numbers}; slice_sizes {self.slice_sizes}; {rest}"


def expected(call: Call) -> Array:
    """What a good call returns."""
    operand, indices = call.operand, call.start_indices
    offset_dims, collapsed, start_index_map, batching, index_batching = call.numbers
    kept = [dim for dim in range(operand.ndim) if dim not in (*collapsed, *batching)]
    rank = len(kept) + indices.ndim - 1
    free = [dim for dim in range(rank) if dim not in offset_dims]
    shape = [0] * rank
    for dim, size in (
        *zip(offset_dims, (call.slice_sizes[dim] for dim in kept), strict=True),
        *zip(free, indices.shape[:-1], strict=True),
    ):
        shape[dim] = size
    output = np.empty(shape, operand.dtype)
    # Views, because NumPy may change the bits of NaNs that it takes out as scalars.
    source, target = (array.view(f"V{operand.itemsize}") for array in (np.ascontiguousarray(operand), output))
    filler = fill(call).view(f"V{operand.itemsize}") if call.mode in ("fill", "drop") else None
    for place in np.ndindex(*shape):
        at = tuple(place[dim] for dim in free)
        position = [0] * operand.ndim
        for dim, index_dim in zip(batching, index_batching, strict=True):
            position[dim] = at[index_dim]
        inside = True
        for component, dim in enumerate(start_index_map):
            last = operand.shape[dim] - call.slice_sizes[dim]
            start = int(indices[(*at, component)])
            inside = inside and 0 <= start <= last
            position[dim] = min(max(start, 0), last)
        for dim, out_dim in zip(kept, offset_dims, strict=True):
            position[dim] += place[out_dim]
        target[place] = source[tuple(position)] if inside or filler is None else filler
    return output


def fill(call: Call) -> Array:
    """The element that a call in mode "fill" writes, of shape []."""
    value = DEFAULT_FILLS[call.operand.dtype] if call.fill_value is None else call.fill_value
    with np.errstate(all="ignore"):
        filled = np.asarray(value).astype(call.operand.dtype)
    if filled.dtype == ml_dtypes.float8_e5m2 and np.isnan(filled):  # JAX's NaN of this type is not that of ml_dtypes
        return np.array(0x7F, np.uint8).view(filled.dtype)
    return filled
