"""Models of any size with their weights inside, and time and memory of checking models (`ci/heavy weights`)."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from tests.onnx_checking.modelling import HEAD, parsed
from tests.onnx_checking.wire import BYTES, varint

MEMORY = 300_000_000
"""Bytes that the command may take for a model of any size."""

SECONDS_LARGE, SECONDS_SMALL = 3.0, 5.0
"""For a model of 2 GB, and for 20 small ones."""

TABLES = 100
"""Tensors of a large model."""

WIDTH = 256
"""Floats in a row of a table."""


class Measured(NamedTuple):
    """seconds: from start to end. busy: seconds of CPU time, which other programs do not lengthen. memory: bytes, the sum of
    the most that each process held. output: both streams.
    """

    seconds: float
    busy: float
    memory: int
    output: str


def write_large(path: Path, size: int, *, random: bool = False) -> None:
    """A model of about `size` bytes: tables of floats, each with a Gather and a Slice. Their elements are zeros, which take no
    room on most disks, or random.
    """
    rows = size // (TABLES * WIDTH * 4)
    text = "".join(f"a{k} = Gather(W{k}, i) b{k} = Slice(W{k}, s, e)" for k in range(TABLES))
    model = parsed(f"{HEAD} agraph (int64[N] i) => (float[N,{WIDTH}] a0) <int64[1] s = {{1}}, int64[1] e = {{3}}> {{ {text} }}")
    tables = [TensorProto(name=f"W{k}", dims=[rows, WIDTH], data_type=TensorProto.FLOAT) for k in range(TABLES)]
    graph, elements = model.graph.SerializeToString(), rows * WIDTH * 4
    model.ClearField("graph")
    heads = [table.SerializeToString() + _head(TensorProto, "raw_data", elements) for table in tables]
    heads = [_head(onnx.GraphProto, "initializer", len(head) + elements) + head for head in heads]
    length = len(graph) + sum(map(len, heads)) + TABLES * elements
    numbers = np.random.default_rng(0)
    with path.open("wb") as file:
        file.write(model.SerializeToString() + _head(onnx.ModelProto, "graph", length) + graph)
        for head in heads:
            file.write(head)
            if random:
                file.write(numbers.bytes(elements))
            else:
                file.seek(elements, 1)
        file.truncate()


def _head(message: type, name: str, length: int) -> bytes:
    """Tag and length of a field."""
    number: int = message.DESCRIPTOR.fields_by_name[name].number  # type: ignore[attr-defined] # the stubs leave it out
    return varint(number << 3 | BYTES) + varint(length)


def write_small(folder: Path, count: int) -> None:
    """Models of 200 kB and a hundred nodes each."""
    weights = np.random.default_rng(0).random((12, 64, 64)).astype(np.float32)
    text = "h0 = Identity(X)" + "".join(
        f"m{k} = MatMul(h{k}, W{k}) t{k} = Shape(m{k}) d{k} = Gather(t{k}, one) q{k} = Div(d{k}, two) "
        f"u{k} = Unsqueeze(q{k}, zero) s{k} = Slice(m{k}, zero, u{k}, one1) "
        f"c{k} = Concat<axis = 1>(s{k}, s{k}) h{k + 1} = Relu(c{k})"
        for k in range(len(weights))
    )
    constants = "int64 one = {1}, int64 two = {2}, int64[1] zero = {0}, int64[1] one1 = {1}"
    model = parsed(f"{HEAD} agraph (float[N,64] X) => (float[N,64] h{len(weights)}) <{constants}> {{ {text} }}")
    model.graph.initializer.extend(numpy_helper.from_array(each, f"W{k}") for k, each in enumerate(weights))
    for number in range(count):
        onnx.save(model, folder / f"model{number}.onnx")


def measured(paths: Sequence[Path]) -> Measured:
    """What `dmlgather check` takes for these files. On Linux alone: it reads what the system says of processes."""
    command = [sys.executable, "-m", "dmlgather.cli", "check", "--no-config", *map(str, paths)]
    held: dict[int, int] = {}
    start, before = time.monotonic(), _busy()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
        while process.poll() is None:
            for found in _with_children(process.pid):
                held[found] = max(held.get(found, 0), _most_held(found))
            time.sleep(0.01)
        seconds = time.monotonic() - start
        output.seek(0)
        return Measured(seconds, _busy() - before, sum(held.values()), output.read().decode())


def _busy() -> float:
    """Seconds of CPU time that the children of this process took, and theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _with_children(process: int) -> list[int]:
    with suppress(OSError):
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
        return [process, *(one for child in children for one in _with_children(int(child)))]
    return []


def _most_held(process: int) -> int:
    """The most bytes of memory that a running process has held; 0 for one that has ended."""
    with suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def main() -> int:
    """Measure a model of 2 GB, of zeros and of random bytes, and 20 small ones; 1 where one of them takes too much."""
    failed = False
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "small").mkdir()
        write_small(folder / "small", 20)
        write_large(folder / "zeros.onnx", 2_000_000_000)
        write_large(folder / "random.onnx", 2_000_000_000, random=True)
        for path, most in (("zeros.onnx", SECONDS_LARGE), ("random.onnx", SECONDS_LARGE), ("small", SECONDS_SMALL)):
            took = measured([folder / path])
            failed |= took.busy > most or took.memory > MEMORY
            print(f"{path}: {took.busy:.2f} s of CPU time (at most {most:g}) in {took.seconds:.2f} s, ", end="")
            print(f"{took.memory // 10**6} MB (at most {MEMORY // 10**6})")
            print(f"  {took.output.splitlines()[-1]}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
