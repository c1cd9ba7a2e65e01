"""Writing of DxDispatch models, with their initial values in .npy files beside the model.

File names are ASCII without characters that Windows forbids, and relative to the model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.chunks import chunks
from dmlgather.directml.descriptors import OperatorDesc
from dmlgather.directml.dxdispatch.commands import BindingSource, Command, Dispatch, FieldBinding, Print, WriteFile
from dmlgather.directml.dxdispatch.dispatchables import Dispatchable
from dmlgather.directml.dxdispatch.model_file import CheckedFile, DispatchOutput, dispatch_outputs
from dmlgather.directml.dxdispatch.npy import write_npy
from dmlgather.directml.dxdispatch.resources import Resource
from dmlgather.directml.dxdispatch.values import Constant
from dmlgather.directml.elements import dtype_of
from dmlgather.directml.fields import wire_name
from dmlgather.directml.tensor import BufferTensorDesc
from dmlgather.directml.types import TensorFlags
from dmlgather.directml.validation import lower
from dmlgather.files import FileError, staged, writing

NAME = "case.json"
"""The model's file name in the folder of a saved case."""

MOST_OUTSIDE = 2
"""How far random indices may be out of range."""


def model_path(case: Path) -> Path:
    """Return `case` if it is a .json file. Otherwise return the path of case.json in the folder `case`."""
    return case if case.suffix.lower() == ".json" else case / NAME


def beside(target: Path, name: str) -> str:
    """Return the name of a file that belongs to the model file `target`: "case.NAME" for case.json."""
    return f"{plain(target.stem)}.{name}"


def plain(name: str, longest: int = 40) -> str:
    """Return a name without characters that a file system may forbid."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:longest]


def write_model(model: CheckedFile, case: Path, made_from: Iterable[Path] = ()) -> Path:
    """Write a model and the initial values of its resources. Return the path of the model file.

    Unsupported parts are left out. For outputs that no command writes to a file, a writeFile command is added, except for
    `lost_outputs`.

    Raises FileError if a file cannot be written, or would replace a file of the model or one of `made_from`. Then nothing is
    written.
    """
    target = model_path(case)
    resources: dict[str, dict[str, Any]] = {}
    with staged(target.parent, [*sources(model), *made_from]) as stage:
        for number, (name, resource) in enumerate(model.resources.items()):
            values: dict[str, Any]
            if isinstance(resource.values, Constant) and isfinite(resource.values.value):
                values = {"valueCount": resource.values.count, "value": resource.values.value}
            else:
                values = {"sourcePath": _save(initial_values(model, resource), stage, target, number, name)}
            resources[name] = {"initialValuesDataType": resource.data_type.name, "initialValues": values}
            if resource.offset:
                resources[name]["initialValuesOffsetInBytes"] = resource.offset
            resources[name]["sizeInBytes"] = resource.size
        dispatchables = {name: _dispatchable(part) for name, part in model.dispatchables.items()}
        commands = [_command(command) for command in (*model.commands, *_added_commands(model, target))]
        _write(stage / target.name, resources, dispatchables, commands)
    return target


def lost_outputs(model: CheckedFile) -> dict[int, DispatchOutput]:
    """Return the outputs that no command writes to a file before a later dispatch overwrites them, by command number."""
    outputs = dispatch_outputs(model).items()
    return {number: output for number, output in outputs if not output.in_file and output.replaced_by is not None}


def _added_commands(model: CheckedFile, target: Path) -> Iterator[WriteFile]:
    for number, output in dispatch_outputs(model).items():
        if not output.in_file and output.replaced_by is None:
            name = beside(target, f"out{number}_{plain(output.command.dispatchable)}.replayed.npy")
            yield WriteFile(output.bound.resource, name, None, ())


def write_single(desc: OperatorDesc, inputs: Sequence[NDArray[Any]], case: Path, made_from: Iterable[Path] = ()) -> Path:
    """Write a model that runs the operator `desc` once and writes its output to a .npy file. Return the path of the model file.

    `inputs`: contents of the input buffers, of shape [count].

    Raises FileError if a file cannot be written, or would replace one of `made_from`. Then nothing is written.
    """
    target = model_path(case)
    resources: dict[str, Any] = {}
    with staged(target.parent, made_from) as stage:
        for number, (field, array) in enumerate(zip(desc.operator.inputs, inputs, strict=True)):
            name = wire_name(field)
            values: dict[str, Any] = {"sourcePath": _save(array, stage, target, number, name)}
            resources[name] = {"initialValuesDataType": desc.tensor(field).data_type.name, "initialValues": values}
        output, tensor = wire_name(desc.operator.output), desc.tensor(desc.operator.output)
        values = {"valueCount": count(tensor), "value": 0}
        resources[output] = {"initialValuesDataType": tensor.data_type.name, "initialValues": values}
        bound = {name: name for name in resources}
        write_dispatch(stage / target.name, desc, resources, bound, beside(target, "replayed.npy"))
    return target


def write_dispatch(file: Path, desc: OperatorDesc, resources: Mapping[str, Any], bound: Mapping[str, str], written: str) -> None:
    """Write a model that runs `desc` once and writes its output to the file `written`. Raises FileError if it cannot."""
    owned = [wire_name(field) for field in desc.operator.tensors if desc.tensor(field).flags & TensorFlags.OWNED_BY_DML]
    operator = desc.operator.name.lower()
    dispatchable = {**desc.document(), **({"bindings": {name: bound[name] for name in owned}} if owned else {})}
    bindings = {name: resource for name, resource in bound.items() if name not in owned}
    commands = [
        {"type": "dispatch", "dispatchable": operator, "bindings": bindings},
        {"type": "writeFile", "resource": bound[wire_name(desc.operator.output)], "targetPath": written},
    ]
    _write(file, resources, {operator: dispatchable}, commands)


def sources(model: CheckedFile) -> list[Path]:
    """Return the paths of all files of a model."""
    files = [resource.file for resource in model.resources.values()]
    return [Path(model.file), *(file for file in files if file is not None)]


def initial_values(model: CheckedFile, resource: Resource) -> NDArray[Any]:
    """Return the initial values, of shape [count]. Raises FileError if a file cannot be read."""
    values = np.empty(resource.values.count, dtype_of(resource.data_type))
    try:
        resource.values.write(values)
    except FileError as error:
        raise FileError(f"{model.file}: {resource.file} {error}") from None
    return values


def count(tensor: BufferTensorDesc) -> int:
    """Return the size of the smallest buffer that holds a tensor, in elements."""
    return -(-tensor.total_bytes // tensor.data_type.bytes)


def random_inputs(desc: OperatorDesc, seed: int) -> list[NDArray[Any]]:
    """Return random contents for each input buffer, of shape [count]. Some indices are out of range."""
    random = np.random.default_rng(seed)
    limit = max((lookup.limit for lookup in lower(desc).lookups), default=1)
    inputs = []
    for number, tensor in enumerate(map(desc.tensor, desc.operator.inputs)):
        dtype = dtype_of(tensor.data_type)
        inputs.append(_indices(random, count(tensor), dtype, limit) if number else _bits(random, count(tensor), dtype))
    return inputs


def _bits(random: np.random.Generator, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    data = np.empty(count, dtype)
    for chunk in chunks(data):
        chunk[...] = np.frombuffer(random.bytes(chunk.nbytes), dtype)
    return data


def _indices(random: np.random.Generator, count: int, dtype: np.dtype[Any], limit: int) -> NDArray[Any]:
    bounds = np.iinfo(dtype)
    low = -limit - MOST_OUTSIDE if bounds.min < 0 else 0
    high = limit + MOST_OUTSIDE
    indices = np.empty(count, dtype)
    for chunk in chunks(indices):
        chunk[...] = random.integers(max(low, bounds.min), min(high, bounds.max), chunk.size, dtype, endpoint=True)
    return indices


def _dispatchable(part: Dispatchable) -> dict[str, Any]:
    return {**part.desc.document(), **({"bindings": _bindings(part.initial_bindings)} if part.initial_bindings else {})}


def _command(command: Command) -> dict[str, Any]:
    match command:
        case Dispatch():
            return {"type": "dispatch", "dispatchable": command.dispatchable, "bindings": _bindings(command.bindings)}
        case Print():
            return {"type": "print", "resource": command.resource, **({"verbose": True} if command.verbose else {})}
        case WriteFile():
            optional = {} if command.dimensions is None else {"dimensions": list(command.dimensions)}
            return {"type": "writeFile", "resource": command.resource, "targetPath": command.target, **optional}


def _bindings(bindings: Sequence[FieldBinding]) -> dict[str, Any]:
    return {binding.field: _source(binding.sources[0]) for binding in bindings}


def _source(source: BindingSource) -> str | dict[str, Any]:
    if not source.element_offset:
        return source.resource
    optional = {} if source.element_bytes is None else {"elementSizeInBytes": source.element_bytes}
    return {"name": source.resource, "elementOffset": source.element_offset, **optional}


def _save(array: NDArray[Any], stage: Path, target: Path, number: int, name: str) -> str:
    file = beside(target, f"{number}_{plain(name)}.npy")
    save(array, stage / file)
    return file


def save(array: NDArray[Any], file: Path) -> None:
    """Write a .npy file. Raises FileError if it cannot be written."""
    with writing(file, ()) as stream:
        write_npy(array, stream)


def _write(file: Path, resources: Mapping[str, Any], dispatchables: Mapping[str, Any], commands: Sequence[Any]) -> None:
    text = json.dumps({"resources": resources, "dispatchables": dispatchables, "commands": commands}, indent=2)
    with writing(file, ()) as stream:
        stream.write(f"{text}\n".encode())
