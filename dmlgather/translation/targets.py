"""What a library can say: its operators of the family, and how they treat indices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.dialects.index_graph import Elementwise
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.dialects.windows import Window
from dmlgather.plan import OutOfBounds, canonicalise

if TYPE_CHECKING:
    from dmlgather.translation.gathering import Gathering


class UntranslatableError(ValueError):
    """The target cannot say it; the message says why."""


@dataclass(frozen=True, slots=True)
class IndexRule:
    """How an operator of a target treats its indices.

    out_of_bounds: its policy; None for positions that are computed, which must be in bounds. wraps: whether negative indices
    count from the end. types: those that it takes, the preferred ones first. only_zero: whether FILL writes zeros alone.
    """

    out_of_bounds: OutOfBounds | None
    wraps: bool
    types: tuple[str, ...]
    only_zero: bool = False

    def keeps(self, policy: OutOfBounds, fill: bytes) -> bool:
        """Whether the operator itself does what a policy says."""
        return policy is self.out_of_bounds and (policy is not OutOfBounds.FILL or not self.only_zero or not any(fill))


class Target(ABC):
    """One program in the operators of a library, while it is made."""

    title: ClassVar[str]
    raises: ClassVar[bool] = True
    """Whether an index out of range can be an error."""
    bitcasts: ClassVar[bool] = False
    """Whether elements can be read as elements of another type of the same size."""

    def __init__(self, graph: GraphBuilder) -> None:
        self.graph = graph
        self._reshaped: dict[str, str] = {}
        """By the value of a reshape, what it reshapes."""
        self.step_name = ""
        """Of the step that is being stated, whose name the target's own operators get."""

    @abstractmethod
    def same(self, problem: Problem) -> Problem | None:
        """The same operator in the version that was asked for; None for one of another library, and where there is none."""

    def alike(self, problem: Problem) -> Problem | None:  # noqa: ARG002 - for targets that have such operators
        """An operator that does just this copy, for copies that slices and transpositions can say as well; None without one."""
        return None

    @abstractmethod
    def sliced(self, value: str, windows: Sequence[Window]) -> str:
        """A window of each dimension of a value; not all are whole."""

    @abstractmethod
    def gathered(self, gathering: Gathering) -> str | None:
        """The result of lookups, of shape `gathering.sizes`. None where only `flat` can say it."""

    @abstractmethod
    def along_axis(self, data: str, indices: str, axis: int) -> str:
        """Gather of whole slices."""

    @property
    @abstractmethod
    def axis_rule(self) -> IndexRule:
        """That of `along_axis`."""

    def position_type(self, elements: int) -> np.dtype[Any]:  # noqa: ARG002 - for targets in which types may be missing
        """The integer type for computed positions in a tensor of so many elements."""
        return np.dtype(np.int64)

    def stated_as(self, own: Problem, *inputs: str) -> str:
        """A step of the target's own operator."""
        return self.graph.problem(self.step_name or own.name, own, *inputs, output=own.name)

    def type_of(self, value: str) -> TensorType:
        """The type of a value of the graph."""
        return self.graph.types[value]

    def number(self, value: Any, dtype: np.dtype[Any]) -> str:
        """A constant; one number where all are equal."""
        array = np.asarray(value, dtype)
        equal = array.size and (array == array.flat[0]).all()
        return self.graph.constant(array.reshape(-1)[0] if equal else array)

    def computed(self, operator: str, dtype: Any, *values: str) -> str:
        """Integer arithmetic by NumPy's name; computed at once where all inputs are constants."""
        known = [array for value in values if (array := self.graph.known(value)) is not None]
        if len(known) == len(values):
            return self.graph.constant(Elementwise(operator, np.dtype(dtype)).compute(known))
        return self.graph.elementwise(operator, operator, dtype, *values)

    def cast(self, value: str, dtype: Any) -> str:
        """The value in another integer type."""
        if self.type_of(value).dtype == np.dtype(dtype):
            return value
        return self.computed("cast", dtype, value)

    def reshaped(self, value: str, shape: Sequence[int]) -> str:
        """The elements of a value under another shape; of two reshapes in a row, only the last is made."""
        known = self.graph.known(value)
        if known is not None:
            return self.graph.constant(known.reshape(shape))
        before = self._reshaped.get(value, value)
        after = self.graph.reshaped("reshape", before, shape)
        if after != before:
            self._reshaped[after] = before
        return after

    def transposed(self, value: str, order: Sequence[int]) -> str:
        """A value with its dimensions in another order."""
        known = self.graph.known(value)
        if known is not None:
            return self.graph.constant(known.transpose(order))
        return self.graph.transposed("transpose", value, order)

    def selected(self, valid: str, value: str, fill: bytes) -> str:
        """The value where `valid`, else the fill value; of any type."""
        tensor = self.type_of(value)
        other = self.graph.constant(np.frombuffer(fill, tensor.dtype).reshape(()))
        return self.graph.elementwise("where", "where", tensor.dtype, valid, value, other)


def first_alike(problem: Problem, candidates: Sequence[Problem]) -> Problem | None:
    """The first candidate whose plan has the same canonical form."""
    wanted = canonicalise(problem.plan())
    return next((own for own in candidates if own.output == problem.output and canonicalise(own.plan()) == wanted), None)
