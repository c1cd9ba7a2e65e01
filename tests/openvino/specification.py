"""Gather as the pages of its versions state it, position by position in Python integers. Knows no plan and no backend.

Where the pages are silent or disagree with OpenVINO: batch_dims may go down to minus the rank of indices, a negative index is
out of range in versions 1 and 7, and what is out of range is zero in every version. Elements are of whole bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tests.openvino.runtime import openvino

Array = NDArray[Any]

VERSIONS = (1, 7, 8)
"""Every version of Gather."""

NAMES = {
    np.dtype(bool): "boolean",
    np.dtype(ml_dtypes.bfloat16): "bf16",
    np.dtype(ml_dtypes.float8_e4m3fn): "f8e4m3",
    np.dtype(ml_dtypes.float8_e5m2): "f8e5m2",
    np.dtype(ml_dtypes.float8_e8m0fnu): "f8e8m0",
    **{np.dtype(f"{kind}{width}"): f"{kind}{8 * width}" for kind in "iuf" for width in (1, 2, 4, 8) if f"{kind}{width}" != "f1"},
}
"""NumPy's type -> OpenVINO's name of it."""

INTEGERS = tuple(dtype for dtype in NAMES if dtype.kind in "iu")
"""What indices and the axis may be."""


def whole_byte_types() -> set[str]:
    """OpenVINO's own names of its types with a fixed number of whole bytes."""
    kinds = {name: kind for name, kind in vars(openvino.Type).items() if isinstance(kind, openvino.Type)}
    return {name for name, kind in kinds.items() if name not in ("dynamic", "string") and kind.bitwidth % 8 == 0}


@dataclass(frozen=True)
class Call:
    """One call of Gather.

    axis: an integer or an array. fault: the one thing that is wrong with it, "" for nothing. seed: what it was made from.
    """

    version: Any
    data: Array = field(repr=False)
    indices: Array = field(repr=False)
    axis: Any
    batch_dims: Any = 0
    fault: str = ""
    seed: int | None = None

    @property
    def arguments(self) -> tuple[Any, ...]:
        return self.data, self.indices, self.axis, self.batch_dims

    def __str__(self) -> str:
        shown = ", ".join(f"{array.dtype}{list(array.shape)} strides {array.strides}" for array in (self.data, self.indices))
        told = f"axis {self.axis!r}, batch_dims {self.batch_dims!r}, fault {self.fault!r}, seed {self.seed}"
        return f"Gather-{self.version} of {shown}, {told}"


def expected(call: Call) -> Array:
    """What the page says about a call. TypeError for a type that it does not know, ValueError for anything else."""
    return gather(*call.arguments, version=call.version)


def gather(data: Array, indices: Array, axis: Any, batch_dims: Any = 0, *, version: Any = 8) -> Array:
    """output[p…, i…, t…] = data[p…, indices[p[:batch_dims], i…], t…], the i in the place of the axis; zero where out of range."""
    if version not in VERSIONS:
        raise ValueError(f"no version {version}")
    if data.dtype.newbyteorder("=") not in NAMES:
        raise TypeError(f"data of {data.dtype}")
    if indices.dtype not in INTEGERS:
        raise TypeError(f"indices of {indices.dtype}")
    axis = _axis(axis, data.ndim)
    batch = _batch_dims(batch_dims, version, axis, data.shape, indices.shape)
    count = indices.ndim - batch
    output = np.zeros(data.shape[:axis] + indices.shape[batch:] + data.shape[axis + 1 :], data.dtype)
    size = data.shape[axis]
    source, target = (array.view(f"V{data.itemsize}") for array in (np.ascontiguousarray(data), output))
    for place in np.ndindex(output.shape):
        lead, moved, trail = place[:axis], place[axis : axis + count], place[axis + count :]
        value = int(indices[lead[:batch] + moved])
        if value < 0 and version == 8:
            value += size
        if 0 <= value < size:
            target[place] = source[(*lead, value, *trail)]
    return output


def _axis(axis: Any, rank: int) -> int:
    if not isinstance(axis, int):  # NumPy's numbers have types, and are scalars
        given = np.asarray(axis)
        if given.dtype.newbyteorder("=") not in INTEGERS or not hasattr(axis, "dtype"):
            raise TypeError(f"axis of {given.dtype}")
        if given.shape not in ((), (1,)):
            raise ValueError(f"axis of shape {given.shape}")
        axis = int(given.item())
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} for rank {rank}")
    return int(axis) % rank


def _batch_dims(given: Any, version: int, axis: int, sizes: tuple[int, ...], index_sizes: tuple[int, ...]) -> int:
    if not isinstance(given, (int, np.integer)):
        raise TypeError(f"batch_dims {given!r}")
    if version == 1 and given:
        raise ValueError("batch_dims came with version 7")
    rank = len(index_sizes)
    if not -rank <= given <= min(len(sizes), rank):
        raise ValueError(f"batch_dims {given} for ranks {len(sizes)} and {rank}")
    batch = int(given) + rank if given < 0 else int(given)
    if batch > axis:
        raise ValueError(f"batch_dims {batch} beyond axis {axis}")
    if sizes[:batch] != index_sizes[:batch]:
        raise ValueError(f"batches {sizes[:batch]} and {index_sizes[:batch]}")
    return batch
