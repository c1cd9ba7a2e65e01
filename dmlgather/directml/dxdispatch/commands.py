"""The commands of a model: dispatch, print, writeFile."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PureWindowsPath
from typing import Any, NamedTuple

from dmlgather.directml.dxdispatch import wire
from dmlgather.directml.dxdispatch.jsonc import Path
from dmlgather.directml.dxdispatch.npy import IMAGES
from dmlgather.directml.dxdispatch.reading import Reading
from dmlgather.wording import shown_value


class BindingSource(NamedTuple):
    """A resource that a tensor is bound to.

    `element_offset`: the offset of the tensor in the resource, in elements.
    `element_bytes`: the size of these elements; None for elements of the resource's data type.
    """

    resource: str
    element_offset: int
    element_bytes: int | None
    path: Path


class FieldBinding(NamedTuple):
    """The resources that a tensor field is bound to. In a valid model, this is one resource."""

    field: str
    sources: tuple[BindingSource, ...]
    path: Path


class Dispatch(NamedTuple):
    """A command that runs an operator on resources."""

    dispatchable: str
    bindings: tuple[FieldBinding, ...]
    path: Path


class Print(NamedTuple):
    """A command that prints a resource."""

    resource: str
    verbose: bool
    path: Path


class WriteFile(NamedTuple):
    """A command that writes a resource to a file. `dimensions`: shape of a .npy file, if stated."""

    resource: str
    target: str
    dimensions: tuple[int, ...] | None
    path: Path


Command = Dispatch | Print | WriteFile


def read_command(reading: Reading, path: Path) -> Command | None:
    """Return the command at `path`. If it cannot be read, report why and return None."""
    part = reading.validated(wire.COMMAND, path)
    match part:
        case wire.DispatchPart():
            bindings = read_bindings(part.bindings, (*path, "bindings"))
            return Dispatch(part.dispatchable, bindings, path)
        case wire.PrintPart():
            return Print(part.resource, part.verbose, path)
        case wire.WriteFilePart():
            if fault := _target_fault(part.target_path):
                reading.report_problem((*path, "targetPath"), fault)
                return None
            return WriteFile(part.resource, part.target_path, None if part.dimensions is None else tuple(part.dimensions), path)
    return None


def _target_fault(target: str) -> str:
    path = PureWindowsPath(target)  # "/" and "\\" separate on every system
    if target.lower().endswith(IMAGES):
        return "images cannot be written here; write a .npy or raw bytes"
    if path.suffix.lower() == ".npz":
        return "archives of arrays cannot be written here; write a .npy or raw bytes"
    if path.anchor or ".." in path.parts or not path.name:
        return f"expected the path of a file inside the output folder, which --output-dir names, got {shown_value(target)}"
    return ""


def read_bindings(part: Mapping[str, Any], path: Path) -> tuple[FieldBinding, ...]:
    """Return the entries of a `bindings` object that Pydantic has validated."""
    bindings = []
    for field, value in part.items():
        field_path = (*path, field)
        if isinstance(value, list):
            sources = tuple(_source(item, (*field_path, index)) for index, item in enumerate(value))
        else:
            sources = (_source(value, field_path),)
        bindings.append(FieldBinding(field, sources, field_path))
    return tuple(bindings)


def _source(value: str | wire.BindingPart, path: Path) -> BindingSource:
    if isinstance(value, str):
        return BindingSource(value, 0, None, path)
    return BindingSource(value.name, value.element_offset, value.element_size_in_bytes, path)
