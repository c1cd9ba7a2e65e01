"""JAX: compiled once per problem; results are always new arrays."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dmlgather.bench.errors import CannotSayError
from dmlgather.bench.kinds import Along, Take, Tuples, View
from dmlgather.bench.peers.peer import Peer, Spelling, Stage
from dmlgather.bench.problem import Array, Problem


class JaxPeer(Peer):
    """XLA's thread pool has as many threads as the process may use CPUs. On a GPU it has streams of its own."""

    name, packages, devices = "jax", ("jax",), ("cpu", "cuda")
    bounds = "mode='clip' clamps"
    own_clock = True

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        import jax

        self._jax = jax
        try:
            self._device = jax.devices(stage.device)[0]
        except RuntimeError as error:
            raise CannotSayError(f"JAX has no {stage.device} device: {str(error).splitlines()[0]}") from None

    def take(self, problem: Problem, kind: Take, /) -> Iterator[Spelling]:
        """jnp.take."""
        numpy = self._jax.numpy
        yield self._compiled(
            f"jit(jnp.take)(x, i, axis={kind.axis}, mode='clip')",
            lambda x, i: numpy.take(x, i, axis=kind.axis, mode="clip"), problem.x, problem.index,
        )  # fmt: skip

    def along(self, problem: Problem, kind: Along, /) -> Iterator[Spelling]:
        """jnp.take_along_axis."""
        numpy = self._jax.numpy
        yield self._compiled(
            f"jit(jnp.take_along_axis)(x, i, {kind.axis}, mode='clip')",
            lambda x, i: numpy.take_along_axis(x, i, kind.axis, mode="clip"), problem.x, problem.index,
        )  # fmt: skip

    def tuples(self, problem: Problem, kind: Tuples, /) -> Iterator[Spelling]:
        """Indexing."""
        yield self._compiled(
            "jit(lambda x, i: x.at[tuple(i.T)].get(mode='clip'))",
            lambda x, i: x.at[tuple(i[:, place] for place in range(kind.width))].get(mode="clip"), problem.x, problem.index,
        )  # fmt: skip

    def view(self, problem: Problem, kind: View, /) -> Iterator[Spelling]:
        """Slices and transpositions of packed arrays."""
        order = kind.order
        if order is None:
            raise CannotSayError("JAX has no strided views")
        back = tuple(int(axis) for axis in np.argsort(order))
        stored = problem.base.reshape([kind.shape[axis] for axis in order])
        text = "x[…]" if back == tuple(range(len(back))) else f"x.transpose({back})"
        yield self._compiled(f"jit(lambda x: {text})", lambda x: x.transpose(back)[kind.slices], stored)

    def array(self, result: Any) -> Array:
        """A copy on the host; the same memory on a GPU."""
        if self.stage.device == "cpu":
            return np.asarray(result)
        import cupy

        return cupy.from_dlpack(result)

    def _compiled(self, text: str, function: Callable[..., Any], *arrays: Array) -> Spelling:
        with self._jax.enable_x64(True):
            placed = [self._placed(array) for array in arrays]
            compiled = self._jax.jit(function).lower(*placed).compile()
        return Spelling(text, lambda: compiled(*placed).block_until_ready(), preallocated=False)

    def _placed(self, array: Array) -> Any:
        if self.stage.device == "cpu":
            return self._jax.device_put(array, self._device)
        return self._jax.dlpack.from_dlpack(array)
