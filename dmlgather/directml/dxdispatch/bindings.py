"""DML7xx: rules for bindings, which tie an operator's tensors to the resources of a model."""

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
"""Names that a message lists at most."""


class BufferBinding(NamedTuple):
    """The bytes of a resource that a tensor is bound to: `size` of them from `offset` on. path: of the binding in the file."""

    tensor: str
    resource: str
    offset: int
    size: int
    path: Path

    @property
    def end(self) -> int:
        """The offset behind the last byte."""
        return self.offset + self.size


def buffer_bindings(
    tensors: Mapping[str, BufferTensorDesc], bindings: Iterable[FieldBinding], resources: Mapping[str, Resource]
) -> dict[str, BufferBinding]:
    """The tensors (by DirectML's names) that are bound to exactly one of `resources`, each with its bytes there."""
    found = {}
    for field, sources, _ in bindings:
        if field in tensors and len(sources) == 1 and sources[0].resource in resources:
            name, element_offset, element_bytes, path = sources[0]
            offset = element_offset * (resources[name].data_type.bytes if element_bytes is None else element_bytes)
            found[field] = BufferBinding(field, name, offset, tensors[field].total_bytes, path)
    return found


class BindingSite(NamedTuple):
    """One `bindings` object: of a dispatch, or of a dispatchable, for the tensors that DirectML owns.

    path: of the object. resources: those that could be read; declared: the names of all. tensors: the operator's, by DirectML's
    names. bound: of the tensors that break no rule of DML1xx, those that are bound to one readable resource.
    """

    dispatchable: Dispatchable
    bindings: tuple[FieldBinding, ...]
    at_execution: bool
    path: Path
    resources: Mapping[str, Resource]
    declared: Collection[str]
    tensors: Mapping[str, BufferTensorDesc]
    bound: Mapping[str, BufferBinding]

    def belongs(self, tensor: str) -> bool:
        """Whether the tensor has to be bound here; its Flags decide between initialisation and execution."""
        return bool(self.tensors[tensor].flags & TensorFlags.OWNED_BY_DML) != self.at_execution

    def too_short(self) -> Iterator[tuple[BufferBinding, Resource, str, str]]:
        """Each tensor that ends behind its resource's last byte, with what is expected and what was got."""
        for bound in self.bound.values():
            resource = self.resources[bound.resource]
            if bound.end > resource.size:
                left = max(resource.size - bound.offset, 0)
                expected = f"at least {bound.size} bytes for {bound.tensor} (TotalTensorSizeInBytes)"
                got = f"{left} bytes ({resource.size} of {bound.resource!r}, less the offset {bound.offset})"
                yield bound, resource, expected, got


Faults = Iterator[tuple[Path, str, str, str]]
"""Place in the file, expected, got, remedy."""


def unknown_field(site: BindingSite) -> Faults:
    """DML702."""
    known = list(site.tensors)
    for binding in site.bindings:
        if binding.field not in known:
            meant = closest(binding.field, known)
            yield binding.path, f"one of {', '.join(known)}", repr(binding.field), f"write {meant!r}" if meant else "remove it"


def several_sources(site: BindingSite) -> Faults:
    """DML703."""
    for binding in site.bindings:
        if binding.field in site.tensors and len(binding.sources) != 1:
            names = ", ".join(repr(source.resource) for source in binding.sources) or "none"
            yield binding.path, f"1 resource for {binding.field}", f"{len(binding.sources)} ({names})", "name one resource"


def unknown_resource(site: BindingSite) -> Faults:
    """DML704."""
    return _undeclared(site.bindings, site.declared)


def _undeclared(given: Iterable[FieldBinding], declared: Collection[str]) -> Faults:
    for binding in given:
        for source in binding.sources:
            if source.resource not in declared:
                yield source.path, *missing("resource", source.resource, declared)


def wrong_stage(site: BindingSite) -> Faults:
    """DML708."""
    here, there = ("execution", "initialisation") if site.at_execution else ("initialisation", "execution")
    home = f"dispatchables.{site.dispatchable.name}.bindings" if site.at_execution else "the dispatch command's bindings"
    for binding in site.bindings:
        if binding.field in site.tensors and not site.belongs(binding.field):
            flags = site.tensors[binding.field].flags
            yield binding.path, f"at {there}: its Flags are {flags}", f"at {here}", f"move it to {home}, or change its Flags"


def short_buffer(site: BindingSite) -> Faults:
    """DML705, where the model states the buffer's size. Where a file decides it, that file is the problem: see `check_site`."""
    for bound, resource, expected, got in site.too_short():
        if resource.file is None:
            yield bound.path, expected, got, f"set sizeInBytes of {bound.resource!r} to {bound.end} or more"


def misaligned(site: BindingSite) -> Faults:
    """DML706."""
    for bound in site.bound.values():
        step = max(BASE_ALIGNMENT, site.tensors[bound.tensor].guaranteed_base_offset_alignment)
        if bound.offset % step:
            nearest, kind = rounded_up(bound.offset, step), site.resources[bound.resource].data_type
            remedy = f"put the tensor's data at byte {nearest} (elementOffset {nearest // kind.bytes} of {kind.name})"
            yield bound.path, f"a multiple of {step} bytes", f"{bound.offset} bytes", remedy


def unbound(site: BindingSite) -> Faults:
    """DML701, of a dispatch; its dispatchable may bind what is missing here."""
    names = {binding.field for binding in (*site.bindings, *site.dispatchable.initial_bindings)}
    for tensor in site.tensors:
        if tensor not in names:
            where = "bindings" if site.belongs(tensor) else f"dispatchables.{site.dispatchable.name}.bindings"
            yield site.path, f"a resource for {tensor}", "none", f'add "{tensor}": "RESOURCE" to {where}'


def overlap(site: BindingSite) -> Faults:
    """DML707."""
    output = site.bound.get(wire_name(site.dispatchable.desc.operator.output))
    for bound in site.bound.values():
        if output is None or bound is output or bound.resource != output.resource:
            continue
        if max(bound.offset, output.offset) < min(bound.end, output.end):
            yield (
                output.path,
                f"bytes of {output.resource!r} outside {bound.tensor}'s {bound.offset} … {bound.end - 1}",
                f"bytes {output.offset} … {output.end - 1}",
                f"bind {output.tensor} to another resource, or behind byte {bound.end - 1}",
            )


EVERYWHERE: dict[str, Callable[[BindingSite], Faults]] = {
    "DML702": unknown_field,
    "DML703": several_sources,
    "DML704": unknown_resource,
    "DML708": wrong_stage,
    "DML705": short_buffer,
    "DML706": misaligned,
}
"""The rules for the bindings of dispatches and of dispatchables, by code."""


def check_site(reading: Reading, site: BindingSite) -> None:
    """Report what is wrong with the bindings of a dispatch or of a dispatchable."""
    if not site.bindings:
        return
    for code, rule in EVERYWHERE.items():
        _report(reading, code, rule(site))
    for bound, resource, expected, got in site.too_short():
        if resource.file is not None:
            reading.problem(bound.path, f"{resource.file} has the wrong size: expected {expected}, got {got}")


def check_dispatch(reading: Reading, site: BindingSite) -> None:
    """Report what is wrong with the bindings of a dispatch."""
    check_site(reading, site)
    _report(reading, "DML701", unbound(site))
    _report(reading, "DML707", overlap(site))


def check_foreign_dispatch(reading: Reading, given: Iterable[FieldBinding], declared: Collection[str]) -> None:
    """Report what is wrong with the bindings of a dispatch of a foreign part. declared: the names of all resources."""
    _report(reading, "DML704", _undeclared(given, declared))


def check_name(reading: Reading, kind: str, name: str, declared: Collection[str], path: Path) -> None:
    """Report a command that names a "resource" or "dispatchable" that the model does not declare."""
    if name not in declared:
        code = "DML704" if kind == "resource" else "DML709"
        _report(reading, code, [(path, *missing(kind, name, declared))])


def check_dimensions(reading: Reading, command: WriteFile, resource: Resource) -> None:
    """Report dimensions whose product is not the number of elements in the resource."""
    given = command.dimensions
    if given is not None and prod(given) != resource.values.count:
        expected = f"{resource.values.count} elements, as many as {resource.name!r} has"
        remedy = "leave dimensions out, or correct them"
        _report(reading, "DML710", [((*command.path, "dimensions"), expected, f"{prod(given)} ({given})", remedy)])


def missing(kind: str, name: str, declared: Collection[str]) -> tuple[str, str, str]:
    """Expected, got and remedy of a name that the model does not declare."""
    meant = closest(name, declared)
    known = ", ".join([*map(repr, islice(declared, SHOWN)), *(["…"] if len(declared) > SHOWN else [])])
    known = known or f"none: the model has no {kind}s"
    return f"a {kind} of the model ({known})", repr(name), f"write {meant!r}" if meant else f"declare the {kind}, or name another"


def _report(reading: Reading, code: str, faults: Iterable[tuple[Path, str, str, str]]) -> None:
    for path, expected, got, remedy in faults:
        finding = CODES[code].finding(dotted(path), expected=expected, got=got, remedy=remedy)
        reading.finding(finding, path, key=code == "DML702")
