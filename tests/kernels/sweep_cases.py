"""The cases of the sweep: layouts of many shapes and widths, so that a few chosen sizes do not decide about a kernel."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from benchmarks.chains import Chain
from benchmarks.draws import Distinct, Indices
from benchmarks.kinds import ALL, Along, Shape, Take, Tuples, ViewCopy, WorkloadKind
from dmlgather.directml import GatherND1OperatorDesc
from dmlgather.plan.index_plan import ELEMENT_BYTES
from tests.kernels.traffic_cases import SEED, CaseGroup

SINGLE = "random single elements: several blocks need the same sectors"
"""Reason why a case may miss a goal. A row of 16 bytes or less is a single element if its width allows one."""

INDICES = "indices: each block needs all of them, as many bytes as four rows"
"""The same reason for columns that are picked from long rows."""

DRAWN = 24
"""Number of random permutations."""
_SIZES = (2, 2, 3, 3, 4, 5, 7, 8, 11, 12, 13, 16, 17, 24, 31, 32, 37, 48, 61, 64, 100, 127, 128, 251)
_TYPES = ("uint8", "float16", "float32", "float64")

_IMAGES = (
    (8, 1, 224, "uint8"),
    (64, 2, 112, "uint8 float64"),
    (64, 3, 224, "uint8 float32"),
    (1, 3, 224, "float16"),
    (16, 4, 112, "float16 float32"),
    (32, 8, 56, "uint8 float16"),
    (2, 12, 112, "float16"),
    (64, 16, 28, "uint8 float32"),
    (48, 24, 14, "float16 float64"),
    (64, 31, 7, "uint8 float32"),
    (4, 32, 224, "uint8 float16"),
)
"""Images, channels, height and width, and element types."""

_HEADS = (
    (1, "float32"),
    (2, "uint8"),
    (3, "float16"),
    (4, "float32"),
    (5, "uint8"),
    (7, "float64"),
    (8, "float16"),
    (16, "uint8"),
    (20, "float32"),
    (31, "float16"),
    (32, "float64"),
    (64, "float16"),
)
"""Elements of a head, and their type."""

_PARTS = (
    ("Swin windows", (64, 56, 56, 96), ".reshape(64, 8, 7, 8, 7, 96).transpose(0, 1, 3, 2, 4, 5)", "float16"),
    ("patches", (64, 3, 224, 224), ".reshape(64, 3, 14, 16, 14, 16).transpose(0, 2, 4, 1, 3, 5)", "uint8 float32"),
    ("patches", (64, 3, 224, 224), ".reshape(64, 3, 14, 16, 14, 16).transpose(0, 2, 4, 3, 5, 1)", "uint8"),
    ("patches", (64, 224, 224, 3), ".reshape(64, 14, 16, 14, 16, 3).transpose(0, 1, 3, 2, 4, 5)", "float16"),
    ("patches", (64, 224, 224, 3), ".reshape(64, 16, 14, 16, 14, 3).transpose(0, 1, 3, 5, 2, 4)", "uint8"),
    ("pixel shuffle", (16, 12, 112, 112), ".reshape(16, 3, 2, 2, 112, 112).transpose(0, 1, 4, 2, 5, 3)", "uint8 float32"),
    ("pixel shuffle", (16, 27, 56, 56), ".reshape(16, 3, 3, 3, 56, 56).transpose(0, 1, 4, 2, 5, 3)", "float16"),
    ("depth to space", (16, 64, 56, 56), ".reshape(16, 2, 2, 16, 56, 56).transpose(0, 3, 4, 1, 5, 2)", "float16"),
    ("depth to space", (16, 56, 56, 64), ".reshape(16, 56, 56, 2, 2, 16).transpose(0, 1, 3, 2, 4, 5)", "uint8"),
    ("space to depth", (16, 3, 224, 224), ".reshape(16, 3, 112, 2, 112, 2).transpose(0, 1, 3, 5, 2, 4)", "uint8 float16"),
    ("space to depth", (16, 224, 224, 3), ".reshape(16, 56, 4, 56, 4, 3).transpose(0, 1, 3, 2, 4, 5)", "float64"),
    ("crop", (64, 3, 224, 224), "[3:]", "uint8"),
    ("crop", (64, 3, 224, 224), "[:, 1:]", "float16"),
    ("crop", (64, 3, 224, 224), "[:, :, 5:218]", "uint8"),
    ("crop", (64, 3, 224, 224), "[:, :, :, 3:220]", "uint8 float32"),
    ("crop", (64, 224, 224, 3), "[:, 5:218, 3:220]", "uint8"),
    ("crop", (64, 224, 224, 3), "[:, :, :, 1:]", "float16"),
    ("flip", (64, 3, 224, 224), "[::-1]", "float16"),
    ("flip", (64, 3, 224, 224), "[:, ::-1]", "uint8"),
    ("flip", (64, 3, 224, 224), "[:, :, ::-1]", "float64"),
    ("flip", (64, 3, 224, 224), "[:, :, :, ::-1]", "uint8"),
    ("flip", (64, 3, 224, 224), "[:, :, :, 219:2:-1]", "float16"),
    ("flip", (64, 224, 224, 3), "[:, :, ::-1]", "float32"),
    ("flip", (64, 224, 224, 3), "[:, :, :, ::-1]", "uint8"),
    ("points", (64, 1000, 3), "[::-1]", "uint8"),
    ("points", (64, 1000, 3), "[:, ::-1]", "uint8 float32"),
    ("points", (64, 1000, 3), "[:, :, ::-1]", "float16"),
    ("every other", (64, 3, 224, 224), "[:, :, ::2, ::2]", "float32"),
    ("every third", (64, 3, 224, 224), "[:, :, ::3, ::3]", "uint8"),
    ("every fifth", (4096, 4096), "[:, ::5]", "float16"),
    ("channels first", (64, 2048, 12), ".transpose(0, 2, 1)", "float16"),
    ("transposed", (4096, 4096), ".transpose(1, 0)", "uint8 float16"),
    ("transposed", (1000, 777), ".transpose(1, 0)", "uint8"),
    ("transposed", (64, 300, 500), ".transpose(0, 2, 1)", "float16"),
    ("transposed", (100_000, 3), ".transpose(1, 0)", "uint8"),
    ("transposed", (3, 100_000), ".transpose(1, 0)", "float16"),
)
"""A description, the shape, the operation in NumPy's notation, and element types."""


@dataclass(frozen=True, slots=True)
class Batched(WorkloadKind):
    """GATHER_ND with a batch dimension: `count` rows of each x[b], with separate indices."""

    shape: Shape
    count: int

    @property
    def index_shape(self) -> Shape:
        return (self.shape[0], self.count, 1)

    @property
    def out_shape(self) -> Shape:
        return (self.shape[0], self.count, *self.shape[2:])

    def indices(self, random: np.random.Generator) -> Indices:
        drawn = [Distinct()(random, self.shape[1], self.count) for _ in range(self.shape[0])]
        return np.stack(drawn).reshape(self.index_shape)

    def descriptor(self, dtype: str) -> GatherND1OperatorDesc:
        return GatherND1OperatorDesc.of((self.shape, dtype), (self.index_shape, "int64"), batch_dimension_count=1)


def sweep_groups() -> Iterator[CaseGroup]:
    """Yield every layout of the sweep in its order."""
    for pictures, channels, side, types in _IMAGES:
        yield _steps("channels last", (pictures, channels, side, side), ".transpose(0, 2, 3, 1)", types)
        yield _steps("channels first", (pictures, side, side, channels), ".transpose(0, 3, 1, 2)", types)
    for width, dtype in _HEADS:
        yield _steps("heads", (8, 1024, 12, width), ".transpose(0, 2, 1, 3)", dtype)
    for what, shape, steps, types in _PARTS:
        yield _steps(what, shape, steps, types)
    yield from _windows()
    yield from _gathers()
    yield from _drawn(random.Random(SEED))


def _steps(what: str, shape: Shape, steps: str, types: str) -> CaseGroup:
    return CaseGroup(f"{what}: {list(shape)}{steps}", Chain(shape, f"x{steps}"), tuple(types.split()))


def _windows() -> Iterator[CaseGroup]:
    """Yield overlapping windows, which NumPy's notation cannot express."""
    for count, size, step, types in ((60_000, 400, 160, ("float16", "float32")), (500_000, 25, 10, ("uint8",))):
        kind = ViewCopy((count, size), (ALL, ALL), strides=(step, 1))
        yield CaseGroup(f"windows of {size} elements, {step} apart", kind, types)
    strides = (16 * 58 * 58, 58, 1, 58 * 58, 58, 1)
    kind = ViewCopy((8, 56, 56, 16, 3, 3), (ALL,) * 6, strides=strides)
    yield CaseGroup("windows of 3 x 3 of [8, 16, 58, 58]", kind, ("float16",))


def _gathers() -> Iterator[CaseGroup]:
    points = (64, 16_384, 3)
    yield CaseGroup("points: rows of 3 in each of 64 batches", Batched(points, 4096), _TYPES)
    yield CaseGroup("points: the same rows of 3 in 64 batches", Take(points, 4096, 1, Distinct()), ("float32",))
    for width, dtype in ((1, "float32"), (2, "uint8"), (5, "float16"), (8, "uint8"), (12, "float16"), (16, "float32")):
        name = f"rows of {width} in each of 64 batches"
        yield CaseGroup(name, Batched((64, 4096, width), 1000), (dtype,), _reason(width, dtype))
    for width, dtype in (
        (1, "float16"),
        (2, "float64"),
        (3, "uint8"),
        (4, "float16"),
        (6, "uint8"),
        (7, "float32"),
        (16, "uint8"),
    ):
        kind = Take((1_000_000, width), 500_000, 0, Distinct())
        yield CaseGroup(f"rows of {width}", kind, (dtype,), _reason(width, dtype))
    for width, dtype in ((1, "float32"), (7, "uint8"), (16, "float16"), (64, "float32")):
        picked = Tuples((32, 64, 128, width), 200_000, 3)
        yield CaseGroup(f"GatherND with 3 coordinates, rows of {width}", picked, (dtype,), _reason(width, dtype))
    yield CaseGroup("vocabulary permuted, 512 x 50257", Take((512, 50_257), 50_257, 1, Distinct()), ("float16",), INDICES)
    yield CaseGroup("GatherElements along 50257", Along((64, 50_257), axis=1), ("float16",), SINGLE)


def _reason(width: int, dtype: str) -> str:
    return SINGLE if width * np.dtype(dtype).itemsize in ELEMENT_BYTES else ""


def _drawn(rng: random.Random) -> Iterator[CaseGroup]:
    """Yield random permutations of 3 to 6 dimensions."""
    for number in range(DRAWN):
        rank = 3 + number % 4
        sizes, order = [1], list(range(rank))
        while not 2**20 <= prod(sizes) <= 2**25:
            sizes = [rng.choice(_SIZES) for _ in range(rank)]
        while order == sorted(order):
            rng.shuffle(order)
        yield _steps("drawn", tuple(sizes), f".transpose({', '.join(map(str, order))})", rng.choice(_TYPES))
