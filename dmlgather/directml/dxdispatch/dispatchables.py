"""Reading of a model's dispatchables (DirectML operators with their descriptors), and of single descriptors."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from pydantic import ValidationError

from dmlgather.directml.descriptors import OperatorDesc
from dmlgather.directml.dxdispatch import wire
from dmlgather.directml.dxdispatch.commands import FieldBinding, read_bindings
from dmlgather.directml.dxdispatch.jsonc import Path
from dmlgather.directml.dxdispatch.reading import DISPATCHABLES, ForeignPart, Reading, unknown
from dmlgather.directml.fields import Structure, wire_name
from dmlgather.directml.operator_types import ALIASES, NUMBERS, PREFIX
from dmlgather.directml.operators import OPERATORS
from dmlgather.directml.operators.operator import Operator
from dmlgather.directml.tensor import BufferTensorDesc
from dmlgather.directml.types import AS_IN_FILES
from dmlgather.wording import closest, shown_value

_NO_OPERATOR = f"{PREFIX}INVALID"

LABEL = "name"
"""JSON key of the user's name for a single descriptor."""


class Dispatchable(NamedTuple):
    """An entry of a model's "dispatchables", or a single descriptor with an empty `name`.

    `type_path`: the path of the operator's name in the file.
    `path`: the path of the operator's fields in the file.
    `initial_bindings`: the resources that are bound at initialisation.
    `label`: the value of the key "name" in a file with a single descriptor.
    """

    name: str
    desc: OperatorDesc
    outer_path: Path
    type_path: Path
    path: Path
    initial_bindings: tuple[FieldBinding, ...]
    label: str = ""

    @property
    def tensors(self) -> dict[str, BufferTensorDesc]:
        """The tensors by their names in directml.h."""
        return {wire_name(field): self.desc.tensor(field) for field in self.desc.operator.tensors}

    @property
    def subject(self) -> str:
        """Start of the paths in findings: "dispatchables.NAME", or the `label`."""
        return f"dispatchables.{self.name}" if self.name else self.label


def read_dispatchable(reading: Reading, name: str, path: Path) -> Dispatchable | ForeignPart | None:
    """Return the dispatchable at `path`. If it cannot be read, report why and return None."""
    value = reading.value_at(path)
    if not isinstance(value, dict):
        reading.report_problem(path, 'expected an object {"type": "DML_OPERATOR_…", "desc": {…}}')
        return None
    if not path:
        read_label(reading, value)
    type_key = next((key for key in ("type", "Type") if key in value), None)
    if type_key is None:
        reading.report_problem(path, "'type' is missing")
        return None
    operator = _operator(reading, value[type_key], (*path, type_key))
    desc_key = next((key for key in ("desc", "Desc") if key in value), None)
    if operator is None or isinstance(operator, ForeignPart):
        return operator
    if desc_key is None and value.keys().isdisjoint(wire.names(operator.desc)):
        reading.report_problem(path, "'desc' is missing")
        return None
    outer_keys = [type_key] if path else [LABEL, type_key]
    plain = value.keys() <= {*outer_keys, desc_key}
    structure_keys = wire.names(operator.desc) if desc_key is None else (desc_key,)
    envelope = wire.PLAIN if plain else reading.validated(wire.ENVELOPE, path, [*outer_keys, *structure_keys])
    desc_path = path if desc_key is None else (*path, desc_key)
    ignored = (*outer_keys, *wire.names(wire.Envelope)) if desc_key is None else ()
    desc = _structure(reading, operator.desc, desc_path, ignored)
    if desc is None or envelope is None:
        return None
    assert isinstance(desc, OperatorDesc)
    bound = read_bindings(envelope.bindings, (*path, "bindings"))
    return Dispatchable(name, desc, path, (*path, type_key), desc_path, bound, reading.subject)


def read_label(reading: Reading, value: dict[str, Any]) -> None:
    """Use the "name" of a single descriptor as the subject of its problems and findings."""
    label = value.get(LABEL, "")
    if isinstance(label, str):
        reading.subject = label
    else:
        reading.report_problem((LABEL,), f"expected text, got {shown_value(label)}")


def _operator(reading: Reading, name: object, path: Path) -> Operator | ForeignPart | None:
    if not isinstance(name, str):
        hint = next((f": {full}" for full, number in NUMBERS.items() if number == name and not isinstance(name, bool)), "")
        reading.report_problem(path, f"expected the name of a DML_OPERATOR_TYPE in double quotes{hint}, got {shown_value(name)}")
        return None
    full = PREFIX + name.removeprefix(PREFIX)
    if full in OPERATORS:
        return OPERATORS[full]
    if full == _NO_OPERATOR:
        reading.report_problem(path, f"{_NO_OPERATOR} (0) is no operator: Type was probably never set")
        return None
    if full in NUMBERS or full in ALIASES:
        return ForeignPart(full, path)
    foreign = next((words for kind, words in DISPATCHABLES.items() if kind.lower() == name.lower()), None)
    if foreign is not None:
        return ForeignPart(foreign, path)
    short_names = {kind.removeprefix(PREFIX): kind for kind in (*OPERATORS, *NUMBERS, *ALIASES, *DISPATCHABLES)}
    similar = closest(name.removeprefix(PREFIX), short_names)
    kinds = f"an operator of DirectML ({PREFIX}…), {', '.join(DISPATCHABLES)}"
    reading.report_problem(path, unknown(name, short_names[similar]) if similar else f"unknown type {name!r}: expected {kinds}")
    return None


def _structure(reading: Reading, kind: type[Structure], path: Path, ignored: Iterable[str]) -> Structure | None:
    value = reading.value_at(path)
    if not isinstance(value, dict):
        reading.report_problem(
            path, f"expected an object with the fields {', '.join(wire.names(kind))}, got {shown_value(value)}"
        )
        return None
    if not reading.check_lengths(path):
        return None
    before = reading.problem_count
    fields = {key: entry for key, entry in value.items() if key not in ignored}
    if not ignored:
        _check_names(reading, kind, path)
    _check_enums(reading, kind, path)
    try:
        structure = kind.model_validate(fields, context=AS_IN_FILES)
    except ValidationError as error:
        known = [*wire.names(kind), *wire.names(BufferTensorDesc)]
        reading.report_invalid(error, path, known, skip=("extra_forbidden",))
        if reading.problem_count == before:  # report unknown fields only if nothing else was reported
            reading.report_invalid(error, path, known)
        return None
    return structure if reading.problem_count == before else None


def _check_names(reading: Reading, kind: type[Structure], path: Path) -> None:
    """Report keys that are not field names in directml.h. Python's names of the fields are not allowed."""
    value = reading.value_at(path)
    if not value.keys() <= _known_names(kind):
        known = wire.names(kind)
        for key in value:
            if key in _known_names(kind):
                continue
            similar = closest(key, known)
            message = unknown(key, similar) if similar else f"unknown field; the fields are {', '.join(known)}"
            reading.report_problem((*path, key), message, key=True)
    for tensor in _tensor_paths(value, kind, path):
        _check_names(reading, BufferTensorDesc, tensor)


def _check_enums(reading: Reading, kind: type[Structure], path: Path) -> None:
    """Report enumeration values that are numbers: Pydantic accepts them, but DxDispatch reads only names."""
    value = reading.value_at(path)
    for key, members in _enums(kind).items():
        if type(value.get(key)) is int and value[key] in members.values():  # Pydantic reports other numbers
            expected = f"expected one of {', '.join(members)} in double quotes"
            reading.report_problem((*path, key), f"{expected}, got {shown_value(value[key])}: DxDispatch reads no numbers here")
    for tensor in _tensor_paths(value, kind, path):
        _check_enums(reading, BufferTensorDesc, tensor)


def _tensor_paths(value: Mapping[str, Any], kind: type[Structure], path: Path) -> Iterator[Path]:
    for name in _tensors(kind):
        tensor = value.get(name)
        if isinstance(tensor, dict) and tensor.get("Desc", {}) is not None:
            yield (*path, name, "Desc") if isinstance(tensor.get("Desc"), dict) else (*path, name)


@cache
def _enums(kind: type[Structure]) -> Mapping[str, Mapping[str, int]]:
    fields = ((field.alias or name, field.annotation) for name, field in kind.model_fields.items())
    return {
        key: {name: member.value for name, member in annotation.__members__.items()}
        for key, annotation in fields
        if isinstance(annotation, type) and issubclass(annotation, enum.Enum)
    }


@cache
def _known_names(kind: type[Structure]) -> frozenset[str]:
    return frozenset((*wire.names(kind), *(("Type",) if kind is BufferTensorDesc else ())))


@cache
def _tensors(kind: type[Structure]) -> tuple[str, ...]:
    return tuple(field.alias or name for name, field in kind.model_fields.items() if field.annotation is BufferTensorDesc)
