"""The base class of the operator descriptors."""

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
"""Fields that count the used trailing dimensions of a tensor, each with the tensor's field."""


class OperatorDesc(Structure):
    """The base class of the operator descriptors. The constructor does not check DirectML's rules, because `validate` does.

    The class method `of` of each operator returns a descriptor for its inputs. An input is an array (with `shape` and `dtype`, or
    with `__dlpack__`), a BufferTensorDesc, or a pair (sizes, type). `of` infers OutputTensor and the counts of dimensions. Arrays
    become packed tensors, whatever their strides are. All tensors are padded with leading sizes of 1: to the largest rank among
    them, or to `dimension_count` dimensions if this is given. `output` describes an output that is not packed.

    `of` does not check DirectML's rules either. It raises TypeError for an argument that is not a tensor, for a type that
    DirectML lacks, for indices that are not integers, and for an `output` with another type than the data. It raises ValueError
    if the sizes of `output` do not fit the inferred sizes, or if none can be inferred, for example from an axis out of range.
    """

    operator: ClassVar[Operator]
    """The declaration of the operator."""

    @model_validator(mode="before")
    @classmethod
    def _without_type(cls, value: Any) -> Any:
        if not isinstance(value, Mapping) or "type" not in value:
            return value
        if value["type"] not in (cls.operator.type, cls.operator.name):
            raise refusal(f"type is {value['type']!r}; expected {cls.operator.type!r}")
        return {key: entry for key, entry in value.items() if key != "type"}

    @computed_field(alias="type", repr=False)  # type: ignore[prop-decorator] # computed_field decorates properties
    @property
    def type_name(self) -> str:
        """The operator's name in directml.h, "DML_OPERATOR_GATHER". In JSON it is "type"."""
        return self.operator.type

    def __str__(self) -> str:
        counts = {field: name for name, field in COUNTED.items() if self._drops_only_ones(name)}
        dimensions = {field: getattr(self, name) for field, name in counts.items()}
        *inputs, output = (self.tensor(field).text(dimensions.get(field)) for field in self.operator.tensors)
        values = [*self._values(set(counts.values()))]
        return f"{' '.join([self.operator.name, ', '.join(values)]).strip()}: {', '.join(inputs)} -> {output}"

    def _drops_only_ones(self, name: str) -> bool:
        sizes = self.tensor(COUNTED[name]).sizes if hasattr(self, name) else ()
        return bool(sizes) and getattr(self, name) <= len(sizes) and set(sizes[: len(sizes) - getattr(self, name)]) <= {1}

    def _values(self, hidden: Collection[str]) -> Iterator[str]:
        """Yield name and value of each field as a text: "axis 0". Leave out tensors, array lengths and `hidden` fields."""
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if name not in (*self.operator.tensors, *hidden) and field.default_factory is not unstated:
                yield f"{name} {braces(value) if isinstance(value, tuple) else value}"

    def tensor(self, field: str) -> BufferTensorDesc:
        """Return the tensor descriptor in a field, such as "indices_tensor"."""
        value = getattr(self, field)
        assert isinstance(value, BufferTensorDesc)
        return value

    def document(self) -> dict[str, Any]:
        """Return the descriptor as JSON-compatible data that `parse_descriptor` reads: {"type": …, "desc": {…}}.

        Fields that are None are left out, because DxDispatch reads no nulls.
        """
        return {"type": self.operator.type, "desc": self.model_dump(mode="json", exclude_none=True, exclude_computed_fields=True)}
