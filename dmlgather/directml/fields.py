"""The base class of the Pydantic models for DirectML's structures, and the types of their fields."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WrapValidator,
)
from pydantic.alias_generators import to_pascal

from dmlgather.record import Record, plain, plainly
from dmlgather.wording import counted, shown_value


class Structure(Record):
    """A structure of directml.h, with fields in the order of the header.

    The constructor takes the fields' names in Python or in DirectML ("IndexDimensions"). JSON and the `path` of findings use
    DirectML's names.
    """

    model_config = ConfigDict(
        alias_generator=to_pascal,
        field_title_generator=lambda name, _: to_pascal(name),
        serialize_by_alias=True,
        validate_by_alias=True,
        validate_by_name=True,
        hide_input_in_errors=True,
    )

    if not TYPE_CHECKING:  # type checkers derive the constructor from the fields

        def __init__(self, *given: object, **fields: Any) -> None:
            if given:
                names = ", ".join(f"{name}=" for name, field in type(self).model_fields.items() if field.is_required())
                without = f"got {counted(len(given), 'value')} without a name"
                raise TypeError(f"{type(self).__name__} takes its fields by name ({names}), {without}")
            try:
                super().__init__(**fields)
            except ValidationError as error:
                raise plain(error, type(self)) from None

        __init__.__pydantic_base_init__ = True  # Pydantic then validates nested structures without calling __init__

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with the fields in `update` changed. Raises ValidationError if a new value is invalid."""
        if not update:
            return super().model_copy(deep=deep)
        by_alias = {field.alias: name for name, field in type(self).model_fields.items()}
        return type(self)(**{**dict(self), **{by_alias.get(key, key): value for key, value in update.items()}})


@cache
def wire_name(field: str) -> str:
    """Return the name in directml.h of a field: "IndicesTensor" for "indices_tensor"."""
    return to_pascal(field)


def _integer(value: object) -> int:
    if type(value) is int:
        return value
    import numpy as np  # not needed for correct files

    if isinstance(value, bool | np.bool):  # some versions of NumPy only warn if operator.index gets a bool
        raise ValueError(f"expected an integer, got {shown_value(bool(value))}")
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise ValueError(f"expected an integer, got {shown_value(value)}") from None


def _entries(value: object) -> tuple[Any, ...]:
    if isinstance(value, list | tuple):
        return tuple(value)
    import numpy as np  # not needed for correct files

    if isinstance(value, np.ndarray) and value.ndim == 1:
        return tuple(value.tolist())
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray | memoryview):
        return tuple(value)
    raise ValueError(f"expected a list of integers, got {shown_value(value)}")


UInt32 = Annotated[int, Field(ge=0, le=2**32 - 1), BeforeValidator(plainly(_integer))]

UInt64 = Annotated[int, Field(ge=0, le=2**64 - 1), BeforeValidator(plainly(_integer))]

Int32 = Annotated[int, Field(ge=-(2**31), le=2**31 - 1), BeforeValidator(plainly(_integer))]

UInt32s = Annotated[tuple[UInt32, ...], BeforeValidator(plainly(_entries))]

Int32s = Annotated[tuple[Int32, ...], BeforeValidator(plainly(_entries))]


DerivedCount = Annotated[UInt32, WrapValidator(lambda value, validate: None if value is None else validate(value))]
"""A UINT field for the length of an array. Without a value, `fill_count` computes it."""


def unstated() -> Any:
    """Return None, the value of a DerivedCount until `fill_count` computes it."""
    return None


def fill_count(model: BaseModel, name: str, entries: Sequence[int]) -> None:
    """Set a field to the length of `entries`, unless it has a value. Validators call this function."""
    if getattr(model, name) is None:
        model.__dict__[name] = len(entries)
