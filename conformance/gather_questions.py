"""Open questions about the dimensions and types of gathers."""

from __future__ import annotations

from conformance.questions import Question, question, refused, tensor
from dmlgather.directml import GatherElementsOperatorDesc, GatherND1OperatorDesc, GatherNDOperatorDesc, GatherOperatorDesc

ROWS = range(11, 17)
"""InputTensor of some questions. The elements differ, so that an output shows which of them were read."""


def _gather(
    data: tuple[int, ...], indices: tuple[int, ...], output: tuple[int, ...], axis: int, count: int
) -> GatherOperatorDesc:
    return GatherOperatorDesc(
        input_tensor=tensor("INT32", *data),
        indices_tensor=tensor("UINT32", *indices),
        output_tensor=tensor("INT32", *output),
        axis=axis,
        index_dimensions=count,
    )


def _nd(
    data: tuple[int, ...], indices: tuple[int, ...], output: tuple[int, ...], counts: tuple[int, int], batch: int | None = None
) -> GatherNDOperatorDesc:
    fields = {
        "input_tensor": tensor("INT32", *data),
        "indices_tensor": tensor("UINT32", *indices),
        "output_tensor": tensor("INT32", *output),
        "input_dimension_count": counts[0],
        "indices_dimension_count": counts[1],
    }
    if batch is None:
        return GatherNDOperatorDesc.model_validate(fields)
    return GatherND1OperatorDesc.model_validate({**fields, "batch_dimension_count": batch})


GATHER_QUESTIONS: tuple[Question, ...] = (
    question(
        "elements-types",
        "An output of another type than the input, as the page's example prints it",
        "[GE] Example",
        GatherElementsOperatorDesc(
            input_tensor=tensor("FLOAT32", 1, 2),
            indices_tensor=tensor("UINT32", 1, 2),
            output_tensor=tensor("UINT32", 1, 2),
            axis=1,
        ),
        inputs=[[1, 2], [1, 0]],
        answers=refused(("the bits are copied", [0x40000000, 0x3F800000]), ("the numbers are converted", [2, 1])),
    ),
    question(
        "gather-all-dims",
        "IndexDimensions equal to DimensionCount, outside the range that the page prints",
        "[G] IndexDimensions, Example 1",
        _gather((1, 4), (2, 2), (2, 2), 1, 2),
        inputs=[[11, 12, 13, 14], [3, 0, 1, 2]],
        answers=[("all dimensions of IndicesTensor count", [14, 11, 12, 13]), *refused()],
    ),
    question(
        "gather-scalar",
        "IndexDimensions 0: whether a leading 1 takes the place of the missing dimension",
        "[G] IndexDimensions; [DMLX]",
        _gather((3, 2), (1, 1), (1, 2), 0, 0),
        inputs=[ROWS, [2]],
        answers=[("OutputTensor gets a leading 1", [15, 16]), *refused()],
    ),
    question(
        "gather-example-3",
        "Example 3 as printed, with IndexDimensions 2",
        "[G] Examples",
        _gather((3, 2), (1, 2), (3, 2), 1, 2),
        inputs=[[1, 2, 3, 4, 5, 6], [1, 0]],
        answers=refused(("it gives the output that the page prints", [2, 1, 4, 3, 6, 5])),
    ),
    question(
        "gather-batch",
        "Leading dimensions of IndicesTensor that are not 1",
        "[ISSUE-685]",
        _gather((3, 3), (3, 2), (3, 2), 1, 1),
        inputs=[[1, 2, 3, 4, 5, 6, 7, 8, 9], [0, 2, 1, 0, 2, 1]],
        answers=[
            ("one row of indices per row of InputTensor", [1, 3, 5, 4, 9, 8]),
            ("the first row of indices for all rows", [1, 3, 4, 6, 7, 9]),
            *refused(),
        ],
    ),
    question(
        "gather-batch-place",
        "Which dimension of InputTensor a leading dimension of IndicesTensor goes with",
        "[ISSUE-685]",
        _gather((2, 2, 2, 1), (1, 1, 2, 1), (2, 2, 1, 1), 2, 1),
        inputs=[range(11, 19), [1, 0]],
        answers=[
            ("the first that is not 1", [12, 14, 15, 17]),
            ("the one before Axis", [12, 13, 16, 17]),
            ("none: the first row of indices counts", [12, 14, 16, 18]),
            *refused(),
        ],
        level="2_1",
    ),
    question(
        "gather-batch-sizes",
        "A leading dimension of IndicesTensor that is neither 1 nor InputTensor's size",
        "[ISSUE-685]",
        _gather((3, 3), (2, 2), (3, 2), 1, 1),
        inputs=[[1, 2, 3, 4, 5, 6, 7, 8, 9], [0, 2, 1, 0]],
        answers=refused(
            ("the first row of indices for all rows", [1, 3, 4, 6, 7, 9]),
            ("the last row of indices for the rows behind it", [1, 3, 5, 4, 8, 7]),
            ("the rows of indices in turn", [1, 3, 5, 4, 7, 9]),
        ),
    ),
    question(
        "nd-leading-dims",
        "A dimension left of InputDimensionCount that is not 1",
        "[GN] InputDimensionCount",
        _nd((2, 3), (1, 1), (1, 1), (1, 1)),
        inputs=[ROWS, [1]],
        answers=refused(("the first row is read", [12]), ("the rows are indexed", [14])),
    ),
    question(
        "nd-leading-indices",
        "A dimension left of IndicesDimensionCount that is not 1",
        "[GN] IndicesDimensionCount",
        _nd((1, 3), (2, 1), (1, 1), (1, 1)),
        inputs=[[11, 12, 13], [2, 0]],
        answers=refused(("the first index is used", [13]), ("the last index is used", [11])),
    ),
    question(
        "nd-tuple",
        "Index tuples with more components than InputDimensionCount",
        "[GN] IndicesTensor; [DMLX]",
        _nd((1, 3), (1, 2), (1, 1), (1, 2)),
        inputs=[[11, 12, 13], [0, 2]],
        answers=refused(("they reach into the leading dimensions", [13]), ("the first components count", [11])),
    ),
    question(
        "nd-printed-sizes",
        "Example 2 with the output sizes of the page's formula, which contradicts the example",
        "[GN] OutputTensor, Examples",
        _nd((1, 2, 2, 2), (1, 1, 2, 2), (1, 2, 2, 2), (3, 2)),
        inputs=[[0, 1, 2, 3, 4, 5, 6, 7], [0, 1, 1, 0]],
        answers=refused(("the result is repeated", [2, 3, 4, 5, 2, 3, 4, 5])),
    ),
    question(
        "nd1-batch-sizes",
        "Batch dimensions of InputTensor and IndicesTensor that differ",
        "[GN1] BatchDimensionCount",
        _nd((2, 2), (1, 1), (1, 1), (2, 2), 1),
        inputs=[[11, 12, 13, 14], [1]],
        answers=refused(("the first batch of InputTensor is read", [12]), ("the last batch of InputTensor is read", [14])),
    ),
    question(
        "nd1-batch-count",
        "BatchDimensionCount equal to InputDimensionCount, within the range that the page prints",
        "[GN1] BatchDimensionCount; [DMLX]",
        _nd((1, 2), (2, 1), (1, 2), (1, 2), 1),
        inputs=[[11, 12], [1, 0]],
        answers=refused(("the batch dimension is indexed", [12, 11]), ("InputTensor is copied", [11, 12])),
    ),
)
