"""The base of DirectML's structures as Pydantic models, and the types of their fields: exact integers and arrays of them."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic.alias_generators import to_pascal

from dmlgather.record import Record, plain, plainly
from dmlgather.wording import counted, shown_value


class Structure(Record):
    """A structure of directml.h. Python's names and DirectML's names of fields are both accepted.

    Fields are in the header's order. JSON and `path` in findings use DirectML's names ("IndexDimensions").
    """

    model_config = ConfigDict(
        alias_generator=to_pascal,
        field_title_generator=lambda name, _: to_pascal(name),
        serialize_by_alias=True,
        validate_by_alias=True,
        validate_by_name=True,
        hide_input_in_errors=True,
    )

    if not TYPE_CHECKING:  # type checkers make the constructor of the fields

        def __init__(self, *given: object, **fields: Any) -> None:
            if given:
                names = ", ".join(f"{name}=" for name, field in type(self).model_fields.items() if field.is_required())
                without = f"got {counted(len(given), 'value')} without a name"
                raise TypeError(f"{type(self).__name__} takes its fields by name ({names}), {without}")
            try:
                super().__init__(**fields)
            except ValidationError as error:
                raise plain(error, type(self)) from None

        __init__.__pydantic_base_init__ = True  # validating needs no call of it


@cache
def wire_name(field: str) -> str:
    """DirectML's name of a field: "IndicesTensor" for "indices_tensor"."""
    return to_pascal(field)


def _exact(value: object) -> int:
    """A Python or NumPy integer; bool and float are refused."""
    if type(value) is int:
        return value
    import numpy as np  # checking a file does without

    if isinstance(value, bool | np.bool):  # older NumPy warns that its bool is an index, newer refuses
        raise ValueError(f"expected an integer, got {shown_value(bool(value))}")
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise ValueError(f"expected an integer, got {shown_value(value)}") from None


def _entries(value: object) -> tuple[Any, ...]:
    """The entries of a list, tuple or one-dimensional NumPy array; text and unordered collections are refused."""
    if isinstance(value, list | tuple):
        return tuple(value)
    import numpy as np  # checking a file does without

    if isinstance(value, np.ndarray) and value.ndim == 1:
        return tuple(value.tolist())
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray | memoryview):
        return tuple(value)
    raise ValueError(f"expected a list of integers, got {shown_value(value)}")


UInt32 = Annotated[int, Field(ge=0, le=2**32 - 1), BeforeValidator(plainly(_exact))]
"""UINT."""

UInt64 = Annotated[int, Field(ge=0, le=2**64 - 1), BeforeValidator(plainly(_exact))]
"""UINT64."""

Int32 = Annotated[int, Field(ge=-(2**31), le=2**31 - 1), BeforeValidator(plainly(_exact))]
"""INT."""

UInt32s = Annotated[tuple[UInt32, ...], BeforeValidator(plainly(_entries))]
"""const UINT*, with its length."""

Int32s = Annotated[tuple[Int32, ...], BeforeValidator(plainly(_entries))]
"""const INT*, with its length."""


def _or_unstated(value: object, validate: ValidatorFunctionWrapHandler) -> Any:
    return None if value is None else validate(value)


DerivedCount = Annotated[UInt32, WrapValidator(_or_unstated)]
"""A UINT that follows from the length of an array. It may be left out; `fill_count` then sets it."""


def unstated() -> Any:
    """The default of a DerivedCount, until `fill_count` sets it."""
    return None


def fill_count(model: BaseModel, name: str, entries: Sequence[int]) -> None:
    """Set the count `name` of a model under validation to the length of `entries`, unless it was given."""
    if getattr(model, name) is None:
        model.__dict__[name] = len(entries)
