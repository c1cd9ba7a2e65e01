"""The contenders besides peers: dmlgather's operator, a copy as the limit of the memory, and an empty launch."""

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
    """The compiled operator and its bound call, with DirectML's policy for indices out of range."""
    compiled = prepare(data.descriptor, device=stage.device)
    bound = compiled.bind(*data.inputs, out=data.described_out)
    run: Callable[[], Any] = bound if stage.stream is None else lambda: bound(stage.stream)
    return compiled, Contender("dmlgather", "ours", "op.bind(x, i, out=out)()", run)


def chain(data: WorkloadArrays, stage: Stage) -> tuple[IndexPlan, Contender, Contender]:
    """The plan of a chain, and its calls: fused, and each step a launch into memory of its own. Reshapes are views there."""
    kind = data.kind
    assert isinstance(kind, Chain)
    stated = (kind.shape, data.dtype)
    fused = kind.expression.fused(stated)
    (launch,) = fused.launches
    given = () if data.index is None else (data.index,)
    steps: list[tuple[Problem, Fused | None, Array]] = []
    for problem in kind.expression.problems(stated):
        view = isinstance(problem, ReshapeView)
        made = None if view else data.library.empty(problem.output.shape, data.dtype)
        steps.append((problem, None if view else fuse(problem), made))
    steps[-1] = (*steps[-1][:2], data.out)

    def run() -> Array:
        value = data.x
        for problem, step, made in steps:
            if step is None:
                value = value.reshape(problem.output.shape)
            else:
                value = step(value, *(given if problem.lookup_axes else ()), out=made, stream=stage.stream)
        return value

    steps_text, arguments = f"dg.index{kind.steps[1:]}", "x, i" if given else "x"
    whole = Contender(
        "dmlgather",
        "ours",
        f"{steps_text}.fused(x)({arguments}, out=out)",
        lambda: fused(data.x, *given, out=data.out, stream=stage.stream),
    )
    return launch.plan, whole, Contender("dmlgather", "unfused", f"the steps of {steps_text}, one by one", run)


def distributed(data: WorkloadArrays) -> tuple[Any, tuple[Contender, ...]]:
    """Rows of a table in a file as a dask array, with DirectML's policy, and the ways to fetch them.

    With `compute`, one worker concatenates all blocks and sends the result; separate blocks come from the workers that have them.
    """
    import dask

    from dmlgather.distributed import gather

    lazy = functools.partial(gather, str(data.file), data.index)
    ways: tuple[tuple[str, Callable[[], Any]], ...] = (
        ("np.concatenate(dask.compute(*gather(file, i).to_delayed().flat))",
         lambda: np.concatenate(dask.compute(*lazy().to_delayed().flat))),
        ("gather(file, i).compute()", lambda: lazy().compute()),
    )  # fmt: skip
    return lazy(), tuple(Contender("dmlgather", "ours", text, run, preallocated=False) for text, run in ways)


def checked(compiled: CompiledOperator, data: WorkloadArrays) -> Contender:
    """The operator called with arrays, which it checks in each call."""
    arrays, out = data.inputs, data.described_out
    return Contender("dmlgather", "checked", "op(x, i, out=out)", lambda: compiled(*arrays, out=out))


def copies(data: WorkloadArrays, stage: Stage) -> Iterator[Contender]:
    """Copies of as many bytes as the output has, on the stage's device."""
    target = data.out.reshape(-1)
    if stage.device == "cuda":
        yield from _device_copies(data.library, data.library.empty(target.shape, target.dtype), target, stage)
        return
    source = np.ones_like(target)
    yield Contender("copy", "copy", "np.copyto, 1 thread", lambda: np.copyto(target, source))
    if stage.threads > 1:
        yield Contender("copy", "copy", f"np.copyto, {stage.threads} threads", _shared_copy(source, target, stage.threads))


def empty_launch(cupy: Any) -> Contender:
    """An empty kernel: the time that CuPy and the driver take for any launch."""
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
        wide = [array.view("u1").view("c16") for array in (source, target)]  # 16 bytes per thread
        kernel = cupy.ElementwiseKernel("T x", "T y", "y = x", "copy_elements")
        yield Contender("copy", "copy", "ElementwiseKernel, 16 bytes a thread", lambda: kernel(*wide))
