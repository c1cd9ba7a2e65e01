"""What all operator descriptors share."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import computed_field, model_validator

from dmlgather.directml.fields import Structure, unstated
from dmlgather.directml.tensor import BufferTensorDesc
from dmlgather.record import refusal
from dmlgather.wording import braces

if TYPE_CHECKING:
    from dmlgather.directml.operators.operator import Operator


COUNTED = {
    "index_dimensions": "indices_tensor",
    "input_dimension_count": "input_tensor",
    "indices_dimension_count": "indices_tensor",
}
"""The fields that count the trailing dimensions of a tensor that matter, and the tensor."""


class OperatorDesc(Structure):
    """What all operator descriptors share. You can construct an invalid descriptor; `validate` reports what is wrong with it.

    `of` of each descriptor makes one from its inputs: arrays (anything with `shape` and `dtype`, or with `__dlpack__`),
    BufferTensorDescs, or pairs (sizes, type). It infers OutputTensor and the counts of dimensions. Tensors are packed, whatever
    the strides of an array; a BufferTensorDesc keeps its own. Leading 1s go in front of the sizes of tensors that have fewer
    dimensions than others, or `dimension_count` of them for all. `output` states the output, where it is not packed.

    A rule of DirectML that the arguments break is left to `validate`. `of` raises TypeError for what is no tensor, a type that
    DirectML lacks, indices that are no integers and an output of another type; ValueError for what leaves nothing to infer, such
    as an axis out of range, and for an output of other sizes.
    """

    operator: ClassVar[Operator]
    """The operator's declaration: name, number, tensors, support table, rules, lowering, documented pseudocode."""

    @model_validator(mode="before")
    @classmethod
    def _without_type(cls, value: Any) -> Any:
        if not isinstance(value, Mapping) or "type" not in value:
            return value
        if value["type"] not in (cls.operator.type, cls.operator.name):
            raise refusal(f"type is {value['type']!r}; expected {cls.operator.type!r}")
        return {key: entry for key, entry in value.items() if key != "type"}

    @computed_field(alias="type", repr=False)  # type: ignore[prop-decorator] # the decorator is meant to stand on a property
    @property
    def type_name(self) -> str:
        """The operator's name in directml.h: "DML_OPERATOR_GATHER". JSON has it as "type"."""
        return self.operator.type

    def __str__(self) -> str:
        counts = {field: name for name, field in COUNTED.items() if self._is_shown_by_sizes(name)}
        dimensions = {field: getattr(self, name) for field, name in counts.items()}
        *inputs, output = (self.tensor(field).text(dimensions.get(field)) for field in self.operator.tensors)
        values = [*self._values(set(counts.values()))]
        return f"{' '.join([self.operator.name, ', '.join(values)]).strip()}: {', '.join(inputs)} -> {output}"

    def _is_shown_by_sizes(self, name: str) -> bool:
        """Whether the descriptor has a count of dimensions that leaves nothing but leading 1s out."""
        sizes = self.tensor(COUNTED[name]).sizes if hasattr(self, name) else ()
        return bool(sizes) and getattr(self, name) <= len(sizes) and set(sizes[: len(sizes) - getattr(self, name)]) <= {1}

    def _values(self, left_out: Collection[str]) -> Iterator[str]:
        """Yield each field that is neither a tensor nor the length of another field: "axis 0", "strides {1,2}"."""
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if name not in (*self.operator.tensors, *left_out) and field.default_factory is not unstated:
                yield f"{name} {braces(value) if isinstance(value, tuple) else value}"

    def tensor(self, field: str) -> BufferTensorDesc:
        """The tensor descriptor in `field` ("indices_tensor")."""
        found = getattr(self, field)
        assert isinstance(found, BufferTensorDesc)
        return found

    def document(self) -> dict[str, Any]:
        """The descriptor as `parse_descriptor` reads it: {"type": "DML_OPERATOR_GATHER", "desc": {...}}, ready for JSON.

        Fields that are None are left out, because DxDispatch reads no nulls.
        """
        return {"type": self.operator.type, "desc": self.model_dump(mode="json", exclude_none=True, exclude_computed_fields=True)}
