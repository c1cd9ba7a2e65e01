"""Open questions about the values of indices: out of range, and wider than 32 bits."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.questions import Question, question, tensor
from dmlgather.directml import (
    GatherElementsOperatorDesc,
    GatherND1OperatorDesc,
    GatherNDOperatorDesc,
    GatherOperatorDesc,
    OperatorDesc,
)

ROWS = [11, 12, 13, 14, 15, 16]
"""InputTensor {3,2} of most questions. Its elements differ, so that an output shows which of them were read."""

FIRST, LAST = [11, 11, 13, 13, 15, 15], [12, 12, 14, 14, 16, 16]
"""Outputs if two indices per row are clamped to the first or the last element of the row."""

ZEROS = [0] * 6

Answers = Sequence[tuple[str, Sequence[float] | None]]


def _two_per_row(operator: str, indices: str, pair: Sequence[int]) -> tuple[OperatorDesc, list[int]]:
    """Return a descriptor that reads two elements of each row, and the values of its IndicesTensor."""
    data, out = tensor("INT32", 3, 2), tensor("INT32", 3, 2)
    if operator == "gather":
        index = tensor(indices, 1, 2)
        return GatherOperatorDesc(input_tensor=data, indices_tensor=index, output_tensor=out, axis=1, index_dimensions=1), [*pair]
    if operator == "elements":
        index = tensor(indices, 3, 2)
        return GatherElementsOperatorDesc(input_tensor=data, indices_tensor=index, output_tensor=out, axis=1), [*pair] * 3
    fields = {
        "input_tensor": data,
        "indices_tensor": tensor(indices, 6, 2),
        "output_tensor": tensor("INT32", 1, 6),
        "input_dimension_count": 2,
        "indices_dimension_count": 2,
    }
    tuples = [part for row in range(3) for column in pair for part in (row, column)]
    if operator == "nd":
        return GatherNDOperatorDesc.model_validate(fields), tuples
    return GatherND1OperatorDesc.model_validate({**fields, "batch_dimension_count": 0}), tuples


NAMES = {
    "gather": ("GATHER", "[G]"),
    "elements": ("GATHER_ELEMENTS", "[GE]"),
    "nd": ("GATHER_ND", "[GN]"),
    "nd1": ("GATHER_ND1", "[GN1]"),
}

ABOVE: Answers = [
    ("clamped to the last element of the axis", LAST),
    ("clamped to the end of the tensor's memory", [14, 15, 16, 16, 16, 16]),
    ("taken modulo the size of the axis", [12, 11, 14, 13, 16, 15]),
    ("clamped to the first element of the axis", FIRST),
    ("0 is written", ZEROS),
]
"""Possible outputs of the indices 3 and 4 in rows of 2."""

BELOW: Answers = [
    ("clamped to the first element of the axis", FIRST),
    ("clamped to the last element of the axis", LAST),
    ("taken modulo the size of the axis", [12, 11, 14, 13, 16, 15]),
    ("the size is added once, then clamped to the tensor's memory", [11, 11, 12, 11, 14, 13]),
    ("clamped to the tensor's memory", [11, 11, 11, 11, 12, 11]),
    ("0 is written", ZEROS),
]
"""Possible outputs of the indices -3 and -4 in rows of 2."""


def _out_of_range() -> list[Question]:
    questions = []
    for operator, (name, source) in NAMES.items():
        for word, pair, kind, answers in (("above", (3, 4), "UINT32", ABOVE), ("below", (-3, -4), "INT32", BELOW)):
            desc, indices = _two_per_row(operator, kind, pair)
            asks = {
                "above": "An index beyond the last element of its axis",
                "below": "An index below minus the size of its axis",
            }
            questions.append(
                question(f"{operator}-{word}", f"{asks[word]}, in {name}", source, desc, inputs=[ROWS, indices], answers=answers)
            )
    return questions


def _wide(key: str, asks: str, kind: str, pair: Sequence[int], answers: Answers) -> Question:
    desc, indices = _two_per_row("gather", kind, pair)
    return question(key, asks, "[G] IndicesTensor", desc, inputs=[ROWS, indices], answers=answers)


def _four_dimensions() -> Question:
    """Return the question for level 2_1, where indices are UINT32 and tensors have four dimensions."""
    desc = GatherOperatorDesc(
        input_tensor=tensor("INT32", 1, 1, 3, 2),
        indices_tensor=tensor("UINT32", 1, 1, 1, 2),
        output_tensor=tensor("INT32", 1, 1, 3, 2),
        axis=3,
        index_dimensions=1,
    )
    answers: Answers = [
        ("too large: clamped to the last element of the axis", LAST),
        ("counted from the end", ROWS),
        ("clamped to the end of the tensor's memory", [16] * 6),
        ("0 is written", ZEROS),
    ]
    asks = "UINT32 indices 2^32 - 2 and 2^32 - 1, which some callers use for -2 and -1"
    return question(
        "gather-uint32-high", asks, "[G] IndicesTensor", desc, inputs=[ROWS, [2**32 - 2, 2**32 - 1]], answers=answers, level="2_1"
    )


INDEX_QUESTIONS: tuple[Question, ...] = (
    *_out_of_range(),
    _four_dimensions(),
    _wide(
        "gather-int64-high",
        "INT64 indices 2^32 and 2^32 + 1: their low 32 bits are 0 and 1",
        "INT64",
        (2**32, 2**32 + 1),
        [
            ("compared in 64 bits: clamped to the last element of the axis", LAST),
            ("truncated to 32 bits", ROWS),
            ("clamped to the end of the tensor's memory", [16] * 6),
            ("0 is written", ZEROS),
        ],
    ),
    _wide(
        "gather-int64-low",
        "INT64 indices -2^32 - 1 and -2^32 - 2: their low 32 bits are those of -1 and -2",
        "INT64",
        (-(2**32) - 1, -(2**32) - 2),
        [
            ("compared in 64 bits: clamped to the first element of the axis", FIRST),
            ("truncated to 32 bits, then counted from the end", [12, 11, 14, 13, 16, 15]),
            ("clamped to the start of the tensor's memory", [11] * 6),
            ("clamped to the last element of the axis", LAST),
            ("0 is written", ZEROS),
        ],
    ),
    _wide(
        "gather-uint64-high",
        "UINT64 indices 2^64 - 2 and 2^64 - 1: their bits are those of -2 and -1",
        "UINT64",
        (2**64 - 2, 2**64 - 1),
        [
            ("too large: clamped to the last element of the axis", LAST),
            ("counted from the end", ROWS),
            ("clamped to the end of the tensor's memory", [16] * 6),
            ("0 is written", ZEROS),
        ],
    ),
)
