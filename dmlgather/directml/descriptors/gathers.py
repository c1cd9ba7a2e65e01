"""The descriptors of the gathers, field for field."""

from __future__ import annotations

from typing import Any, Self

from dmlgather.directml import building
from dmlgather.directml.descriptors.operator_desc import OperatorDesc
from dmlgather.directml.fields import UInt32
from dmlgather.directml.tensor import BufferTensorDesc


class _WithIndices(OperatorDesc):
    """The three tensors that the structure of every gather starts with."""

    input_tensor: BufferTensorDesc
    """The tensor to read from."""

    indices_tensor: BufferTensorDesc
    """Positions along the indexed dimensions. UINT32; from feature level 3_0 also INT32, INT64 and UINT64, where negative
    values of the signed types count from the end. A value out of range is clamped to the nearest valid position."""

    output_tensor: BufferTensorDesc
    """The tensor to write; same data type as InputTensor."""


class GatherOperatorDesc(_WithIndices):
    """DML_GATHER_OPERATOR_DESC: output[lead…, i…, trail…] = input[lead…, indices[i…], trail…]. Source: [G].

    Fields take Python's names or DirectML's, and tensors may be written as dictionaries.

    >>> desc = dg.GatherOperatorDesc(
    ...     input_tensor={"data_type": "FLOAT32", "sizes": [5, 3]},
    ...     indices_tensor={"data_type": "INT64", "sizes": [1, 2]},
    ...     output_tensor={"data_type": "FLOAT32", "sizes": [2, 3]},
    ...     axis=0,
    ...     index_dimensions=1,
    ... )
    >>> dg.compile(desc)(np.arange(15, dtype=np.float32).reshape(5, 3), np.array([[4, -5]])).tolist()
    [[12.0, 13.0, 14.0], [0.0, 1.0, 2.0]]
    """

    axis: UInt32
    """Dimension of InputTensor that is indexed, 0 to DimensionCount - 1, counted with its leading 1s. Source: [G]."""

    index_dimensions: UInt32
    """How many trailing dimensions of IndicesTensor hold indices, 0 to DimensionCount; 0 for a single index, whose dimension
    is absent from the output. Source: [G]; its half-open range contradicts its own examples."""

    @classmethod
    def of(
        cls,
        data: Any,
        indices: Any,
        axis: int = 0,
        *,
        index_dimensions: int | None = None,
        dimension_count: int | None = None,
        output: Any = None,
    ) -> Self:
        """The descriptor of output[lead…, i…, trail…] = data[lead…, indices[i…], trail…].

        Tensors are passed as arrays, BufferTensorDescs or pairs (sizes, type); see OperatorDesc.

        data: [lead…, axis, trail…]. indices: integers [i…]. axis: of data as it is passed; a negative one counts from the end.
        index_dimensions: None for all dimensions of indices. The output is [lead…, i…, trail…] behind leading 1s.

        >>> desc = dg.GatherOperatorDesc.of(np.zeros((1000, 384), np.float32), np.array([7, 7, -1]))
        >>> desc.indices_tensor.sizes, desc.index_dimensions, desc.output_tensor.sizes
        ((1, 3), 1, (3, 384))
        """
        stated = {"dimension_count": dimension_count, "output": output}
        return building.gather(cls, data, indices, axis=axis, index_dimensions=index_dimensions, **stated)


class GatherElementsOperatorDesc(_WithIndices):
    """DML_GATHER_ELEMENTS_OPERATOR_DESC: output[c] = input[c with c[Axis] replaced by indices[c]]. Source: [GE]."""

    axis: UInt32
    """Dimension of InputTensor that is indexed, 0 to DimensionCount - 1. Source: [GE]."""

    @classmethod
    def of(cls, data: Any, indices: Any, axis: int = 0, *, dimension_count: int | None = None, output: Any = None) -> Self:
        """The descriptor of output[c] = data[c with c[axis] replaced by indices[c]].

        Tensors are passed as arrays, BufferTensorDescs or pairs (sizes, type); see OperatorDesc.

        data: [n…]. indices: integers [n…], of another size along the axis only. axis: of data as it is passed; a negative one
        counts from the end. The output has the sizes of indices.

        >>> dg.GatherElementsOperatorDesc.of(((5, 3), "float16"), ((5, 7), "int64"), axis=-1).output_tensor.sizes
        (5, 7)
        """
        return building.gather_elements(cls, data, indices, axis=axis, dimension_count=dimension_count, output=output)


class GatherNDOperatorDesc(_WithIndices):
    """DML_GATHER_ND_OPERATOR_DESC: output[i…, trail…] = input[tuple indices[i…, :], trail…]. Source: [GN]."""

    input_dimension_count: UInt32
    """How many trailing dimensions of InputTensor are used, 1 to DimensionCount; the others are 1. Source: [GN]."""

    indices_dimension_count: UInt32
    """How many trailing dimensions of IndicesTensor are used, 1 to DimensionCount; the others are 1. The last one holds the
    index tuples. Source: [GN]."""

    @classmethod
    def of(
        cls,
        data: Any,
        indices: Any,
        *,
        input_dimension_count: int | None = None,
        indices_dimension_count: int | None = None,
        dimension_count: int | None = None,
        output: Any = None,
    ) -> Self:
        """The descriptor of output[i…, trail…] = data[tuple indices[i…, :], trail…].

        Tensors are passed as arrays, BufferTensorDescs or pairs (sizes, type); see OperatorDesc.

        data: [n…, trail…]. indices: integers [i…, t], tuples of t positions in n…. Both counts: None for all dimensions of the
        tensor. The output is [i…, trail…] behind leading 1s.

        >>> desc = dg.GatherNDOperatorDesc.of(((4, 5, 6), "float32"), ((7, 2), "int64"))
        >>> desc.input_dimension_count, desc.indices_tensor.sizes, desc.output_tensor.sizes
        (3, (1, 7, 2), (1, 7, 6))
        """
        counts = {"input_dimension_count": input_dimension_count, "indices_dimension_count": indices_dimension_count}
        return building.gather_nd(cls, data, indices, counts=counts, dimension_count=dimension_count, output=output)


class GatherND1OperatorDesc(GatherNDOperatorDesc):
    """DML_GATHER_ND1_OPERATOR_DESC: output[b…, i…, trail…] = input[b…, tuple indices[b…, i…, :], trail…]. Source: [GN1]."""

    batch_dimension_count: UInt32
    """How many of the first used dimensions of InputTensor and IndicesTensor are batch dimensions, which both tensors share;
    less than both counts. Source: [GN1]."""

    @classmethod
    def of(
        cls,
        data: Any,
        indices: Any,
        *,
        batch_dimension_count: int = 0,
        input_dimension_count: int | None = None,
        indices_dimension_count: int | None = None,
        dimension_count: int | None = None,
        output: Any = None,
    ) -> Self:
        """The descriptor of output[b…, i…, trail…] = data[b…, tuple indices[b…, i…, :], trail…].

        Tensors are passed as arrays, BufferTensorDescs or pairs (sizes, type); see OperatorDesc.

        data: [b…, n…, trail…]. indices: integers [b…, i…, t]. batch_dimension_count: the number of b…. The other counts: None for
        all dimensions of the tensor. The output is [b…, i…, trail…] behind leading 1s.

        >>> desc = dg.GatherND1OperatorDesc.of(((4, 5, 6), "float32"), ((4, 1), "int64"), batch_dimension_count=1)
        >>> desc.indices_tensor.sizes, desc.output_tensor.sizes
        ((1, 4, 1), (1, 4, 6))
        """
        counts = {
            "input_dimension_count": input_dimension_count,
            "indices_dimension_count": indices_dimension_count,
            "batch_dimension_count": batch_dimension_count,
        }
        return building.gather_nd(cls, data, indices, counts=counts, dimension_count=dimension_count, output=output)
