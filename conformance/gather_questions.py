"""Open questions about the dimensions and types of gathers."""

from __future__ import annotations

from conformance.questions import Question, question, refused, tensor
from dmlgather.directml import GatherElementsOperatorDesc, GatherND1OperatorDesc, GatherNDOperatorDesc, GatherOperatorDesc

ROWS = range(11, 17)
"""InputTensor of some questions. Its elements differ, so that an output shows which of them were read."""


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
        "An output of another type than the input, as in the page's example",
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
        "IndexDimensions equal to DimensionCount; the page's range excludes it",
        "[G] IndexDimensions, Example 1",
        _gather((1, 4), (2, 2), (2, 2), 1, 2),
        inputs=[[11, 12, 13, 14], [3, 0, 1, 2]],
        answers=[("all dimensions of IndicesTensor are index dimensions", [14, 11, 12, 13]), *refused()],
    ),
    question(
        "gather-scalar",
        "IndexDimensions 0, with a leading 1 in OutputTensor",
        "[G] IndexDimensions; [DMLX]",
        _gather((3, 2), (1, 1), (1, 2), 0, 0),
        inputs=[ROWS, [2]],
        answers=[("accepted", [15, 16]), *refused()],
    ),
    question(
        "gather-example-3",
        "Example 3 of GATHER, with the printed IndexDimensions 2",
        "[G] Examples",
        _gather((3, 2), (1, 2), (3, 2), 1, 2),
        inputs=[[1, 2, 3, 4, 5, 6], [1, 0]],
        answers=refused(("the output is the page's", [2, 1, 4, 3, 6, 5])),
    ),
    question(
        "gather-batch",
        "Leading dimensions of IndicesTensor above 1",
        "[ISSUE-685]",
        _gather((3, 3), (3, 2), (3, 2), 1, 1),
        inputs=[[1, 2, 3, 4, 5, 6, 7, 8, 9], [0, 2, 1, 0, 2, 1]],
        answers=[
            ("each row of InputTensor has its own row of indices", [1, 3, 5, 4, 9, 8]),
            ("all rows use the first row of indices", [1, 3, 4, 6, 7, 9]),
            *refused(),
        ],
    ),
    question(
        "gather-batch-place",
        "The dimension of InputTensor that a leading dimension of IndicesTensor belongs to",
        "[ISSUE-685]",
        _gather((2, 2, 2, 1), (1, 1, 2, 1), (2, 2, 1, 1), 2, 1),
        inputs=[range(11, 19), [1, 0]],
        answers=[
            ("the first one above 1", [12, 14, 15, 17]),
            ("the one before Axis", [12, 13, 16, 17]),
            ("none: all rows use the first row of indices", [12, 14, 16, 18]),
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
            ("all rows use the first row of indices", [1, 3, 4, 6, 7, 9]),
            ("further rows use the last row of indices", [1, 3, 5, 4, 8, 7]),
            ("the rows of indices are repeated", [1, 3, 5, 4, 7, 9]),
        ),
    ),
    question(
        "nd-leading-dims",
        "A dimension of InputTensor above 1 that InputDimensionCount leaves out",
        "[GN] InputDimensionCount",
        _nd((2, 3), (1, 1), (1, 1), (1, 1)),
        inputs=[ROWS, [1]],
        answers=refused(("the first row is read", [12]), ("the rows are indexed", [14])),
    ),
    question(
        "nd-leading-indices",
        "A dimension of IndicesTensor above 1 that IndicesDimensionCount leaves out",
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
        answers=refused(("the first components index the leading dimensions", [13]), ("the last components are ignored", [11])),
    ),
    question(
        "nd-printed-sizes",
        "Example 2 of GATHER_ND with the output sizes of the page's formula, which contradicts the example",
        "[GN] OutputTensor, Examples",
        _nd((1, 2, 2, 2), (1, 1, 2, 2), (1, 2, 2, 2), (3, 2)),
        inputs=[[0, 1, 2, 3, 4, 5, 6, 7], [0, 1, 1, 0]],
        answers=refused(("the result is repeated", [2, 3, 4, 5, 2, 3, 4, 5])),
    ),
    question(
        "nd1-batch-sizes",
        "Different batch sizes in InputTensor and IndicesTensor",
        "[GN1] BatchDimensionCount",
        _nd((2, 2), (1, 1), (1, 1), (2, 2), 1),
        inputs=[[11, 12, 13, 14], [1]],
        answers=refused(("the first batch of InputTensor is read", [12]), ("the last batch of InputTensor is read", [14])),
    ),
    question(
        "nd1-batch-count",
        "BatchDimensionCount equal to InputDimensionCount; the page's range includes it",
        "[GN1] BatchDimensionCount; [DMLX]",
        _nd((1, 2), (2, 1), (1, 2), (1, 2), 1),
        inputs=[[11, 12], [1, 0]],
        answers=refused(("the batch dimension is indexed", [12, 11]), ("InputTensor is copied", [11, 12])),
    ),
)
