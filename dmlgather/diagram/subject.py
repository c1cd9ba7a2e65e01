"""What a picture is drawn from: tensors, a plan, and index values, also those that a model initialises."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.dialects.problem import Problem
from dmlgather.directml import OperatorDesc, minimum_level
from dmlgather.directml.dxdispatch.bindings import BufferBinding
from dmlgather.directml.dxdispatch.commands import Dispatch
from dmlgather.directml.dxdispatch.model_file import CheckedFile
from dmlgather.directml.elements import dtype_of
from dmlgather.directml.fields import wire_name
from dmlgather.host import available_memory
from dmlgather.plan import IndexPlan, Layout
from dmlgather.wording import braces, counted, printable


@dataclass(frozen=True, slots=True)
class ShownTensor:
    """A tensor as it is shown. type: the name of its data type in its dialect.

    The last dimension is the columns; all before it are folded into the rows.
    """

    name: str
    type: str
    layout: Layout

    @property
    def rows(self) -> int:
        """Rows of the whole tensor."""
        return prod(self.layout.sizes[:-1])

    @property
    def columns(self) -> int:
        """Columns of the whole tensor."""
        return self.layout.sizes[-1] if self.layout.sizes else 1


@dataclass(frozen=True, slots=True)
class Subject:
    """What one picture shows.

    plan: over the layouts of `data`, `indices` (None for a plan without lookups) and `output`. lookup_axes: the dimension of
    `data` that each lookup indexes, in the plan's order. attributes: the operator's own, by name. values: the index tensor's
    elements as an integer array of its sizes or as its one-dimensional buffer; None to invent some. origin: where the values come
    from, in words. elements: those of `data`, as an array of its sizes or as its one-dimensional buffer; None if they are not
    known.
    """

    title: str
    plan: IndexPlan
    data: ShownTensor
    output: ShownTensor
    indices: ShownTensor | None = None
    lookup_axes: tuple[int, ...] = ()
    attributes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    values: NDArray[Any] | None = None
    origin: str = ""
    elements: NDArray[Any] | None = None

    def with_values(self, values: Any, origin: str = "values as given") -> Subject:
        """The subject with known index values. TypeError unless they are integers, ValueError for a shape that does not fit."""
        if self.indices is None:
            raise ValueError(f"{self.title} has no index tensor, so it takes no index values")
        array = np.asarray(values)
        if array.dtype.kind not in "iu":
            raise TypeError(f"{self.indices.name} values are of type {array.dtype}, expected integers")
        return dataclasses.replace(self, values=_fitting(self.indices, array), origin=origin)

    def with_elements(self, elements: Any) -> Subject:
        """The subject with the known elements of `data`, of which every cell shows the value. ValueError for a shape that does
        not fit.
        """
        return dataclasses.replace(self, elements=_fitting(self.data, np.asarray(elements)))

    def value_at(self, address: int) -> int:
        """The known index value at an address (elements) of the index tensor."""
        assert self.values is not None
        assert self.indices is not None
        return int(_element(self.indices, self.values, address))

    def element_at(self, address: int) -> Any:
        """The known element of `data` at an address (elements), as a NumPy scalar."""
        assert self.elements is not None
        return _element(self.data, self.elements, address)


def _fitting(tensor: ShownTensor, array: NDArray[Any]) -> NDArray[Any]:
    layout = tensor.layout
    if array.shape != layout.sizes and not (array.ndim == 1 and array.size >= layout.extent):
        raise ValueError(
            f"{tensor.name} values have shape {array.shape}, expected {layout.sizes}, or a one-dimensional buffer of "
            f"at least {layout.extent} elements"
        )
    return array


def _element(tensor: ShownTensor, array: NDArray[Any], address: int) -> Any:
    layout = tensor.layout
    if array.shape != layout.sizes:
        return array[address]
    return array[layout.position(address) or (0,) * len(layout.sizes)]


def of_descriptor(desc: OperatorDesc, plan: IndexPlan, title: str = "") -> Subject:
    """The subject of a valid descriptor that was lowered to `plan` over its described layouts. title: the operator by default."""
    operator = desc.operator
    tensors = [
        ShownTensor(wire_name(name), desc.tensor(name).data_type.name, desc.tensor(name).layout()) for name in operator.tensors
    ]
    values = {name: getattr(desc, name) for name in type(desc).model_fields if name not in operator.tensors}
    attributes = {wire_name(name): braces(value) if isinstance(value, tuple) else str(value) for name, value in values.items()}
    return Subject(
        title=title or f"{operator.name}, lowest feature level {minimum_level(desc)}",
        plan=plan,
        data=tensors[0],
        indices=tensors[1] if plan.lookups else None,
        output=tensors[-1],
        lookup_axes=operator.lookup_axes(desc),
        attributes=attributes,
    )


def of_problem(problem: Problem, plan: IndexPlan, title: str) -> Subject:
    """The subject of a dialect's call over packed arrays, which was lowered to `plan`."""
    names = (*problem.arguments, "output")
    tensors = [ShownTensor(name, str(each.dtype), each.layout) for name, each in zip(names, problem.tensors, strict=True)]
    values = {each.name: getattr(problem, each.name) for each in dataclasses.fields(problem)}  # type: ignore[arg-type] # all problems are dataclasses
    numbers = {name: value for name, value in values.items() if isinstance(value, int | tuple)}
    return Subject(
        title=title,
        plan=plan,
        data=tensors[0],
        indices=tensors[1] if plan.lookups else None,
        output=tensors[-1],
        lookup_axes=problem.lookup_axes,
        attributes={name: braces(value) if isinstance(value, tuple) else str(value) for name, value in numbers.items()},
    )


def of_plan(plan: IndexPlan, title: str = "Plan") -> Subject:
    """The subject of a plan whose tensors are not known: input and indices as one-dimensional buffers, the output as written."""
    index_type = plan.index_type
    return Subject(
        title=title,
        plan=plan,
        data=ShownTensor("input", _width(plan), Layout.packed((plan.in_extent,))),
        indices=None if index_type is None else ShownTensor("indices", index_type.value, Layout.packed((plan.index_extent,))),
        output=ShownTensor("output", _width(plan), Layout(plan.shape, plan.out_strides, plan.out_offset, plan.out_extent)),
    )


def _width(plan: IndexPlan) -> str:
    return counted(plan.element_bytes, "byte")


# Values from a DxDispatch model: the initial contents of the resources that a dispatch reads.


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
