"""Index values from a DxDispatch model: the initial contents of the resource bound to IndicesTensor."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dmlgather.directml.dxdispatch.bindings import BufferBinding
from dmlgather.directml.dxdispatch.commands import Dispatch
from dmlgather.directml.dxdispatch.model_file import CheckedFile
from dmlgather.directml.fields import wire_name
from dmlgather.host import available_memory
from dmlgather.picture.subject import Subject
from dmlgather.wording import printable

INDICES = "indices_tensor"


def with_initial_values(subject: Subject, model: CheckedFile, dispatchable: str) -> Subject:
    """The subject with the index values that the first dispatch of `dispatchable` reads.

    Unchanged if there is no such dispatch, if an earlier dispatch writes the resource, or if it does not fit into memory.
    FileError when the values' file cannot be read.
    """
    written: set[str] = set()
    for command, bound in _dispatches(model):
        operator = model.dispatchables[command.dispatchable].desc.operator
        found = bound.get(wire_name(INDICES))
        if command.dispatchable == dispatchable and found is not None and subject.indices is not None:
            return subject if found.resource in written else _with_resource(subject, model, found)
        if (output := bound.get(wire_name(operator.output))) is not None:
            written.add(output.resource)
    return subject


def _with_resource(subject: Subject, model: CheckedFile, bound: BufferBinding) -> Subject:
    assert subject.plan.index_type is not None
    resource = model.resources[bound.resource]
    room = available_memory()
    if room is not None and 2 * resource.size > room:
        return subject
    dtype = np.dtype(subject.plan.index_type.value.lower())
    raw: NDArray[np.uint8] = resource.buffer()[bound.offset : bound.offset + bound.size]
    values = raw[: raw.size // dtype.itemsize * dtype.itemsize].view(dtype)
    return subject.with_values(values, f"the initial values of resource '{printable(bound.resource)}'")


def _dispatches(model: CheckedFile) -> Iterator[tuple[Dispatch, dict[str, BufferBinding]]]:
    """Each dispatch with the ranges that its tensors are bound to, at execution or at initialisation."""
    for command in model.commands:
        if isinstance(command, Dispatch):
            here, initial = model.buffer_bindings(command)
            yield command, {**initial, **here}
