"""The declaration of an operator, and what the declarations share: lookups and plans, and positions in documented pseudocode."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dmlgather.directml.descriptors import OperatorDesc
from dmlgather.directml.rules.rule import Rule
from dmlgather.directml.support import Row, rows_of
from dmlgather.directml.types import DataType, FeatureLevel
from dmlgather.plan import IndexPlan, IndexType, Layout, Lookup, build
from dmlgather.plan import lookup as build_lookup

if TYPE_CHECKING:
    from numpy.typing import NDArray

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


def position(value: Any, size: int) -> int:
    """The position along a dimension of `size` that an index value selects.

    `size` is added once to a negative value, which only signed types have. A result that is outside is clamped.
    """
    found = int(value)
    if found < 0:
        found += size
    return min(max(found, 0), size - 1)


def looks_nothing_up(_: OperatorDesc) -> tuple[int, ...]:
    """The dimensions that an operator without lookups indexes: none."""
    return ()


@dataclass(frozen=True)
class Operator:
    """One operator: everything that other code needs to know of it."""

    name: str
    """Name within DML_OPERATOR_TYPE: "GATHER"."""

    value: int
    """Number within DML_OPERATOR_TYPE: 67. Source: [HDR]."""

    desc: type[OperatorDesc]
    """Class of its descriptors."""

    introduced: FeatureLevel
    """The first feature level that has it."""

    inputs: tuple[str, ...]
    """Fields of its input tensors, in binding order."""

    rules: tuple[Rule, ...]
    """Its own rules, in addition to those of every tensor and of every operator."""

    output_sizes: Callable[[Any], tuple[int, ...] | None]
    """The output sizes that follow from a descriptor's other fields (for SLICE1 the largest); None where they are more than
    its DimensionCount. The descriptor breaks no rule, except for the one on its output sizes."""

    lower: Callable[[Any, Mapping[str, Layout]], IndexPlan]
    """The plan of a valid descriptor over the layouts of its tensors; an index out of range is clamped."""

    reference: Callable[..., NDArray[Any]]
    """The documented pseudocode: (descriptor, *input arrays of the described Sizes) -> array of OutputTensor's Sizes."""

    lookup_axes: Callable[[Any], tuple[int, ...]] = looks_nothing_up
    """The dimension of InputTensor that each lookup of the plan indexes, in the plan's order; none by default."""

    output: str = "output_tensor"
    """Field of its output tensor."""

    def __post_init__(self) -> None:
        self.desc.operator = self

    @property
    def type(self) -> str:
        """Name of its DML_OPERATOR_TYPE: "DML_OPERATOR_GATHER"."""
        return f"DML_OPERATOR_{self.name}"

    @cached_property
    def tensors(self) -> tuple[str, ...]:
        """Fields of its tensors in binding order: inputs, then the output."""
        return (*self.inputs, self.output)

    @property
    def table(self) -> tuple[Row, ...]:
        """Its rows of the support table, oldest level first."""
        return rows_of(self.name)
