"""Chains: several steps in NumPy's notation, which NumPy, JAX and `dg.index` all evaluate."""

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
    """Several steps that fuse to one plan.

    `shape`: the shape of the source x. `steps`: an expression of x and i, such as "x[i].transpose(1, 0)". `count`: number of
    indices i into the dimension `axis` of x; None without i. `in_torch`: the expression in PyTorch's notation, if it differs.
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
        """The steps as an index expression, with a placeholder for i."""
        expression = self.applied(self.steps, index, None if self.count is None else ((self.count,), "int64"))
        assert isinstance(expression, IndexExpression)
        return expression

    @staticmethod
    def applied(steps: str | CodeType, x: Any, i: Any) -> Any:
        return eval(steps, {"x": x, "i": i})  # the texts of this package; reports show the same texts

    @property
    def takes_rows(self) -> bool:
        """True if the steps begin with rows of x. Then x may have fewer rows, and i fewer indices."""
        return self.steps.startswith("x[i]")

    @property
    def index_shape(self) -> Shape | None:
        return None if self.count is None else (self.count,)

    @cached_property
    def out_shape(self) -> Shape:
        return self.expression.problems((self.shape, "uint8"))[-1].output.shape

    def indices(self, random: np.random.Generator) -> Indices | None:
        """Return random indices, or None without i."""
        return None if self.count is None else self.draw(random, self.shape[self.axis], self.count)
