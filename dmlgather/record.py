"""The base of structures of DirectML and of everything that is reported; what Pydantic refuses, in plain words."""

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
    """A model whose validator is built when it is first needed. The docstring under a field describes it in the JSON Schema."""

    model_config = ConfigDict(defer_build=True)

    @classmethod
    def model_rebuild(cls, *, _parent_namespace_depth: int = 2, **options: Any) -> bool | None:
        """Build it, in one thread at a time: Pydantic before 2.14 leaves that to its callers."""
        with _building:
            depth = _parent_namespace_depth + (_parent_namespace_depth > 0)  # this function is a frame more
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
    """The docstring under each field of a model. It is read from the source when a JSON Schema is wanted: Pydantic's
    `use_attribute_docstrings` reads it whenever the class is imported, which takes longer than all else.
    """
    import ast
    import inspect
    import textwrap
    from itertools import pairwise

    found: dict[str, str] = {}
    for kind in reversed(model.__mro__):
        own = [name for name in vars(kind).get("__annotations__", ()) if name in model.model_fields]
        if not own:
            continue
        for name in own:
            found.pop(name, None)
        try:
            source = inspect.getsource(kind)
        except (OSError, TypeError):  # a class that is made at run time
            continue
        body = ast.parse(textwrap.dedent(source)).body[0].body  # type: ignore[attr-defined] # of a class
        for field, text in pairwise(body):
            match field, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))) if name in own:
                    found[name] = inspect.cleandoc(words)
    return found


class Record(BuiltOnUse):
    """Immutable data. `model_dump(mode="json")` gives JSON."""

    model_config = ConfigDict(extra="forbid", frozen=True)


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


def plain(error: ValidationError, model: type[BaseModel]) -> ValidationError:
    """Return the error of validating `model` in the words of `in_words`, with the field that an unknown one probably means."""
    lines: list[InitErrorDetails] = []
    meant: set[tuple[int | str, ...]] = set()
    entries = error.errors(include_url=False)
    for entry in sorted(entries, key=lambda each: each["type"] != "extra_forbidden"):
        place, sentence = entry["loc"], in_words(dict(entry))
        if entry["type"] == "extra_forbidden":
            names = _field_names(model, place)
            lacking = [each["loc"][-1] for each in entries if each["type"] == "missing" and each["loc"][:-1] == place[:-1]]
            similar = closest(str(place[-1]), names) or next((name for name, alias in names.items() if [alias] == lacking), None)
            meant |= {(*place[:-1], names[similar])} if similar else set()
            remedy = f"did you mean {similar}?" if similar else f"the fields are {', '.join(names)}"
            sentence = f"is no field; {remedy}"
        elif entry["type"] == "missing":
            if place in meant:
                continue
            sentence = "is missing"
        lines.append({"type": refusal(sentence), "loc": place, "input": entry["input"]})
    return ValidationError.from_exception_data(error.title, lines, hide_input=True)


def _field_names(model: type[BaseModel], place: Sequence[int | str]) -> dict[str, str]:
    """Return the aliases of the fields of the structure that a place is in, by the names that are written like its last step."""
    for step in place[:-1]:
        field = next((each for name, each in model.model_fields.items() if step in (name, each.alias)), None)
        if field is None or not isinstance(field.annotation, type) or not issubclass(field.annotation, BaseModel):
            return {}
        model = field.annotation
    pascal = str(place[-1])[:1].isupper()
    return {str(each.alias if pascal else name): str(each.alias) for name, each in model.model_fields.items()}


def placed(error: Mapping[str, Any]) -> str:
    """One entry of `ValidationError.errors()` about a file as a sentence behind its place. A missing key is in the sentence."""
    steps = error["loc"][:-1] if error["type"] == "missing" else error["loc"]
    return f"{'.'.join(map(str, steps)) or 'the file'}: {in_words(error)}"
