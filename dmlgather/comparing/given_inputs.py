"""Inputs from files (--inputs), in place of random inputs or of a model's initial values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.comparing.tensor_files import FileTensor, StoredTensor
from dmlgather.directml import OperatorDesc
from dmlgather.directml.dxdispatch.commands import Dispatch
from dmlgather.directml.dxdispatch.model_file import CheckedFile
from dmlgather.directml.dxdispatch.resources import Resource
from dmlgather.directml.dxdispatch.values import Values
from dmlgather.directml.dxdispatch.writing import count
from dmlgather.directml.elements import dtype_of, elements
from dmlgather.directml.fields import wire_name
from dmlgather.directml.types import DataType
from dmlgather.files import FileError
from dmlgather.wording import alternatives, counted, printable

REMEDY = "save the whole tensor"

MOST_REORDERED = 4
"""More files than this are not tried in another order."""


def inputs_of(model: CheckedFile) -> dict[str, FileTensor]:
    """Return the tensors that files can replace, by name.

    For a model, these are the resources that it reads before it writes them.
    """
    if model.kind == "descriptor":
        desc = model.dispatchables[""].desc
        return {wire_name(name): FileTensor(wire_name(name), desc.tensor(name), REMEDY) for name in desc.operator.inputs}
    tensors, written = dict[str, FileTensor](), set[str]()
    for command in model.commands:
        if isinstance(command, Dispatch):
            desc = model.dispatchables[command.dispatchable].desc
            bound = {**model.buffer_bindings(command)[1], **model.buffer_bindings(command)[0]}
            for name in desc.operator.inputs:
                at = bound[wire_name(name)]
                if at.resource not in written:
                    resource = model.resources[at.resource]
                    tensor = FileTensor(wire_name(name), desc.tensor(name), REMEDY, at, resource)
                    tensors.setdefault(at.resource, tensor)
            written.add(bound[wire_name(desc.operator.output)].resource)
    return tensors


def named_files(model: CheckedFile, options: Sequence[str]) -> dict[str, Path]:
    """Assign the files of --inputs to inputs.

    `options`: texts of the form NAME=FILE or FILE. Raise ValueError for a wrong or repeated name, or a wrong number of files.
    """
    names = list(inputs_of(model))
    files = dict[str, Path]()
    unnamed = list[str]()
    for option in options:
        name, equals, file = option.partition("=")
        if not equals or (name not in names and Path(option).exists()):
            unnamed.append(option)
        elif name not in names:
            raise ValueError(f"{name!r} is no input of {model.file}: expected {_listed(names)}")
        elif name in files:
            raise ValueError(f"{name!r} is given twice, as {str(files[name])!r} and {file!r}: leave one out")
        else:
            files[name] = Path(file)
    without_file = [name for name in names if name not in files]
    complete = bool(unnamed) or model.kind == "descriptor"
    if complete and len(unnamed) != len(without_file):
        raise ValueError(
            f"{model.file} has {counted(len(names), 'input')}, {_listed(names, 'and')}, and {counted(len(options), 'file')} "
            f"{'is' if len(options) == 1 else 'are'} given: name one for each, in this order or as NAME=FILE"
        )
    return {**files, **{name: Path(file) for name, file in zip(without_file, unnamed, strict=False)}}


def _listed(names: Sequence[str], joint: str = "or") -> str:
    return alternatives(map(printable, names)).replace(" or ", f" {joint} ") if names else "none"


def stored_inputs(model: CheckedFile, files: Mapping[str, Path]) -> dict[str, StoredTensor]:
    """Return the tensors in the files. Raise FileError if a file does not fit. Only headers and sizes are read."""
    tensors = inputs_of(model)
    try:
        return {name: _stored(tensors[name], file) for name, file in files.items()}
    except FileError:
        if order := _fitting_order(tensors, files):
            named = " ".join(f"{name}={file}" for name, file in order.items())
            raise FileError(f"the files do not fit in this order, but in another one: --inputs {named}") from None
        raise


def _fitting_order(tensors: Mapping[str, FileTensor], files: Mapping[str, Path]) -> dict[str, Path] | None:
    """Assign each file to an input that it fits. Return None if that is impossible."""
    for order in permutations(files.values()) if len(files) <= MOST_REORDERED else ():
        with suppress(FileError):
            found = dict(zip(files, order, strict=True))
            for name, file in found.items():
                _stored(tensors[name], file)
            return found
    return None


def _stored(tensor: FileTensor, file: Path) -> StoredTensor:
    stored = tensor.stored(file, file.name)
    bound, resource = tensor.bound, tensor.resource
    if bound is not None and resource is not None:
        first, last = resource.offset, resource.offset + resource.values.bytes
        at, end = bound.offset, bound.offset + tensor.tensor.span * tensor.tensor.data_type.bytes
        if at < first or end > last:
            raise FileError(
                f"{file} replaces bytes {at} to {end} of {bound.resource!r}, but the model states initial values only for bytes "
                f"{first} to {last}: state initial values for all of them in the model"
            )
    return stored


def descriptor_buffers(desc: OperatorDesc, inputs: Mapping[str, StoredTensor]) -> list[NDArray[Any]]:
    """Read a descriptor's inputs into buffers. Raise FileError for a file that does not fit."""
    buffers = []
    for tensor, stored in ((desc.tensor(name), inputs[wire_name(name)]) for name in desc.operator.inputs):
        buffer = np.zeros(count(tensor) * tensor.data_type.bytes, np.uint8)
        _copy_into(stored, buffer, 0)
        buffers.append(buffer.view(dtype_of(tensor.data_type)))
    return buffers


def _copy_into(stored: StoredTensor, buffer: NDArray[np.uint8], at: int) -> None:
    """Write a tensor from a file into a buffer at byte `at`."""
    if stored.start is not None:
        values, begin = stored.stored().view(np.uint8), at - stored.start
        values, place = values[max(-begin, 0) :], buffer[max(begin, 0) :]
        size = min(values.size, place.size)
        place[:size] = values[:size]
        return
    array, pattern = stored.read(), f"u{stored.tensor.data_type.bytes}"
    part = buffer[at : at + stored.tensor.span * array.itemsize].copy()  # a copy is aligned
    place = elements(part, stored.tensor)
    place[...] = array
    if (place.view(pattern) != array.view(pattern)).any():
        raise FileError(
            f"{stored.values.path} holds different values for elements that the described Strides "
            f"{list(stored.tensor.element_strides)} put at one address, with Sizes {list(stored.tensor.sizes)}: save the "
            "buffer, in one dimension"
        )
    buffer[at : at + part.size] = part


def with_inputs(model: CheckedFile, inputs: Mapping[str, StoredTensor]) -> CheckedFile:
    """Return a copy of the model with these inputs as initial values."""
    tensors = inputs_of(model)
    resources = {}
    for name, stored in inputs.items():
        resource = model.resources[name]
        values = _ValuesFromFile(resource.data_type, resource.values.count, resource, tensors[name], stored)
        resources[name] = resource._replace(values=values)
    return replace(model, resources={**model.resources, **resources})


@dataclass(frozen=True, eq=False)
class _ValuesFromFile(Values):
    """The initial values of a resource, partly replaced by a tensor from a file."""

    data_type: DataType
    count: int
    resource: Resource
    tensor: FileTensor
    stored: StoredTensor

    @property
    def scratch_bytes(self) -> int:
        return max(self.resource.values.scratch_bytes, self.stored.bytes)

    def write(self, out: NDArray[Any]) -> None:
        assert self.tensor.bound is not None
        self.resource.values.write(out)
        _copy_into(self.stored, out.view(np.uint8), self.tensor.bound.offset - self.resource.offset)
