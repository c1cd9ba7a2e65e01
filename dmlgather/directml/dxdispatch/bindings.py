"""DML7xx: what holds for bindings, the ties between an operator's tensors and the resources of a model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from math import prod

from dmlgather.directml.codes import CODES
from dmlgather.directml.dxdispatch.commands import Binding, Dispatch, Source, WriteFile
from dmlgather.directml.dxdispatch.dispatchables import Dispatchable
from dmlgather.directml.dxdispatch.jsonc import Path
from dmlgather.directml.dxdispatch.reading import Reading, closest, dotted
from dmlgather.directml.dxdispatch.resources import Resource
from dmlgather.directml.fields import wire_name
from dmlgather.directml.tensor import BASE_ALIGNMENT, BufferTensorDesc, rounded_up
from dmlgather.directml.types import TensorFlags

SHOWN = 20
"""Names that a message lists at most."""


@dataclass(frozen=True)
class Bound:
    """A tensor and the range of a resource that stands for it. offset, size: bytes. path: of the source in the file."""

    tensor: str
    resource: str
    offset: int
    size: int
    path: Path


@dataclass(frozen=True)
class Site:
    """One `bindings` object: of a dispatch, or of a dispatchable for the tensors that DirectML owns.

    resources: those that could be read; declared: the names of all. sound: tensors that break no rule of DML1xx.
    """

    dispatchable: Dispatchable
    bindings: tuple[Binding, ...]
    at_execution: bool
    path: Path
    resources: Mapping[str, Resource]
    declared: Collection[str]
    sound: Collection[str]

    @cached_property
    def tensors(self) -> dict[str, BufferTensorDesc]:
        """The operator's tensors by DirectML's names."""
        operator = self.dispatchable.desc.operator
        return {wire_name(field): self.dispatchable.desc.tensor(field) for field in operator.tensors}

    def belongs(self, tensor: str) -> bool:
        """Whether the tensor is bound here rather than at the other site."""
        return bool(self.tensors[tensor].flags & TensorFlags.OWNED_BY_DML) != self.at_execution

    def sources(self) -> Iterator[tuple[str, Source]]:
        """Tensor and source of each binding of a tensor to one resource."""
        for binding in self.bindings:
            if binding.field in self.tensors and len(binding.sources) == 1:
                yield binding.field, binding.sources[0]

    @cached_property
    def bound(self) -> dict[str, Bound]:
        """The tensors of known size that are bound to one readable resource."""
        found = {}
        for tensor, source in self.sources():
            resource = self.resources.get(source.resource)
            if resource is not None and tensor in self.sound:
                element = resource.data_type.bytes if source.element_bytes is None else source.element_bytes
                offset = source.element_offset * element
                found[tensor] = Bound(tensor, source.resource, offset, self.tensors[tensor].total_bytes, source.path)
        return found


Faults = Iterator[tuple[Path, str, str, str]]
"""Place in the file, expected, got, remedy."""


def unknown_field(site: Site) -> Faults:
    """DML702."""
    known = list(site.tensors)
    for binding in site.bindings:
        if binding.field not in known:
            meant = closest(binding.field, known)
            yield binding.path, f"one of {', '.join(known)}", repr(binding.field), f"write {meant!r}" if meant else "remove it"


def several_sources(site: Site) -> Faults:
    """DML703."""
    for binding in site.bindings:
        if binding.field in site.tensors and len(binding.sources) != 1:
            names = ", ".join(repr(source.resource) for source in binding.sources) or "none"
            yield binding.path, f"1 resource for {binding.field}", f"{len(binding.sources)} ({names})", "name one resource"


def unknown_resource(site: Site) -> Faults:
    """DML704."""
    for binding in site.bindings:
        for source in binding.sources:
            if source.resource not in site.declared:
                yield source.path, *missing("resource", source.resource, site.declared)


def wrong_stage(site: Site) -> Faults:
    """DML708."""
    here, there = ("execution", "initialisation") if site.at_execution else ("initialisation", "execution")
    name = site.dispatchable.name
    home = f"dispatchables.{name}.bindings" if site.at_execution else "the dispatch command's bindings"
    for binding in site.bindings:
        if binding.field in site.tensors and not site.belongs(binding.field):
            flags = site.tensors[binding.field].flags
            yield binding.path, f"at {there}: its Flags are {flags}", f"at {here}", f"move it to {home}, or change its Flags"


def short_range(site: Site) -> Faults:
    """DML705, but for buffers whose size a file decides."""
    for bound, resource in _ranges(site):
        if bound.offset + bound.size > resource.size and resource.file is None:
            yield (
                bound.path,
                *_range(bound, resource),
                f"give {bound.resource!r} sizeInBytes of {bound.offset + bound.size}, or more",
            )


def misaligned(site: Site) -> Faults:
    """DML706."""
    for bound, resource in _ranges(site):
        step = max(BASE_ALIGNMENT, site.tensors[bound.tensor].guaranteed_base_offset_alignment)
        if bound.offset % step:
            nearest = rounded_up(bound.offset, step)
            element = resource.data_type.bytes
            yield (
                bound.path,
                f"a multiple of {step} bytes",
                f"{bound.offset} bytes",
                f"put the tensor's data at byte {nearest} (elementOffset {nearest // element} of {resource.data_type.name})",
            )


def unbound(site: Site, elsewhere: Collection[str]) -> Faults:
    """DML701. elsewhere: tensors that the other site binds."""
    names = {binding.field for binding in site.bindings}
    for tensor in site.tensors:
        if tensor not in names and tensor not in elsewhere:
            where = "bindings" if site.belongs(tensor) else f"dispatchables.{site.dispatchable.name}.bindings"
            yield site.path, f"a resource for {tensor}", "none", f'add "{tensor}": "RESOURCE" to {where}'


def overlap(site: Site) -> Faults:
    """DML707."""
    ranges = site.bound
    operator = site.dispatchable.desc.operator
    output = ranges.get(wire_name(operator.output))
    for bound in ranges.values():
        if output is None or bound is output or bound.resource != output.resource:
            continue
        first, end = max(bound.offset, output.offset), min(bound.offset + bound.size, output.offset + output.size)
        if first < end:
            yield (
                output.path,
                f"bytes of {output.resource!r} outside {bound.tensor}'s {bound.offset} … {bound.offset + bound.size - 1}",
                f"bytes {output.offset} … {output.offset + output.size - 1}",
                f"bind {output.tensor} to another resource, or behind byte {bound.offset + bound.size - 1}",
            )


EVERYWHERE: dict[str, Callable[[Site], Faults]] = {
    "DML702": unknown_field,
    "DML703": several_sources,
    "DML704": unknown_resource,
    "DML708": wrong_stage,
    "DML705": short_range,
    "DML706": misaligned,
}
"""The rules of every site, by code."""


def check_site(reading: Reading, site: Site) -> None:
    """Report what is wrong with the bindings at one site, whichever it is."""
    if not site.bindings:
        return
    for code, rule in EVERYWHERE.items():
        _report(reading, code, rule(site))
    _short_files(reading, site)


def check_dispatch(reading: Reading, site: Site, initial: Site) -> None:
    """Report what is wrong with the bindings of a dispatch. initial: its dispatchable's own bindings."""
    check_site(reading, site)
    _report(reading, "DML701", unbound(site, {binding.field for binding in initial.bindings}))
    _report(reading, "DML707", overlap(site))


def check_name(reading: Reading, kind: str, name: str, declared: Collection[str], path: Path) -> None:
    """Report a command's name of a "resource" or "dispatchable" that leads nowhere."""
    if name not in declared:
        code = "DML704" if kind == "resource" else "DML709"
        _report(reading, code, iter([(path, *missing(kind, name, declared))]))


def check_dimensions(reading: Reading, command: WriteFile, resource: Resource) -> None:
    """Report stated dimensions that do not hold as many elements as the resource."""
    given = command.dimensions
    if given is not None and prod(given) != resource.values.count:
        place = (*command.path, "dimensions")
        expected = f"{resource.values.count} elements, as many as {resource.name!r} has"
        _report(reading, "DML710", iter([(place, expected, f"{prod(given)} ({given})", "leave dimensions out, or correct them")]))


def missing(kind: str, name: str, declared: Collection[str]) -> tuple[str, str, str]:
    """Expected, got and remedy of a name that leads nowhere."""
    meant = closest(name, declared)
    known = ", ".join([*map(repr, islice(declared, SHOWN)), *(["…"] if len(declared) > SHOWN else [])])
    known = known or f"none: the model has no {kind}s"
    return f"a {kind} of the model ({known})", repr(name), f"write {meant!r}" if meant else f"declare the {kind}, or name another"


def sites(
    dispatch: Dispatch,
    dispatchable: Dispatchable,
    resources: Mapping[str, Resource],
    declared: Collection[str],
    sound: Collection[str],
) -> tuple[Site, Site]:
    """The dispatch's own site, and its dispatchable's."""
    at_execution = Site(dispatchable, dispatch.bindings, True, (*dispatch.path, "bindings"), resources, declared, sound)
    return at_execution, initial_site(dispatchable, resources, declared, sound)


def initial_site(
    dispatchable: Dispatchable, resources: Mapping[str, Resource], declared: Collection[str], sound: Collection[str]
) -> Site:
    """The dispatchable's own site."""
    path = (*dispatchable.outer_path, "bindings")
    return Site(dispatchable, dispatchable.initial_bindings, False, path, resources, declared, sound)


def _ranges(site: Site) -> Iterator[tuple[Bound, Resource]]:
    for bound in site.bound.values():
        yield bound, site.resources[bound.resource]


def _range(bound: Bound, resource: Resource) -> tuple[str, str]:
    """Expected and got of a range that is too short."""
    left = max(resource.size - bound.offset, 0)
    return (
        f"at least {bound.size} bytes for {bound.tensor} (TotalTensorSizeInBytes)",
        f"{left} bytes ({resource.size} of {bound.resource!r}, less the offset {bound.offset})",
    )


def _short_files(reading: Reading, site: Site) -> None:
    for bound, resource in _ranges(site):
        if bound.offset + bound.size > resource.size and resource.file is not None:
            expected, got = _range(bound, resource)
            reading.problem(bound.path, f"{resource.file} has the wrong size: expected {expected}, got {got}")


def _report(reading: Reading, code: str, faults: Faults) -> None:
    for path, expected, got, remedy in faults:
        finding = CODES[code].finding(dotted(path), expected=expected, got=got, remedy=remedy)
        reading.finding(finding, path, key=code == "DML702")
