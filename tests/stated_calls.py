"""Calls of all public functions that move elements, with the arrays that their problems read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import dmlgather as dg

X = np.arange(1, 13, dtype=np.int32).reshape(3, 4)
CHANNELS = np.arange(64, dtype=np.int32).reshape(2, 4, 2, 4)

TORCH = ("int32", "int64")
ALL = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


@dataclass(frozen=True)
class Looking:
    """Calls of a function with an index `i` of one element into a dimension of `size`.

    `arguments`: the arguments of the call. `read`: the arrays that its problem reads, packed.
    """

    function: Any
    arguments: Callable[[Any], tuple[Any, ...]]
    read: Callable[[Any], tuple[Any, Any]]
    size: int
    types: Sequence[str]
    keywords: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        module = getattr(self.function, "__module__", "dmlgather.numpy").split(".")[1]
        return f"{module} {getattr(self.function, '__name__', 'index')} {dict(self.keywords) or ''}{self.size}".strip()


def indices(size: int, dtype: str) -> list[Any]:
    """Return first and last indices, the limits of wrapping with their neighbours, multiples of the size, and extremes."""
    info = np.iinfo(dtype)
    values = {0, 1, size - 1, size, -1, -size, -size - 1, 2 * size + 1, -2 * size - 1, 2**32 + 1, int(info.min), int(info.max)}
    return [np.array([value], dtype) for value in sorted(values) if info.min <= value <= info.max]


def _rows(i: Any) -> tuple[Any, Any]:
    return X, i


def _gather(mode: str) -> Looking:
    numbers = dg.lax.GatherDimensionNumbers((0,), (1,), (1,))
    return Looking(
        dg.lax.gather,
        lambda i: (X, i[:, None], numbers, (3, 1)),
        lambda i: (X, i[:, None]),
        *(4, ALL, {"mode": mode, "fill_value": 77}),
    )


def _openvino(version: int) -> Looking:
    return Looking(dg.openvino.gather, lambda i: (X, i, 1), _rows, 4, ALL, {"version": version})


_PORTS = "<input><port id='0'/><port id='1'/><port id='2'/></input><output><port id='3'/></output>"
_LAYER = f"<layer type='Gather' version='opset7'>{_PORTS}</layer>"

LOOKING = (
    Looking(dg.torch.index_select, lambda i: (X, 1, i), _rows, 4, TORCH),
    Looking(dg.torch.gather, lambda i: (X, 1, i[None]), lambda i: (X, i[None]), 4, TORCH),
    Looking(dg.torch.take, lambda i: (X, i), _rows, 12, ("int64",)),
    Looking(dg.torch.take_along_dim, lambda i: (X, i[None], 1), lambda i: (X, i[None]), 4, ("int64",)),
    Looking(dg.torch.take_along_dim, lambda i: (X, i), _rows, 12, TORCH),
    Looking(dg.torch.embedding, lambda i: (i, X), _rows, 3, TORCH),
    Looking(dg.torch.index, lambda i: (X, (slice(None), i)), _rows, 4, TORCH),
    Looking(dg.torch.index, lambda i: (X, (i, i)), lambda i: (X, np.stack([i, i], -1)), 3, TORCH),
    *map(_gather, ("clip", "fill", "drop", "promise_in_bounds")),
    Looking(dg.onnx.gather, lambda i: (X, i, 1), _rows, 4, TORCH),
    Looking(dg.onnx.gather_elements, lambda i: (X, i[None], 1), lambda i: (X, i[None]), 4, TORCH),
    Looking(dg.onnx.gather_nd, lambda i: (X, i[:, None]), lambda i: (X, i[:, None]), 3, ("int64",)),
    *map(_openvino, (1, 7, 8)),
    Looking(dg.openvino.run_layer, lambda i: (_LAYER, X, i, 1), _rows, 4, ALL),
    Looking(dg.openvino.gather_elements, lambda i: (X[:1], i[None], 1), lambda i: (X[:1], i[None]), 4, TORCH),
    Looking(dg.openvino.gather_nd, lambda i: (X, i[:, None]), lambda i: (X, i[:, None]), 3, ALL),
)

WITHOUT: Sequence[tuple[Any, tuple[Any, ...]]] = (
    (dg.torch.as_strided, (X, (2, 3), (4, 2), 1)),
    (dg.torch.chunk, (X, 3, 1)),
    (dg.torch.diagonal, (X, -1)),
    (dg.torch.expand, (X, (2, -1, -1))),
    (dg.torch.flip, (X, (0, 1))),
    (dg.torch.index, (X, np.s_[-2:, None, ::2])),
    (dg.torch.narrow, (X, 1, -3, 2)),
    (dg.torch.permute, (X, (1, 0))),
    (dg.torch.pixel_shuffle, (CHANNELS, 2)),
    (dg.torch.pixel_unshuffle, (CHANNELS, 2)),
    (dg.torch.roll, (X, (1, -1), (0, 1))),
    (dg.torch.roll, (X, 5)),
    (dg.torch.select, (X, 1, -1)),
    (dg.torch.slice, (X, 1, -3, 9, 2)),
    (dg.torch.split, (X, [1, 3], 1)),
    (dg.torch.tensor_split, (X, (1, -1), 1)),
    (dg.torch.transpose, (X, 0, 1)),
    (dg.torch.unfold, (X, 1, 3, 1)),
    (dg.onnx.depth_to_space, (CHANNELS, 2)),
    (dg.onnx.space_to_depth, (CHANNELS, 2)),
    (dg.onnx.slice, (X, [-1, 9], [-9, -9], [0, 1], [-1, -2])),
    (dg.openvino.slice, (X, [-1, 9], [-9, -9], [-1, -2])),
    (dg.openvino.strided_slice, (X, [-1, 9], [-9, -9], [-1, -2])),
)
"""Functions without an index, with arguments."""
