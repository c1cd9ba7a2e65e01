"""Open questions about tensors and bindings of any operator; most use SLICE1 as a copy."""

from __future__ import annotations

from conformance.questions import Question, question, refused, tensor
from dmlgather.directml import (
    BufferTensorDesc,
    DepthToSpace1OperatorDesc,
    GatherElementsOperatorDesc,
    GatherOperatorDesc,
    OperatorDesc,
    Slice1OperatorDesc,
    TensorFlags,
)

SIX = [11, 12, 13, 14, 15, 16]


def _copy(data: BufferTensorDesc, output: BufferTensorDesc) -> OperatorDesc:
    """Return a SLICE1 that copies the first elements to fill the output."""
    return Slice1OperatorDesc(
        input_tensor=data,
        output_tensor=output,
        input_window_offsets=[0] * output.rank,
        input_window_sizes=output.sizes,
        input_window_strides=[1] * output.rank,
    )


def _two_rows(data: BufferTensorDesc, output: BufferTensorDesc, flags: TensorFlags = TensorFlags.NONE) -> OperatorDesc:
    index = tensor("UINT32", 1, 2, flags=flags)
    return GatherOperatorDesc(input_tensor=data, indices_tensor=index, output_tensor=output, axis=0, index_dimensions=1)


TENSOR_QUESTIONS: tuple[Question, ...] = (
    question(
        "dims-0",
        "DimensionCount 0 (a scalar)",
        "[BTD] DimensionCount",
        _copy(tensor("INT32"), tensor("INT32")),
        inputs=[[11]],
        answers=refused(("the element is copied", [11])),
    ),
    question(
        "input-overlap",
        "Input strides other than 0 that give several elements one address",
        "[BTD] Strides",
        _copy(tensor("INT32", 3, 2, strides=[1, 1]), tensor("INT32", 3, 2)),
        inputs=[[11, 12, 13, 14]],
        answers=[("elements are read at the shared addresses", [11, 12, 12, 13, 13, 14]), *refused()],
    ),
    question(
        "input-unused-stride",
        "Stride 2^32 - 1 in an input dimension of size 1",
        "[BTD] Strides",
        _copy(tensor("INT32", 1, 3, strides=[2**32 - 1, 1]), tensor("INT32", 1, 3)),
        inputs=[[11, 12, 13]],
        answers=[("accepted: the stride has no effect", [11, 12, 13]), *refused()],
    ),
    question(
        "input-elements",
        "An input of more than 2^32 - 1 elements, with strides of 0; four elements are read",
        "[BTD] Sizes",
        _copy(tensor("INT32", 65536, 65536, 2, strides=[0, 0, 0]), tensor("INT32", 1, 2, 2)),
        inputs=[[11]],
        answers=[("the element is repeated", [11, 11, 11, 11]), *refused()],
    ),
    question(
        "indices-stride-0",
        "Stride 0 in IndicesTensor",
        "[BTD] Strides",
        GatherElementsOperatorDesc(
            input_tensor=tensor("INT32", 3, 2),
            indices_tensor=tensor("UINT32", 3, 2, strides=[0, 1]),
            output_tensor=tensor("INT32", 3, 2),
            axis=1,
        ),
        inputs=[SIX, [1, 0]],
        answers=[("the indices are repeated", [12, 11, 14, 13, 16, 15]), *refused()],
    ),
    question(
        "indices-owned",
        "The flag OWNED_BY_DML on IndicesTensor",
        "[TF]",
        _two_rows(tensor("INT32", 3, 2), tensor("INT32", 2, 2), TensorFlags.OWNED_BY_DML),
        inputs=[SIX, [2, 0]],
        answers=[("the indices are read at initialisation", [15, 16, 11, 12]), *refused()],
    ),
    question(
        "output-transposed",
        "Output strides that permute the dimensions, in SLICE1",
        "[BTD] Strides",
        _copy(tensor("INT32", 2, 3), tensor("INT32", 2, 3, strides=[1, 2])),
        inputs=[SIX],
        answers=[
            ("elements are written by these strides", SIX),
            ("strides are ignored", [11, 13, 15, 12, 14, 16]),
            *refused(),
        ],
    ),
    question(
        "output-channels",
        "Output strides of NHWC, as in DirectMLX, in DEPTH_TO_SPACE1",
        "[BTD] Strides; [DMLX]",
        DepthToSpace1OperatorDesc(
            input_tensor=tensor("INT32", 1, 8, 1, 1),
            output_tensor=tensor("INT32", 1, 2, 2, 2, strides=[8, 1, 4, 2]),
            block_size=2,
            order="DEPTH_COLUMN_ROW",
        ),
        inputs=[range(11, 19)],
        answers=[
            ("elements are written by these strides", [11, 13, 15, 17, 12, 14, 16, 18]),
            ("strides are ignored", [11, 15, 12, 16, 13, 17, 14, 18]),
            *refused(),
        ],
        level="2_1",
    ),
    question(
        "output-gaps",
        "Output strides that leave gaps, in GATHER",
        "[BTD] Strides",
        _two_rows(tensor("INT32", 3, 2), tensor("INT32", 2, 2, strides=[3, 1])),
        inputs=[SIX, [2, 0]],
        answers=[("elements are written by these strides", [15, 16, 11, 12]), *refused()],
    ),
    question(
        "output-stride-0",
        "Output stride 0: all rows have the same addresses",
        "[BTD] Strides",
        _copy(tensor("INT32", 2, 3), tensor("INT32", 2, 3, strides=[0, 1])),
        inputs=[SIX],
        answers=refused(("the last row is kept", [14, 15, 16] * 2), ("the first row is kept", [11, 12, 13] * 2)),
    ),
    question(
        "output-overlap",
        "Output strides other than 0 that make rows overlap",
        "[BTD] Strides",
        _copy(tensor("INT32", 2, 2), tensor("INT32", 2, 2, strides=[1, 1])),
        inputs=[[11, 12, 13, 14]],
        answers=refused(("the last row is kept", [11, 13, 13, 14]), ("the first row is kept", [11, 12, 12, 14])),
    ),
    question(
        "output-stride-0-size-1",
        "Output stride 0 in a dimension of size 1",
        "[BTD] Strides",
        _copy(tensor("INT32", 1, 3), tensor("INT32", 1, 3, strides=[0, 1])),
        inputs=[[11, 12, 13]],
        answers=[("accepted: the stride has no effect", [11, 12, 13]), *refused()],
    ),
    question(
        "total-size",
        "A TotalTensorSizeInBytes that is no multiple of 4",
        "[BTD] TotalTensorSizeInBytes",
        _copy(tensor("UINT8", 5, total_tensor_size_in_bytes=9), tensor("UINT8", 5)),
        inputs=[[11, 12, 13, 14, 15, 0, 0, 0, 0]],
        answers=[("accepted", [11, 12, 13, 14, 15]), *refused()],
    ),
    question(
        "alignment-8",
        "A GuaranteedBaseOffsetAlignment of 8; every binding has at least 16",
        "[BTD] GuaranteedBaseOffsetAlignment",
        _copy(tensor("INT32", 3, guaranteed_base_offset_alignment=8), tensor("INT32", 3)),
        inputs=[[11, 12, 13]],
        answers=[("accepted", [11, 12, 13]), *refused()],
    ),
    question(
        "in-place",
        "An output that is bound to the memory of the input",
        "[BIND]",
        _copy(tensor("INT32", 4), tensor("INT32", 4)),
        inputs=[[11, 12, 13, 14]],
        answers=refused(("each element is copied to its own address", [11, 12, 13, 14])),
        in_place=True,
    ),
)
