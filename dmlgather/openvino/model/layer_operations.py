"""A layer that is computed while a model is checked: its inputs and attributes, and the errors when it cannot be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dmlgather.dialects.size_arrays import Array, has_names, tidy
from dmlgather.dialects.sizes import Sizes
from dmlgather.openvino.model.ir_layers import Layer, number_of
from dmlgather.openvino.problems.data_types import integer_type

MOST_DIMENSIONS = 32
"""The most dimensions of an array; NumPy broadcasts no more."""


class UnknownResultError(Exception):
    """The result is not known. The message is the reason, as in `Unknown`."""


@dataclass(frozen=True, slots=True)
class Operation:
    """A layer with its inputs. sizes: those of the model."""

    layer: Layer
    inputs: Sequence[Array]
    sizes: Sizes

    def flag(self, name: str, default: bool) -> bool:
        """An attribute that is true or false."""
        return self.layer.data.get(name, str(default)).strip().lower() in ("true", "1")

    def number(self, name: str) -> int:
        """An attribute that is an integer."""
        return number_of(self.layer.data.get(name, ""), f"{name} of {self.layer}", self.layer.line, "an integer", signed=True)

    def integers(self, at: int) -> list[int]:
        """An input that is integers, all of them numbers, in order."""
        values = self.input(at)
        if has_names(values):
            raise self.unknown(f"{values.reshape(-1)[0]} among its inputs")
        if values.dtype.kind not in "iu":
            raise TypeError(f"input {at} has type {values.dtype}, expected integers")
        return [int(each) for each in values.reshape(-1)]

    def input(self, at: int) -> Array:
        """An input. ValueError where there are fewer."""
        if at >= len(self.inputs):
            raise ValueError(f"it has {len(self.inputs)} inputs, expected more")
        return self.inputs[at]

    def unknown(self, reason: str) -> UnknownResultError:
        """The error that the result is not known."""
        return UnknownResultError(f"computed by {self.layer}: {reason}")


def typed(operation: Operation, result: Array) -> Array:
    """The result in the type of the output port, where all of it is numbers."""
    return tidy(result, integer_type(operation.layer.outputs[0].type if operation.layer.outputs else None))


Computed = Callable[[Operation], list[Array]]
"""From a layer with its inputs to its outputs."""
