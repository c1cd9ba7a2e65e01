"""What the lowerings of operators share: a descriptor and the layouts of its tensors become an IndexPlan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dmlgather.directml.descriptors import OperatorDesc
from dmlgather.directml.types import DataType
from dmlgather.plan import IndexPlan, IndexType, Layout, Lookup, build
from dmlgather.plan import lookup as build_lookup

Layouts = Mapping[str, Layout]
"""The layout of each tensor, by field ("input_tensor")."""


def index_type(data_type: DataType) -> IndexType:
    """The index type of IndicesTensor's data type."""
    found = data_type.index_type
    assert found is not None, "a legal descriptor has integer indices"
    return found


def lookup(desc: OperatorDesc, layouts: Layouts, axis: int, index_strides: Sequence[int], component: int = 0) -> Lookup:
    """The lookup of a position along InputTensor's `axis`. component: offset in the index tensor, in elements."""
    return build_lookup(
        layouts["input_tensor"],
        layouts["indices_tensor"],
        axis,
        index_strides,
        index_type(desc.tensor("indices_tensor").data_type),
        component=component,
    )


def plan(
    desc: OperatorDesc, layouts: Layouts, in_strides: Sequence[int], in_offset: int = 0, lookups: Sequence[Lookup] = ()
) -> IndexPlan:
    """The plan that reads InputTensor from element `in_offset` on with these strides and writes OutputTensor."""
    return build(
        layouts["input_tensor"],
        layouts["output_tensor"],
        in_strides,
        desc.tensor("output_tensor").data_type.bytes,
        in_offset=in_offset,
        lookups=lookups,
        indices=layouts.get("indices_tensor"),
        index_type=index_type(desc.tensor("indices_tensor").data_type) if lookups else None,
    )
