"""Functions that `jax.export` wrote are read as tracing the functions themselves does, or refused with the operation named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

import dmlgather as dg
from dmlgather.files import FileError
from dmlgather.lax.tracing.exported_files import graph_of

types: Any = jax.ShapeDtypeStruct
X, IDS = types((5, 4), np.float32), types((3,), np.int32)


def written(function: Callable[..., Any], *types: Any) -> bytes:
    return bytes(jax.export.export(jax.jit(function))(*types).serialize())


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "x[i]": lambda x, i: x[i],
    "x[:, i]": lambda x, i: x[:, i],
    "pairs": lambda x, i: x[i, i[::-1]],
    "fill": lambda x, i: x.at[i].get(mode="fill", fill_value=2.5),
    "fill of pairs": lambda x, i: x.at[i, i + 1].get(mode="fill", fill_value=0),
    "clip": lambda x, i: jnp.take(x, i, axis=1, mode="clip"),
    "along an axis": lambda x, i: jnp.take_along_axis(x, i[:, None], axis=0),
    "a dynamic slice": lambda x, i: jax.lax.dynamic_slice(x, (i[0], i[1]), (2, 2)),
    "slices": lambda x, i: (x[::-2, 1:3], i[1:]),
    "views": lambda x, i: (x.T.reshape(2, 10), jnp.broadcast_to(i[:, None], (3, 2))),
    "a concatenation": lambda x, i: jnp.concatenate([x[i], x[:1]], axis=0),
    "arithmetic": lambda x, i: x[(i * 2 - 3) % 5],
    "bounds": lambda x, i: x[jnp.minimum(jnp.maximum(-i, 0), 4)],
    "a clamp": lambda x, i: x[jax.lax.clamp(np.int32(0), i, np.int32(4))],
    "a choice": lambda x, i: x[jnp.where((i > 2) | ~(i != 1), 0, i)],
    "counted": lambda x, i: x[jnp.arange(3) + i],
    "known": lambda x, i: (x[np.array([3, 0, 3])], i),
    "another type": lambda x, i: x[i.astype(np.uint8)],
    "bits": lambda x, i: (jax.lax.bitcast_convert_type(x, np.int32)[i], i),
    "two calls": lambda x, i: jax.jit(jax.jit(lambda rows: rows[i]))(x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_file_means_what_the_function_does(name: str) -> None:
    function = FUNCTIONS[name]
    found = dg.equivalent(function, graph_of(written(function, X, IDS)), X, IDS)
    assert found, str(found)


def test_what_differs_is_found() -> None:
    """Each near miss of a function that is proven above."""
    misses: tuple[tuple[str, Callable[[Any, Any], Any]], ...] = (
        ("x[i]", lambda x, i: x.at[i].get(mode="fill", fill_value=0)),
        ("fill", lambda x, i: x.at[i].get(mode="fill", fill_value=2.25)),
        ("clip", lambda x, i: jnp.take(x, i, axis=1, mode="wrap")),
        ("arithmetic", lambda x, i: x[(i * 2 - 2) % 5]),
        ("a choice", lambda x, i: x[jnp.where((i >= 2) | ~(i != 1), 0, i)]),
        ("slices", lambda x, i: (x[::-2, :2], i[1:])),
        ("counted", lambda x, i: x[jnp.arange(3)[::-1] + i]),
    )
    for name, other in misses:
        found = dg.equivalent(FUNCTIONS[name], graph_of(written(other, X, IDS)), X, IDS)
        assert found.verdict == "different", (name, str(found))


def test_64_bits() -> None:
    wide = types((5,), np.float64), types((3,), np.int64)
    with jax.enable_x64(True):
        content = written(lambda x, i: x[jnp.clip(i, 0, 4)], *wide)
    graph = graph_of(content)
    assert [str(graph.types[name]) for name in graph.inputs] == ["float64 [5]", "int64 [3]"]


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x, _: jnp.exp(x), "has the operation stablehlo.exponential, which neither gathers, slices nor views"),
        (lambda x, i: x[jnp.cumsum(i)], "which neither gathers, slices nor views"),
        (lambda x, i: jnp.where(x > 0, x, 0)[i], "compares float32, which indexing does not need"),
        (lambda x, i: x[i + i.sum()], "stablehlo.reduce"),
        (lambda x, i: x[i.sort()], "stablehlo.sort"),
    ],
)
def test_other_operations_are_named(function: Callable[..., Any], words: str) -> None:
    with pytest.raises(FileError, match=words):
        graph_of(written(function, X, IDS))


def test_sizes_that_are_symbols_are_refused() -> None:
    (size,) = jax.export.symbolic_shape("n")
    content = written(lambda x: x[::-1], types((size,), np.float32))
    with pytest.raises(FileError, match="holds no function of known sizes"):
        graph_of(content)
