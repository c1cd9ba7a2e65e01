"""DML7xx: what holds for bindings, the ties between an operator's tensors and the resources of a model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import islice
from math import prod
from typing import NamedTuple

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


class Bound(NamedTuple):
    """A tensor and the range of a resource that stands for it. offset, size: bytes. path: of the source in the file."""

    tensor: str
    resource: str
    offset: int
    size: int
    path: Path


class Site:
    """One `bindings` object: of a dispatch, or of a dispatchable for the tensors that DirectML owns.

    resources: those that could be read; declared: the names of all. sound: tensors that break no rule of DML1xx. tensors: the
    operator's, by DirectML's names. bound: those of known size that are bound to one readable resource; ranges: with it.
    """

    def __init__(
        self,
        dispatchable: Dispatchable,
        bindings: tuple[Binding, ...],
        at_execution: bool,
        path: Path,
        *,
        resources: Mapping[str, Resource],
        declared: Collection[str],
        sound: Collection[str],
    ) -> None:
        self.dispatchable, self.bindings, self.at_execution, self.path = dispatchable, bindings, at_execution, path
        self.resources, self.declared = resources, declared
        desc = dispatchable.desc
        self.tensors: dict[str, BufferTensorDesc] = {wire_name(field): desc.tensor(field) for field in desc.operator.tensors}
        self.bound = self._bound(sound)
        self.ranges = [(bound, resources[bound.resource]) for bound in self.bound.values()]

    def belongs(self, tensor: str) -> bool:
        """Whether the tensor is bound here rather than at the other site."""
        return bool(self.tensors[tensor].flags & TensorFlags.OWNED_BY_DML) != self.at_execution

    def sources(self) -> Iterator[tuple[str, Source]]:
        """Tensor and source of each binding of a tensor to one resource."""
        for binding in self.bindings:
            if binding.field in self.tensors and len(binding.sources) == 1:
                yield binding.field, binding.sources[0]

    def _bound(self, sound: Collection[str]) -> dict[str, Bound]:
        found = {}
        for tensor, source in self.sources():
            resource = self.resources.get(source.resource)
            if resource is not None and tensor in sound:
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
    for bound, resource in site.ranges:
        if bound.offset + bound.size > resource.size and resource.file is None:
            yield (
                bound.path,
                *_range(bound, resource),
                f"give {bound.resource!r} sizeInBytes of {bound.offset + bound.size}, or more",
            )


def misaligned(site: Site) -> Faults:
    """DML706."""
    for bound, resource in site.ranges:
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


def unbound(site: Site) -> Faults:
    """DML701, of a dispatch, whose dispatchable may bind what is missing here."""
    names = {binding.field for binding in (*site.bindings, *site.dispatchable.initial_bindings)}
    for tensor in site.tensors:
        if tensor not in names:
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


def check_dispatch(reading: Reading, site: Site) -> None:
    """Report what is wrong with the bindings of a dispatch."""
    check_site(reading, site)
    _report(reading, "DML701", unbound(site))
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
    return dispatch_site(dispatch, dispatchable, resources, declared, sound), initial_site(
        dispatchable, resources, declared, sound
    )


def dispatch_site(
    dispatch: Dispatch,
    dispatchable: Dispatchable,
    resources: Mapping[str, Resource],
    declared: Collection[str],
    sound: Collection[str],
) -> Site:
    """The dispatch's own site."""
    path = (*dispatch.path, "bindings")
    return Site(dispatchable, dispatch.bindings, True, path, resources=resources, declared=declared, sound=sound)


def initial_site(
    dispatchable: Dispatchable, resources: Mapping[str, Resource], declared: Collection[str], sound: Collection[str]
) -> Site:
    """The dispatchable's own site."""
    path = (*dispatchable.outer_path, "bindings")
    given = dispatchable.initial_bindings
    return Site(dispatchable, given, False, path, resources=resources, declared=declared, sound=sound)


def _range(bound: Bound, resource: Resource) -> tuple[str, str]:
    """Expected and got of a range that is too short."""
    left = max(resource.size - bound.offset, 0)
    return (
        f"at least {bound.size} bytes for {bound.tensor} (TotalTensorSizeInBytes)",
        f"{left} bytes ({resource.size} of {bound.resource!r}, less the offset {bound.offset})",
    )


def _short_files(reading: Reading, site: Site) -> None:
    for bound, resource in site.ranges:
        if bound.offset + bound.size > resource.size and resource.file is not None:
            expected, got = _range(bound, resource)
            reading.problem(bound.path, f"{resource.file} has the wrong size: expected {expected}, got {got}")


def _report(reading: Reading, code: str, faults: Faults) -> None:
    for path, expected, got, remedy in faults:
        finding = CODES[code].finding(dotted(path), expected=expected, got=got, remedy=remedy)
        reading.finding(finding, path, key=code == "DML702")
