"""Contenders besides the peers: dmlgather's operator, memory copies, and an empty launch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from benchmarks.chains import Chain
from benchmarks.clocks import Contender
from benchmarks.peers import Stage
from benchmarks.workload_arrays import Array, WorkloadArrays
from dmlgather.calls.operator import CompiledOperator
from dmlgather.calls.operator import compile as prepare
from dmlgather.dialects.problem import Problem
from dmlgather.dialects.views import ReshapeView
from dmlgather.fusion import Fused, fuse
from dmlgather.plan import IndexPlan


def operator(data: WorkloadArrays, stage: Stage) -> tuple[CompiledOperator, Contender]:
    """Return the compiled operator and its bound call."""
    compiled = prepare(data.descriptor, device=stage.device)
    bound = compiled.bind(*data.inputs, out=data.described_out)
    run: Callable[[], Any] = bound if stage.stream is None else lambda: bound(stage.stream)
    return compiled, Contender("dmlgather", "ours", "op.bind(x, i, out=out)()", run)


def chain(data: WorkloadArrays, stage: Stage) -> tuple[IndexPlan, Contender, Contender]:
    """Return a chain's plan, its fused call, and its unfused call.

    The unfused call has one launch per step, each into its own memory. Its reshapes are views.
    """
    kind = data.kind
    assert isinstance(kind, Chain)
    stated = (kind.shape, data.dtype)
    fused = kind.expression.fused(stated)
    (launch,) = fused.launches
    indices = () if data.index is None else (data.index,)
    steps: list[tuple[Problem, Fused | None, Array]] = []
    for problem in kind.expression.problems(stated):
        view = isinstance(problem, ReshapeView)
        out = None if view else data.library.empty(problem.output.shape, data.dtype)
        steps.append((problem, None if view else fuse(problem), out))
    steps[-1] = (*steps[-1][:2], data.out)

    def run() -> Array:
        value = data.x
        for problem, step, out in steps:
            if step is None:
                value = value.reshape(problem.output.shape)
            else:
                value = step(value, *(indices if problem.lookup_axes else ()), out=out, stream=stage.stream)
        return value

    steps_text, arguments = f"dg.index{kind.steps[1:]}", "x, i" if indices else "x"
    whole = Contender(
        "dmlgather",
        "ours",
        f"{steps_text}.fused(x)({arguments}, out=out)",
        lambda: fused(data.x, *indices, out=data.out, stream=stage.stream),
    )
    return launch.plan, whole, Contender("dmlgather", "unfused", f"the steps of {steps_text}, one by one", run)


def distributed(data: WorkloadArrays) -> tuple[Any, tuple[Contender, ...]]:
    """Return the rows of a table in a file as a dask array, and the calls that fetch them.

    With `compute`, one worker concatenates all blocks and sends the result. With separate blocks, each worker sends its own.
    """
    import dask

    from dmlgather.distributed import gather

    lazy = functools.partial(gather, str(data.file), data.index)
    calls: tuple[tuple[str, Callable[[], Any]], ...] = (
        ("np.concatenate(dask.compute(*gather(file, i).to_delayed().flat))",
         lambda: np.concatenate(dask.compute(*lazy().to_delayed().flat))),
        ("gather(file, i).compute()", lambda: lazy().compute()),
    )  # fmt: skip
    return lazy(), tuple(Contender("dmlgather", "ours", text, run, preallocated=False) for text, run in calls)


def checked(compiled: CompiledOperator, data: WorkloadArrays) -> Contender:
    """Return the call of the operator with arrays, which it checks each time."""
    arrays, out = data.inputs, data.described_out
    return Contender("dmlgather", "checked", "op(x, i, out=out)", lambda: compiled(*arrays, out=out))


def copies(data: WorkloadArrays, stage: Stage) -> Iterator[Contender]:
    """Yield copies of as many bytes as the output has."""
    target = data.out.reshape(-1)
    if stage.device == "cuda":
        yield from _device_copies(data.library, data.library.empty(target.shape, target.dtype), target, stage)
        return
    source = np.ones_like(target)
    yield Contender("copy", "copy", "np.copyto, 1 thread", lambda: np.copyto(target, source))
    if stage.threads > 1:
        yield Contender("copy", "copy", f"np.copyto, {stage.threads} threads", _threaded_copy(source, target, stage.threads))


def empty_launch(cupy: Any) -> Contender:
    """Return the launch of an empty kernel: the overhead of CuPy and the driver."""
    kernel = cupy.RawKernel('extern "C" __global__ void empty() {}', "empty")
    return Contender("empty kernel", "launch", "cupy.RawKernel", lambda: kernel((1,), (256,), ()))


def _threaded_copy(source: Array, target: Array, threads: int) -> Callable[[], None]:
    parts = list(zip(np.array_split(source, threads), np.array_split(target, threads), strict=True))
    pool = _pool(threads - 1)

    def run() -> None:
        futures = [pool.submit(np.copyto, to, part) for part, to in parts[1:]]
        np.copyto(parts[0][1], parts[0][0])
        for future in futures:
            future.result()

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
        wide = [array.view("u1").view("c16") for array in (source, target)]  # 16 bytes per thread
        kernel = cupy.ElementwiseKernel("T x", "T y", "y = x", "copy_elements")
        yield Contender("copy", "copy", "ElementwiseKernel, 16 bytes a thread", lambda: kernel(*wide))
