"""Write models: a checked model with its values in .npy files beside it, or a descriptor with random inputs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.directml.dxdispatch.commands import Binding, Command, Dispatch, Print, Source, WriteFile
from dmlgather.directml.dxdispatch.dispatchables import Dispatchable
from dmlgather.directml.dxdispatch.model_file import CheckedFile
from dmlgather.directml.dxdispatch.values import Constant, dtype_of
from dmlgather.directml.fields import wire_name
from dmlgather.directml.queries import lower
from dmlgather.directml.types import TensorFlags
from dmlgather.files import writing

NAME = "case.json"
"""Name of the model in a case's folder."""

OUTSIDE = 2
"""How far random indices lie outside the valid ones at most."""


def model_path(case: Path) -> Path:
    """The model file of a case that is named by a file or by a folder."""
    return case if case.suffix.lower() == ".json" else case / NAME


def write_model(model: CheckedFile, case: Path) -> Path:
    """Write `model` and the initial values of its resources; the path of the model file. FileError when it cannot be."""
    target = model_path(case)
    resources: dict[str, dict[str, Any]] = {}
    for number, (name, resource) in enumerate(model.resources.items()):
        values: dict[str, Any]
        if isinstance(resource.values, Constant) and np.isfinite(resource.values.value):
            values = {"valueCount": resource.values.count, "value": resource.values.value.item()}
        else:
            array = np.empty(resource.values.count, dtype_of(resource.data_type))
            resource.values.write(array)
            values = {"sourcePath": _save(array, target, number, name)}
        resources[name] = {"initialValuesDataType": resource.data_type.name, "initialValues": values}
        if resource.offset:
            resources[name]["initialValuesOffsetInBytes"] = resource.offset
        resources[name]["sizeInBytes"] = resource.size
    dispatchables = {name: _dispatchable(found) for name, found in model.dispatchables.items()}
    _write(target, resources, dispatchables, [_command(command) for command in model.commands])
    return target


def write_random(found: Dispatchable, seed: int, case: Path) -> Path:
    """Write a model that dispatches a descriptor once over random bits and indices, which `seed` determines; its path.

    Some indices lie outside the valid range. FileError when it cannot be written.
    """
    target = model_path(case)
    random = np.random.default_rng(seed)
    desc = found.desc
    resources: dict[str, Any] = {}
    for number, field in enumerate(desc.operator.tensors):
        tensor, name = desc.tensor(field), wire_name(field)
        count = -(-tensor.total_bytes // tensor.data_type.bytes)
        if field == desc.operator.output:
            values: dict[str, Any] = {"valueCount": count, "value": 0}
        elif number == 0:
            values = {"sourcePath": _save(_bits(random, count, dtype_of(tensor.data_type)), target, number, name)}
        else:
            limit = max((lookup.limit for lookup in lower(desc).lookups), default=1)
            values = {"sourcePath": _save(_indices(random, count, dtype_of(tensor.data_type), limit), target, number, name)}
        resources[name] = {"initialValuesDataType": tensor.data_type.name, "initialValues": values}
    owned = [wire_name(field) for field in desc.operator.tensors if desc.tensor(field).flags & TensorFlags.OWNED_BY_DML]
    operator = desc.operator.name.lower()
    dispatchable = {**desc.document(), **({"bindings": {name: name for name in owned}} if owned else {})}
    bindings = {name: name for name in resources if name not in owned}
    dispatch = {"type": "dispatch", "dispatchable": operator, "bindings": bindings}
    _write(target, resources, {operator: dispatchable}, [dispatch])
    return target


def _bits(random: np.random.Generator, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    return np.frombuffer(random.bytes(count * dtype.itemsize), dtype)


def _indices(random: np.random.Generator, count: int, dtype: np.dtype[Any], limit: int) -> NDArray[Any]:
    bounds = np.iinfo(dtype)
    low = -limit - OUTSIDE if bounds.min < 0 else 0
    high = limit + OUTSIDE
    return random.integers(max(low, bounds.min), min(high, bounds.max), count, dtype, endpoint=True)


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


def _bindings(bindings: Sequence[Binding]) -> dict[str, Any]:
    return {binding.field: _source(binding.sources[0]) for binding in bindings}


def _source(source: Source) -> str | dict[str, Any]:
    if not source.element_offset:
        return source.resource
    stated = {} if source.element_bytes is None else {"elementSizeInBytes": source.element_bytes}
    return {"name": source.resource, "elementOffset": source.element_offset, **stated}


def _save(array: NDArray[Any], target: Path, number: int, name: str) -> str:
    """Save values beside the model; the file's name."""
    file = f"{target.stem}.{number}_{re.sub(r'[^A-Za-z0-9_-]', '_', name)[:40]}.npy"
    with writing(target.parent / file) as stream:
        np.lib.format.write_array(stream, array, allow_pickle=False)
    return file


def _write(target: Path, resources: Mapping[str, Any], dispatchables: Mapping[str, Any], commands: Sequence[Any]) -> None:
    text = json.dumps({"resources": resources, "dispatchables": dispatchables, "commands": commands}, indent=2)
    with writing(target) as stream:
        stream.write(f"{text}\n".encode())
