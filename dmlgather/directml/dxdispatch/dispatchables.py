"""Dispatchables of a model: DirectML operators with their descriptors. A single descriptor's file is read here as well."""

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
"""The key of a descriptor in a file of its own, or on a line of its own, that says which one it is."""


class Dispatchable(NamedTuple):
    """An operator of the file. name: empty for the descriptor that is the whole file, which may have a label instead.
    outer_path: of the dispatchable; type_path, path: of its operator's name and structure.
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
        """The operator's tensors, by DirectML's names."""
        return {wire_name(field): self.desc.tensor(field) for field in self.desc.operator.tensors}

    @property
    def subject(self) -> str:
        """The part of the file that the paths of its findings start from."""
        return f"dispatchables.{self.name}" if self.name else self.label


def read_dispatchable(reading: Reading, name: str, path: Path) -> Dispatchable | ForeignPart | None:
    """The dispatchable at `path`; None after reporting why it cannot be read."""
    given = reading.at(path)
    if not isinstance(given, dict):
        reading.problem(path, 'expected an object {"type": "DML_OPERATOR_…", "desc": {…}}')
        return None
    if not path:
        read_label(reading, given)
    type_key = next((key for key in ("type", "Type") if key in given), None)
    if type_key is None:
        reading.problem(path, "'type' is missing")
        return None
    operator = _operator(reading, given[type_key], (*path, type_key))
    desc_key = next((key for key in ("desc", "Desc") if key in given), None)
    if operator is None or isinstance(operator, ForeignPart):
        return operator
    if desc_key is None and given.keys().isdisjoint(wire.names(operator.desc)):
        reading.problem(path, "'desc' is missing")
        return None
    around = [type_key] if path else [LABEL, type_key]
    plain = given.keys() <= {*around, desc_key}
    envelope = wire.PLAIN if plain else reading.validated(wire.ENVELOPE, path, _known(operator, *around, desc_key))
    desc_path = path if desc_key is None else (*path, desc_key)
    outside = (*around, *wire.names(wire.Envelope)) if desc_key is None else ()
    desc = _structure(reading, operator.desc, desc_path, outside)
    if desc is None or envelope is None:
        return None
    assert isinstance(desc, OperatorDesc)
    bound = read_bindings(envelope.bindings, (*path, "bindings"))
    return Dispatchable(name, desc, path, (*path, type_key), desc_path, bound, reading.subject)


def read_label(reading: Reading, given: dict[str, Any]) -> None:
    """Let problems and findings of a descriptor in a file of its own, or on a line, have the name that it states."""
    label = given.get(LABEL, "")
    if isinstance(label, str):
        reading.subject = label
    else:
        reading.problem((LABEL,), f"expected text, got {shown_value(label)}")


def _operator(reading: Reading, name: object, path: Path) -> Operator | ForeignPart | None:
    if not isinstance(name, str):
        known = next((f": {full}" for full, number in NUMBERS.items() if number == name and not isinstance(name, bool)), "")
        reading.problem(path, f"expected the name of a DML_OPERATOR_TYPE in double quotes{known}, got {shown_value(name)}")
        return None
    full = PREFIX + name.removeprefix(PREFIX)
    if full in OPERATORS:
        return OPERATORS[full]
    if full == _NO_OPERATOR:
        reading.problem(path, f"{_NO_OPERATOR} (0) is no operator: Type was probably never set")
        return None
    if full in NUMBERS or full in ALIASES:
        return ForeignPart(full, path)
    other = next((what for kind, what in DISPATCHABLES.items() if kind.lower() == name.lower()), None)
    if other is not None:
        return ForeignPart(other, path)
    short = {kind.removeprefix(PREFIX): kind for kind in (*OPERATORS, *NUMBERS, *ALIASES, *DISPATCHABLES)}
    meant = closest(name.removeprefix(PREFIX), short)
    kinds = f"an operator of DirectML ({PREFIX}…), {', '.join(DISPATCHABLES)}"
    reading.problem(path, unknown(name, short[meant]) if meant else f"unknown type {name!r}: expected {kinds}")
    return None


def _known(operator: Operator, *keys: str | None) -> list[str]:
    """The keys that are allowed in addition to the envelope's: the type and the structure, or all fields of the structure."""
    known = [key for key in keys if key is not None]
    return known if "desc" in map(str.lower, known) else [*known, *wire.names(operator.desc)]


def _structure(reading: Reading, kind: type[Structure], path: Path, outside: Iterable[str]) -> Structure | None:
    """The structure of DirectML at `path`, where the keys `outside` are allowed, too; None after reporting what is wrong."""
    given = reading.at(path)
    if not isinstance(given, dict):
        reading.problem(path, f"expected an object with the fields {', '.join(wire.names(kind))}, got {shown_value(given)}")
        return None
    if not reading.short(path):
        return None
    before = reading.problem_count
    fields = {key: value for key, value in given.items() if key not in outside}
    if not outside:
        _check_names(reading, kind, path)
    _check_enums(reading, kind, path)
    try:
        found = kind.model_validate(fields, context=AS_IN_FILES)
    except ValidationError as error:
        known = [*wire.names(kind), *wire.names(BufferTensorDesc)]
        reading.invalid(error, path, known, skip=("extra_forbidden",))
        if reading.problem_count == before:  # at least one problem is reported, whatever the names are
            reading.invalid(error, path, known)
        return None
    return found if reading.problem_count == before else None


def _check_names(reading: Reading, kind: type[Structure], path: Path) -> None:
    """Report fields that DirectML's structure does not have; Python's names of fields are not allowed in files."""
    given = reading.at(path)
    if not given.keys() <= _known_names(kind):
        known = wire.names(kind)
        for key in given:
            if key in _known_names(kind):
                continue
            meant = closest(key, known)
            told = unknown(key, meant) if meant else f"unknown field; the fields are {', '.join(known)}"
            reading.problem((*path, key), told, key=True)
    for tensor in _tensors_at(given, kind, path):
        _check_names(reading, BufferTensorDesc, tensor)


def _check_enums(reading: Reading, kind: type[Structure], path: Path) -> None:
    """Report numbers in the place of names. Python's structures take both, but DxDispatch reads names alone. A number without a
    name is reported with all else that is wrong in the structure.
    """
    given = reading.at(path)
    for key, members in _enums(kind).items():
        if type(given.get(key)) is int and given[key] in members.values():
            expected = f"expected one of {', '.join(members)} in double quotes"
            reading.problem((*path, key), f"{expected}, got {shown_value(given[key])}: DxDispatch reads no numbers here")
    for tensor in _tensors_at(given, kind, path):
        _check_enums(reading, BufferTensorDesc, tensor)


def _tensors_at(given: Mapping[str, Any], kind: type[Structure], path: Path) -> Iterator[Path]:
    """The path of each tensor in the structure that is given at `path`."""
    for name in _tensors(kind):
        tensor = given.get(name)
        if isinstance(tensor, dict) and tensor.get("Desc", {}) is not None:
            yield (*path, name, "Desc") if isinstance(tensor.get("Desc"), dict) else (*path, name)


@cache
def _enums(kind: type[Structure]) -> Mapping[str, Mapping[str, int]]:
    """The fields of a structure that hold a value of an enumeration, by DirectML's names: the names and numbers of the values."""
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
    """The fields of a structure that hold a tensor, by DirectML's names."""
    return tuple(field.alias or name for name, field in kind.model_fields.items() if field.annotation is BufferTensorDesc)
