"""DirectML descriptors as problems: calls of an operator on row-major arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.directml import BufferTensorDesc, OperatorDesc, lower
from dmlgather.directml.fields import wire_name
from dmlgather.plan import IndexPlan, Layout, OutOfBounds


@dataclass(frozen=True)
class DescriptorProblem(Problem):
    """The operator call that a valid descriptor describes, on arrays of the stated Sizes. Strides are ignored."""

    desc: OperatorDesc

    out_of_bounds = OutOfBounds.CLAMP

    @property
    def name(self) -> str:  # type: ignore[override] # it follows from the descriptor
        """The operator's name, such as "GATHER"."""
        return self.desc.operator.name

    @property
    def inputs(self) -> tuple[str, ...]:  # type: ignore[override] # likewise
        """Names of the inputs: "data", and "indices" if there are any."""
        return ("data", "indices")[: len(self.desc.operator.inputs)]

    @property
    def arguments(self) -> tuple[str, ...]:
        return tuple(map(wire_name, self.desc.operator.inputs))

    @property
    def data(self) -> TensorType:  # type: ignore[override] # likewise
        """Type of InputTensor."""
        return tensor_type(self.desc.tensor("input_tensor"))

    @property
    def indices(self) -> TensorType:
        """Type of IndicesTensor."""
        return tensor_type(self.desc.tensor("indices_tensor"))

    @property
    def output(self) -> TensorType:
        return tensor_type(self.desc.tensor(self.desc.operator.output))

    @property
    def lookup_axes(self) -> tuple[int, ...]:
        return self.desc.operator.lookup_axes(self.desc)

    def _lower(self, layouts: Sequence[Layout]) -> IndexPlan:
        return lower(self.desc, dict(zip(self.desc.operator.tensors, layouts, strict=True)))


def tensor_type(tensor: BufferTensorDesc) -> TensorType:
    """Return Sizes and data type of a tensor descriptor."""
    return TensorType(tensor.sizes, np.dtype(tensor.data_type.name.lower()))
