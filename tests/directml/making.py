"""Random legal descriptors, legal by construction: the validator under test has no part in them.

Axes, windows and sizes that fit them come from the makers of `python -m conformance`, which know no rule either. Data types and
dimension counts are those of the pages as the tests have them, not the package's table, and tensors are made here.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product
from math import prod
from operator import mul
from typing import NamedTuple

from conformance.random_descriptors import MAKERS, random_sizes
from dmlgather.directml import BufferTensorDesc, DataType, FeatureLevel, OperatorDesc, TensorFlags
from tests.directml.pages import PAGES

L = FeatureLevel
BLOCKS = ("DEPTH_TO_SPACE1", "SPACE_TO_DEPTH1")


class Described(NamedTuple):
    """A descriptor and a feature level at which it is legal."""

    desc: OperatorDesc
    level: FeatureLevel


def sizes(rng: random.Random, count: int, room: int = 24) -> list[int]:
    """`count` sizes whose product is at most `room`."""
    return random_sizes(rng, count, room)


def strides(rng: random.Random, of: Sequence[int], is_output: bool) -> list[int] | None:
    """None, or strides that permute, pad, interleave and broadcast; those of an output give each element its own address."""
    kind = rng.choice(("packed", "packed", "nested", "nested", "free"))
    if kind == "packed":
        return None
    found, step = [0] * len(of), 1
    for axis in rng.sample(range(len(of)), len(of)):
        if of[axis] == 1:
            found[axis] = rng.choice((0, 0, step, rng.randrange(2**32)))
        elif kind == "free":
            found[axis] = rng.choice((0, 1, 2, 3, 5))
        else:
            found[axis] = step + rng.choice((0, 0, 0, 1, 2) if step < 1000 else (0,))
            step += found[axis] * (of[axis] - 1)
    addresses = [sum(map(mul, c, found)) for c in product(*map(range, of))]
    return None if is_output and len(set(addresses)) < len(addresses) else found


def tensor(rng: random.Random, data_type: str, of: Sequence[int], is_output: bool = False) -> BufferTensorDesc:
    """A tensor with the given sizes, and everything else at random."""
    bare = BufferTensorDesc(data_type=data_type, sizes=of, strides=strides(rng, of, is_output))
    width = DataType[data_type].bytes
    span = 1 + sum((size - 1) * step for size, step in zip(bare.sizes, bare.strides or _packed(of), strict=True))
    minimum = (span * width + 3) // 4 * 4
    return BufferTensorDesc(
        data_type=rng.choice((data_type, f"DML_TENSOR_DATA_TYPE_{data_type}", int(DataType[data_type]))),
        flags=TensorFlags.OWNED_BY_DML if not is_output and rng.random() < 0.05 else TensorFlags.NONE,
        dimension_count=rng.choice((None, len(of))),
        sizes=of,
        strides=bare.strides,
        total_tensor_size_in_bytes=rng.choice((None, minimum, minimum + 4 * rng.randrange(20), minimum + rng.randrange(9))),
        guaranteed_base_offset_alignment=rng.choice((0, 0, 16, 256, width, 2**31)),
    )


def _packed(of: Sequence[int]) -> list[int]:
    return [prod(of[axis + 1 :]) for axis in range(len(of))]


class _Tensors:
    """The tensors of one descriptor, of any layout that dmlgather takes."""

    documented = False

    def __init__(self, rng: random.Random, operator: str, level: FeatureLevel) -> None:
        self.rng = rng
        taken = PAGES[operator].at(level)
        self.of_data = rng.choice(taken.data)
        self.of_indices = rng.choice(taken.indices or ["UINT32"])

    def sizes(self, count: int, room: int = 24) -> list[int]:
        return sizes(self.rng, count, room)

    def data(self, of: Sequence[int]) -> BufferTensorDesc:
        return tensor(self.rng, self.of_data, of)

    def indices(self, of: Sequence[int]) -> BufferTensorDesc:
        return tensor(self.rng, self.of_indices, of)

    def output(self, of: Sequence[int]) -> BufferTensorDesc:
        return tensor(self.rng, self.of_data, of, is_output=True)


def make(
    rng: random.Random, operator: str | None = None, level: FeatureLevel | None = None, rank: int | None = None
) -> Described:
    """A random legal descriptor. A stated `rank` may be one that the level does not take; all else is legal there. An operator
    of one rank keeps it.
    """
    operator = operator or rng.choice(list(MAKERS))
    level = level or rng.choice([each for each in L if each >= PAGES[operator].introduced])
    rank = rank or rng.choice(PAGES[operator].at(level).counts)
    return Described(MAKERS[operator](rng, _Tensors(rng, operator, level), rank), level)
