"""Every way to break a good call by exactly one fault, and what it raises."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from tests.dialects import drafting
from tests.dialects.drafting import EXTREMES, setting
from tests.openvino.drafts import Draft
from tests.openvino.specification import VERSIONS

NO_DATA: tuple[Any, ...] = (
    *("complex64", "complex128", "datetime64[s]", "timedelta64[D]", "V4"),
    *(ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.int2, ml_dtypes.float4_e2m1fn, ml_dtypes.float6_e2m3fn),
    *(ml_dtypes.float8_e4m3, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2fnuz),
)
"""NumPy's types that are no types of OpenVINO, or no whole bytes there."""

NO_INDICES: tuple[Any, ...] = (
    "bool",
    "float16",
    "float32",
    "float64",
    "complex64",
    ml_dtypes.int4,
    ml_dtypes.bfloat16,
    ">i4",
    ">u8",
)
"""Types that are no integers of whole bytes in the machine's byte order."""

NO_AXIS = (0.0, None, "0", [0], np.array(0.0, np.float32), np.array([0.0]), np.array(False), np.array([True]), np.zeros(1, ">f4"))
"""What is not one integer by its type."""

NO_VERSION = (0, 2, 3, 4, 5, 6, 9, -8, 78)
"""Operation sets without a Gather of their own."""


@dataclass(frozen=True)
class Fault(drafting.Fault):
    """One way to break a good call of some versions."""

    versions: tuple[int, ...] = VERSIONS


def _far(rng: random.Random) -> int:
    return rng.choice((0, 0, 1, 2, *(abs(value) for value in EXTREMES if abs(value) < 2**62)))


def _axis_of_many(rng: random.Random, draft: Draft) -> None:
    values = np.zeros(rng.choice((0, 2, 3)), rng.choice(("int32", "int64", "uint8")))
    draft.axis = rng.choice((values, np.zeros((1, 1), values.dtype), values.reshape(1, -1)))


def _axis_type(rng: random.Random, draft: Draft) -> None:
    draft.axis, draft.batch_dims = rng.choice(NO_AXIS), 0


def _scalar_data(rng: random.Random, draft: Draft) -> None:
    draft.data = np.zeros((), draft.data.dtype)
    draft.axis, draft.batch_dims = 0, 0


def _plain(draft: Draft) -> tuple[int, int]:
    """Axis and number of batch dimensions, counted from the front."""
    axis, batch = int(np.asarray(draft.axis).item()), draft.batch_dims
    return axis % draft.data.ndim, batch + draft.indices.ndim if batch < 0 else batch


def _batch_beyond_axis(rng: random.Random, draft: Draft) -> bool:
    axis, _ = _plain(draft)
    if axis >= draft.data.ndim - 1:
        return False
    rank = draft.data.ndim + rng.randrange(2)
    draft.indices = np.zeros((*draft.data.shape, 2)[:rank], draft.indices.dtype)
    batch = rng.randint(axis + 1, draft.data.ndim)
    draft.batch_dims = batch - rank if batch < rank and rng.random() < 0.5 else batch
    return True


def _batch_beyond_indices(rng: random.Random, draft: Draft) -> None:
    draft.batch_dims = draft.indices.ndim + 1 + _far(rng)


def _batch_below_indices(rng: random.Random, draft: Draft) -> None:
    draft.batch_dims = -draft.indices.ndim - 1 - _far(rng)


def _unequal_batches(rng: random.Random, draft: Draft) -> bool:
    _, batch = _plain(draft)
    if not batch:
        return False
    sizes = list(draft.indices.shape)
    broken = rng.randrange(batch)
    sizes[broken] = rng.choice([size for size in (0, 1, 2, 6) if size != sizes[broken]])
    draft.indices = np.zeros(sizes, draft.indices.dtype)
    return True


def _data_type(rng: random.Random, draft: Draft) -> Any:
    return np.zeros(draft.data.shape, rng.choice(NO_DATA))


def _index_type(rng: random.Random, draft: Draft) -> Any:
    return np.zeros(draft.indices.shape, rng.choice(NO_INDICES))


FAULTS = (
    Fault("axis above", ValueError, setting("axis", lambda rng, draft: draft.data.ndim + _far(rng))),
    Fault("axis below", ValueError, setting("axis", lambda rng, draft: -draft.data.ndim - 1 - _far(rng))),
    Fault("axis of no element, several, or two dimensions", ValueError, _axis_of_many),
    Fault("axis type", TypeError, _axis_type),
    Fault("scalar data", ValueError, _scalar_data),
    Fault("data type", TypeError, setting("data", _data_type)),
    Fault("index type", TypeError, setting("indices", _index_type)),
    Fault("batch_dims beyond the axis", ValueError, _batch_beyond_axis, (7, 8)),
    Fault("batch_dims beyond the rank of indices", ValueError, _batch_beyond_indices, (7, 8)),
    Fault("batch_dims below minus the rank of indices", ValueError, _batch_below_indices, (7, 8)),
    Fault("batch_dims in version 1", ValueError, setting("batch_dims", lambda rng, draft: rng.choice((1, -1, 2))), (1,)),
    Fault("batch_dims type", TypeError, setting("batch_dims", lambda rng, draft: rng.choice((0.0, 1.0, "1", None, [0])))),
    Fault("unequal batches", ValueError, _unequal_batches, (7, 8)),
    Fault("unknown version", ValueError, setting("version", lambda rng, draft: rng.choice(NO_VERSION))),
)
