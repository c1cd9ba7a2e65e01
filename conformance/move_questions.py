"""Open questions about the operators without indices, and about the bits of floating-point numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conformance.questions import Question, question, refused, tensor
from dmlgather.directml import (
    DepthToSpace1OperatorDesc,
    GatherOperatorDesc,
    OperatorDesc,
    Slice1OperatorDesc,
    SliceOperatorDesc,
    SpaceToDepth1OperatorDesc,
)


def _slice(data: tuple[int, ...], offsets: list[int], sizes: list[int], strides: list[int]) -> SliceOperatorDesc:
    data_tensor, output = tensor("INT32", *data), tensor("INT32", *sizes)
    return SliceOperatorDesc(input_tensor=data_tensor, output_tensor=output, offsets=offsets, sizes=sizes, strides=strides)


def _slice1(data: tuple[int, ...], offsets: list[int], window: list[int], strides: list[int], *output: int) -> Slice1OperatorDesc:
    return Slice1OperatorDesc(
        input_tensor=tensor("INT32", *data),
        output_tensor=tensor("INT32", *output),
        input_window_offsets=offsets,
        input_window_sizes=window,
        input_window_strides=strides,
    )


def _blocks(kind: type[Any], data: tuple[int, ...], output: tuple[int, ...], block: int) -> OperatorDesc:
    desc = kind(input_tensor=tensor("INT32", *data), output_tensor=tensor("INT32", *output), block_size=block, order=0)
    assert isinstance(desc, OperatorDesc)
    return desc


COPIED = "the output is a copy of the input"

_SPECIAL: dict[str, dict[str, list[tuple[str, list[int]]]]] = {
    "nan": {
        "FLOAT32": [
            ("all bits are kept", [0x7FA12345, 0xFFC12345]),
            ("the signalling NaN becomes quiet", [0x7FE12345, 0xFFC12345]),
            ("all NaNs get the same bits", [0x7FC00000, 0x7FC00000]),
        ],
        "FLOAT16": [
            ("all bits are kept", [0x7D23, 0xFE45]),
            ("the signalling NaN becomes quiet", [0x7F23, 0xFE45]),
            ("all NaNs get the same bits", [0x7E00, 0x7E00]),
        ],
    },
    "denormal": {
        "FLOAT32": [
            ("all bits are kept", [0x00000001, 0x807FFFFF]),
            ("the numbers become 0 of their sign", [0x00000000, 0x80000000]),
            ("the numbers become +0", [0, 0]),
        ],
        "FLOAT16": [
            ("all bits are kept", [0x0001, 0x83FF]),
            ("the numbers become 0 of their sign", [0x0000, 0x8000]),
            ("the numbers become +0", [0, 0]),
        ],
    },
}


def _bits(what: str, operator: str, data_type: str) -> Question:
    """Return a question about the bits of two special floating-point numbers. `what`: a key of `_SPECIAL`."""
    pair = tensor(data_type, 2)
    desc: OperatorDesc
    if operator == "gather":
        index = tensor("UINT32", 2)
        desc = GatherOperatorDesc(input_tensor=pair, indices_tensor=index, output_tensor=pair, axis=0, index_dimensions=1)
    else:
        desc = Slice1OperatorDesc(
            input_tensor=pair,
            output_tensor=pair,
            input_window_offsets=[0],
            input_window_sizes=[2],
            input_window_strides=[1],
        )
    width = pair.data_type.bytes
    answers = [(means, np.array(bits, f"<u{width}").view(f"<f{width}")) for means, bits in _SPECIAL[what][data_type]]
    words = {"nan": "A signalling and a quiet NaN", "denormal": "Two denormal numbers"}
    asks = f"{words[what]} of {data_type}, moved by {desc.operator.name}"
    source = "[G]" if operator == "gather" else "[S1]"
    inputs: list[Sequence[float] | NDArray[Any]] = [answers[0][1], [0, 1]] if operator == "gather" else [answers[0][1]]
    return question(f"{operator}-{what}-f{8 * width}", asks, source, desc, inputs=inputs, answers=answers)


MOVE_QUESTIONS: tuple[Question, ...] = (
    question(
        "slice-stride-0",
        "Stride 0 in SLICE; the page does not mention it",
        "[S] Strides",
        _slice((4,), [1], [3], [0]),
        inputs=[[11, 12, 13, 14]],
        answers=refused(("the element is repeated", [12, 12, 12]), ("0 means 1", [12, 13, 14])),
    ),
    question(
        "slice1-stride-0",
        "Stride 0 in SLICE1; one page forbids it, and another allows it",
        "[S1] InputWindowStrides",
        _slice1((4,), [1], [3], [0], 3),
        inputs=[[11, 12, 13, 14]],
        answers=refused(("the element is repeated", [12, 12, 12]), ("0 means 1", [12, 13, 14])),
    ),
    question(
        "slice1-negative",
        "Example 2 of SLICE1, whose sizes contradict the page's formula for output sizes",
        "[S1] InputWindowStrides, Examples",
        _slice1((1, 1, 4, 4), [0, 0, 0, 1], [1, 1, 4, 3], [1, 1, -2, 2], 1, 1, 2, 2),
        inputs=[range(1, 17)],
        answers=[("the output is the page's", [14, 16, 6, 8]), *refused()],
        level="2_1",
    ),
    question(
        "slice-stride-high",
        "Stride 2^32 - 1 in a SLICE of one element",
        "[S] Strides",
        _slice((3,), [1], [1], [2**32 - 1]),
        inputs=[[11, 12, 13]],
        answers=[("accepted: the stride has no effect", [12]), *refused()],
    ),
    question(
        "slice1-stride-low",
        "Stride -2^31 in a SLICE1 of one element; its absolute value does not fit into 32 bits",
        "[S1] InputWindowStrides",
        _slice1((3,), [1], [2], [-(2**31)], 1),
        inputs=[[11, 12, 13]],
        answers=[("the last element of the window is read", [13]), ("the first element of the window is read", [12]), *refused()],
    ),
    question(
        "depth-block-0",
        "BlockSize 0 in DEPTH_TO_SPACE1",
        "[DS1] BlockSize",
        _blocks(DepthToSpace1OperatorDesc, (1, 1, 2, 2), (1, 1, 2, 2), 0),
        inputs=[[11, 12, 13, 14]],
        answers=refused((COPIED, [11, 12, 13, 14])),
        level="2_1",
    ),
    question(
        "space-block-0",
        "BlockSize 0 in SPACE_TO_DEPTH1",
        "[SD1] BlockSize",
        _blocks(SpaceToDepth1OperatorDesc, (1, 1, 2, 2), (1, 1, 2, 2), 0),
        inputs=[[11, 12, 13, 14]],
        answers=refused((COPIED, [11, 12, 13, 14])),
        level="2_1",
    ),
    question(
        "depth-block-1",
        "BlockSize 1 in DEPTH_TO_SPACE1; the page states no range",
        "[DS1] BlockSize",
        _blocks(DepthToSpace1OperatorDesc, (1, 1, 2, 2), (1, 1, 2, 2), 1),
        inputs=[[11, 12, 13, 14]],
        answers=[(COPIED, [11, 12, 13, 14]), *refused()],
        level="2_1",
    ),
    question(
        "depth-rest",
        "A number of channels that the block does not divide, in DEPTH_TO_SPACE1",
        "[DS1] OutputTensor",
        _blocks(DepthToSpace1OperatorDesc, (1, 5, 1, 2), (1, 1, 2, 4), 2),
        inputs=[range(11, 21)],
        answers=refused(("the last channels are ignored", [11, 13, 12, 14, 15, 17, 16, 18])),
        level="2_1",
    ),
    question(
        "space-rest",
        "A number of rows that the block does not divide, in SPACE_TO_DEPTH1",
        "[SD1] OutputTensor",
        _blocks(SpaceToDepth1OperatorDesc, (1, 1, 3, 2), (1, 4, 1, 1), 2),
        inputs=[range(11, 17)],
        answers=refused(("the last row is ignored", [11, 12, 13, 14])),
        level="2_1",
    ),
    *(_bits(what, operator, kind) for what in _SPECIAL for operator in ("gather", "slice1") for kind in ("FLOAT32", "FLOAT16")),
)
