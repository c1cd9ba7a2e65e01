"""From a descriptor and the layouts of its tensors to an IndexPlan: what the operators' lowerings share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dmlgather.directml.descriptors import OperatorDesc
from dmlgather.directml.types import DataType
from dmlgather.plan import IndexPlan, IndexType, Layout, Lookup

Layouts = Mapping[str, Layout]
"""Where each tensor lies, by field name ("input_tensor")."""


def index_type(data_type: DataType) -> IndexType:
    """The index type of IndicesTensor's data type."""
    found = data_type.index_type
    assert found is not None, "a legal descriptor has integer indices"
    return found


def lookup(desc: OperatorDesc, layouts: Layouts, axis: int, index_strides: Sequence[int], component: int = 0) -> Lookup:
    """The lookup of a position along InputTensor's `axis`; `component` elements into the index tensor."""
    data, indices = layouts["input_tensor"], layouts["indices_tensor"]
    size = data.sizes[axis]
    signed = index_type(desc.tensor("indices_tensor").data_type).signed
    return Lookup(
        index_strides=tuple(index_strides),
        index_offset=indices.offset + component,
        limit=size,
        wrap=size if signed else 0,
        in_stride=data.strides[axis],
    )


def plan(
    desc: OperatorDesc, layouts: Layouts, in_strides: Sequence[int], in_offset: int = 0, lookups: Sequence[Lookup] = ()
) -> IndexPlan:
    """The plan that writes OutputTensor with the given steps through InputTensor; `in_offset` counts from its first element."""
    data, output = layouts["input_tensor"], layouts["output_tensor"]
    return IndexPlan(
        shape=output.sizes,
        out_strides=output.strides,
        in_strides=tuple(in_strides),
        element_bytes=desc.tensor("output_tensor").data_type.bytes,
        in_extent=data.extent,
        out_extent=output.extent,
        in_offset=data.offset + in_offset,
        out_offset=output.offset,
        lookups=tuple(lookups),
        index_type=index_type(desc.tensor("indices_tensor").data_type) if lookups else None,
        index_extent=layouts["indices_tensor"].extent if lookups else 0,
    )
