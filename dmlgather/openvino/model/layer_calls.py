"""A layer as the rows of the table see it: its attributes, and its inputs as arrays or as values of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dmlgather.dialects.element_arithmetic import Arithmetic, Numbers
from dmlgather.dialects.sizes import Array, Sizes, has_names
from dmlgather.openvino.model.ir_layers import Layer, number_of
from dmlgather.openvino.problems.data_types import integer_type

MOST_DIMENSIONS = 32
"""The most dimensions of an array; NumPy broadcasts no more."""


class UnknownResultError(Exception):
    """The result is not known. The message is the reason, as in `Unknown`."""


@dataclass(frozen=True)
class ReadLayer:
    """A layer with its attributes."""

    layer: Layer

    def text(self, name: str, default: str = "") -> str:
        """An attribute in lower case."""
        return self.layer.data.get(name, default).strip().lower()

    def flag(self, name: str, default: bool) -> bool:
        """An attribute that is true or false."""
        return self.text(name, str(default)) in ("true", "1")

    def integer(self, name: str) -> int:
        """An attribute that is an integer. IRError for anything else, and for none."""
        found = self.layer.data.get(name, "")
        return number_of(found, f"{name} of {self.layer}", self.layer.line, "an integer", signed=True)

    @property
    def flags(self) -> dict[str, int]:
        """The attributes that are true or false."""
        return {name: int(self.flag(name, False)) for name in self.layer.data}

    def unknown(self, reason: str) -> UnknownResultError:
        """The error that the result is not known."""
        return UnknownResultError(f"computed by {self.layer}: {reason}")


@dataclass(frozen=True)
class LayerCall(ReadLayer):
    """A layer with its inputs: arrays, or values of a graph in the place of those whose elements are moved. sizes: those of the
    model.
    """

    inputs: Sequence[Any]
    sizes: Sizes

    def input(self, at: int) -> Any:
        """An input. ValueError where there are fewer."""
        if at >= len(self.inputs):
            raise ValueError(f"it has {len(self.inputs)} inputs, expected more")
        return self.inputs[at]

    def integers(self, at: int) -> list[int]:
        """An input that is integers, all of them numbers, in order."""
        values = self.input(at)
        if not isinstance(values, np.ndarray):
            raise self.unknown("an input that the model computes")
        if has_names(values):
            raise self.unknown(f"{values.reshape(-1)[0]} among its inputs")
        if values.dtype.kind not in "iu":
            raise TypeError(f"input {at} has type {values.dtype}, expected integers")
        return [int(each) for each in values.reshape(-1)]

    @property
    def kind(self) -> str | None:
        """The type of the first output."""
        return self.layer.outputs[0].type if self.layer.outputs else None

    def typed(self, result: Array) -> Array:
        """The result in the type of the output port, where all of it is integers."""
        elements = result.reshape(-1)
        if any(isinstance(each, str) for each in elements):
            return result
        return result.astype(float if any(isinstance(each, float) for each in elements) else integer_type(self.kind))

    def arithmetic(self) -> Arithmetic:
        """Computes with names of sizes."""
        return Arithmetic(self.sizes, integers=self.of_integers, attributes=self.flags)

    def numbers(self) -> Numbers:
        """Computes with arrays of numbers."""
        return Numbers(integers=self.of_integers, attributes=self.flags)

    @property
    def of_integers(self) -> bool:
        """Whether the output is integers, as far as its type is known."""
        return not (self.kind or "").startswith(("f", "bf"))
