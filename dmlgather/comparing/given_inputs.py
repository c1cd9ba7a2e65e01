"""Inputs that a user gives in files, in the place of the random ones of a descriptor, or of those that a model states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.comparing.tensor_files import StoredTensor, TensorSite
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


def inputs_of(model: CheckedFile) -> dict[str, TensorSite]:
    """Return what files can be given for, by name: the inputs of a single descriptor, or the resources of a model that a dispatch
    reads before one has written them.
    """
    if model.kind == "descriptor":
        desc = model.dispatchables[""].desc
        return {wire_name(name): TensorSite(wire_name(name), desc.tensor(name), REMEDY) for name in desc.operator.inputs}
    found, written = dict[str, TensorSite](), set[str]()
    for command in model.commands:
        if isinstance(command, Dispatch):
            desc = model.dispatchables[command.dispatchable].desc
            bound = {**model.buffer_bindings(command)[1], **model.buffer_bindings(command)[0]}
            for name in desc.operator.inputs:
                at = bound[wire_name(name)]
                if at.resource not in written:
                    resource = model.resources[at.resource]
                    site = TensorSite(wire_name(name), desc.tensor(name), REMEDY, at, resource)
                    found.setdefault(at.resource, site)
            written.add(bound[wire_name(desc.operator.output)].resource)
    return found


def named_files(model: CheckedFile, given: Sequence[str]) -> dict[str, Path]:
    """Return the file of each input that is given: FILE, in the order of the inputs, or NAME=FILE. ValueError for a name that is
    no input, for an input that is given twice, and for more or fewer files than there are inputs.
    """
    known = list(inputs_of(model))
    found = dict[str, Path]()
    unnamed = list[str]()
    for item in given:
        name, equals, file = item.partition("=")
        if not equals or (name not in known and Path(item).exists()):
            unnamed.append(item)
        elif name not in known:
            raise ValueError(f"{name!r} is no input of {model.file}: expected {_listed(known)}")
        elif name in found:
            raise ValueError(f"{name!r} is given twice, as {str(found[name])!r} and {file!r}: leave one out")
        else:
            found[name] = Path(file)
    left = [name for name in known if name not in found]
    complete = bool(unnamed) or model.kind == "descriptor"
    if complete and len(unnamed) != len(left):
        raise ValueError(
            f"{model.file} has {counted(len(known), 'input')}, {_listed(known, 'and')}, and {counted(len(given), 'file')} "
            f"{'is' if len(given) == 1 else 'are'} given: name one for each, in this order or as NAME=FILE"
        )
    return {**found, **{name: Path(file) for name, file in zip(left, unnamed, strict=False)}}


def _listed(names: Sequence[str], joint: str = "or") -> str:
    return alternatives(map(printable, names)).replace(" or ", f" {joint} ") if names else "none"


def stored_inputs(model: CheckedFile, files: Mapping[str, Path]) -> dict[str, StoredTensor]:
    """Return the inputs in files, by name. FileError, with the file, for one that does not fit its tensor."""
    known = inputs_of(model)
    return {name: _stored(known[name], file) for name, file in files.items()}


def _stored(site: TensorSite, file: Path) -> StoredTensor:
    found = site.stored(file, file.name)
    bound, resource = site.bound, site.resource
    if bound is not None and resource is not None:
        first, last = resource.offset, resource.offset + resource.values.bytes
        at, end = bound.offset, bound.offset + site.tensor.span * site.tensor.data_type.bytes
        if at < first or end > last:
            raise FileError(
                f"{file} is for bytes {at} to {end} of {bound.resource!r}, whose initial values are bytes {first} to {last}: "
                "state initial values for all of them in the model"
            )
    return found


def descriptor_buffers(desc: OperatorDesc, inputs: Mapping[str, StoredTensor]) -> list[NDArray[Any]]:
    """Return a buffer for each input tensor, shape [count]. FileError for a file that cannot be read, or does not fit."""
    made = []
    for tensor, stored in ((desc.tensor(name), inputs[wire_name(name)]) for name in desc.operator.inputs):
        buffer = np.zeros(count(tensor) * tensor.data_type.bytes, np.uint8)
        _lay(stored, buffer, 0)
        made.append(buffer.view(dtype_of(tensor.data_type)))
    return made


def _lay(stored: StoredTensor, buffer: NDArray[np.uint8], at: int) -> None:
    """Write a tensor into a buffer, in which it begins at a byte. What lies between its elements stays, if the file lacks it."""
    if stored.start is not None:
        values, begin = stored.stored().view(np.uint8), at - stored.start
        values, place = values[max(-begin, 0) :], buffer[max(begin, 0) :]
        size = min(values.size, place.size)
        place[:size] = values[:size]
        return
    array, pattern = stored.read(), f"u{stored.tensor.data_type.bytes}"
    part = buffer[at : at + stored.tensor.span * array.itemsize].copy()  # aligned
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
    """Return a model whose resources hold the inputs."""
    known = inputs_of(model)
    given = {}
    for name, stored in inputs.items():
        resource = model.resources[name]
        values = _GivenValues(resource.data_type, resource.values.count, resource, known[name], stored)
        given[name] = resource._replace(values=values)
    return replace(model, resources={**model.resources, **given})


@dataclass(frozen=True, eq=False)
class _GivenValues(Values):
    """Initial values of a resource, in which one tensor comes from a file."""

    data_type: DataType
    count: int
    resource: Resource
    site: TensorSite
    stored: StoredTensor

    @property
    def scratch_bytes(self) -> int:
        return max(self.resource.values.scratch_bytes, self.stored.bytes)

    def write(self, out: NDArray[Any]) -> None:
        assert self.site.bound is not None
        self.resource.values.write(out)
        _lay(self.stored, out.view(np.uint8), self.site.bound.offset - self.resource.offset)
