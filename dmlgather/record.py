"""Base classes of Pydantic models, and Pydantic's errors in words that users understand."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from dmlgather.wording import closest, shown_value

P = ParamSpec("P")
R = TypeVar("R")


_building = threading.RLock()


class BuiltOnUse(BaseModel):
    """A Pydantic model that builds its validator on first use. Its JSON Schema describes fields by docstrings."""

    model_config = ConfigDict(defer_build=True)

    @classmethod
    def model_rebuild(cls, *, _parent_namespace_depth: int = 2, **options: Any) -> bool | None:
        """Build the validator under a lock. Pydantic itself takes a lock only from version 2.14 on."""
        with _building:
            depth = _parent_namespace_depth + (_parent_namespace_depth > 0)  # this function is one more frame
            return super().model_rebuild(_parent_namespace_depth=depth, **options)

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        for name, description in _descriptions(cls).items():
            key = next((key for key in (cls.model_fields[name].alias, name) if key in properties), None)
            if key is not None and handler.resolve_ref_schema(properties[key]).get("description") != description:
                properties[key] = {"description": description, **properties[key]}
        return schema


def _descriptions(model: type[BaseModel]) -> dict[str, str]:
    """Return the docstrings of fields. Pydantic's `use_attribute_docstrings` would slow down every import."""
    import ast
    import inspect
    import textwrap
    from itertools import pairwise

    descriptions: dict[str, str] = {}
    for base in reversed(model.__mro__):
        own = [name for name in vars(base).get("__annotations__", ()) if name in model.model_fields]
        if not own:
            continue
        for name in own:
            descriptions.pop(name, None)
        try:
            source = inspect.getsource(base)
        except (OSError, TypeError):  # a class that is made at run time
            continue
        body = ast.parse(textwrap.dedent(source)).body[0].body  # type: ignore[attr-defined] # of a class
        for field, text in pairwise(body):
            match field, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(docstring))) if name in own:
                    descriptions[name] = inspect.cleandoc(docstring)
    return descriptions


class Record(BuiltOnUse):
    """A Pydantic model that is immutable and accepts no unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def is_none(value: object) -> bool:
    """Return True for None. With `exclude_if=is_none`, JSON leaves out a field that is None."""
    return value is None


def refusal(sentence: str) -> PydanticCustomError:
    """Return an error for validators that is shown without "Value error, " before it."""
    return PydanticCustomError("value_error", "{sentence}", {"sentence": sentence})


def plainly(check: Callable[P, R]) -> Callable[P, R]:
    """Return a validator that calls `check`. The message of a ValueError is shown without "Value error, " before it."""

    @functools.wraps(check)
    def validator(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return check(*args, **kwargs)
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
"""Keys are types of Pydantic's errors. {NAME} stands for a value in the error's context."""


def expected(error: Mapping[str, Any]) -> str | None:
    """Return what an entry of `ValidationError.errors()` expects, such as "expected an integer"."""
    template = EXPECTED.get(error["type"])
    return None if template is None else template.format(**error.get("ctx", {}))


def in_words(error: Mapping[str, Any]) -> str:
    """Return an entry of `ValidationError.errors()` without its location: "expected an integer, got 'x'"."""
    kind, message, location = error["type"], error["msg"], error["loc"]
    if kind == "missing":
        return f"{location[-1]!r} is missing"
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
        return f"unknown key {location[-1]!r}"
    if kind == "value_error":
        return str(message)
    requirement = expected(error) or message.removeprefix("Input ").removeprefix("String ")
    return f"{requirement}, got {shown_value(error['input'])}"


def plain(error: ValidationError, model: type[BaseModel]) -> ValidationError:
    """Return an equal ValidationError in plain words, with suggestions for unknown fields."""
    details: list[InitErrorDetails] = []
    misspelled: set[tuple[int | str, ...]] = set()
    entries = error.errors(include_url=False)
    for entry in sorted(entries, key=lambda entry: entry["type"] != "extra_forbidden"):
        location, sentence = entry["loc"], in_words(dict(entry))
        if entry["type"] == "extra_forbidden":
            aliases = _field_aliases(model, location)
            missing = [other["loc"][-1] for other in entries if other["type"] == "missing" and other["loc"][:-1] == location[:-1]]
            similar = closest(str(location[-1]), aliases)
            similar = similar or next((name for name, alias in aliases.items() if [alias] == missing), None)
            misspelled |= {(*location[:-1], aliases[similar])} if similar else set()
            remedy = f"did you mean {similar}?" if similar else f"the fields are {', '.join(aliases)}"
            sentence = f"is no field; {remedy}"
        elif entry["type"] == "missing":
            if location in misspelled:
                continue
            sentence = "is missing"
        details.append({"type": refusal(sentence), "loc": location, "input": entry["input"]})
    return ValidationError.from_exception_data(error.title, details, hide_input=True)


def _field_aliases(model: type[BaseModel], location: Sequence[int | str]) -> dict[str, str]:
    """Return the valid fields at the location of an unknown field, as a dict from name to alias.

    Names are in PascalCase or snake_case, like the name of the unknown field. Aliases are in PascalCase.
    """
    for step in location[:-1]:
        field = next((field for name, field in model.model_fields.items() if step in (name, field.alias)), None)
        if field is None or not isinstance(field.annotation, type) or not issubclass(field.annotation, BaseModel):
            return {}
        model = field.annotation
    pascal = str(location[-1])[:1].isupper()
    return {str(field.alias if pascal else name): str(field.alias) for name, field in model.model_fields.items()}


def placed(error: Mapping[str, Any]) -> str:
    """Return an entry of `ValidationError.errors()` as "LOCATION: SENTENCE"."""
    steps = error["loc"][:-1] if error["type"] == "missing" else error["loc"]
    return f"{'.'.join(map(str, steps)) or 'the file'}: {in_words(error)}"
