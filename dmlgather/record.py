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

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


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


EXPECTED: Mapping[str, str] = {
    **dict.fromkeys(("string_type", "string_sub_type"), "expected text"),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "expected an integer"),
    **dict.fromkeys(("float_type", "float_parsing"), "expected a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "expected true or false"),
    **dict.fromkeys(("list_type", "tuple_type"), "expected an array"),
    **dict.fromkeys(("model_type", "model_attributes_type", "dict_type", "dataclass_type", "mapping_type"), "expected an object"),
    **dict.fromkeys(("literal_error", "enum"), "expected {expected}"),
    "int_parsing_size": "expected an integer of at most 4300 digits",
    "greater_than_equal": "expected at least {ge}",
    "greater_than": "expected more than {gt}",
    "less_than_equal": "expected at most {le}",
    "less_than": "expected less than {lt}",
    "too_short": "expected at least {min_length} entries",
    "too_long": "expected at most {max_length} entries",
    "string_too_short": "expected at least {min_length} characters",
    "string_too_long": "expected at most {max_length} characters",
    "string_pattern_mismatch": "expected text of the form {pattern}",
    "finite_number": "expected a finite number",
}
"""What was expected, by the type of Pydantic's error; the words in braces are in its context."""


def expected(error: Mapping[str, Any]) -> str | None:
    """What one entry of `ValidationError.errors()` says was expected; None for what is no matter of a value alone."""
    form = EXPECTED.get(error["type"])
    return None if form is None else form.format(**error.get("ctx", {}))


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
    if kind == "json_invalid":
        return f"is not JSON: {error['ctx']['error']}"
    if kind == "extra_forbidden":
        return f"unknown key {place[-1]!r}"
    if kind == "value_error":
        return str(message)
    said = expected(error) or message.removeprefix("Input ").removeprefix("String ")
    return f"{said}, got {shown_value(error['input'])}"


def placed(error: Mapping[str, Any]) -> str:
    """One entry of `ValidationError.errors()` about a file as a sentence behind its place. A missing key is in the sentence."""
    steps = error["loc"][:-1] if error["type"] == "missing" else error["loc"]
    return f"{'.'.join(map(str, steps)) or 'the file'}: {in_words(error)}"
