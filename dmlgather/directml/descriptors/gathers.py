"""The descriptors of GATHER, GATHER_ELEMENTS, GATHER_ND and GATHER_ND1, with the fields of the structures in directml.h."""

from __future__ import annotations

from typing import Any, Self

from dmlgather.directml import building
from dmlgather.directml.descriptors.operator_desc import OperatorDesc
from dmlgather.directml.fields import UInt32
from dmlgather.directml.tensor import BufferTensorDesc


class _IndexedOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    """The tensor to read from."""

    indices_tensor: BufferTensorDesc
    """Positions along the indexed dimensions. The type is UINT32; from feature level 3_0 on, also INT32, INT64 or UINT64.
    Negative values count from the end. A value out of range is clamped to the nearest valid position."""

    output_tensor: BufferTensorDesc
    """The tensor to write; same data type as InputTensor."""


class GatherOperatorDesc(_IndexedOperatorDesc):
    """DML_GATHER_OPERATOR_DESC: output[lead…, i…, trail…] = input[lead…, indices[i…], trail…].

    Source: [G] in `dmlgather.directml.SOURCES`.

    The arguments have the fields' names in Python or in DirectML. A tensor may be a dictionary.

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
    """Dimension of InputTensor that is indexed, 0 to DimensionCount - 1. Leading dimensions of size 1 count. Source: [G]."""

    index_dimensions: UInt32
    """Number of trailing dimensions of IndicesTensor that hold indices, 0 to DimensionCount. 0 means a single index, which adds
    no dimension to the output. Source: [G]. According to Microsoft's page, the number must be less than DimensionCount, but
    examples on the page use DimensionCount."""

    @classmethod
    @building.suggesting
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
        """Return the descriptor of output[lead…, i…, trail…] = data[lead…, indices[i…], trail…].

        `data`, `indices`, `output`: arrays, BufferTensorDescs or pairs (sizes, type); see OperatorDesc. Shapes: `data` [lead…, n,
        trail…], `indices` [i…], `output` [lead…, i…, trail…] behind leading 1s. `axis`: the dimension n of `data`, counted before
        leading 1s are added; negative values count from the end. `index_dimensions`: None for all dimensions of `indices`.

        >>> desc = dg.GatherOperatorDesc.of(np.zeros((1000, 384), np.float32), np.array([7, 7, -1]))
        >>> desc.indices_tensor.sizes, desc.index_dimensions, desc.output_tensor.sizes
        ((1, 3), 1, (3, 384))
        """
        source, ids = building.tensor_of("data", data), building.indices_of(indices)
        axis = building.axis_of(axis, source)
        count = building.count_of("index_dimensions", index_dimensions, ids.rank, "indices")
        return building.padded_descriptor(
            cls,
            {"input_tensor": source, "indices_tensor": ids},
            lambda padding: {"axis": axis + padding, "index_dimensions": count},
            rank=source.rank - 1 + count,
            output=output,
            dimension_count=dimension_count,
        )


class GatherElementsOperatorDesc(_IndexedOperatorDesc):
    """DML_GATHER_ELEMENTS_OPERATOR_DESC: output[c] = input[c with indices[c] in place of c[Axis]].

    Example: output[i, j] = input[indices[i, j], j] for two dimensions and Axis 0.
    Source: [GE] in `dmlgather.directml.SOURCES`.
    """

    axis: UInt32
    """Dimension of InputTensor that is indexed, 0 to DimensionCount - 1. Source: [GE]."""

    @classmethod
    @building.suggesting
    def of(cls, data: Any, indices: Any, axis: int = 0, *, dimension_count: int | None = None, output: Any = None) -> Self:
        """Return the descriptor of output[c] = data[c with indices[c] in place of c[axis]].

        `data`, `indices`, `output`: arrays, BufferTensorDescs or pairs (sizes, type); see OperatorDesc. `data` and `indices` have
        equal sizes in all dimensions except `axis`. `output` has the sizes of `indices`. `axis`: a dimension of `data`, counted
        before leading 1s are added; negative values count from the end.

        >>> dg.GatherElementsOperatorDesc.of(((5, 3), "float16"), ((5, 7), "int64"), axis=-1).output_tensor.sizes
        (5, 7)
        """
        source, ids = building.tensor_of("data", data), building.indices_of(indices)
        axis = building.axis_of(axis, source)
        return building.padded_descriptor(
            cls,
            {"input_tensor": source, "indices_tensor": ids},
            lambda padding: {"axis": axis + padding},
            rank=ids.rank,
            output=output,
            dimension_count=dimension_count,
        )


class GatherNDOperatorDesc(_IndexedOperatorDesc):
    """DML_GATHER_ND_OPERATOR_DESC: output[i…, trail…] = input[tuple indices[i…, :], trail…].

    Source: [GN] in `dmlgather.directml.SOURCES`.
    """

    input_dimension_count: UInt32
    """Number of trailing dimensions of InputTensor that are used, 1 to DimensionCount. The dimensions before them have size 1.
    Source: [GN]."""

    indices_dimension_count: UInt32
    """Number of trailing dimensions of IndicesTensor that are used, 1 to DimensionCount. The dimensions before them have size 1.
    The last dimension holds the components of an index tuple. Source: [GN]."""

    @classmethod
    @building.suggesting
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
        """Return the descriptor of output[i…, trail…] = data[tuple indices[i…, :], trail…].

        `data`, `indices`, `output`: arrays, BufferTensorDescs or pairs (sizes, type); see OperatorDesc. Shapes: `data` [n…,
        trail…], `indices` [i…, t], `output` [i…, trail…] behind leading 1s. A tuple has t positions, one for each dimension n….
        `input_dimension_count`, `indices_dimension_count`: None for all dimensions.

        >>> desc = dg.GatherNDOperatorDesc.of(((4, 5, 6), "float32"), ((7, 2), "int64"))
        >>> desc.input_dimension_count, desc.indices_tensor.sizes, desc.output_tensor.sizes
        (3, (1, 7, 2), (1, 7, 6))
        """
        counts = {"input_dimension_count": input_dimension_count, "indices_dimension_count": indices_dimension_count}
        return building.gather_nd(cls, data, indices, counts=counts, dimension_count=dimension_count, output=output)


class GatherND1OperatorDesc(GatherNDOperatorDesc):
    """DML_GATHER_ND1_OPERATOR_DESC: output[b…, i…, trail…] = input[b…, tuple indices[b…, i…, :], trail…].

    Source: [GN1] in `dmlgather.directml.SOURCES`.
    """

    batch_dimension_count: UInt32
    """Number of batch dimensions. They are the first used dimensions of InputTensor and IndicesTensor, and have equal sizes in
    both. The number is less than InputDimensionCount and IndicesDimensionCount. Source: [GN1]."""

    @classmethod
    @building.suggesting
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
        """Return the descriptor of output[b…, i…, trail…] = data[b…, tuple indices[b…, i…, :], trail…].

        `data`, `indices`, `output`: arrays, BufferTensorDescs or pairs (sizes, type); see OperatorDesc. Shapes: `data` [b…, n…,
        trail…], `indices` [b…, i…, t], `output` [b…, i…, trail…] behind leading 1s. A tuple has t positions, one for each
        dimension n…. `batch_dimension_count`: the number of dimensions b…. `input_dimension_count`, `indices_dimension_count`:
        None for all dimensions.

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
