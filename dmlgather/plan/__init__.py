"""The plan: a strided copy of elements. Source addresses may depend on indices. Plans know no operator and no array library."""

from dmlgather.plan.canonical import canonicalise, narrow, simplify
from dmlgather.plan.index_plan import (
    ELEMENT_BYTES,
    BytesMoved,
    IndexPlan,
    IndexType,
    Lookup,
    OutOfBounds,
    build,
    bytes_moved,
    lookup,
)
from dmlgather.plan.layout import Layout, blocks, coordinates, dot, overlaps, packed_strides, reach, unravel

__all__ = [
    "ELEMENT_BYTES",
    "BytesMoved",
    "IndexPlan",
    "IndexType",
    "Layout",
    "Lookup",
    "OutOfBounds",
    "blocks",
    "build",
    "bytes_moved",
    "canonicalise",
    "coordinates",
    "dot",
    "lookup",
    "narrow",
    "overlaps",
    "packed_strides",
    "reach",
    "simplify",
    "unravel",
]
