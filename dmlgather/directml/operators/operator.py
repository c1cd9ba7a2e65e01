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


def _index_type(desc: OperatorDesc) -> IndexType:
    kind = desc.tensor("indices_tensor").data_type.index_type
    assert kind is not None, "a legal descriptor has integer indices"
    return kind


def lookup(desc: OperatorDesc, layouts: Layouts, axis: int, index_strides: Sequence[int], component: int = 0) -> Lookup:
    """Return the lookup with which IndicesTensor selects positions along `axis` of InputTensor; see `dmlgather.plan.lookup`."""
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
    """Return the plan that copies elements of InputTensor to OutputTensor; see `dmlgather.plan.build`."""
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
    """Return the position that an index selects in a dimension of `size` elements, as DirectML documents it."""
    index = int(value)
    if index < 0:
        index += size
    return min(max(index, 0), size - 1)


def no_lookup_axes(_: OperatorDesc) -> tuple[int, ...]:
    """Return (), the `lookup_axes` of operators without indices."""
    return ()


@dataclass(frozen=True)
class Operator:
    """The declaration of one operator.

    `value`: the operator's number in DML_OPERATOR_TYPE.
    `inputs`: the fields with input tensors, in the order in which DirectML binds them.
    `rules`: the rules for this operator alone.
    `output_sizes`: a function that infers the output's sizes, or returns None if there are more sizes than DimensionCount. For
    SLICE1, it returns the largest allowed sizes.
    `lower`: a function that takes a valid descriptor and the layouts of its tensors, and returns the plan under CLAMP.
    `reference`: Microsoft's pseudocode in NumPy. It takes a descriptor, and input arrays of the shapes that the Sizes state.
    `lookup_axes`: a function that returns the indexed dimension of InputTensor for each lookup of the plan.
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
        """Name in DML_OPERATOR_TYPE, such as "DML_OPERATOR_GATHER"."""
        return f"DML_OPERATOR_{self.name}"

    @cached_property
    def tensors(self) -> tuple[str, ...]:
        """Fields with tensors, in the order in which DirectML binds them."""
        return (*self.inputs, self.output)

    @property
    def table(self) -> tuple[Row, ...]:
        """Rows of the support table, oldest level first."""
        return rows_of(self.name)
