"""The declaration of an operator, and helpers of declarations: lookups, plans, and positions in documented pseudocode."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dmlgather.directml.descriptors import OperatorDesc
from dmlgather.directml.rules.rule import Rule
from dmlgather.directml.support import Row, rows_of
from dmlgather.directml.types import FeatureLevel
from dmlgather.plan import IndexPlan, IndexType, Layout, Lookup, build
from dmlgather.plan import lookup as build_lookup

if TYPE_CHECKING:
    from numpy.typing import NDArray

Layouts = Mapping[str, Layout]
"""The layout of each tensor, by field ("input_tensor")."""


def _index_type(desc: OperatorDesc) -> IndexType:
    kind = desc.tensor("indices_tensor").data_type.index_type
    assert kind is not None, "a legal descriptor has integer indices"
    return kind


def lookup(desc: OperatorDesc, layouts: Layouts, axis: int, index_strides: Sequence[int], component: int = 0) -> Lookup:
    """Return the lookup of a position along `axis` of InputTensor. `component`: offset in the index tensor, in elements."""
    return build_lookup(
        layouts["input_tensor"],
        layouts["indices_tensor"],
        axis,
        index_strides,
        _index_type(desc),
        component=component,
    )


def plan(
    desc: OperatorDesc, layouts: Layouts, in_strides: Sequence[int], in_offset: int = 0, lookups: Sequence[Lookup] = ()
) -> IndexPlan:
    """Return the plan that copies InputTensor to OutputTensor. It reads with `in_strides`, from element `in_offset` on."""
    return build(
        layouts["input_tensor"],
        layouts["output_tensor"],
        in_strides,
        desc.tensor("output_tensor").data_type.bytes,
        in_offset=in_offset,
        lookups=lookups,
        indices=layouts.get("indices_tensor"),
        index_type=_index_type(desc) if lookups else None,
    )


def position(value: Any, size: int) -> int:
    """Return the position that an index selects in a dimension. `size` is added to a negative index; then it is clamped."""
    index = int(value)
    if index < 0:
        index += size
    return min(max(index, 0), size - 1)


def no_lookup_axes(_: OperatorDesc) -> tuple[int, ...]:
    """Return (): an operator without lookups has no indexed dimensions."""
    return ()


@dataclass(frozen=True)
class Operator:
    """The declaration of one operator. All other code reads the operator's properties from here.

    `name`, `value`: name and number in DML_OPERATOR_TYPE, such as "GATHER" and 67. `desc`: class of the descriptors.
    `introduced`: first feature level that has the operator. `inputs`: fields of the input tensors, in binding order. `output`:
    field of the output tensor. `rules`: rules of this operator only; the rules of all tensors and of all operators apply, too.

    The other fields are functions whose first argument is a descriptor:

    - `output_sizes` returns the output sizes that follow from the other fields (SLICE1: the largest allowed sizes), or None if
      there are more than DimensionCount sizes. OutputTensor's own sizes may be wrong, but no other field may.
    - `lower` returns the plan of a valid descriptor for layouts of its tensors, with the policy CLAMP.
    - `reference` is the documented pseudocode. It takes the input arrays, of shape Sizes, and returns the output array.
    - `lookup_axes` returns the dimension of InputTensor that each lookup of the plan indexes.
    """

    name: str
    value: int
    desc: type[OperatorDesc]
    introduced: FeatureLevel
    inputs: tuple[str, ...]
    rules: tuple[Rule, ...]
    output_sizes: Callable[[Any], tuple[int, ...] | None]
    lower: Callable[[Any, Mapping[str, Layout]], IndexPlan]
    reference: Callable[..., NDArray[Any]]
    lookup_axes: Callable[[Any], tuple[int, ...]] = no_lookup_axes
    output: str = "output_tensor"

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
