"""The base of structures of DirectML and of everything that is reported; what Pydantic refuses, in plain words."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

from pydantic import BaseModel, ConfigDict
from pydantic_core import PydanticCustomError

from dmlgather.wording import shown_value

P = ParamSpec("P")
R = TypeVar("R")


class Record(BaseModel):
    """Immutable data. `model_dump(mode="json")` gives JSON, and the docstring under a field describes it in the JSON Schema."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


def refusal(sentence: str) -> PydanticCustomError:
    """What a validator raises, a ValueError. Pydantic shows its sentence as it is; of other errors it says "Value error, …"."""
    return PydanticCustomError("value_error", "{sentence}", {"sentence": sentence})


def plainly(check: Callable[P, R]) -> Callable[P, R]:
    """`check` as a validator: its ValueError becomes a `refusal`."""

    @functools.wraps(check)
    def validator(*given: P.args, **more: P.kwargs) -> R:
        try:
            return check(*given, **more)
        except ValueError as error:
            raise refusal(str(error)) from None

    return validator


def in_words(error: Mapping[str, Any]) -> str:
    """One entry of `ValidationError.errors()` as a sentence, without its place."""
    kind, message, place = error["type"], error["msg"], error["loc"]
    if kind == "missing":
        return f"{place[-1]!r} is missing"
    if error["input"] is None and kind in ("value_error", "model_type"):
        return "must not be null"
    if kind == "union_tag_not_found":
        return "'type' is missing"
    if kind == "union_tag_invalid":
        return re.sub(
            r"Input tag (.*) found using 'type' does not match any of the expected tags", r"unknown type \1; known", message
        )
    if kind == "extra_forbidden":
        return f"unknown key {place[-1]!r}"
    if kind == "value_error":
        return str(message)
    if kind in ("model_type", "model_attributes_type", "dict_type"):
        message = "expected an object"
    return f"{message.removeprefix('Input ').removeprefix('String ')}, got {shown_value(error['input'])}"
