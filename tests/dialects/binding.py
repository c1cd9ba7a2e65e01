"""Running a dialect's descriptors on arrays, bound as `to_directml` says."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dmlgather as dg
from dmlgather.directml import FeatureLevel


def run(
    descs: Sequence[dg.OperatorDesc],
    *,
    data: NDArray[Any],
    indices: NDArray[Any] | None,
    sizes: NDArray[np.int64],
    level: FeatureLevel,
    device: str,
) -> NDArray[np.uint8]:
    """The output buffer of the last descriptor; buffers hold noise wherever nothing is said.

    sizes: what is added to negative indices where the described type is unsigned; of a shape that broadcasts to the indices.
    """
    content = np.ascontiguousarray(data).tobytes()
    rng = np.random.default_rng(zlib.crc32(content))  # the same noise when the same call is repeated
    buffer = np.frombuffer(content, np.uint8)
    for desc in descs:
        inputs = [_padded(rng, buffer, desc.tensor("input_tensor").total_bytes)]
        if "indices_tensor" in desc.operator.inputs:
            assert desc is descs[-1]
            assert indices is not None
            tensor = desc.tensor("indices_tensor")
            values = _converted(indices, sizes, np.dtype(tensor.data_type.name.lower()))
            inputs.append(_padded(rng, np.frombuffer(values.tobytes(), np.uint8), tensor.total_bytes))
        buffer = rng.integers(0, 256, desc.tensor("output_tensor").total_bytes, np.uint8)
        dg.compile(desc, device, level).run_buffers(*inputs, out=buffer)
    return buffer


def _padded(rng: np.random.Generator, content: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    found = rng.integers(0, 256, max(size, content.size), np.uint8)
    found[: content.size] = content
    return found


def _converted(indices: NDArray[Any], sizes: NDArray[np.int64], kind: np.dtype[Any]) -> NDArray[Any]:
    """Indices of the described type; for an unsigned one, negative values moved into range first."""
    values = indices.astype(np.int64)
    if kind.kind == "u":
        values = np.where(values < 0, values + sizes, values)
    assert values.size == 0 or values.min() >= np.iinfo(kind).min
    return values.astype(kind)
