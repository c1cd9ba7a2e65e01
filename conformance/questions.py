"""Questions that DirectML's documents leave open, as cases with possible answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dmlgather.directml import BufferTensorDesc, FeatureLevel, OperatorDesc
from dmlgather.directml.elements import dtype_of
from dmlgather.directml.types import DataType

REFUSED = "refused"
"""The meaning of the answer without an output."""


class Answer(NamedTuple):
    """A possible answer of DirectML. `values`: the output in row-major order; None if nothing runs."""

    means: str
    values: NDArray[Any] | None


@dataclass(frozen=True, eq=False)
class Question:
    """A question that the documents leave open, and a case that answers it.

    `key`: its name, also in the names of its files. `asks`: the question. `source`: keys of docs/findings.md. `inputs`: a
    buffer per input tensor. `answers`: dmlgather's first. `level`: the lowest feature level at which only this question is
    open. `in_place`: True if the output is bound to the input's memory.
    """

    key: str
    asks: str
    source: str
    desc: OperatorDesc
    inputs: tuple[NDArray[Any], ...]
    answers: tuple[Answer, ...]
    level: FeatureLevel = FeatureLevel.LEVEL_3_0
    in_place: bool = False

    @property
    def decided(self) -> str:
        """The answer of dmlgather."""
        return self.answers[0].means


def question(
    key: str,
    asks: str,
    source: str,
    desc: OperatorDesc,
    *,
    inputs: Sequence[Sequence[float] | NDArray[Any]],
    answers: Sequence[tuple[str, Sequence[float] | NDArray[Any] | None]],
    level: str = "3_0",
    in_place: bool = False,
) -> Question:
    """Return a question. Inputs and answers are converted to the tensors' types."""
    types = [desc.tensor(field).data_type for field in desc.operator.inputs]
    buffers = tuple(_array(values, kind) for values, kind in zip(inputs, types, strict=True))
    output_type = desc.tensor(desc.operator.output).data_type
    outputs = tuple(Answer(means, None if values is None else _array(values, output_type)) for means, values in answers)
    return Question(key, asks, source, desc, buffers, outputs, FeatureLevel.parse(level), in_place)


def tensor(data_type: str, *sizes: int, **fields: Any) -> BufferTensorDesc:
    """Return a tensor. `fields`: further fields of `BufferTensorDesc`."""
    return BufferTensorDesc(data_type=data_type, sizes=sizes, **fields)


def refused(*others: tuple[str, Sequence[float] | None]) -> list[tuple[str, Sequence[float] | None]]:
    """Return the answers to a question with a descriptor that dmlgather refuses."""
    return [(REFUSED, None), *others]


def open_questions(level: FeatureLevel) -> list[Question]:
    """Return the questions of a feature level."""
    from conformance.gather_questions import GATHER_QUESTIONS
    from conformance.index_questions import INDEX_QUESTIONS
    from conformance.move_questions import MOVE_QUESTIONS
    from conformance.tensor_questions import TENSOR_QUESTIONS

    questions = (*TENSOR_QUESTIONS, *INDEX_QUESTIONS, *GATHER_QUESTIONS, *MOVE_QUESTIONS)
    return [question for question in questions if question.level <= level]


def _array(values: Sequence[float] | NDArray[Any], data_type: DataType) -> NDArray[Any]:
    return np.asarray(values, dtype_of(data_type)).reshape(-1)
