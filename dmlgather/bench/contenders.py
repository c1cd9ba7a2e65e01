"""What every case has besides peers: the operator, the memory's limit, and the cost of a launch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from dmlgather.bench.clocks import Contender
from dmlgather.bench.peers import Stage
from dmlgather.bench.problem import Array, Problem
from dmlgather.operator import CompiledOperator
from dmlgather.operator import compile as prepare


def operator(problem: Problem, stage: Stage) -> tuple[CompiledOperator, Contender]:
    """The compiled operator and its bound call, with DirectML's own policy."""
    compiled = prepare(problem.descriptor, device=stage.device)
    bound = compiled.bind(*problem.inputs, out=problem.described_out)
    run: Callable[[], Any] = bound if stage.stream is None else lambda: bound(stage.stream)
    return compiled, Contender("dmlgather", "ours", "op.bind(x, i, out=out)()", run)


def distributed(problem: Problem) -> tuple[Any, tuple[Contender, ...]]:
    """Rows of a table in a file as a dask array, with DirectML's own policy, and the ways to bring them to the caller.

    `compute` has one worker put all blocks together before they are sent; blocks asked for as such come from who has them.
    """
    import dask

    from dmlgather.distributed import gather

    lazy = functools.partial(gather, str(problem.file), problem.index)
    said: tuple[tuple[str, Callable[[], Any]], ...] = (
        ("np.concatenate(dask.compute(*gather(file, i).to_delayed().flat))",
         lambda: np.concatenate(dask.compute(*lazy().to_delayed().flat))),
        ("gather(file, i).compute()", lambda: lazy().compute()),
    )  # fmt: skip
    return lazy(), tuple(Contender("dmlgather", "ours", text, run, preallocated=False) for text, run in said)


def checked(compiled: CompiledOperator, problem: Problem) -> Contender:
    """The operator called with arrays, which it checks each time."""
    arrays, out = problem.inputs, problem.described_out
    return Contender("dmlgather", "checked", "op(x, i, out=out)", lambda: compiled(*arrays, out=out))


def copies(problem: Problem, stage: Stage) -> Iterator[Contender]:
    """Copies of as many bytes as the output has, on the stage's device."""
    target = problem.out.reshape(-1)
    if stage.device == "cuda":
        yield from _device_copies(problem.library, problem.library.empty(target.shape, target.dtype), target, stage)
        return
    source = np.ones_like(target)
    yield Contender("copy", "copy", "np.copyto, 1 thread", lambda: np.copyto(target, source))
    if stage.threads > 1:
        yield Contender("copy", "copy", f"np.copyto, {stage.threads} threads", _shared_copy(source, target, stage.threads))


def empty_launch(cupy: Any) -> Contender:
    """A kernel without content: what CuPy and the driver need for any launch."""
    kernel = cupy.RawKernel('extern "C" __global__ void empty() {}', "empty")
    return Contender("empty kernel", "launch", "cupy.RawKernel", lambda: kernel((1,), (256,), ()))


def _shared_copy(source: Array, target: Array, threads: int) -> Callable[[], None]:
    parts = list(zip(np.array_split(source, threads), np.array_split(target, threads), strict=True))
    pool = _pool(threads - 1)

    def run() -> None:
        others = [pool.submit(np.copyto, to, part) for part, to in parts[1:]]
        np.copyto(parts[0][1], parts[0][0])
        for other in others:
            other.result()

    return run


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads)


def _device_copies(cupy: Any, source: Array, target: Array, stage: Stage) -> Iterator[Contender]:
    runtime, count, stream = cupy.cuda.runtime, target.nbytes, stage.stream.ptr
    addresses = target.data.ptr, source.data.ptr
    yield Contender(
        "copy", "copy", "cudaMemcpyAsync",
        lambda: runtime.memcpyAsync(*addresses, count, runtime.memcpyDeviceToDevice, stream),
    )  # fmt: skip
    if count % 16 == 0:
        wide = [array.view("u1").view("c16") for array in (source, target)]  # 16 bytes a thread
        kernel = cupy.ElementwiseKernel("T x", "T y", "y = x", "copy_elements")
        yield Contender("copy", "copy", "ElementwiseKernel, 16 bytes a thread", lambda: kernel(*wide))
