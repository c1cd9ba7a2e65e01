"""What the documents leave open, as cases: each has a name, and the answers that DirectML may give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dmlgather.directml import BufferTensorDesc, FeatureLevel, OperatorDesc
from dmlgather.directml.elements import dtype_of
from dmlgather.directml.types import DataType

REFUSED = "it is refused"
"""What an answer means where nothing runs."""


class Answer(NamedTuple):
    """What DirectML may give. values: the output in row-major order, in its type; None where nothing runs."""

    means: str
    values: NDArray[Any] | None


@dataclass(frozen=True, eq=False)
class Question:
    """What the documents leave open, and a case that settles it.

    key: its name, also of its files. asks: what is open. source: keys as on docs/findings.md. inputs: a buffer per input tensor.
    answers: dmlgather's own first; DirectML may give another. level: the lowest at which nothing else is open. in_place: the
    output is bound to the input's memory.
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
        """What dmlgather does."""
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
    """A question whose inputs and answers are written as numbers of the tensors' types, or as arrays of them."""
    types = [desc.tensor(field).data_type for field in desc.operator.inputs]
    made = tuple(_array(values, kind) for values, kind in zip(inputs, types, strict=True))
    outcome = desc.tensor(desc.operator.output).data_type
    found = tuple(Answer(means, None if values is None else _array(values, outcome)) for means, values in answers)
    return Question(key, asks, source, desc, made, found, FeatureLevel.parse(level), in_place)


def tensor(data_type: str, *sizes: int, **fields: Any) -> BufferTensorDesc:
    """A tensor; `fields` as `BufferTensorDesc` takes them."""
    return BufferTensorDesc(data_type=data_type, sizes=sizes, **fields)


def refused(*others: tuple[str, Sequence[float] | None]) -> list[tuple[str, Sequence[float] | None]]:
    """Answers of a question that dmlgather refuses; `others`: what else DirectML may do."""
    return [(REFUSED, None), *others]


def open_questions(level: FeatureLevel) -> list[Question]:
    """The questions that can be asked at a level."""
    from conformance.gather_questions import GATHER_QUESTIONS
    from conformance.index_questions import INDEX_QUESTIONS
    from conformance.move_questions import MOVE_QUESTIONS
    from conformance.tensor_questions import TENSOR_QUESTIONS

    return [asked for asked in (*TENSOR_QUESTIONS, *INDEX_QUESTIONS, *GATHER_QUESTIONS, *MOVE_QUESTIONS) if asked.level <= level]


def _array(values: Sequence[float] | NDArray[Any], data_type: DataType) -> NDArray[Any]:
    return np.asarray(values, dtype_of(data_type)).reshape(-1)
