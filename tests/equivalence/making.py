"""Graphs of a few lines: a function takes a builder and the names of its inputs, and returns the names of its outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.dialects.index_graph import IndexGraph
from dmlgather.dialects.problem import TensorType
from dmlgather.dialects.views import SliceView
from dmlgather.dialects.windows import Window
from dmlgather.lax.problems.gather import GatherDimensionNumbers, LaxGather
from dmlgather.onnx.problems.gather import Gather, GatherND
from dmlgather.plan import OutOfBounds

Program = Callable[..., str | Sequence[str]]


def typed(*shape: int, dtype: str = "float32") -> TensorType:
    return TensorType(shape, np.dtype(dtype))


def ids(*shape: int, dtype: str = "int64") -> TensorType:
    return typed(*shape, dtype=dtype)


def graph(program: Program, *types: TensorType, names: Sequence[str] = ("x", "i", "j", "k")) -> IndexGraph:
    """The graph of a program on inputs of these types."""
    builder = GraphBuilder()
    found = program(builder, *(builder.input(name, kind) for name, kind in zip(names, types, strict=False)))
    return builder.build([found] if isinstance(found, str) else found)


def take(b: GraphBuilder, x: str, i: str, axis: int = 0) -> str:
    """ONNX's Gather, which wraps negative indices once and raises for others."""
    return b.problem("take", Gather(b.types[x], b.types[i], axis), x, i)


def take_nd(b: GraphBuilder, x: str, i: str) -> str:
    return b.problem("take nd", GatherND(b.types[x], b.types[i]), x, i)


def lax_take(b: GraphBuilder, x: str, i: str, axis: int = 0, fill: object = None) -> str:
    """JAX's gather along an axis: clips, or fills."""
    data, shape = b.types[x], b.types[i].shape
    i = b.reshaped("tuples", i, (*shape, 1))
    rank = data.rank + len(shape) - 1
    window = tuple(k for k in range(rank) if not axis <= k < axis + len(shape))
    sizes = tuple(1 if k == axis else size for k, size in enumerate(data.shape))
    numbers = GatherDimensionNumbers(window, (axis,), (axis,))
    filled = b"" if fill is None else np.array(fill, data.dtype).tobytes()
    policy = OutOfBounds.FILL if filled else OutOfBounds.CLAMP
    return b.problem("lax take", LaxGather(data, b.types[i], numbers, sizes, policy, filled), x, i)


def cut(b: GraphBuilder, x: str, *windows: tuple[int, int, int]) -> str:
    """Windows (start, count, step)."""
    return b.problem("cut", SliceView(b.types[x], tuple(Window(*each) for each in windows)), x)


def number(b: GraphBuilder, value: Any, dtype: str = "int64") -> str:
    return b.constant(np.array(value, dtype))


def do(b: GraphBuilder, operator: str, *operands: str, dtype: str = "") -> str:
    """Arithmetic, of the type of the last operand unless another one is named."""
    return b.elementwise(operator, operator, dtype or b.types[operands[-1]].dtype, *operands)


def clipped(b: GraphBuilder, i: str, low: Any, high: Any) -> str:
    dtype = str(b.types[i].dtype)
    return do(b, "minimum", do(b, "maximum", i, number(b, low, dtype)), number(b, high, dtype))


def wrapped(b: GraphBuilder, i: str, size: Any) -> str:
    dtype = str(b.types[i].dtype)
    negative = do(b, "less", i, number(b, 0, dtype), dtype="bool")
    return do(b, "where", negative, do(b, "add", i, number(b, size, dtype)), i)


def other(b: GraphBuilder, x: str, operator: str = "relu") -> str:
    """An operator that is not looked into."""
    return b.opaque(operator, operator, [x], [b.types[x]])[0]
