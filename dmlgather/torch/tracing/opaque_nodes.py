"""What identifies an opaque node: its operator, and its other arguments as hashable values."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from dmlgather.dialects.element_types import exact_text
from dmlgather.torch.tracing.node_calls import NodeCall, Value


def operator(call: NodeCall, *, single: bool) -> tuple[str, Hashable, tuple[str, ...]]:
    """What a node computes: the operator's name, its attributes, and the tensors that it reads. single: whether it equals no
    other node. Kernels may add in another order for other strides, and for parameters, so these decide as well.
    """
    inputs: list[str] = []
    attributes: tuple[Hashable, ...] = tuple((key, _canonical(value, inputs)) for key, value in call.given.items())
    return f"torch.{call.operator}", (*attributes, object()) if single else attributes, tuple(inputs)


def _canonical(value: Any, inputs: list[str]) -> Hashable:
    """A value with the place of each tensor in it, which is added to `inputs`."""
    if isinstance(value, Value):
        inputs.append(value.name)
        return "tensor", value.strides, value.requires_grad
    if isinstance(value, tuple | list):
        return tuple(_canonical(each, inputs) for each in value)
    if isinstance(value, bool | int | float | complex | str | None):
        return type(value).__name__, exact_text(value)
    try:
        hash(value)
    except TypeError:
        return object()
    return type(value).__name__, value
