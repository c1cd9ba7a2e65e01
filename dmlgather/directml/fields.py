"""What every DirectML structure has in common as a Pydantic model: exact integers, DirectML's names as aliases."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidatorFunctionWrapHandler, WrapValidator
from pydantic.alias_generators import to_pascal


class Structure(BaseModel):
    """A structure of directml.h: immutable, no unknown fields; Python names and DirectML's names are both accepted.

    Fields stand in the header's order. JSON and `path` in findings use DirectML's names ("IndexDimensions").
    """

    model_config = ConfigDict(
        alias_generator=to_pascal,
        extra="forbid",
        field_title_generator=lambda name, _: to_pascal(name),
        frozen=True,
        serialize_by_alias=True,
        use_attribute_docstrings=True,
        validate_by_alias=True,
        validate_by_name=True,
    )


@cache
def wire_name(field: str) -> str:
    """DirectML's name of a field: "IndicesTensor" for "indices_tensor"."""
    return to_pascal(field)


def _exact(value: object) -> int:
    """An integer and nothing that merely converts to one. NumPy integers count, bool and float do not."""
    if isinstance(value, bool):
        raise ValueError("expected an integer, got a bool")
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise ValueError(f"expected an integer, got a value of type {type(value).__name__}") from None


def _entries(value: object) -> tuple[Any, ...]:
    """The entries of a list, tuple or one-dimensional NumPy array; sets and text have no order to rely on."""
    if isinstance(value, np.ndarray) and value.ndim == 1:
        return tuple(value.tolist())
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray | memoryview):
        return tuple(value)
    raise ValueError(f"expected a list of integers, got a value of type {type(value).__name__}")


UInt32 = Annotated[int, Field(ge=0, le=2**32 - 1), BeforeValidator(_exact)]
"""UINT."""

UInt64 = Annotated[int, Field(ge=0, le=2**64 - 1), BeforeValidator(_exact)]
"""UINT64."""

Int32 = Annotated[int, Field(ge=-(2**31), le=2**31 - 1), BeforeValidator(_exact)]
"""INT."""

UInt32s = Annotated[tuple[UInt32, ...], BeforeValidator(_entries)]
"""const UINT*, with its length."""

Int32s = Annotated[tuple[Int32, ...], BeforeValidator(_entries)]
"""const INT*, with its length."""


def _or_unstated(value: object, validate: ValidatorFunctionWrapHandler) -> Any:
    return None if value is None else validate(value)


DerivedCount = Annotated[UInt32, WrapValidator(_or_unstated)]
"""A UINT that follows from the length of an array. It may be left out; `fill_count` then states it."""


def unstated() -> Any:
    """The default of a DerivedCount, until `fill_count` has run."""
    return None


def fill_count(model: BaseModel, name: str, entries: Sequence[int]) -> None:
    """State the count `name` of a model under validation as the length of `entries`, unless it was stated."""
    if getattr(model, name) is None:
        model.__dict__[name] = len(entries)
