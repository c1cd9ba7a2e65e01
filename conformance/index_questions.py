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
"""InputTensor {3,2} of most questions: every element is another number, so that the output tells where it comes from."""

FIRST, LAST = [11, 11, 13, 13, 15, 15], [12, 12, 14, 14, 16, 16]
"""The first and the last element of each row, twice: what two indices that are clamped along the row give."""

ZEROS = [0] * 6

Answers = Sequence[tuple[str, Sequence[float] | None]]


def _asked(operator: str, indices: str, pair: Sequence[int]) -> tuple[OperatorDesc, list[int]]:
    """A descriptor that reads two elements of each of the three rows, at the indices `pair`, and its IndicesTensor."""
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
    ("clamped to the last position of the axis", LAST),
    ("clamped to the end of the tensor's memory", [14, 15, 16, 16, 16, 16]),
    ("taken modulo the size of the axis", [12, 11, 14, 13, 16, 15]),
    ("clamped to the first position of the axis", FIRST),
    ("0 is written", ZEROS),
]
"""What the indices 3 and 4 may give in rows of 2."""

BELOW: Answers = [
    ("clamped to the first position of the axis", FIRST),
    ("clamped to the last position of the axis", LAST),
    ("taken modulo the size of the axis", [12, 11, 14, 13, 16, 15]),
    ("counted from the end once, then clamped to the tensor's memory", [11, 11, 12, 11, 14, 13]),
    ("clamped to the tensor's memory", [11, 11, 11, 11, 12, 11]),
    ("0 is written", ZEROS),
]
"""What the indices -3 and -4 may give in rows of 2."""


def _out_of_range() -> list[Question]:
    found = []
    for operator, (name, source) in NAMES.items():
        for word, pair, kind, answers in (("above", (3, 4), "UINT32", ABOVE), ("below", (-3, -4), "INT32", BELOW)):
            desc, indices = _asked(operator, kind, pair)
            asks = {
                "above": "An index that is not below the size of its axis",
                "below": "An index below minus the size of its axis",
            }
            found.append(
                question(f"{operator}-{word}", f"{asks[word]}, in {name}", source, desc, inputs=[ROWS, indices], answers=answers)
            )
    return found


def _wide(key: str, asks: str, kind: str, pair: Sequence[int], answers: Answers) -> Question:
    desc, indices = _asked("gather", kind, pair)
    return question(key, asks, "[G] IndicesTensor", desc, inputs=[ROWS, indices], answers=answers)


def _four_dimensions() -> Question:
    """At 2_1 indices are UINT32 alone, and tensors have four dimensions."""
    desc = GatherOperatorDesc(
        input_tensor=tensor("INT32", 1, 1, 3, 2),
        indices_tensor=tensor("UINT32", 1, 1, 1, 2),
        output_tensor=tensor("INT32", 1, 1, 3, 2),
        axis=3,
        index_dimensions=1,
    )
    answers: Answers = [
        ("large, so clamped to the last position of the axis", LAST),
        ("counted from the end", ROWS),
        ("clamped to the end of the tensor's memory", [16] * 6),
        ("0 is written", ZEROS),
    ]
    asks = "UINT32 indices 2^32 - 2 and 2^32 - 1, which older callers write for -2 and -1"
    return question(
        "gather-uint32-high", asks, "[G] IndicesTensor", desc, inputs=[ROWS, [2**32 - 2, 2**32 - 1]], answers=answers, level="2_1"
    )


INDEX_QUESTIONS: tuple[Question, ...] = (
    *_out_of_range(),
    _four_dimensions(),
    _wide(
        "gather-int64-high",
        "INT64 indices 2^32 and 2^32 + 1, which end in the bits of 0 and 1",
        "INT64",
        (2**32, 2**32 + 1),
        [
            ("compared in 64 bits, so clamped to the last position", LAST),
            ("cut to 32 bits", ROWS),
            ("clamped to the end of the tensor's memory", [16] * 6),
            ("0 is written", ZEROS),
        ],
    ),
    _wide(
        "gather-int64-low",
        "INT64 indices -2^32 - 1 and -2^32 - 2, which end in the bits of -1 and -2",
        "INT64",
        (-(2**32) - 1, -(2**32) - 2),
        [
            ("compared in 64 bits, so clamped to the first position", FIRST),
            ("cut to 32 bits, and counted from the end", [12, 11, 14, 13, 16, 15]),
            ("clamped to the start of the tensor's memory", [11] * 6),
            ("clamped to the last position", LAST),
            ("0 is written", ZEROS),
        ],
    ),
    _wide(
        "gather-uint64-high",
        "UINT64 indices 2^64 - 2 and 2^64 - 1, which have the bits of -2 and -1",
        "UINT64",
        (2**64 - 2, 2**64 - 1),
        [
            ("large, so clamped to the last position", LAST),
            ("counted from the end", ROWS),
            ("clamped to the end of the tensor's memory", [16] * 6),
            ("0 is written", ZEROS),
        ],
    ),
)
