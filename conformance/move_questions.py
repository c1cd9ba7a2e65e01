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
            ("every bit is kept", [0x7FA12345, 0xFFC12345]),
            ("the signalling NaN becomes quiet", [0x7FE12345, 0xFFC12345]),
            ("all NaNs become one", [0x7FC00000, 0x7FC00000]),
        ],
        "FLOAT16": [
            ("every bit is kept", [0x7D23, 0xFE45]),
            ("the signalling NaN becomes quiet", [0x7F23, 0xFE45]),
            ("all NaNs become one", [0x7E00, 0x7E00]),
        ],
    },
    "denormal": {
        "FLOAT32": [
            ("every bit is kept", [0x00000001, 0x807FFFFF]),
            ("they become 0 of their sign", [0x00000000, 0x80000000]),
            ("they become 0", [0, 0]),
        ],
        "FLOAT16": [
            ("every bit is kept", [0x0001, 0x83FF]),
            ("they become 0 of their sign", [0x0000, 0x8000]),
            ("they become 0", [0, 0]),
        ],
    },
}


def _bits(what: str, operator: str, data_type: str) -> Question:
    """Return the question if two special floating-point numbers keep their bits. `what`: a key of `_SPECIAL`."""
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
        "A stride of 0 in SLICE, which the page does not address",
        "[S] Strides",
        _slice((4,), [1], [3], [0]),
        inputs=[[11, 12, 13, 14]],
        answers=refused(("the element is repeated", [12, 12, 12]), ("0 means 1", [12, 13, 14])),
    ),
    question(
        "slice1-stride-0",
        "A stride of 0 in SLICE1, which one page forbids and another allows",
        "[S1] InputWindowStrides",
        _slice1((4,), [1], [3], [0], 3),
        inputs=[[11, 12, 13, 14]],
        answers=refused(("the element is repeated", [12, 12, 12]), ("0 means 1", [12, 13, 14])),
    ),
    question(
        "slice1-negative",
        "Example 2, which the page's formula for the output sizes refuses",
        "[S1] InputWindowStrides, Examples",
        _slice1((1, 1, 4, 4), [0, 0, 0, 1], [1, 1, 4, 3], [1, 1, -2, 2], 1, 1, 2, 2),
        inputs=[range(1, 17)],
        answers=[("it gives the output that the page prints", [14, 16, 6, 8]), *refused()],
        level="2_1",
    ),
    question(
        "slice-stride-high",
        "A stride of 2^32 - 1 where one element is read",
        "[S] Strides",
        _slice((3,), [1], [1], [2**32 - 1]),
        inputs=[[11, 12, 13]],
        answers=[("it does not matter", [12]), *refused()],
    ),
    question(
        "slice1-stride-low",
        "A stride of -2^31, which has no absolute value in 32 bits, where one element is read",
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
        "BlockSize 1, of which the page states no range",
        "[DS1] BlockSize",
        _blocks(DepthToSpace1OperatorDesc, (1, 1, 2, 2), (1, 1, 2, 2), 1),
        inputs=[[11, 12, 13, 14]],
        answers=[(COPIED, [11, 12, 13, 14]), *refused()],
        level="2_1",
    ),
    question(
        "depth-rest",
        "Channels that are left over, in DEPTH_TO_SPACE1",
        "[DS1] OutputTensor",
        _blocks(DepthToSpace1OperatorDesc, (1, 5, 1, 2), (1, 1, 2, 4), 2),
        inputs=[range(11, 21)],
        answers=refused(("the first channels are used", [11, 13, 12, 14, 15, 17, 16, 18])),
        level="2_1",
    ),
    question(
        "space-rest",
        "A row that is left over, in SPACE_TO_DEPTH1",
        "[SD1] OutputTensor",
        _blocks(SpaceToDepth1OperatorDesc, (1, 1, 3, 2), (1, 4, 1, 1), 2),
        inputs=[range(11, 17)],
        answers=refused(("the first rows are used", [11, 12, 13, 14])),
        level="2_1",
    ),
    *(_bits(what, operator, kind) for what in _SPECIAL for operator in ("gather", "slice1") for kind in ("FLOAT32", "FLOAT16")),
)
