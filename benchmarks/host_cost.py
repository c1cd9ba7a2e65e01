"""Host time of calls: python benchmarks/host_cost.py [--gpu]

Each row has a call of dmlgather and, if there is one, the equivalent call of another library. The time ends when the call
returns. In host memory it includes the work, which is small: 8 rows of 256 bytes from a table of 1000 rows, or 128 rows in
comparisons with PyTorch and JAX, if these are installed.

With --gpu, CuPy's arrays follow, with 128 rows. Waiting for the GPU is not timed, except in calls that wait themselves. On the
simulated GPU under SIMCUDA_NULL=1, kernels do nothing, so that only host time remains.

Calls are timed in turns, in rounds of batches. The table has the median batch in microseconds, and the other library's time
divided by dmlgather's.
"""

from __future__ import annotations

import argparse
import itertools
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np

import dmlgather as dg
from dmlgather.backends.cpu.engine import load
from dmlgather.backends.cuda import DeviceError, require
from dmlgather.backends.cuda.families import launches_for
from dmlgather.backends.devices import processor

try:
    import cupy
except ImportError:
    cupy = None
try:
    import torch
except ImportError:
    torch = None
try:
    import jax
except ImportError:
    jax = None  # type: ignore[assignment]

ROWS, WIDTH, FEW, MANY = 1000, 64, 8, 128
ROUNDS, CALLS = 60, 300


@dataclass(frozen=True, slots=True)
class Row:
    """A call of dmlgather and an equivalent call of another library, with their texts in the table."""

    name: str
    call: Callable[[], Any]
    beside: str = ""
    theirs: Callable[[], Any] | None = None


def gather(count: int, policy: str = "clamp") -> dg.CompiledOperator:
    """Return an operator that gathers `count` rows."""
    desc = dg.GatherOperatorDesc.of(((ROWS, WIDTH), "float32"), ((count,), "int64"), axis=0)
    return dg.compile(desc, out_of_bounds=policy)


def host_arrays(count: int) -> tuple[Any, Any, Any]:
    """Return table, indices and output."""
    rng = np.random.default_rng(0)
    return rng.random((ROWS, WIDTH), np.float32), rng.integers(0, ROWS, count), np.zeros((count, WIDTH), np.float32)


def cut(x: Any, start: int, stop: int) -> Any:
    """Return a copy of rows."""
    return x[start:stop].copy()


def on_numpy() -> Iterator[Row]:
    """Yield the rows for NumPy's arrays."""
    x, i, y = host_arrays(FEW)
    for policy in ("clamp", "raise"):
        op = gather(FEW, policy)
        take = partial(np.take, x, i, axis=0, out=y, mode=policy.replace("clamp", "clip"))
        yield Row(f"NumPy, {policy}: op(x, i, out=y)", partial(op, x, i, out=y), "numpy.take(out=)", take)
        yield Row(f"NumPy, {policy}: bound()", op.bind(x, i, out=y))
    engine = load()
    if engine is not None:  # a bound call without a compiled operator
        plan = dg.canonicalise(dg.onnx.gather.plan(x, i, out_of_bounds="clamp"))
        yield Row("NumPy: the engine's bound call", engine.prepare(plan).bind(x, i, y))
    pairs, elements = i.reshape(-1, 1), np.repeat(i[:, None], WIDTH, axis=1)
    rows = dg.lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
    ours, theirs = (itertools.cycle([np.roll(i, row) for row in range(FEW)]) for _ in range(2))
    taken = partial(np.take, x, i, axis=0)
    along = partial(np.take_along_axis, x, elements, 0)
    yield Row("NumPy: onnx.gather(x, i)", partial(dg.onnx.gather, x, i), "numpy.take", taken)
    taking = partial(np.take, x, i, axis=0, out=y)
    yield Row("NumPy: onnx.gather(x, i, out=y)", partial(dg.onnx.gather, x, i, out=y), "numpy.take(out=)", taking)
    yield Row("NumPy: onnx.gather_nd(x, i)", partial(dg.onnx.gather_nd, x, pairs), "x[i]", lambda: x[i])
    yield Row("NumPy: onnx.gather_elements(x, i)", partial(dg.onnx.gather_elements, x, elements), "numpy.take_along_axis", along)
    yield Row("NumPy: onnx.slice(x, [0], [8])", partial(dg.onnx.slice, x, [0], [FEW]), "x[0:8].copy()", partial(cut, x, 0, FEW))
    yield Row("NumPy: openvino.gather(x, i, 0)", partial(dg.openvino.gather, x, i, 0), "numpy.take", taken)
    yield Row("NumPy: lax.gather(x, i, …)", partial(dg.lax.gather, x, pairs, rows, (1, WIDTH)), "numpy.take", taken)
    yield Row("NumPy: dg.index[ids](x), other ids each time", lambda: dg.index[next(ours)](x), "x[ids]", lambda: x[next(theirs)])


def on_torch() -> Iterator[Row]:
    """Yield the rows for PyTorch's tensors in host memory."""
    x, i, y = map(torch.from_numpy, host_arrays(MANY))
    op, theirs = gather(MANY), "torch.index_select"
    into, select = partial(torch.index_select, x, 0, i, out=y), partial(torch.index_select, x, 0, i)
    yield Row("PyTorch: op(x, i, out=y)", partial(op, x, i, out=y), f"{theirs}(out=)", into)
    yield Row("PyTorch: op(x, i)", partial(op, x, i), theirs, select)
    yield Row("PyTorch: dg.torch.index_select(x, 0, i)", partial(dg.torch.index_select, x, 0, i), theirs, select)


def on_jax() -> Iterator[Row]:
    """Yield the rows for JAX's arrays in host memory."""
    x, i, _ = host_arrays(MANY)
    data, ids = jax.numpy.asarray(x), jax.numpy.asarray(i.astype(np.int32))
    take = partial(jax.numpy.take, data, ids, axis=0)
    yield Row("JAX: onnx.gather(x, i, axis=0)", partial(dg.onnx.gather, data, ids, axis=0), "jax.numpy.take", take)


def planning() -> Iterator[Row]:
    """Yield the rows for planning a first CUDA call. Plans of many sizes take turns, so that no cache has them."""
    sizes = range(200_000, 200_032)
    plans = {
        "64 of 256 columns": [dg.onnx.gather.plan(((rows, 256), "float32"), ((64,), "int64"), axis=1) for rows in sizes],
        "a transpose": [dg.IndexPlan((100, rows), (rows, 1), (1, 100), 4, 100 * rows, 100 * rows) for rows in sizes],
    }
    for name, of_all_sizes in plans.items():
        cycle = itertools.cycle(of_all_sizes)
        yield Row(f"planning a first CUDA call: {name}", partial(lambda cycle: launches_for(next(cycle)), cycle))


def on_cupy() -> Iterator[Row]:
    """Yield the rows for CuPy's arrays."""
    x, i, y = map(cupy.asarray, host_arrays(MANY))
    empty = cupy.RawKernel('extern "C" __global__ void empty(const float* x, float* y) {}', "empty")
    nothing = partial(empty, (1,), (32,), (x, y))
    take, into = partial(cupy.take, x, i, axis=0), partial(cupy.take, x, i, axis=0, out=y)
    for policy in ("clamp", "raise"):
        op = gather(MANY, policy)
        addresses = [array.data.ptr for array in (x, i, y)]
        launch = partial(op.launch, *addresses, stream=cupy.cuda.get_current_stream().ptr, device="cuda")
        yield Row(f"CuPy, {policy}: op(x, i, out=y)", partial(op, x, i, out=y), "cupy.take(out=)", into)
        yield Row(f"CuPy, {policy}: op(x, i)", partial(op, x, i), "cupy.take", take)
        yield Row(f"CuPy, {policy}: bound()", op.bind(x, i, out=y), "an empty RawKernel", nothing)
        yield Row(f"CuPy, {policy}: op.launch(addresses)", launch, "an empty RawKernel", nothing)
    kept, chain = dg.index[i], dg.index[i][:, ::2]
    yield Row("CuPy: dg.index[i](x)", lambda: dg.index[i](x), "x[i]", lambda: x[i])
    yield Row("CuPy: a kept dg.index[i]", partial(kept, x), "x[i]", lambda: x[i])
    yield Row("CuPy: a kept dg.index[i][:, ::2]", partial(chain, x), "x[i][:, ::2]", lambda: x[i][:, ::2])
    yield Row("CuPy: onnx.gather(x, i, axis=0)", partial(dg.onnx.gather, x, i, axis=0), "cupy.take", take)
    yield Row("CuPy: onnx.gather(x, i, out=y)", partial(dg.onnx.gather, x, i, out=y), "cupy.take(out=)", into)
    yield Row("CuPy: onnx.slice(x, [1], [9])", partial(dg.onnx.slice, x, [1], [9]), "x[1:9].copy()", partial(cut, x, 1, 9))
    yield Row("CuPy: openvino.gather(x, i, 0)", partial(dg.openvino.gather, x, i, 0), "cupy.take", take)


def timed(rows: list[Row], wait: Callable[[], Any]) -> dict[str, tuple[float, float | None]]:
    """Return the median batch of each row, ours and theirs, in microseconds per call."""
    ours: dict[str, list[float]] = {row.name: [] for row in rows}
    theirs: dict[str, list[float]] = {row.name: [] for row in rows if row.theirs is not None}
    for number in range(ROUNDS + 1):
        for row in rows:
            for call, times in ((row.call, ours[row.name]), (row.theirs, theirs.get(row.name, []))):
                if call is not None:
                    start = time.perf_counter()
                    for _ in range(CALLS):
                        call()
                    took = time.perf_counter() - start
                    wait()
                    if number:  # the first round warms up
                        times.append(took / CALLS * 1e6)
    median = statistics.median
    return {name: (median(times), median(theirs[name]) if name in theirs else None) for name, times in ours.items()}


def machine(on_gpu: bool) -> str:
    """Return the processor and the versions of libraries."""
    libraries = ["numpy", *(name for name, module in (("torch", torch), ("jax", jax)) if module is not None)]
    parts = [processor(), f"Python {platform.python_version()}", *(f"{name} {version(name)}" for name in libraries)]
    if on_gpu:
        name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
        parts += [f"CuPy {cupy.__version__}", name]
    return ", ".join(parts)


def main() -> None:
    """Print the table as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", action="store_true", help="also on arrays of CuPy")
    on_gpu = parser.parse_args().gpu
    if on_gpu and cupy is None:
        parser.error("--gpu needs CuPy: the extra cuda12 or cuda13")
    if on_gpu:
        try:
            require(0)
        except DeviceError as error:
            parser.error(f"--gpu needs a GPU: {error}")
    rows = [*on_numpy()]
    rows += [] if torch is None else on_torch()
    rows += [] if jax is None else on_jax()
    rows += [*planning(), *(on_cupy() if on_gpu else ())]
    medians = timed(rows, cupy.cuda.runtime.deviceSynchronize if on_gpu else lambda: None)
    print(machine(on_gpu), end="\n\n")
    print("| call | µs | beside | µs | theirs by ours |\n| --- | ---: | --- | ---: | ---: |")
    for row in rows:
        ours, theirs = medians[row.name]
        beside = "| |" if theirs is None else f"{row.beside} | {theirs:.2f} | {theirs / ours:.2f}"
        print(f"| {row.name} | {ours:.2f} | {beside} |")


if __name__ == "__main__":
    main()
