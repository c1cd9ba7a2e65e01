"""Plans from layouts: used by the lowering of every operator."""

from __future__ import annotations

from collections.abc import Sequence

from dmlgather.plan.index_plan import IndexPlan, IndexType, Lookup
from dmlgather.plan.layout import Layout


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
    """The lookup of a position along `axis` of `data`; `component` elements into the index tensor.

    wraps: whether negative values of a signed type count from the end.
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
    """The plan that writes all of `output` with the given steps through `data`; `in_offset` counts from data's first element.

    indices, index_type: where the index tensor lies and of what type it is, for plans with lookups. The policy is CLAMP.
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
