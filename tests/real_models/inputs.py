"""Inputs for runs of a model: random sizes and elements within the list's limits."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import GraphProto, ValueInfoProto

from dmlgather.onnx.problems.data_types import data_type
from tests.real_models.listed import ListedModel

UNSTATED = (1, 9)
"""The smallest and the largest value of an unlisted size."""

WORDS = ("", "a", "noun", "\u540d\u8a5e")
"""Elements of string inputs."""


def inputs(model: ListedModel, graph: GraphProto, run: int) -> dict[str, NDArray[Any]]:
    """Return the inputs of the run with this number, equal each time. Run 0 has the smallest sizes."""
    return _Inputs(model, graph, run).arrays


class _Inputs:
    def __init__(self, model: ListedModel, graph: GraphProto, run: int) -> None:
        self.model, self.run, self.random = model, run, np.random.default_rng(run)
        defaults = {each.name for each in graph.initializer}
        values = [value for value in graph.input if value.name not in defaults]
        self.sizes: dict[int | str, int] = {}
        for name in dict.fromkeys(size for value in values for size in _shape(value) if isinstance(size, str)):
            self._draw(name)
        self.arrays = {value.name: self._array(value) for value in values}

    def _draw(self, name: str) -> None:
        span = self.model.sizes.get(name, UNSTATED)
        if name in self.model.choices:
            self.sizes[name] = self._chosen(name)
        elif isinstance(span, str):
            self.sizes[name] = self.sizes[span]
        else:
            self.sizes[name] = span[0] if self.run == 0 else int(self.random.integers(span[0], span[1] + 1))

    def _chosen(self, name: str) -> int:
        choices = self.model.choices[name]
        return choices[self.run % len(choices)]

    def _array(self, value: ValueInfoProto) -> NDArray[Any]:
        shape = [self.sizes[size] if isinstance(size, str) else size for size in _shape(value)]
        dtype = data_type(value.type.tensor_type.elem_type)
        assert dtype is not None, f"{value.name} has a type"
        if value.name in self.model.values:
            return np.array(self.model.values[value.name], dtype).reshape(shape)
        if value.name in self.model.choices:
            return np.full(shape, self._chosen(value.name), dtype)
        if value.name in self.model.numbers or dtype.kind in "iub":
            low, end = self.model.numbers.get(value.name, (0, 2))
            return self.random.integers(low, self.sizes.get(end, 0) if isinstance(end, str) else end, shape).astype(dtype)
        if dtype.kind == "O":
            return self.random.choice(WORDS, shape).astype(object)
        return self.random.standard_normal(shape).astype(dtype)


def _shape(value: ValueInfoProto) -> list[int | str]:
    """Return the sizes, with the list's names for sizes that the model leaves open."""
    shape: list[int | str] = []
    for axis, dimension in enumerate(value.type.tensor_type.shape.dim):
        named = dimension.dim_param if dimension.dim_param != "?" else ""
        shape.append(named or (dimension.dim_value if dimension.dim_value > 0 else f"{value.name}[{axis}]"))
    return shape
