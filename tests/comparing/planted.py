"""Outputs that are wrong in a known way, each made by NumPy alone, which judges what `compare` says of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dmlgather as dg

TYPES = ("float16", "float32", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")

Array = NDArray[Any]


@dataclass(frozen=True)
class Planted:
    """A fault. words: what is said of it; wrong: the output, of the described Sizes. buffers: whether inputs are buffers."""

    desc: Any
    inputs: tuple[Array, ...]
    wrong: Array
    words: str
    out_of_bounds: Any = None
    buffers: bool = False


def table(rng: np.random.Generator, *sizes: int) -> Array:
    """A tensor of random bits, of a random type; one in five has few distinct elements, which hardly say where they come from."""
    kind = np.dtype(rng.choice(TYPES))
    found: Array = np.frombuffer(rng.bytes(int(np.prod(sizes)) * kind.itemsize), kind).reshape(sizes)
    few: Array = found.reshape(-1)[rng.integers(0, 3, sizes)]
    return found if rng.random() < 0.8 else few


def sizes_of(rng: np.random.Generator, rank: int, least: int = 2) -> list[int]:
    """Random sizes, at least 64 elements."""
    found = [int(each) for each in rng.integers(least, 7, rank)]
    found[int(rng.integers(rank))] += 64 // int(np.prod(found))
    return found


def ids(rng: np.random.Generator, size: int, shape: Any, outside: int = 0, signed: bool = True) -> Array:
    """Random indices, negative ones among them. outside: how far some lie out of range."""
    kind = rng.choice(("int32", "int64") if signed else ("uint32", "uint64"))
    found: Array = rng.integers(-size - outside if signed else 0, size + outside, shape).astype(kind)
    return found


def resolved(index: Array, size: int, signed_wrap: bool = True) -> Array:
    """Positions as DirectML documents them: counted from the end, then clamped."""
    values = index.astype(object)
    return np.clip(np.where(values < 0, values + size, values) if signed_wrap else values, 0, size - 1).astype(np.int64)


def gather(data: Array, index: Array, axis: int) -> tuple[Any, int]:
    """The descriptor, and how many leading 1s it puts before the dimensions of data."""
    desc = dg.GatherOperatorDesc.of(data, index, axis)
    return desc, len(desc.input_tensor.sizes) - data.ndim


def taken(desc: Any, data: Array, position: Array, axis: int) -> Array:
    return np.take(data, position, axis).reshape(desc.output_tensor.sizes)


def index_off_by_one(rng: np.random.Generator) -> Planted:
    data = table(rng, *sizes_of(rng, int(rng.integers(1, 4)), 3))
    axis, step = int(rng.integers(data.ndim)), int(rng.choice((-1, 1)))
    size, index = data.shape[axis], ids(rng, data.shape[axis], 12)
    desc, more = gather(data, index, axis)
    moved = resolved(index, size) + step
    at = rng.choice(3)
    position = (moved % size, np.clip(moved, 0, size - 1), resolved(index.astype(np.int64) + step, size))[at]
    words = f"the index along dimension {axis + more} were 1 {'higher' if step > 0 else 'lower'}"
    return Planted(desc, (data, index), taken(desc, data, position, axis), words)


def element_index_off_by_one(rng: np.random.Generator) -> Planted:
    data = table(rng, *sizes_of(rng, 3, 3))
    axis, step = int(rng.integers(3)), int(rng.choice((-1, 1)))
    index = ids(rng, data.shape[axis], data.shape)
    desc = dg.GatherElementsOperatorDesc.of(data, index, axis)
    more = len(desc.input_tensor.sizes) - 3
    moved = (resolved(index, data.shape[axis]) + step) % data.shape[axis]
    words = f"the index along dimension {axis + more} were 1 {'higher' if step > 0 else 'lower'}"
    return Planted(desc, (data, index), np.take_along_axis(data, moved, axis).reshape(desc.output_tensor.sizes), words)


def tuple_index_off_by_one(rng: np.random.Generator) -> Planted:
    data = table(rng, *sizes_of(rng, 3, 3))
    axis = int(rng.integers(2))
    index = np.stack([ids(rng, size, 20).astype(np.int64) for size in data.shape[:2]], axis=1)
    desc = dg.GatherNDOperatorDesc.of(data, index)
    place = [resolved(index[:, each], data.shape[each]) for each in range(2)]
    place[axis] = np.minimum(place[axis] + 1, data.shape[axis] - 1)
    words = f"the index along dimension {axis + len(desc.input_tensor.sizes) - 3} were 1 higher"
    return Planted(desc, (data, index), data[place[0], place[1]].reshape(desc.output_tensor.sizes), words)


def window_off_by_one(rng: np.random.Generator) -> Planted:
    data = table(rng, 5, 7, 6)
    axis = int(rng.integers(3))
    window = tuple(slice(1, size - 1, int(rng.integers(1, 3))) for size in data.shape)
    desc = dg.Slice1OperatorDesc.of(
        data, [1, 1, 1], [size - 2 for size in data.shape], [each.step for each in window], dimension_count=3
    )
    moved = list(window)
    moved[axis] = slice(2, data.shape[axis], window[axis].step)
    return Planted(desc, (data,), data[tuple(moved)], f"the position along dimension {axis} were 1 higher")


def outside(rng: np.random.Generator) -> tuple[Array, Array, int, Any, int]:
    """A gather with indices far out of range among the others."""
    data = table(rng, *sizes_of(rng, 2, 4))
    axis = int(rng.integers(2))
    index = ids(rng, data.shape[axis], 30, data.shape[axis])
    return data, index, axis, *gather(data, index, axis)


def clamped_not_filled(rng: np.random.Generator) -> Planted:
    data, index, axis, desc, _ = outside(rng)
    wrong = taken(desc, data, resolved(index, data.shape[axis]), axis)
    return Planted(desc, (data, index), wrong, "an index out of range were clamped", dg.Fill(3))


def zeroed_not_clamped(rng: np.random.Generator) -> Planted:
    data, index, axis, desc, _ = outside(rng)
    size = data.shape[axis]
    right = np.moveaxis(np.take(data, resolved(index, size), axis), axis, 0).copy()
    right[(index < -size) | (index >= size)] = 0
    wrong = np.moveaxis(right, 0, axis).reshape(desc.output_tensor.sizes)
    return Planted(desc, (data, index), wrong, "an index out of range gave 0")


def taken_modulo(rng: np.random.Generator) -> Planted:
    data, index, axis, desc, _ = outside(rng)
    wrong = taken(desc, data, index.astype(np.int64) % data.shape[axis], axis)
    return Planted(desc, (data, index), wrong, "an index out of range were taken modulo the size of its dimension")


def taken_as_first(rng: np.random.Generator) -> Planted:
    data, index, axis, desc, _ = outside(rng)
    size = data.shape[axis]
    position = np.where((index < -size) | (index >= size), 0, resolved(index, size))
    return Planted(desc, (data, index), taken(desc, data, position, axis), "an index out of range were 0")


def not_from_the_end(rng: np.random.Generator) -> Planted:
    data, index, axis, desc, _ = outside(rng)
    position = resolved(index, data.shape[axis], signed_wrap=False)
    if rng.random() < 0.5:
        position = np.where(index < 0, data.shape[axis] - 1, position)
    return Planted(desc, (data, index), taken(desc, data, position, axis), "a negative index did not count from the end")


def cut(rng: np.random.Generator) -> Planted:
    data = table(rng, *sizes_of(rng, 2, 4))
    bits, size = int(rng.choice((16, 32))), data.shape[0]
    index = rng.integers(0, size, 20) + rng.integers(0, 2, 20) * 2**bits
    desc, _ = gather(data, index, 0)
    wrong = taken(desc, data, index % 2**bits, 0)
    return Planted(desc, (data, index), wrong, f"each index were cut to {bits} bits")


def along_another(rng: np.random.Generator) -> Planted:
    size = int(rng.integers(5, 8))
    data = table(rng, size, size, size)
    axis, other = (int(each) for each in rng.permutation(3)[:2])
    if rng.random() < 0.5:
        index = ids(rng, size, data.shape)
        desc: Any = dg.GatherElementsOperatorDesc.of(data, index, axis)
        wrong = np.take_along_axis(data, resolved(index, size), other)
    else:
        index = ids(rng, size, size)
        desc = dg.GatherOperatorDesc.of(data, index, axis)
        wrong = np.take(data, resolved(index, size), other)
    more = len(desc.input_tensor.sizes) - 3
    words = f"the indices went along dimension {other + more} of InputTensor, not {axis + more}"
    return Planted(desc, (data, index), wrong.reshape(desc.output_tensor.sizes), words)


def input_exchanged(rng: np.random.Generator) -> Planted:
    data = table(rng, *sizes_of(rng, 3, 3))
    axis, (one, other) = int(rng.integers(3)), sorted(int(each) for each in rng.permutation(3)[:2])
    index = ids(rng, data.shape[axis], 9)
    desc, more = gather(data, index, axis)
    read = data.reshape(np.swapaxes(data, one, other).shape).swapaxes(one, other)
    words = f"InputTensor lay in memory with dimensions {one + more} and {other + more} exchanged"
    return Planted(desc, (data, index), taken(desc, read, resolved(index, data.shape[axis]), axis), words)


def sizes_exchanged(rng: np.random.Generator) -> Planted:
    data = table(rng, int(rng.integers(5, 8)), int(rng.integers(8, 12)))
    index = ids(rng, data.shape[0], 9)
    desc, more = gather(data, index, 0)
    rows, columns = np.ogrid[: data.shape[0], : data.shape[1]]
    read = data.reshape(-1)[rows * data.shape[0] + columns]
    words = f"dimensions {more} and {more + 1} of InputTensor had each other's size"
    return Planted(desc, (data, index), taken(desc, read, resolved(index, data.shape[0]), 0), words)


def output_exchanged(rng: np.random.Generator) -> Planted:
    data = table(rng, *sizes_of(rng, 2, 4))
    index = ids(rng, data.shape[0], 9)
    desc, more = gather(data, index, 0)
    written = np.ascontiguousarray(np.take(data, resolved(index, data.shape[0]), 0).T)
    words = f"OutputTensor lay in memory with dimensions {more} and {more + 1} exchanged"
    return Planted(desc, (data, index), written.reshape(desc.output_tensor.sizes), words)


def _strided(rng: np.random.Generator, field: str) -> tuple[Any, Array, Array, int]:
    """A gather of rows whose input or output has padded rows: descriptor, buffer of the input, indices, pitch."""
    rows, columns = int(rng.integers(8, 12)), int(rng.integers(6, 9))
    pitch = columns + int(rng.integers(1, 4))
    buffer = table(rng, rows * pitch)
    index = ids(rng, rows, (1, 10))
    kind = buffer.dtype.name.upper()
    strides = {field: {"strides": (pitch, 1)}}
    desc = dg.GatherOperatorDesc(
        input_tensor=dg.BufferTensorDesc(data_type=kind, sizes=(rows, columns), **strides.get("input", {})),
        indices_tensor=dg.BufferTensorDesc(data_type=index.dtype.name.upper(), sizes=(1, 10)),
        output_tensor=dg.BufferTensorDesc(data_type=kind, sizes=(10, columns), **strides.get("output", {})),
        axis=0,
        index_dimensions=1,
    )
    return desc, buffer, index, pitch


def input_packed(rng: np.random.Generator) -> Planted:
    desc, buffer, index, _ = _strided(rng, "input")
    rows, columns = desc.input_tensor.sizes
    read = buffer[: rows * columns].reshape(rows, columns)
    room = -buffer.nbytes % 4
    whole = np.concatenate([buffer.view(np.uint8), np.zeros(room, np.uint8)])
    return Planted(
        desc,
        (whole, index.reshape(-1).view(np.uint8)),
        read[resolved(index[0], rows)],
        "InputTensor were packed, and had no Strides",
        buffers=True,
    )


def output_packed(rng: np.random.Generator) -> Planted:
    desc, buffer, index, pitch = _strided(rng, "output")
    rows, columns = desc.input_tensor.sizes
    data = buffer[: rows * columns].reshape(rows, columns)
    memory = np.zeros(10 * pitch, data.dtype)
    memory[: 10 * columns] = data[resolved(index[0], rows)].reshape(-1)
    wrong = memory.reshape(10, pitch)[:, :columns]
    return Planted(desc, (data, index), wrong, "OutputTensor were packed, and had no Strides")


def output_moved(rng: np.random.Generator) -> Planted:
    data = table(rng, *sizes_of(rng, 2, 4))
    index = ids(rng, data.shape[0], 20)
    desc, _ = gather(data, index, 0)
    right = taken(desc, data, resolved(index, data.shape[0]), 0)
    axis = right.ndim - data.ndim  # the rows, behind leading dimensions of size 1
    step = int(rng.choice((1, -1, 3, -4, 8)))
    wrong = np.roll(right, step, axis)
    return Planted(desc, (data, index), wrong, f"OutputTensor were moved by {step} along dimension {axis}")


def unwritten(rng: np.random.Generator) -> Planted:
    data = table(rng, *sizes_of(rng, 2, 4))
    index = ids(rng, data.shape[0], 9)
    desc, _ = gather(data, index, 0)
    byte = int(rng.choice((0, 0xA5, 0xA4)))
    wrong = taken(desc, data, resolved(index, data.shape[0]), 0).copy()
    wrong.reshape(9, -1)[int(rng.integers(0, 6)) :].view(np.uint8)[...] = byte
    return Planted(
        desc, (data, index), wrong, f"they were not written, and held {f'bytes {byte:#x}' if byte else 'zeros'} before"
    )


FAULTS: tuple[Callable[[np.random.Generator], Planted], ...] = (
    index_off_by_one, element_index_off_by_one, tuple_index_off_by_one, window_off_by_one, clamped_not_filled, zeroed_not_clamped,
    taken_modulo, taken_as_first, not_from_the_end, cut, along_another, input_exchanged, sizes_exchanged, output_exchanged,
    input_packed, output_packed, output_moved, unwritten,
)  # fmt: skip
