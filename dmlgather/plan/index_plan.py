"""IndexPlan: the value that every operator lowers to and every backend executes.

    for o in shape:
        v_k    = indices[index_offset_k + o·index_strides_k];  if v_k < 0: v_k += wrap_k
        ok     = all(0 <= v_k < limit_k)
        source = in_offset + o·in_strides + sum(clamp(v_k, 0, limit_k - 1) * in_stride_k)
        out[out_offset + o·out_strides] = input[source] if ok or the policy is not FILL else fill

The constructor proves that every address lies inside the stated extents, for all index values. So a call only has to check that
its arrays are as large as the extents.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from dmlgather.plan.layout import Layout, reach

ELEMENT_BYTES = (1, 2, 4, 8, 16)
"""Sizes of an element, in bytes. A plan moves bits and knows no data type."""


class IndexType(enum.Enum):
    """The integer type of the index tensor."""

    INT8 = "INT8"
    INT16 = "INT16"
    INT32 = "INT32"
    INT64 = "INT64"
    UINT8 = "UINT8"
    UINT16 = "UINT16"
    UINT32 = "UINT32"
    UINT64 = "UINT64"

    @property
    def signed(self) -> bool:
        """Return True for a signed type."""
        return not self.value.startswith("U")

    @property
    def bytes(self) -> int:
        """Return the bytes of one index."""
        return int(self.value.removeprefix("U").removeprefix("INT")) // 8


class OutOfBounds(enum.Enum):
    """Policy for an index that is still outside 0 … limit-1 after the wrap. No policy reads outside the input."""

    CLAMP = "clamp"
    """Read the nearest valid position of the axis, like DirectML and JAX's mode "clip"."""
    FILL = "fill"
    """Write the fill value instead of an element, like OpenVINO (with 0) and JAX's mode "fill"."""
    RAISE = "raise"
    """Raise IndexError for the bad index with the smallest offset in the index tensor, like ONNX."""
    PROMISE = "promise"
    """The caller promises that no index is out of bounds. The plan runs as CLAMP, like JAX's mode "promise_in_bounds"."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """One index that is looked up for each output element.

    `index_strides`: elements of the index tensor per step along each output dimension. `index_offset`: in elements. `limit`:
    valid values are 0 … limit-1. `wrap`: added once to a negative value; if it is 0, negative values are out of bounds.
    `in_stride`: the input address changes by this many elements if the index grows by 1.
    """

    index_strides: tuple[int, ...]
    index_offset: int
    limit: int
    wrap: int
    in_stride: int


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """One strided copy whose source address may also depend on looked-up indices.

    `shape`: the iteration space; the plan writes one element at each point. `out_strides`, `in_strides`: elements per step along
    each dimension. `in_offset`, `out_offset`: in elements. `in_extent`, `index_extent`, `out_extent`: sizes of the input, index
    and output buffers, in elements. `index_type`: None if there are no lookups. `fill`: the bytes of one element under FILL,
    otherwise empty.

    Raises ValueError if two fields contradict each other or an address is outside its extent.

    >>> print(dg.IndexPlan(shape=(3, 2), out_strides=(2, 1), in_strides=(1, 3), element_bytes=4, in_extent=6, out_extent=6))
    shape [3, 2] of 4-byte elements
      out [6]: offset 0, strides [2, 1]
      in  [6]: offset 0, strides [1, 3]
    """

    shape: tuple[int, ...]
    out_strides: tuple[int, ...]
    in_strides: tuple[int, ...]
    element_bytes: int
    in_extent: int
    out_extent: int
    in_offset: int = 0
    out_offset: int = 0
    lookups: tuple[Lookup, ...] = ()
    index_type: IndexType | None = None
    index_extent: int = 0
    out_of_bounds: OutOfBounds = OutOfBounds.CLAMP
    fill: bytes = b""

    def __post_init__(self) -> None:
        self._check_fields()
        if not self.empty:
            self._check_reach("input", self.in_reach, self.in_extent)
            self._check_reach("output", self.out_reach, self.out_extent)
        self._check_reach("index tensor", self.index_reach, self.index_extent)

    @property
    def rank(self) -> int:
        """Return the number of dimensions of `shape`."""
        return len(self.shape)

    @property
    def elements(self) -> int:
        """Return the number of elements that the plan writes."""
        return prod(self.shape)

    @property
    def empty(self) -> bool:
        """Return True if the plan writes nothing."""
        return 0 in self.shape

    @property
    def constant(self) -> bool:
        """Return True if every output element is the fill value: FILL over an axis of size 0."""
        return self.out_of_bounds is OutOfBounds.FILL and any(lookup.limit == 0 for lookup in self.lookups)

    @property
    def index_shape(self) -> tuple[int, ...]:
        """Return the shape of the looked-up indices: `shape` with 1 in dimensions where all index strides are 0."""
        return tuple(
            size if any(lookup.index_strides[axis] for lookup in self.lookups) else 1 for axis, size in enumerate(self.shape)
        )

    @property
    def in_reach(self) -> tuple[int, int] | None:
        """Return the first and last input address (elements) over all index values; None if the plan reads nothing."""
        if self.empty:
            return None
        if not self.lookups:
            return reach(self.shape, self.in_strides, self.in_offset)
        limits = [lookup.limit for lookup in self.lookups]
        if 0 in limits:
            return None
        steps = [lookup.in_stride for lookup in self.lookups]
        return reach([*self.shape, *limits], [*self.in_strides, *steps], self.in_offset)

    @property
    def out_reach(self) -> tuple[int, int] | None:
        """Return the first and last output address (elements); None if the plan writes nothing."""
        return None if self.empty else reach(self.shape, self.out_strides, self.out_offset)

    @property
    def index_reach(self) -> tuple[int, int] | None:
        """Return the first and last address (elements) in the index tensor; None if the plan looks up no index."""
        if not self.lookups or self.constant:
            return None
        if self.empty and (self.out_of_bounds is not OutOfBounds.RAISE or 0 in self.index_shape):
            return None
        ends = [reach(self.shape, lookup.index_strides, lookup.index_offset) for lookup in self.lookups]
        return min(low for low, _ in ends), max(high for _, high in ends)

    def check_limits(self) -> None:
        """Raise ValueError if a plan under CLAMP or PROMISE writes elements but indexes an axis of size 0."""
        if self.empty or self.out_of_bounds in (OutOfBounds.FILL, OutOfBounds.RAISE):
            return
        for number, lookup in enumerate(self.lookups):
            if lookup.limit == 0:
                raise ValueError(
                    f"lookup {number} indexes an axis of size 0 while the output has {self.elements} elements: under "
                    f"{self.out_of_bounds.name} there is nothing to read (expected size >= 1, got 0); use FILL or RAISE"
                )

    def _check_fields(self) -> None:
        rank = len(self.shape)
        for name, values in (("out_strides", self.out_strides), ("in_strides", self.in_strides)):
            if len(values) != rank:
                raise ValueError(f"{name} has {len(values)} entries, shape has {rank}")
        if min(self.shape, default=0) < 0:
            raise ValueError(f"shape {self.shape} has a negative size")
        if self.element_bytes not in ELEMENT_BYTES:
            raise ValueError(f"element_bytes is {self.element_bytes}, expected one of {ELEMENT_BYTES}")
        sizes = [size for size, step in zip(self.shape, self.out_strides, strict=True) if not step]
        if sizes and max(sizes) > 1 and not self.empty:
            raise ValueError(f"out_strides {self.out_strides} write several elements of shape {self.shape} to one address")
        if (self.index_type is None) != (not self.lookups):
            raise ValueError(f"index_type is {self.index_type} with {len(self.lookups)} lookups")
        expected = self.element_bytes if self.out_of_bounds is OutOfBounds.FILL else 0
        if len(self.fill) != expected:
            raise ValueError(f"fill has {len(self.fill)} bytes, expected {expected} under {self.out_of_bounds.name}")
        for number, lookup in enumerate(self.lookups):
            if len(lookup.index_strides) != rank:
                raise ValueError(f"lookup {number}: index_strides has {len(lookup.index_strides)} entries, shape has {rank}")
            if lookup.limit < 0 or lookup.wrap < 0:
                raise ValueError(f"lookup {number}: limit {lookup.limit} and wrap {lookup.wrap} must be >= 0")
            if lookup.wrap and self.index_type is not None and not self.index_type.signed:
                raise ValueError(f"lookup {number}: wrap is {lookup.wrap} for the unsigned type {self.index_type.value}")

    @staticmethod
    def _check_reach(what: str, span: tuple[int, int] | None, extent: int) -> None:
        if span is not None and (span[0] < 0 or span[1] >= extent):
            raise ValueError(f"the plan reaches {what} elements {span[0]} … {span[1]}, the {what} has 0 … {extent - 1}")

    def __str__(self) -> str:
        policy = f", {self.out_of_bounds.name}" if self.lookups else ""
        lines = [
            f"shape {list(self.shape)} of {self.element_bytes}-byte elements{policy}",
            f"  out [{self.out_extent}]: offset {self.out_offset}, strides {list(self.out_strides)}",
            f"  in  [{self.in_extent}]: offset {self.in_offset}, strides {list(self.in_strides)}",
        ]
        for number, lookup in enumerate(self.lookups):
            lines.append(
                f"  lookup {number}: {self.index_type.value if self.index_type else ''} [{self.index_extent}] "
                f"offset {lookup.index_offset}, strides {list(lookup.index_strides)}; "
                f"{f'values 0 … {lookup.limit - 1}' if lookup.limit else 'no valid value'}, "
                f"wrap {lookup.wrap}, in stride {lookup.in_stride}"
            )
        if self.fill:
            lines.append(f"  fill 0x{self.fill.hex()}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class BytesMoved:
    """The bytes that one run moves. Each read of an index or an element counts."""

    index: int
    read: int
    written: int

    @property
    def total(self) -> int:
        """Return the sum of all bytes."""
        return self.index + self.read + self.written

    def __str__(self) -> str:
        return f"{self.total} = {self.index} of indices + {self.read} read + {self.written} written"


def bytes_moved(plan: IndexPlan) -> BytesMoved:
    """Return the bytes that one run of `plan` moves."""
    moved = plan.elements * plan.element_bytes
    index = len(plan.lookups) * prod(plan.index_shape) * plan.index_type.bytes if plan.index_type else 0
    return BytesMoved(index=index, read=moved, written=moved)


def lookup(
    data: Layout,
    indices: Layout,
    axis: int,
    index_strides: Sequence[int],
    index_type: IndexType,
    *,
    component: int = 0,
    wraps: bool = True,
) -> Lookup:
    """Return the lookup of a position along `axis` of `data`.

    `component`: offset in the index tensor, in elements. `wraps`: True if negative indices count from the end.
    """
    size = data.sizes[axis]
    return Lookup(
        index_strides=tuple(index_strides),
        index_offset=indices.offset + component,
        limit=size,
        wrap=size if wraps and index_type.signed else 0,
        in_stride=data.strides[axis],
    )


def build(
    data: Layout,
    output: Layout,
    in_strides: Sequence[int],
    element_bytes: int,
    *,
    in_offset: int = 0,
    lookups: Sequence[Lookup] = (),
    indices: Layout | None = None,
    index_type: IndexType | None = None,
) -> IndexPlan:
    """Return the plan that writes every element of `output` from `data`, with the policy CLAMP.

    `in_strides`: elements of `data` per step along each output dimension. `in_offset`: number of elements after the first
    element of `data`. `indices`, `index_type`: layout and type of the index tensor, for plans with lookups.
    """
    return IndexPlan(
        shape=output.sizes,
        out_strides=output.strides,
        in_strides=tuple(in_strides),
        element_bytes=element_bytes,
        in_extent=data.extent,
        out_extent=output.extent,
        in_offset=data.offset + in_offset,
        out_offset=output.offset,
        lookups=tuple(lookups),
        index_type=index_type if lookups else None,
        index_extent=indices.extent if lookups and indices else 0,
    )
