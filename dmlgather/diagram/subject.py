"""The subject of a diagram: a plan with its tensors and index values."""

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
    """A tensor drawn as a grid: the last dimension becomes the columns, all others the rows."""

    name: str
    type: str
    layout: Layout

    @property
    def rows(self) -> int:
        """The number of rows of the whole tensor."""
        return prod(self.layout.sizes[:-1])

    @property
    def columns(self) -> int:
        """The number of columns of the whole tensor."""
        return self.layout.sizes[-1] if self.layout.sizes else 1


@dataclass(frozen=True, slots=True)
class Subject:
    """A plan and its tensors, as one diagram shows them.

    `indices`: the index tensor; None if the plan reads no indices. `lookup_axes`: the dimension of `data` that each lookup
    indexes. `values`: the index values, in the shape of `indices` or as a one-dimensional buffer; if None, the diagram invents
    values. `origin`: where the values come from, in words. `elements`: the elements of `data`, in the shape of `data` or as a
    one-dimensional buffer; None if they are unknown.
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
        """Return a copy with these index values.

        Raises TypeError unless they are integers, ValueError for a wrong shape, and if there is no index tensor.
        """
        if self.indices is None:
            raise ValueError(f"{self.title} has no index tensor, so it takes no index values")
        array = np.asarray(values)
        if array.dtype.kind not in "iu":
            raise TypeError(f"{self.indices.name} values are of type {array.dtype}, expected integers")
        return dataclasses.replace(self, values=_checked(self.indices, array), origin=origin)

    def with_elements(self, elements: Any) -> Subject:
        """Return a copy with these elements of `data`. Raises ValueError for a wrong shape."""
        return dataclasses.replace(self, elements=_checked(self.data, np.asarray(elements)))

    def value_at(self, address: int) -> int:
        """Return the index value at an address of the index buffer."""
        assert self.values is not None
        assert self.indices is not None
        return int(_element(self.indices, self.values, address))

    def element_at(self, address: int) -> Any:
        """Return the element at an address of the data's buffer."""
        assert self.elements is not None
        return _element(self.data, self.elements, address)


def _checked(tensor: ShownTensor, array: NDArray[Any]) -> NDArray[Any]:
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
    """Return the Subject with which to draw a valid descriptor and its plan."""
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
    """Return the Subject with which to draw a problem on contiguous arrays and its plan."""
    names = (*problem.arguments, "output")
    tensors = [ShownTensor(name, str(tensor.dtype), tensor.layout) for name, tensor in zip(names, problem.tensors, strict=True)]
    values = {field.name: getattr(problem, field.name) for field in dataclasses.fields(problem)}  # type: ignore[arg-type] # all problems are dataclasses
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
    """Return the Subject with which to draw a plan of an unknown operator. Inputs are drawn as one-dimensional buffers."""
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


INDICES = "indices_tensor"

MOST_VALUES = 128
"""Limit for the elements of an input that is shown by value. A larger input is shown by addresses."""


def with_initial_values(subject: Subject, model: CheckedFile, dispatchable: str) -> Subject:
    """Return a copy with the initial values that a DxDispatch model has for indices and small inputs.

    Raises FileError if a file of initial values cannot be read.
    """
    written: set[str] = set()
    for command, bound in _dispatches(model):
        desc = model.dispatchables[command.dispatchable].desc
        initial = {name: binding for name, binding in bound.items() if binding.resource not in written}
        if command.dispatchable == dispatchable:
            indices, data = initial.get(wire_name(INDICES)), initial.get(subject.data.name)
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
    """Return the initial elements of the bound part of a resource, or None if memory is too small."""
    resource = model.resources[bound.resource]
    available = available_memory()
    if available is not None and 2 * resource.size > available:
        return None
    raw: NDArray[np.uint8] = resource.buffer()[bound.offset : bound.offset + bound.size]
    return raw[: raw.size // dtype.itemsize * dtype.itemsize].view(dtype)


def _dispatches(model: CheckedFile) -> Iterator[tuple[Dispatch, dict[str, BufferBinding]]]:
    """Yield each dispatch of a model with its resources by tensor name."""
    for command in model.commands:
        if isinstance(command, Dispatch):
            execution, initialisation = model.buffer_bindings(command)
            yield command, {**initialisation, **execution}
