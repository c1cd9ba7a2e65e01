"""Write models: a checked model with its values in .npy files beside it, or a descriptor with its inputs.

DxDispatch on Windows can read the files: their names are ASCII without characters that Windows forbids, .npy files are of version
1.0, in C order and little-endian, and every path is relative to the model.
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
"""The name of the model in the folder of a case."""

OUTSIDE = 2
"""How far a random index is at most outside the valid range."""


def model_path(case: Path) -> Path:
    """The model file of a case, which a user names by a file or a folder."""
    return case if case.suffix.lower() == ".json" else case / NAME


def beside(target: Path, name: str) -> str:
    """The name of another file of the case whose model is `target`."""
    return f"{plain(target.stem)}.{name}"


def plain(name: str, longest: int = 40) -> str:
    """A name from a model, changed so that it can be part of a file's name on any system."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:longest]


def write_model(model: CheckedFile, case: Path, made_from: Iterable[Path] = ()) -> Path:
    """Write `model` and the initial values of its resources; the path of the model file. Parts that dmlgather does not know are
    left out. Commands at the end write the outputs that no writeFile command of the model writes, except `lost_outputs`.

    FileError when a file cannot be written or would overwrite one that the model is read from, or one of `made_from`; then
    nothing is written.
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
        dispatchables = {name: _dispatchable(found) for name, found in model.dispatchables.items()}
        commands = [_command(command) for command in (*model.commands, *_replays(model, target))]
        _write(stage / target.name, resources, dispatchables, commands)
    return target


def lost_outputs(model: CheckedFile) -> dict[int, DispatchOutput]:
    """The outputs that no file holds after the model's case has run, by number of the dispatch command: another dispatch writes
    the resource before the case's end, and no writeFile command comes before that.
    """
    outputs = dispatch_outputs(model).items()
    return {number: output for number, output in outputs if not output.in_file and output.replaced_by is not None}


def _replays(model: CheckedFile, target: Path) -> Iterator[WriteFile]:
    """The commands that the case of a model adds, at the end, so that the numbers of the model's own commands stay."""
    for number, output in dispatch_outputs(model).items():
        if not output.in_file and output.replaced_by is None:
            name = beside(target, f"out{number}_{plain(output.command.dispatchable)}.replayed.npy")
            yield WriteFile(output.bound.resource, name, None, ())


def write_single(desc: OperatorDesc, inputs: Sequence[NDArray[Any]], case: Path, made_from: Iterable[Path] = ()) -> Path:
    """Write a model that dispatches `desc` once and writes its output to a .npy file; the path of the model file.

    inputs: one buffer per input tensor, as `buffers` lays them out. FileError when it cannot be written, or when one of the files
    `made_from` would be overwritten; then nothing is written.
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
    """Write the model `file` that dispatches `desc` once and writes the output's resource to the path `written`.

    resources: of the model. bound: the resource of each tensor, by DirectML's names. FileError when it cannot be written.
    """
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
    """The files that a model is read from: its own, and those of its values."""
    files = [resource.file for resource in model.resources.values()]
    return [Path(model.file), *(file for file in files if file is not None)]


def initial_values(model: CheckedFile, resource: Resource) -> NDArray[Any]:
    """The initial values of a resource of `model`, shape [count]. FileError, with both files, when they cannot be read."""
    found = np.empty(resource.values.count, dtype_of(resource.data_type))
    try:
        resource.values.write(found)
    except FileError as error:
        raise FileError(f"{model.file}: {resource.file} {error}") from None
    return found


def count(tensor: BufferTensorDesc) -> int:
    """The number of elements of the smallest buffer that holds the tensor."""
    return -(-tensor.total_bytes // tensor.data_type.bytes)


def random_inputs(desc: OperatorDesc, seed: int) -> list[NDArray[Any]]:
    """A buffer per input tensor, shape [count]: random bits, and indices some of which are out of range. Determined by `seed`."""
    random = np.random.default_rng(seed)
    limit = max((lookup.limit for lookup in lower(desc).lookups), default=1)
    made = []
    for number, tensor in enumerate(map(desc.tensor, desc.operator.inputs)):
        dtype = dtype_of(tensor.data_type)
        made.append(_indices(random, count(tensor), dtype, limit) if number else _bits(random, count(tensor), dtype))
    return made


def _bits(random: np.random.Generator, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    made = np.empty(count, dtype)
    for chunk in chunks(made):
        chunk[...] = np.frombuffer(random.bytes(chunk.nbytes), dtype)
    return made


def _indices(random: np.random.Generator, count: int, dtype: np.dtype[Any], limit: int) -> NDArray[Any]:
    bounds = np.iinfo(dtype)
    low = -limit - OUTSIDE if bounds.min < 0 else 0
    high = limit + OUTSIDE
    made = np.empty(count, dtype)
    for chunk in chunks(made):
        chunk[...] = random.integers(max(low, bounds.min), min(high, bounds.max), chunk.size, dtype, endpoint=True)
    return made


def _dispatchable(found: Dispatchable) -> dict[str, Any]:
    return {**found.desc.document(), **({"bindings": _bindings(found.initial_bindings)} if found.initial_bindings else {})}


def _command(command: Command) -> dict[str, Any]:
    match command:
        case Dispatch():
            return {"type": "dispatch", "dispatchable": command.dispatchable, "bindings": _bindings(command.bindings)}
        case Print():
            return {"type": "print", "resource": command.resource, **({"verbose": True} if command.verbose else {})}
        case WriteFile():
            stated = {} if command.dimensions is None else {"dimensions": list(command.dimensions)}
            return {"type": "writeFile", "resource": command.resource, "targetPath": command.target, **stated}


def _bindings(bindings: Sequence[FieldBinding]) -> dict[str, Any]:
    return {binding.field: _source(binding.sources[0]) for binding in bindings}


def _source(source: BindingSource) -> str | dict[str, Any]:
    if not source.element_offset:
        return source.resource
    stated = {} if source.element_bytes is None else {"elementSizeInBytes": source.element_bytes}
    return {"name": source.resource, "elementOffset": source.element_offset, **stated}


def _save(array: NDArray[Any], stage: Path, target: Path, number: int, name: str) -> str:
    """Save values for the model at `target`; the file's name."""
    file = beside(target, f"{number}_{plain(name)}.npy")
    save(array, stage / file)
    return file


def save(array: NDArray[Any], file: Path) -> None:
    """Write a .npy file as `write_npy` does. FileError when that is impossible."""
    with writing(file, ()) as stream:
        write_npy(array, stream)


def _write(file: Path, resources: Mapping[str, Any], dispatchables: Mapping[str, Any], commands: Sequence[Any]) -> None:
    text = json.dumps({"resources": resources, "dispatchables": dispatchables, "commands": commands}, indent=2)
    with writing(file, ()) as stream:
        stream.write(f"{text}\n".encode())
