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


class IndexType(enum.Enum):
    """The integer type of a plan's index tensor."""

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
        """Return True if the type is signed."""
        return not self.value.startswith("U")

    @property
    def bytes(self) -> int:
        """Return the size of one index, in bytes."""
        return int(self.value.removeprefix("U").removeprefix("INT")) // 8


class OutOfBounds(enum.Enum):
    """The policy: what a plan does with an index out of range. No policy reads outside the input.

    Negative indices are first wrapped (`Lookup.wrap`). An index is out of range if it is not in 0 … `Lookup.limit` - 1 after
    this.
    """

    CLAMP = "clamp"
    """Replace the index by the nearest valid one, like DirectML and JAX's mode "clip"."""
    FILL = "fill"
    """Write the plan's fill value instead of an input element, like OpenVINO (which fills with 0) and JAX's mode "fill"."""
    RAISE = "raise"
    """Raise IndexError, like ONNX. The message names one bad index: the first one in the index tensor's memory."""
    PROMISE = "promise"
    """The caller promises that no index is out of bounds. The plan runs as CLAMP, like JAX's mode "promise_in_bounds"."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """One index that a plan reads for each output element, and how the index changes the source address.

    A gather of rows has one lookup; a gather by index tuples has one for each component of a tuple. `index_strides`: strides of
    the index tensor along each dimension of the plan, in elements. `index_offset`: address of the first index, in elements.
    `limit`: size of the indexed axis; indices 0 … limit - 1 are valid. `wrap`: number that is added to a negative index. It is
    the size of the axis, or 0 if negative indices are out of range. `in_stride`: input stride of the indexed axis, in elements;
    the index is multiplied by it.
    """

    index_strides: tuple[int, ...]
    index_offset: int
    limit: int
    wrap: int
    in_stride: int


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """A strided copy of elements. The source address of an element may also depend on indices (`lookups`).

    `shape`: the iteration space. The plan writes one element at each of its points. `out_strides`, `in_strides`: strides of the
    output and the input along each dimension of `shape`, in elements. `in_offset`, `out_offset`: addresses of the first
    element, in elements. `in_extent`, `index_extent`, `out_extent`: sizes of the input, index and output buffers, in elements.
    `index_type`: type of the indices, or None if there are no lookups. `out_of_bounds`: the policy for indices out of range.
    `fill`: bytes of the element that FILL writes; empty under any other policy.

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
        """Return True if the plan only writes its fill value. Under FILL, this happens if an indexed axis has size 0."""
        return self.out_of_bounds is OutOfBounds.FILL and any(lookup.limit == 0 for lookup in self.lookups)

    @property
    def index_shape(self) -> tuple[int, ...]:
        """Return the shape of the indices that the plan reads.

        It is `shape`, with 1 in place of each dimension along which all index strides are 0.
        """
        return tuple(
            size if any(lookup.index_strides[axis] for lookup in self.lookups) else 1 for axis, size in enumerate(self.shape)
        )

    @property
    def in_reach(self) -> tuple[int, int] | None:
        """Return the lowest and the highest input address that any indices can select, in elements.

        Return None if the plan reads no input element.
        """
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
        """Return the lowest and the highest address that the plan writes, in elements. Return None if it writes nothing."""
        return None if self.empty else reach(self.shape, self.out_strides, self.out_offset)

    @property
    def index_reach(self) -> tuple[int, int] | None:
        """Return the lowest and the highest address of the indices, in elements. Return None if the plan reads no index."""
        if not self.lookups or self.constant:
            return None
        if self.empty and (self.out_of_bounds is not OutOfBounds.RAISE or 0 in self.index_shape):
            return None
        ends = [reach(self.shape, lookup.index_strides, lookup.index_offset) for lookup in self.lookups]
        return min(low for low, _ in ends), max(high for _, high in ends)

    def check_limits(self) -> None:
        """Raise ValueError if a plan under CLAMP or PROMISE indexes an axis of size 0, where no nearest element exists."""
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
    """Bytes that a run of a plan reads and writes. Repeated reads count each time."""

    index: int
    read: int
    written: int

    @property
    def total(self) -> int:
        """Bytes read and written together."""
        return self.index + self.read + self.written

    def __str__(self) -> str:
        return f"{self.total} = {self.index} of indices + {self.read} read + {self.written} written"


def bytes_moved(plan: IndexPlan) -> BytesMoved:
    """Return the bytes that one run of `plan` reads and writes."""
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
    """Return the lookup with which `indices` select positions along `axis` of `data`.

    `index_strides`: strides of `indices` along each dimension of the plan, in elements.
    `component`: distance from element (0, …, 0) of `indices` to the first index that is read, in elements.
    `wraps`: True if negative indices count from the end.
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
    """Return the plan that writes every element of `output` once, under CLAMP.

    `in_strides`: strides of `data` along each dimension of `output`, in elements.
    `in_offset`: distance from element (0, …, 0) of `data` to the first element that is read, in elements.
    `indices`, `index_type`: needed only with `lookups`.
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
