"""The rules DML7xx: how a DxDispatch model binds an operator's tensors to resources (buffers)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice
from math import prod
from typing import NamedTuple

from dmlgather.directml.codes import CODES
from dmlgather.directml.dxdispatch.commands import FieldBinding, WriteFile
from dmlgather.directml.dxdispatch.dispatchables import Dispatchable
from dmlgather.directml.dxdispatch.jsonc import Path
from dmlgather.directml.dxdispatch.reading import Reading
from dmlgather.directml.dxdispatch.resources import Resource
from dmlgather.directml.fields import wire_name
from dmlgather.directml.tensor import BASE_ALIGNMENT, BufferTensorDesc, rounded_up
from dmlgather.directml.types import TensorFlags
from dmlgather.wording import closest, dotted

SHOWN = 20


class BufferBinding(NamedTuple):
    """A binding of a tensor to a part of a resource. `offset` and `size` are in bytes."""

    tensor: str
    resource: str
    offset: int
    size: int
    path: Path

    @property
    def end(self) -> int:
        """Offset of the first byte after the bound bytes."""
        return self.offset + self.size


def buffer_bindings(
    tensors: Mapping[str, BufferTensorDesc], bindings: Iterable[FieldBinding], resources: Mapping[str, Resource]
) -> dict[str, BufferBinding]:
    """Return, for each tensor, the part of a resource that it is bound to.

    The result lacks tensors that are bound to no resource, to several resources, or to an unknown one.
    """
    bound = {}
    for field, sources, _ in bindings:
        if field in tensors and len(sources) == 1 and sources[0].resource in resources:
            name, element_offset, element_bytes, path = sources[0]
            offset = element_offset * (resources[name].data_type.bytes if element_bytes is None else element_bytes)
            bound[field] = BufferBinding(field, name, offset, tensors[field].total_bytes, path)
    return bound


class BindingSet(NamedTuple):
    """A `bindings` object of a dispatch command (`at_execution`) or of a dispatchable.

    `declared`: the names of all resources, including resources that could not be read.
    `bound`: the binding of each tensor. Tensors with an error DML1xx (about the tensor alone) are left out.
    """

    dispatchable: Dispatchable
    bindings: tuple[FieldBinding, ...]
    at_execution: bool
    path: Path
    resources: Mapping[str, Resource]
    declared: Collection[str]
    tensors: Mapping[str, BufferTensorDesc]
    bound: Mapping[str, BufferBinding]

    def has_to_bind(self, tensor: str) -> bool:
        """Return True if this object must bind the tensor. Only OWNED_BY_DML inputs are bound at initialisation."""
        return bool(self.tensors[tensor].flags & TensorFlags.OWNED_BY_DML) != self.at_execution

    def too_short(self) -> Iterator[tuple[BufferBinding, Resource, str, str]]:
        """Yield each binding that extends beyond the end of its resource, with the texts `expected` and `got`."""
        for bound in self.bound.values():
            resource = self.resources[bound.resource]
            if bound.end > resource.size:
                available = max(resource.size - bound.offset, 0)
                expected = f"at least {bound.size} bytes for {bound.tensor} (TotalTensorSizeInBytes)"
                got = f"{available} bytes ({resource.size} of {bound.resource!r}, less the offset {bound.offset})"
                yield bound, resource, expected, got


Faults = Iterator[tuple[Path, str, str, str]]
"""Places in the file, each with the texts `expected`, `got` and `remedy` of a finding."""


def _unknown_field(bindings: BindingSet) -> Faults:
    known = list(bindings.tensors)
    for binding in bindings.bindings:
        if binding.field not in known:
            similar = closest(binding.field, known)
            remedy = f"write {similar!r}" if similar else "remove it"
            yield binding.path, f"one of {', '.join(known)}", repr(binding.field), remedy


def _several_sources(bindings: BindingSet) -> Faults:
    for binding in bindings.bindings:
        if binding.field in bindings.tensors and len(binding.sources) != 1:
            names = ", ".join(repr(source.resource) for source in binding.sources) or "none"
            yield binding.path, f"1 resource for {binding.field}", f"{len(binding.sources)} ({names})", "name one resource"


def _unknown_resource(bindings: BindingSet) -> Faults:
    for binding in bindings.bindings:
        for source in binding.sources:
            if source.resource not in bindings.declared:
                yield source.path, *_missing("resource", source.resource, bindings.declared)


def _wrong_stage(bindings: BindingSet) -> Faults:
    at_execution = bindings.at_execution
    here, there = ("execution", "initialisation") if at_execution else ("initialisation", "execution")
    target = f"dispatchables.{bindings.dispatchable.name}.bindings" if at_execution else "the dispatch command's bindings"
    for binding in bindings.bindings:
        if binding.field in bindings.tensors and not bindings.has_to_bind(binding.field):
            flags = bindings.tensors[binding.field].flags
            yield binding.path, f"at {there}: its Flags are {flags}", f"at {here}", f"move it to {target}, or change its Flags"


def _short_buffer(bindings: BindingSet) -> Faults:
    for bound, resource, expected, got in bindings.too_short():
        if resource.file is None:  # otherwise, `check_bindings` reports a problem of the file
            yield bound.path, expected, got, f"set sizeInBytes of {bound.resource!r} to {bound.end} or more"


def _misaligned(bindings: BindingSet) -> Faults:
    for bound in bindings.bound.values():
        step = max(BASE_ALIGNMENT, bindings.tensors[bound.tensor].guaranteed_base_offset_alignment)
        if bound.offset % step:
            nearest, kind = rounded_up(bound.offset, step), bindings.resources[bound.resource].data_type
            remedy = f"put the tensor's data at byte {nearest} (elementOffset {nearest // kind.bytes} of {kind.name})"
            yield bound.path, f"a multiple of {step} bytes", f"{bound.offset} bytes", remedy


def _unbound(bindings: BindingSet) -> Faults:
    names = {binding.field for binding in (*bindings.bindings, *bindings.dispatchable.initial_bindings)}
    for tensor in bindings.tensors:
        if tensor not in names:
            where = "bindings" if bindings.has_to_bind(tensor) else f"dispatchables.{bindings.dispatchable.name}.bindings"
            yield bindings.path, f"a resource for {tensor}", "none", f'add "{tensor}": "RESOURCE" to {where}'


def _overlap(bindings: BindingSet) -> Faults:
    output = bindings.bound.get(wire_name(bindings.dispatchable.desc.operator.output))
    for bound in bindings.bound.values():
        if output is None or bound is output or bound.resource != output.resource:
            continue
        if max(bound.offset, output.offset) < min(bound.end, output.end):
            yield (
                output.path,
                f"bytes of {output.resource!r} outside {bound.tensor}'s {bound.offset} … {bound.end - 1}",
                f"bytes {output.offset} … {output.end - 1}",
                f"bind {output.tensor} to another resource, or behind byte {bound.end - 1}",
            )


_RULES: dict[str, Callable[[BindingSet], Faults]] = {
    "DML702": _unknown_field,
    "DML703": _several_sources,
    "DML704": _unknown_resource,
    "DML708": _wrong_stage,
    "DML705": _short_buffer,
    "DML706": _misaligned,
}

_DISPATCH_RULES = {**_RULES, "DML701": _unbound, "DML707": _overlap}


def check_bindings(reading: Reading, bindings: BindingSet) -> None:
    """Report faults of a `bindings` object."""
    for code, rule in (_DISPATCH_RULES if bindings.at_execution else _RULES).items():
        _report(reading, code, rule(bindings))
    for bound, resource, expected, got in bindings.too_short():
        if resource.file is not None:
            reading.report_problem(bound.path, f"{resource.file} has the wrong size: expected {expected}, got {got}")


def check_name(reading: Reading, kind: str, name: str, declared: Collection[str], path: Path) -> None:
    """Report a name that the model does not declare. `kind`: "resource" or "dispatchable"."""
    if name not in declared:
        code = "DML704" if kind == "resource" else "DML709"
        _report(reading, code, [(path, *_missing(kind, name, declared))])


def check_dimensions(reading: Reading, command: WriteFile, resource: Resource) -> None:
    """Report `dimensions` that do not fit the number of elements in the resource."""
    dimensions = command.dimensions
    if dimensions is not None and prod(dimensions) != resource.values.count:
        expected = f"{resource.values.count} elements, the number in {resource.name!r}"
        remedy = "leave dimensions out, or correct them"
        _report(reading, "DML710", [((*command.path, "dimensions"), expected, f"{prod(dimensions)} ({dimensions})", remedy)])


def _missing(kind: str, name: str, declared: Collection[str]) -> tuple[str, str, str]:
    """Return the texts `expected`, `got` and `remedy` for a name that the model does not declare."""
    similar = closest(name, declared)
    known = ", ".join([*map(repr, islice(declared, SHOWN)), *(["…"] if len(declared) > SHOWN else [])])
    known = known or f"none: the model has no {kind}s"
    remedy = f"write {similar!r}" if similar else f"declare the {kind}, or name another"
    return f"a {kind} of the model ({known})", repr(name), remedy


def _report(reading: Reading, code: str, faults: Iterable[tuple[Path, str, str, str]]) -> None:
    for path, expected, got, remedy in faults:
        finding = CODES[code].finding(dotted(path), expected=expected, got=got, remedy=remedy)
        reading.report_finding(finding, path, key=code == "DML702")
