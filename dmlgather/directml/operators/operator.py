"""The declaration of an operator, and helpers of declarations: lookups, plans, and positions in documented pseudocode."""

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
    """Return the type of indices of a data type."""
    kind = data_type.index_type
    assert kind is not None, "a legal descriptor has integer indices"
    return kind


def lookup(desc: OperatorDesc, layouts: Layouts, axis: int, index_strides: Sequence[int], component: int = 0) -> Lookup:
    """Return the lookup of a position along `axis` of InputTensor. `component`: offset in the index tensor, in elements."""
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
    """Return the plan that reads InputTensor with `in_strides`, starting at element `in_offset`, and writes OutputTensor."""
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
    """Return the position along a dimension of `size` that an index value selects.

    `size` is added once to a negative value. A result out of range is clamped.
    """
    index = int(value)
    if index < 0:
        index += size
    return min(max(index, 0), size - 1)


def no_lookup_axes(_: OperatorDesc) -> tuple[int, ...]:
    """Return (): an operator without lookups has no indexed dimensions."""
    return ()


@dataclass(frozen=True)
class Operator:
    """The declaration of one operator. All other code takes its knowledge of operators from here."""

    name: str
    """Name within DML_OPERATOR_TYPE: "GATHER"."""

    value: int
    """Number within DML_OPERATOR_TYPE: 67. Source: [HDR]."""

    desc: type[OperatorDesc]
    """Class of its descriptors."""

    introduced: FeatureLevel
    """First feature level that has the operator."""

    inputs: tuple[str, ...]
    """Fields of its input tensors, in binding order."""

    rules: tuple[Rule, ...]
    """Rules of this operator only. The rules of all tensors and of all operators apply, too."""

    output_sizes: Callable[[Any], tuple[int, ...] | None]
    """A function from a descriptor to the output sizes that follow from its other fields; for SLICE1, the largest allowed
    sizes. It returns None for more than DimensionCount sizes. The descriptor may break the rule on output sizes, but no
    other."""

    lower: Callable[[Any, Mapping[str, Layout]], IndexPlan]
    """A function from a valid descriptor and its tensors' layouts to the plan, with the policy CLAMP."""

    reference: Callable[..., NDArray[Any]]
    """The documented pseudocode: (descriptor, *input arrays of shape Sizes) -> array of shape OutputTensor.Sizes."""

    lookup_axes: Callable[[Any], tuple[int, ...]] = no_lookup_axes
    """A function from a descriptor to the dimension of InputTensor that each lookup indexes, in the plan's order."""

    output: str = "output_tensor"
    """Field of its output tensor."""

    def __post_init__(self) -> None:
        self.desc.operator = self

    @property
    def type(self) -> str:
        """Return the name in DML_OPERATOR_TYPE: "DML_OPERATOR_GATHER"."""
        return f"DML_OPERATOR_{self.name}"

    @cached_property
    def tensors(self) -> tuple[str, ...]:
        """Return the fields of the tensors in binding order: inputs, then the output."""
        return (*self.inputs, self.output)

    @property
    def table(self) -> tuple[Row, ...]:
        """Return the operator's rows of the support table, oldest level first."""
        return rows_of(self.name)
