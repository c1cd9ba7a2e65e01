"""The class for declarations of operators, and functions that the declarations use."""

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
"""The layout of each tensor of a descriptor, by field name ("input_tensor")."""


def _index_type(desc: OperatorDesc) -> IndexType:
    kind = desc.tensor("indices_tensor").data_type.index_type
    assert kind is not None, "a legal descriptor has integer indices"
    return kind


def lookup(desc: OperatorDesc, layouts: Layouts, axis: int, index_strides: Sequence[int], component: int = 0) -> Lookup:
    """Return a lookup of a plan: indices of IndicesTensor select positions along `axis` of InputTensor.

    `index_strides`: strides of IndicesTensor along each dimension of OutputTensor, in elements. `component`: distance of the
    first index that is read from the first element of IndicesTensor, in elements.
    """
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
    """Return the plan that copies elements of InputTensor to OutputTensor.

    `in_strides`: strides of InputTensor along each dimension of OutputTensor, in elements. `in_offset`: distance of the first
    element that is read from the first element of InputTensor, in elements. `lookups`: the indices that the source address
    depends on.
    """
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
    """Return the position that an index selects in a dimension of `size` elements, as DirectML documents it.

    `size` is added to a negative index. If the result is still out of range, it is replaced by the nearest valid position.
    """
    index = int(value)
    if index < 0:
        index += size
    return min(max(index, 0), size - 1)


def no_lookup_axes(_: OperatorDesc) -> tuple[int, ...]:
    """Return an empty tuple. Operators that read no indices use this function as their `lookup_axes`."""
    return ()


@dataclass(frozen=True)
class Operator:
    """The declaration of one operator. All other code reads the operator's properties from here.

    `name`, `value`: name and number in DML_OPERATOR_TYPE, such as "GATHER" and 67. `desc`: class of the operator's descriptors.
    `introduced`: first feature level that has the operator. `inputs`: names of the fields with input tensors, in the order in
    which DirectML binds them. `output`: name of the field with the output tensor. `rules`: the rules of this operator. The
    rules for all tensors and for all operators apply, too.

    The other fields are functions. Their first argument is a descriptor:

    - `output_sizes` infers the sizes of the output from the other fields, which must be valid. For SLICE1, it returns the
      largest allowed sizes. It returns None if the output would have more than DimensionCount dimensions.
    - `lower` returns the plan of a valid descriptor, with the policy CLAMP. Its second argument is the layout of each tensor.
    - `reference` is Microsoft's pseudocode in NumPy. It takes the input arrays, with Sizes as their shapes, and returns the
      output array.
    - `lookup_axes` returns, for each lookup of the plan, the dimension of InputTensor that the index selects a position on.
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
        """Return the full name in DML_OPERATOR_TYPE, such as "DML_OPERATOR_GATHER"."""
        return f"DML_OPERATOR_{self.name}"

    @cached_property
    def tensors(self) -> tuple[str, ...]:
        """Return the names of all fields with tensors, in the order in which DirectML binds them: inputs, then the output."""
        return (*self.inputs, self.output)

    @property
    def table(self) -> tuple[Row, ...]:
        """Return the operator's rows of the support table, oldest level first."""
        return rows_of(self.name)
