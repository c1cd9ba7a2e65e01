"""DML7xx: rules for bindings of an operator's tensors to the resources of a model."""

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
"""A message lists at most this many names."""


class BufferBinding(NamedTuple):
    """The bytes of a resource to which a tensor is bound: `size` bytes at `offset`. `path`: the binding's path in the file."""

    tensor: str
    resource: str
    offset: int
    size: int
    path: Path

    @property
    def end(self) -> int:
        """Return the offset after the last byte."""
        return self.offset + self.size


def buffer_bindings(
    tensors: Mapping[str, BufferTensorDesc], bindings: Iterable[FieldBinding], resources: Mapping[str, Resource]
) -> dict[str, BufferBinding]:
    """Return the bytes of each tensor (by DirectML's name) that is bound to exactly one of `resources`."""
    bound = {}
    for field, sources, _ in bindings:
        if field in tensors and len(sources) == 1 and sources[0].resource in resources:
            name, element_offset, element_bytes, path = sources[0]
            offset = element_offset * (resources[name].data_type.bytes if element_bytes is None else element_bytes)
            bound[field] = BufferBinding(field, name, offset, tensors[field].total_bytes, path)
    return bound


class BindingSet(NamedTuple):
    """The `bindings` object of a dispatch, or of a dispatchable, which binds its OWNED_BY_DML inputs.

    `path`: the object's path in the file. `resources`: the readable resources. `declared`: the names of all resources.
    `tensors`: the operator's tensors, by DirectML's names. `bound`: the bytes of each tensor that breaks no rule of DML1xx and
    is bound to one readable resource.
    """

    dispatchable: Dispatchable
    bindings: tuple[FieldBinding, ...]
    at_execution: bool
    path: Path
    resources: Mapping[str, Resource]
    declared: Collection[str]
    tensors: Mapping[str, BufferTensorDesc]
    bound: Mapping[str, BufferBinding]

    def is_stage_of(self, tensor: str) -> bool:
        """Return True if the tensor has to be bound here: at initialisation if it is OWNED_BY_DML, else at execution."""
        return bool(self.tensors[tensor].flags & TensorFlags.OWNED_BY_DML) != self.at_execution

    def too_short(self) -> Iterator[tuple[BufferBinding, Resource, str, str]]:
        """Yield each tensor that ends after its resource's last byte, with the texts for "expected" and "got"."""
        for bound in self.bound.values():
            resource = self.resources[bound.resource]
            if bound.end > resource.size:
                available = max(resource.size - bound.offset, 0)
                expected = f"at least {bound.size} bytes for {bound.tensor} (TotalTensorSizeInBytes)"
                got = f"{available} bytes ({resource.size} of {bound.resource!r}, less the offset {bound.offset})"
                yield bound, resource, expected, got


Faults = Iterator[tuple[Path, str, str, str]]
"""Path in the file, expected, got, remedy."""


def unknown_field(bindings: BindingSet) -> Faults:
    """Yield the faults of DML702."""
    known = list(bindings.tensors)
    for binding in bindings.bindings:
        if binding.field not in known:
            similar = closest(binding.field, known)
            remedy = f"write {similar!r}" if similar else "remove it"
            yield binding.path, f"one of {', '.join(known)}", repr(binding.field), remedy


def several_sources(bindings: BindingSet) -> Faults:
    """Yield the faults of DML703."""
    for binding in bindings.bindings:
        if binding.field in bindings.tensors and len(binding.sources) != 1:
            names = ", ".join(repr(source.resource) for source in binding.sources) or "none"
            yield binding.path, f"1 resource for {binding.field}", f"{len(binding.sources)} ({names})", "name one resource"


def unknown_resource(bindings: BindingSet) -> Faults:
    """Yield the faults of DML704."""
    return _undeclared(bindings.bindings, bindings.declared)


def _undeclared(bindings: Iterable[FieldBinding], declared: Collection[str]) -> Faults:
    for binding in bindings:
        for source in binding.sources:
            if source.resource not in declared:
                yield source.path, *missing("resource", source.resource, declared)


def wrong_stage(bindings: BindingSet) -> Faults:
    """Yield the faults of DML708."""
    at_execution = bindings.at_execution
    here, there = ("execution", "initialisation") if at_execution else ("initialisation", "execution")
    target = f"dispatchables.{bindings.dispatchable.name}.bindings" if at_execution else "the dispatch command's bindings"
    for binding in bindings.bindings:
        if binding.field in bindings.tensors and not bindings.is_stage_of(binding.field):
            flags = bindings.tensors[binding.field].flags
            yield binding.path, f"at {there}: its Flags are {flags}", f"at {here}", f"move it to {target}, or change its Flags"


def short_buffer(bindings: BindingSet) -> Faults:
    """Yield the faults of DML705. For a resource with values from a file, `check_bindings` reports a problem instead."""
    for bound, resource, expected, got in bindings.too_short():
        if resource.file is None:
            yield bound.path, expected, got, f"set sizeInBytes of {bound.resource!r} to {bound.end} or more"


def misaligned(bindings: BindingSet) -> Faults:
    """Yield the faults of DML706."""
    for bound in bindings.bound.values():
        step = max(BASE_ALIGNMENT, bindings.tensors[bound.tensor].guaranteed_base_offset_alignment)
        if bound.offset % step:
            nearest, kind = rounded_up(bound.offset, step), bindings.resources[bound.resource].data_type
            remedy = f"put the tensor's data at byte {nearest} (elementOffset {nearest // kind.bytes} of {kind.name})"
            yield bound.path, f"a multiple of {step} bytes", f"{bound.offset} bytes", remedy


def unbound(bindings: BindingSet) -> Faults:
    """Yield the faults of DML701: tensors that neither the dispatch nor its dispatchable binds."""
    names = {binding.field for binding in (*bindings.bindings, *bindings.dispatchable.initial_bindings)}
    for tensor in bindings.tensors:
        if tensor not in names:
            where = "bindings" if bindings.is_stage_of(tensor) else f"dispatchables.{bindings.dispatchable.name}.bindings"
            yield bindings.path, f"a resource for {tensor}", "none", f'add "{tensor}": "RESOURCE" to {where}'


def overlap(bindings: BindingSet) -> Faults:
    """Yield the faults of DML707."""
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


COMMON_RULES: dict[str, Callable[[BindingSet], Faults]] = {
    "DML702": unknown_field,
    "DML703": several_sources,
    "DML704": unknown_resource,
    "DML708": wrong_stage,
    "DML705": short_buffer,
    "DML706": misaligned,
}
"""The rules for the bindings of dispatches and of dispatchables, by code."""


def check_bindings(reading: Reading, bindings: BindingSet) -> None:
    """Report the faults of a `bindings` object under the rules for dispatches and dispatchables."""
    if not bindings.bindings:
        return
    for code, rule in COMMON_RULES.items():
        _report(reading, code, rule(bindings))
    for bound, resource, expected, got in bindings.too_short():
        if resource.file is not None:
            reading.report_problem(bound.path, f"{resource.file} has the wrong size: expected {expected}, got {got}")


def check_dispatch(reading: Reading, bindings: BindingSet) -> None:
    """Report the faults of the bindings of a dispatch."""
    check_bindings(reading, bindings)
    _report(reading, "DML701", unbound(bindings))
    _report(reading, "DML707", overlap(bindings))


def check_foreign_dispatch(reading: Reading, bindings: Iterable[FieldBinding], declared: Collection[str]) -> None:
    """Report undeclared resources in a dispatch of an unsupported dispatchable (a ForeignPart).

    `declared`: the names of all resources.
    """
    _report(reading, "DML704", _undeclared(bindings, declared))


def check_name(reading: Reading, kind: str, name: str, declared: Collection[str], path: Path) -> None:
    """Report the name of a "resource" or "dispatchable" in a command if the model does not declare it."""
    if name not in declared:
        code = "DML704" if kind == "resource" else "DML709"
        _report(reading, code, [(path, *missing(kind, name, declared))])


def check_dimensions(reading: Reading, command: WriteFile, resource: Resource) -> None:
    """Report dimensions whose product is not the number of elements in the resource."""
    dimensions = command.dimensions
    if dimensions is not None and prod(dimensions) != resource.values.count:
        expected = f"{resource.values.count} elements, as many as {resource.name!r} has"
        remedy = "leave dimensions out, or correct them"
        _report(reading, "DML710", [((*command.path, "dimensions"), expected, f"{prod(dimensions)} ({dimensions})", remedy)])


def missing(kind: str, name: str, declared: Collection[str]) -> tuple[str, str, str]:
    """Return the texts for "expected", "got" and remedy of a name that the model does not declare."""
    similar = closest(name, declared)
    known = ", ".join([*map(repr, islice(declared, SHOWN)), *(["…"] if len(declared) > SHOWN else [])])
    known = known or f"none: the model has no {kind}s"
    remedy = f"write {similar!r}" if similar else f"declare the {kind}, or name another"
    return f"a {kind} of the model ({known})", repr(name), remedy


def _report(reading: Reading, code: str, faults: Iterable[tuple[Path, str, str, str]]) -> None:
    for path, expected, got, remedy in faults:
        finding = CODES[code].finding(dotted(path), expected=expected, got=got, remedy=remedy)
        reading.report_finding(finding, path, key=code == "DML702")
