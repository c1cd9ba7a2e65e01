"""Chains: what several steps do to x, in NumPy's notation, which NumPy, JAX and `dg.index` read alike."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from types import CodeType
from typing import Any

import numpy as np

from benchmarks.draws import UNIFORM, Draw, Indices
from dmlgather.numpy import IndexExpression, index

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Chain:
    """Several steps; what they do is one plan.

    shape: of the source x. steps: of x and of i, where there are `count` indices i of the dimension `axis` of x:
    "x[i].transpose(1, 0)". in_torch: the same in PyTorch's notation, where it differs.
    """

    shape: Shape
    steps: str
    count: int | None = None
    axis: int = 0
    in_torch: str | None = None
    draw: Draw = UNIFORM
    strides = None  # x is packed

    @cached_property
    def expression(self) -> IndexExpression:
        """The steps, with a placeholder for i."""
        found = self.applied(self.steps, index, None if self.count is None else ((self.count,), "int64"))
        assert isinstance(found, IndexExpression)
        return found

    @staticmethod
    def applied(steps: str | CodeType, x: Any, i: Any) -> Any:
        """What the steps make of x."""
        return eval(steps, {"x": x, "i": i})  # of this package's own texts, so that a report shows what ran

    @property
    def takes_rows(self) -> bool:
        """Whether the steps begin with rows of x, so that there may be fewer of either."""
        return self.steps.startswith("x[i]")

    @property
    def index_shape(self) -> Shape | None:
        """The shape of i; None where there is none."""
        return None if self.count is None else (self.count,)

    @cached_property
    def out_shape(self) -> Shape:
        """The shape of the output."""
        return self.expression.problems((self.shape, "uint8"))[-1].output.shape

    def indices(self, random: np.random.Generator) -> Indices | None:
        """Random indices of `index_shape`; None where there are none."""
        return None if self.count is None else self.draw(random, self.shape[self.axis], self.count)
