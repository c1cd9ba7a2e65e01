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
from dmlgather.directml.dxdispatch.reading import Reading, closest, unknown
from dmlgather.directml.fields import Structure, wire_name
from dmlgather.directml.operators import OPERATORS
from dmlgather.directml.operators.operator import Operator
from dmlgather.directml.tensor import BufferTensorDesc
from dmlgather.directml.types import AS_IN_FILES
from dmlgather.wording import shown_value

PREFIX = "DML_OPERATOR_"

_FOREIGN = {
    "hlsl": "an HLSL shader",
    "onnx": "an ONNX model",
    "dmlserializedgraph": "a serialized DirectML graph",
}


class Dispatchable(NamedTuple):
    """An operator of the file. name: empty for the descriptor that is the whole file. outer_path: of the dispatchable;
    type_path, path: of its operator's name and structure.
    """

    name: str
    desc: OperatorDesc
    outer_path: Path
    type_path: Path
    path: Path
    initial_bindings: tuple[FieldBinding, ...]

    @property
    def tensors(self) -> dict[str, BufferTensorDesc]:
        """The operator's tensors, by DirectML's names."""
        return {wire_name(field): self.desc.tensor(field) for field in self.desc.operator.tensors}

    @property
    def subject(self) -> str:
        """The part of the file that the paths of its findings start from."""
        return f"dispatchables.{self.name}" if self.name else ""


def read_dispatchable(reading: Reading, name: str, path: Path) -> Dispatchable | None:
    """The dispatchable at `path`; None after reporting why it cannot be read."""
    given = reading.at(path)
    if not isinstance(given, dict):
        reading.problem(path, 'expected an object {"type": "DML_OPERATOR_…", "desc": {…}}')
        return None
    type_key = next((key for key in ("type", "Type") if key in given), None)
    if type_key is None:
        reading.problem(path, "'type' is missing")
        return None
    operator = _operator(reading, given[type_key], (*path, type_key))
    desc_key = next((key for key in ("desc", "Desc") if key in given), None)
    if operator is None:
        return None
    if desc_key is None and given.keys().isdisjoint(wire.names(operator.desc)):
        reading.problem(path, "'desc' is missing")
        return None
    plain = given.keys() <= {type_key, desc_key}
    envelope = wire.PLAIN if plain else reading.validated(wire.ENVELOPE, path, _known(operator, type_key, desc_key))
    desc_path = path if desc_key is None else (*path, desc_key)
    outside = (type_key, *wire.names(wire.Envelope)) if desc_key is None else ()
    desc = _structure(reading, operator.desc, desc_path, outside)
    if desc is None or envelope is None:
        return None
    assert isinstance(desc, OperatorDesc)
    return Dispatchable(name, desc, path, (*path, type_key), desc_path, read_bindings(envelope.bindings, (*path, "bindings")))


def _operator(reading: Reading, name: object, path: Path) -> Operator | None:
    if not isinstance(name, str):
        reading.problem(path, "expected the name of a DML_OPERATOR_TYPE in double quotes")
        return None
    full = PREFIX + name.removeprefix(PREFIX)
    if full in OPERATORS:
        return OPERATORS[full]
    foreign, meant = _FOREIGN.get(name.lower()), closest(full, OPERATORS)
    if meant and foreign is None:
        reading.problem(path, unknown(name, meant))
    else:
        what = f"dispatchable type {name!r}" if foreign is None else f"{name!r} is {foreign}, which"
        reading.problem(path, f"{what} cannot be checked or run here; known types are {', '.join(OPERATORS)}")
    return None


def _known(operator: Operator, *keys: str | None) -> list[str]:
    """The keys that are allowed in addition to the envelope's: the type and the structure, or all fields of the structure."""
    known = [key for key in keys if key is not None]
    return known if "desc" in map(str.lower, known) else [*known, *wire.names(operator.desc)]


def _structure(reading: Reading, kind: type[Structure], path: Path, outside: Iterable[str]) -> Structure | None:
    """The structure of DirectML at `path`, where the keys `outside` are allowed, too; None after reporting what is wrong."""
    given = reading.at(path)
    if not isinstance(given, dict):
        reading.problem(path, f"expected an object with the fields {', '.join(wire.names(kind))}")
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
            told = unknown(key, meant) if meant else f"unknown field {key!r}; the fields are {', '.join(known)}"
            reading.problem((*path, key), told, key=True)
    for tensor in _tensors_at(given, kind, path):
        _check_names(reading, BufferTensorDesc, tensor)


def _check_enums(reading: Reading, kind: type[Structure], path: Path) -> None:
    """Report numbers in the place of names. Python's structures take both, but DxDispatch reads names alone."""
    given = reading.at(path)
    for key, names in _enums(kind).items():
        if isinstance(given.get(key), int):
            expected = f"expected one of {names} in double quotes"
            reading.problem((*path, key), f"{expected}, got {shown_value(given[key])}: DxDispatch reads no numbers here")
    for tensor in _tensors_at(given, kind, path):
        _check_enums(reading, BufferTensorDesc, tensor)


def _tensors_at(given: Mapping[str, Any], kind: type[Structure], path: Path) -> Iterator[Path]:
    """The path of each tensor in the structure that is given at `path`."""
    for name in _tensors(kind):
        tensor = given.get(name)
        if isinstance(tensor, dict):
            yield (*path, name, "Desc") if isinstance(tensor.get("Desc"), dict) else (*path, name)


@cache
def _enums(kind: type[Structure]) -> Mapping[str, str]:
    """The fields of a structure that hold a value of an enumeration, by DirectML's names, and the values' names."""
    fields = ((field.alias or name, field.annotation) for name, field in kind.model_fields.items())
    return {
        key: ", ".join(annotation.__members__)
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
