"""Values from a DxDispatch model: the initial contents of the resources that a dispatch reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.directml.dxdispatch.bindings import BufferBinding
from dmlgather.directml.dxdispatch.commands import Dispatch
from dmlgather.directml.dxdispatch.model_file import CheckedFile
from dmlgather.directml.dxdispatch.values import dtype_of
from dmlgather.directml.fields import wire_name
from dmlgather.host import available_memory
from dmlgather.picture.subject import Subject
from dmlgather.wording import printable

INDICES = "indices_tensor"

MOST_VALUES = 128
"""Elements of the largest input whose values are shown."""


def with_initial_values(subject: Subject, model: CheckedFile, dispatchable: str) -> Subject:
    """The subject with the index values that the first dispatch of `dispatchable` reads, and the elements of a small input.

    A tensor has none if there is no such dispatch, if an earlier dispatch writes its resource, or if that does not fit into
    memory. FileError when a file of values cannot be read.
    """
    written: set[str] = set()
    for command, bound in _dispatches(model):
        desc = model.dispatchables[command.dispatchable].desc
        known = {name: found for name, found in bound.items() if found.resource not in written}
        if command.dispatchable == dispatchable:
            indices, data = known.get(wire_name(INDICES)), known.get(subject.data.name)
            if indices is not None and subject.indices is not None and subject.plan.index_type is not None:
                values = _contents(model, indices, np.dtype(subject.plan.index_type.value.lower()))
                origin = f"the initial values of resource '{printable(indices.resource)}'"
                subject = subject if values is None else subject.with_values(values, origin)
            if data is not None and subject.data.layout.extent <= MOST_VALUES:
                elements = _contents(model, data, dtype_of(desc.tensor(desc.operator.inputs[0]).data_type))
                subject = subject if elements is None else subject.with_elements(elements)
            return subject
        if (output := bound.get(wire_name(desc.operator.output))) is not None:
            written.add(output.resource)
    return subject


def _contents(model: CheckedFile, bound: BufferBinding, dtype: np.dtype[Any]) -> NDArray[Any] | None:
    """The elements in a bound range; None for a resource that does not fit into memory."""
    resource = model.resources[bound.resource]
    room = available_memory()
    if room is not None and 2 * resource.size > room:
        return None
    raw: NDArray[np.uint8] = resource.buffer()[bound.offset : bound.offset + bound.size]
    return raw[: raw.size // dtype.itemsize * dtype.itemsize].view(dtype)


def _dispatches(model: CheckedFile) -> Iterator[tuple[Dispatch, dict[str, BufferBinding]]]:
    """Each dispatch with the ranges that its tensors are bound to, at execution or at initialisation."""
    for command in model.commands:
        if isinstance(command, Dispatch):
            here, initial = model.buffer_bindings(command)
            yield command, {**initial, **here}
