"""The arrays of a workload, on the host or on a GPU."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks.chains import Chain
from benchmarks.kinds import Kind, Take
from dmlgather.directml import OperatorDesc
from dmlgather.plan import reach

Array = Any
"""A NumPy or CuPy array."""

_BLOCK = 2**24
"""Number of elements of a file that are generated at a time."""


@dataclass(frozen=True)
class WorkloadArrays:
    """A kind of workload with an element type and arrays of one library.

    `base`: x's elements in memory order, shape [elements]. `index`: int64; None for views. `out`: packed; contenders write to
    it if they can. `file`: the .npy file that x maps, if any.
    """

    kind: Kind
    dtype: str
    library: ModuleType | Any
    base: Array
    index: Array | None
    out: Array
    file: Path | None = None

    @cached_property
    def x(self) -> Array:
        """The input, a view of `base`."""
        if self.kind.strides is None:
            return self.base.reshape(self.kind.shape)
        steps = tuple(step * self.base.itemsize for step in self.kind.strides)
        return self.library.lib.stride_tricks.as_strided(self.base, self.kind.shape, steps)

    @cached_property
    def descriptor(self) -> OperatorDesc:
        """The DirectML descriptor. Chains have none."""
        assert not isinstance(self.kind, Chain)
        return self.kind.descriptor(self.dtype)

    @property
    def inputs(self) -> tuple[Array, ...]:
        """Input arrays in the descriptor's order and shapes."""
        if self.index is None:
            return (self.x,)
        return self.x, self.index.reshape(self.descriptor.tensor("indices_tensor").sizes)

    @property
    def described_out(self) -> Array:
        """A view of `out` in the descriptor's shape."""
        return self.out.reshape(self.descriptor.tensor("output_tensor").sizes)

    def poison(self) -> None:
        """Fill `out` with bits that are unlikely in a result."""
        self.out.reshape(-1).view("u1")[...] = 0xA5

    def wait(self) -> None:
        """Wait for the GPU, if there is one."""
        if self.library is not np:
            self.library.cuda.runtime.deviceSynchronize()

    def moved(self, library: ModuleType | Any) -> WorkloadArrays:
        """Return copies in arrays of another library. The contents of `out` are not copied."""
        index = None if self.index is None else library.asarray(self.index)
        out = library.empty(self.kind.out_shape, self.dtype)
        return replace(self, library=library, base=library.asarray(self.base), index=index, out=out)


def make(kind: Kind, dtype: str, random: np.random.Generator) -> WorkloadArrays:
    """Return host arrays with random contents. Floats are finite, because some peers change the bits of a NaN."""
    elements = prod(kind.shape) if kind.strides is None else reach(kind.shape, kind.strides)[1] + 1
    base = contents(dtype, elements, random)
    return WorkloadArrays(kind, dtype, np, base, kind.indices(random), np.empty(kind.out_shape, dtype))


def stored(kind: Take, dtype: str, file: Path, random: np.random.Generator) -> WorkloadArrays:
    """Return arrays with random indices. Their x maps a .npy file of `write`."""
    base = np.load(file, mmap_mode="r").reshape(-1)
    return WorkloadArrays(kind, dtype, np, base, kind.indices(random), np.empty(kind.out_shape, dtype), file)


def write(file: Path, shape: tuple[int, ...], dtype: str, random: np.random.Generator) -> None:
    """Write a new .npy file with random contents, in blocks."""
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
    elements = prod(shape)
    with file.open("xb") as stream:
        np.lib.format.write_array_header_1_0(stream, header)
        for begin in range(0, elements, _BLOCK):
            stream.write(contents(dtype, min(_BLOCK, elements - begin), random).data)


def contents(dtype: str, elements: int, random: np.random.Generator) -> Array:
    """Return random elements. Floats are finite."""
    bits = np.dtype(dtype).itemsize * 8
    words = random.integers(0, 2**64, -(-elements * bits // 64), np.uint64)
    # Clear the highest exponent bit of each float: the mask for 32 bits is 0xbfffffff, repeated in the 64-bit word.
    if dtype.startswith("float"):
        words &= np.uint64(sum(((1 << bits) - 1 & ~(1 << bits - 2)) << place for place in range(0, 64, bits)))
    return words.view(dtype)[:elements]
