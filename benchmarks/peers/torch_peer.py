"""PyTorch: index_select, gather, indexing, copies of views."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.chains import Chain
from benchmarks.errors import UnsupportedWorkloadError
from benchmarks.kinds import ALL, BACK, Along, Take, Tuples, ViewCopy
from benchmarks.peers.peer import Peer, Spelling, Stage
from benchmarks.workload_arrays import Array, WorkloadArrays


class TorchPeer(Peer):
    """PyTorch on the CPU with the stage's threads, or on the stage's stream of a GPU."""

    name, packages, devices = "torch", ("torch",), ("cpu", "cuda")
    bounds = "checked: an error on the CPU, a device-side assertion on a GPU; indexing resolves negative indices"

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        import torch

        self._torch = torch
        torch.set_num_threads(stage.threads)
        if stage.device == "cuda":
            if not torch.cuda.is_available():
                raise UnsupportedWorkloadError("torch finds no CUDA device (it is a CPU build, or the driver is too old)")
            torch.cuda.set_stream(torch.cuda.ExternalStream(stage.stream.ptr))

    def take(self, data: WorkloadArrays, kind: Take, /) -> Iterator[Spelling]:
        torch, axis, shape = self._torch, kind.axis, kind.out_shape
        x, i, out = self._tensor(data.x), self._tensor(data.index), self._tensor(data.out)
        spread = i.reshape([-1 if place == axis else 1 for place in range(len(shape))]).expand(shape)
        place = (*[slice(None)] * axis, i)
        yield Spelling(f"torch.index_select(x, {axis}, i, out=out)", lambda: torch.index_select(x, axis, i, out=out))
        yield Spelling(f"torch.gather(x, {axis}, i.expand(…), out=out)", lambda: torch.gather(x, axis, spread, out=out))
        yield Spelling(f"x[{':, ' * axis}i]", lambda: x[place], preallocated=False)

    def along(self, data: WorkloadArrays, kind: Along, /) -> Iterator[Spelling]:
        gather, axis = self._torch.gather, kind.axis
        x, i, out = self._tensor(data.x), self._tensor(data.index), self._tensor(data.out)
        yield Spelling(f"torch.gather(x, {axis}, i, out=out)", lambda: gather(x, axis, i, out=out))

    def tuples(self, data: WorkloadArrays, kind: Tuples, /) -> Iterator[Spelling]:
        select, width = self._torch.index_select, kind.width
        x, i, out = self._tensor(data.x), self._tensor(data.index), self._tensor(data.out)
        coordinates = i.unbind(-1)
        yield Spelling("x[i.unbind(-1)]", lambda: x[coordinates], preallocated=False)
        if width == 2:
            rows, columns = x.flatten(0, 1), x.shape[1]
            yield Spelling(
                "torch.index_select(x.flatten(0, 1), 0, i0 * columns + i1, out=out)",
                lambda: select(rows, 0, coordinates[0] * columns + coordinates[1], out=out),
            )

    def view(self, data: WorkloadArrays, kind: ViewCopy, /) -> Iterator[Spelling]:
        flip, out = self._torch.flip, self._tensor(data.out)
        base = self._tensor(data.base)
        x = base.reshape(kind.shape) if kind.strides is None else base.as_strided(kind.shape, kind.strides)
        reversed_axes = [axis for axis, part in enumerate(kind.ranges) if part.step < 0]
        if not reversed_axes:
            view = x[kind.slices]
            yield Spelling("out.copy_(x[…])", lambda: out.copy_(view))
        elif all(part in (ALL, BACK) for part in kind.slices):
            # torch has no negative strides; flip makes a new tensor
            yield Spelling(f"torch.flip(x, {reversed_axes})", lambda: flip(x, reversed_axes), preallocated=False)
        else:
            raise UnsupportedWorkloadError("torch slices take no negative step")

    def chain(self, data: WorkloadArrays, kind: Chain, /) -> Iterator[Spelling]:
        x, out = self._tensor(data.x), self._tensor(data.out)
        i = None if data.index is None else self._tensor(data.index)
        text = kind.in_torch or kind.steps
        steps = compile(text, "<chain>", "eval")
        yield Spelling(f"out.copy_({text})", lambda: out.copy_(kind.applied(steps, x, i)))

    def array(self, result: Any) -> Array:
        if self.stage.device == "cpu":
            return result.numpy()
        import cupy

        return cupy.from_dlpack(result)

    def _tensor(self, array: Array) -> Any:
        convert: Callable[[Array], Any] = self._torch.from_numpy if self.stage.device == "cpu" else self._torch.from_dlpack
        return convert(array)
