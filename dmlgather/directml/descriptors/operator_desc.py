"""What all operator descriptors share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from dmlgather.directml.fields import Structure
from dmlgather.directml.tensor import BufferTensorDesc

if TYPE_CHECKING:
    from dmlgather.directml.operators.operator import Operator


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

    def tensor(self, field: str) -> BufferTensorDesc:
        """The tensor descriptor in `field` ("indices_tensor")."""
        found = getattr(self, field)
        assert isinstance(found, BufferTensorDesc)
        return found

    def document(self) -> dict[str, Any]:
        """The descriptor as `parse_descriptor` reads it: {"type": "DML_OPERATOR_GATHER", "desc": {...}}, ready for JSON.

        Fields that are None are left out, because DxDispatch reads no nulls.
        """
        return {"type": self.operator.type, "desc": self.model_dump(mode="json", exclude_none=True)}
