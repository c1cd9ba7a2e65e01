"""JAX: functions compiled once per workload. Results are always new arrays."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.chains import Chain
from benchmarks.errors import UnsupportedWorkloadError
from benchmarks.kinds import Along, Take, Tuples, ViewCopy
from benchmarks.peers.peer import Peer, Spelling, Stage
from benchmarks.workload_arrays import Array, WorkloadArrays


class JaxPeer(Peer):
    """JAX, with one thread per CPU in XLA's pool. On a GPU it creates its own streams."""

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
            raise UnsupportedWorkloadError(f"JAX has no {stage.device} device: {str(error).splitlines()[0]}") from None

    def take(self, data: WorkloadArrays, kind: Take, /) -> Iterator[Spelling]:
        numpy = self._jax.numpy
        yield self._compiled(
            f"jit(jnp.take)(x, i, axis={kind.axis}, mode='clip')",
            lambda x, i: numpy.take(x, i, axis=kind.axis, mode="clip"), data.x, data.index,
        )  # fmt: skip

    def along(self, data: WorkloadArrays, kind: Along, /) -> Iterator[Spelling]:
        numpy = self._jax.numpy
        yield self._compiled(
            f"jit(jnp.take_along_axis)(x, i, {kind.axis}, mode='clip')",
            lambda x, i: numpy.take_along_axis(x, i, kind.axis, mode="clip"), data.x, data.index,
        )  # fmt: skip

    def tuples(self, data: WorkloadArrays, kind: Tuples, /) -> Iterator[Spelling]:
        yield self._compiled(
            "jit(lambda x, i: x.at[tuple(i.T)].get(mode='clip'))",
            lambda x, i: x.at[tuple(i[:, place] for place in range(kind.width))].get(mode="clip"), data.x, data.index,
        )  # fmt: skip

    def view(self, data: WorkloadArrays, kind: ViewCopy, /) -> Iterator[Spelling]:
        order = kind.order
        if order is None:
            raise UnsupportedWorkloadError("JAX has no strided views")
        back = tuple(int(axis) for axis in np.argsort(order))
        packed = data.base.reshape([kind.shape[axis] for axis in order])
        text = "x[…]" if back == tuple(range(len(back))) else f"x.transpose({back})"
        yield self._compiled(f"jit(lambda x: {text})", lambda x: x.transpose(back)[kind.slices], packed)

    def chain(self, data: WorkloadArrays, kind: Chain, /) -> Iterator[Spelling]:
        inputs = [data.x] if data.index is None else [data.x, data.index]
        yield self._compiled(f"jit(lambda x, i: {kind.steps})", lambda x, i=None: kind.applied(kind.steps, x, i), *inputs)

    def array(self, result: Any) -> Array:
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
