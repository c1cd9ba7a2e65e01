"""Random legal cases: descriptors with buffers for their inputs.

Random cases contain nothing that DirectML's documents leave open; the module `questions` has that. So indices are in range,
floating-point data are normal numbers (no NaN, no denormal), outputs are packed, only InputTensor has strides of 0, and only
InputTensor is OWNED_BY_DML.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from conformance.random_descriptors import MAKERS, random_sizes
from dmlgather.directml import BufferTensorDesc, DataType, FeatureLevel, OperatorDesc, TensorFlags, lower
from dmlgather.directml.dxdispatch.writing import count
from dmlgather.directml.elements import dtype_of
from dmlgather.directml.operators import operator_named
from dmlgather.directml.support import row_at
from dmlgather.plan import packed_strides

LARGER = (1, 1, 2, 3, 7, 17, 33, 129)
"""Sizes around multiples of a GPU's thread groups."""

_MANTISSA_BITS = {2: 10, 4: 23, 8: 52}


class RandomCase(NamedTuple):
    """A legal descriptor and a buffer per input tensor."""

    desc: OperatorDesc
    inputs: list[NDArray[Any]]


def random_cases(number: int, level: FeatureLevel, seed: int) -> Iterator[RandomCase]:
    """Yield `number` cases that are legal at `level`, of all operators in turn."""
    rng = random.Random(seed)
    operators = [name for name in MAKERS if operator_named(name).introduced <= level]
    for case_number in range(number):
        yield random_case(rng, operators[case_number % len(operators)], level)


def random_case(rng: random.Random, operator: str, level: FeatureLevel) -> RandomCase:
    """Return a case of one operator, such as "GATHER"."""
    tensors = _DocumentedTensors(rng, operator, level)
    row = row_at(operator, "InputTensor", level)
    assert row is not None
    desc = MAKERS[operator](rng, tensors, rng.choice(row.dimension_counts))
    numbers = np.random.default_rng(rng.getrandbits(64))
    tensor = desc.tensor
    inputs = [
        _indices(numbers, desc) if field == "indices_tensor" else _data(numbers, tensor(field)) for field in desc.operator.inputs
    ]
    return RandomCase(desc, inputs)


class _DocumentedTensors:
    """A TensorMaker for one descriptor, within DirectML's documents."""

    documented = True

    def __init__(self, rng: random.Random, operator: str, level: FeatureLevel) -> None:
        self.rng, self.larger = rng, rng.random() < 0.3
        rows = {tensor: row_at(operator, tensor, level) for tensor in ("InputTensor", "IndicesTensor")}
        self.types = {tensor: rng.choice(row.data_types) for tensor, row in rows.items() if row is not None}

    def sizes(self, count: int, room: int = 24) -> list[int]:
        return random_sizes(self.rng, count, room * 64, LARGER) if self.larger else random_sizes(self.rng, count, room)

    def data(self, of: Sequence[int]) -> BufferTensorDesc:
        owned = TensorFlags.OWNED_BY_DML if self.rng.random() < 0.05 else TensorFlags.NONE
        return self._tensor("InputTensor", of, self._strides(of, repeats=True), owned)

    def indices(self, of: Sequence[int]) -> BufferTensorDesc:
        return self._tensor("IndicesTensor", of, self._strides(of, repeats=False))

    def output(self, of: Sequence[int]) -> BufferTensorDesc:
        return self._tensor("InputTensor", of, self.rng.choice((None, list(packed_strides(of)))))

    def _tensor(
        self, kind: str, of: Sequence[int], strides: list[int] | None, flags: TensorFlags = TensorFlags.NONE
    ) -> BufferTensorDesc:
        tensor = BufferTensorDesc(data_type=self.types[kind], flags=flags, sizes=of, strides=strides)
        optional = {
            "total_tensor_size_in_bytes": self.rng.choice(
                (None, tensor.minimum_bytes, tensor.minimum_bytes + 4 * self.rng.randrange(9))
            ),
            "guaranteed_base_offset_alignment": self.rng.choice((0, 0, 16, 32, 256)),
        }
        return tensor.model_copy(update=optional)

    def _strides(self, of: Sequence[int], *, repeats: bool) -> list[int] | None:
        """Return None, or strides that permute the dimensions and leave gaps. `repeats`: True if some may be 0."""
        if self.rng.random() < 0.4:
            return None
        strides, step = [0] * len(of), 1
        for axis in self.rng.sample(range(len(of)), len(of)):
            if of[axis] == 1 or (repeats and self.rng.random() < 0.1):
                continue
            strides[axis] = step + self.rng.choice((0, 0, 0, 1, 2))
            step += strides[axis] * (of[axis] - 1)
        return strides


def _data(numbers: np.random.Generator, tensor: BufferTensorDesc) -> NDArray[Any]:
    """Return random bits. Floats are normal numbers."""
    dtype = dtype_of(tensor.data_type)
    data = np.frombuffer(numbers.bytes(count(tensor) * dtype.itemsize), dtype).copy()
    if dtype.kind == "f":
        # FLOAT16: shift 10, largest exponent 31. Exponents of 0 and 31 are replaced by 15, that of 1.0.
        bits, shift = data.view(f"u{dtype.itemsize}"), _MANTISSA_BITS[dtype.itemsize]
        largest = (1 << (8 * dtype.itemsize - 1 - shift)) - 1
        exponent = (bits >> shift) & largest
        special = (exponent == 0) | (exponent == largest)
        bits[special] = (bits[special] & ~bits.dtype.type(largest << shift)) | bits.dtype.type(largest // 2 << shift)
    return data


def _indices(numbers: np.random.Generator, desc: OperatorDesc) -> NDArray[Any]:
    """Return random indices in range, also negative ones if the type is signed. Elements between indices are 0 or -1."""
    plan, tensor, unread = lower(desc), desc.tensor("indices_tensor"), 2**32
    limits = np.full(count(tensor), unread)
    for lookup in plan.lookups:
        read = np.full(plan.shape, lookup.index_offset)
        for axis, step in enumerate(lookup.index_strides):
            read += np.arange(plan.shape[axis]).reshape(-1, *[1] * (len(plan.shape) - axis - 1)) * step
        limits[read] = np.minimum(limits[read], lookup.limit)
    limits[limits == unread] = 1
    lowest = -limits if tensor.data_type in (DataType.INT32, DataType.INT64) else np.zeros_like(limits)
    return numbers.integers(lowest, limits).astype(dtype_of(tensor.data_type))
