"""Read and check a file: a DxDispatch model, with the files that it writes outputs to, or a single operator descriptor."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, Literal, NamedTuple

from dmlgather.directml.dxdispatch import bindings
from dmlgather.directml.dxdispatch.bindings import BindingSite, BufferBinding
from dmlgather.directml.dxdispatch.commands import Command, Dispatch, FieldBinding, Print, WriteFile, read_command
from dmlgather.directml.dxdispatch.dispatchables import Dispatchable, read_dispatchable
from dmlgather.directml.dxdispatch.jsonc import Document, JsonError, Path
from dmlgather.directml.dxdispatch.npy import SourceFiles
from dmlgather.directml.dxdispatch.reading import EnoughError, ForeignPart, Reading
from dmlgather.directml.dxdispatch.resources import Resource, read_resource
from dmlgather.directml.fields import wire_name
from dmlgather.directml.findings import FileProblem, LocatedFinding, Severity
from dmlgather.directml.operator_types import PREFIX
from dmlgather.directml.types import FeatureLevel
from dmlgather.directml.validation import validate
from dmlgather.files import FileError, Position, read_text
from dmlgather.model_formats import recognised
from dmlgather.wording import closest

SECTIONS: dict[str, type[dict[str, Any]] | type[list[Any]]] = {"resources": dict, "dispatchables": dict, "commands": list}
"""The sections of a model."""

Kind = Literal["model", "descriptor", "descriptors", "foreign", "unreadable"]


@dataclass(frozen=True)
class CheckedFile:
    """The content of a file and what is wrong with it. A file with problems or ERROR findings cannot be run.

    kind: "foreign" for JSON that is neither, for a text that is not JSON and names nothing of DirectML, and for models of other
    formats; "unreadable" where there is no text; "descriptors" for a stream of them, of which only their number is kept. A
    descriptor has one dispatchable, of empty name. resources, dispatchables, commands: those that could be read. refusals: why
    what uses a part that dmlgather does not know cannot be executed. left_out: how many lines of a stream are no legal
    descriptor. lines: of what cannot be read again, the lines with findings, by their numbers from 1.
    """

    file: str
    kind: Kind
    resources: dict[str, Resource] = field(default_factory=dict)
    dispatchables: dict[str, Dispatchable] = field(default_factory=dict)
    commands: tuple[Command, ...] = ()
    problems: tuple[FileProblem, ...] = ()
    findings: tuple[LocatedFinding, ...] = ()
    refusals: tuple[FileProblem, ...] = ()
    descriptors: int = 0
    left_out: int = 0
    lines: Mapping[int, str] = field(default_factory=dict)

    @property
    def errors(self) -> tuple[LocatedFinding, ...]:
        """The findings of severity ERROR."""
        return tuple(finding for finding in self.findings if finding.severity is Severity.ERROR)

    def buffer_bindings(self, dispatch: Dispatch) -> tuple[dict[str, BufferBinding], dict[str, BufferBinding]]:
        """What the tensors of a dispatch are bound to, by DirectML's names: at execution, and at initialisation. Needs `ok`."""
        found = self.dispatchables[dispatch.dispatchable]
        at_execution = bindings.buffer_bindings(found.tensors, dispatch.bindings, self.resources)
        return at_execution, bindings.buffer_bindings(found.tensors, found.initial_bindings, self.resources)

    @property
    def ok(self) -> bool:
        """Whether the file breaks no rule. It can then be run, unless there are `refusals`."""
        return not self.problems and not self.errors


def check_file(path: FilePath, level: str | FeatureLevel = "6_4", allow_outside: bool = False) -> CheckedFile:
    """Read the file at `path` and check everything in it at a feature level. ValueError for an unknown level.

    allow_outside: whether initial values may be read from files outside of the model's folder and the current one.
    """
    level = FeatureLevel.parse(level)
    file = str(path)
    try:
        checked = check_text(file, read_text(path), SourceFiles(path.parent, allow_outside), level)
    except FileError as error:
        checked = CheckedFile(file, "unreadable", problems=(_whole(file, str(error), error.position),))
    if checked.kind in ("unreadable", "foreign") and (known := recognised(path)):
        return CheckedFile(file, "foreign", problems=(_whole(file, known, None),))
    return checked


def check_text(file: str, text: str, files: SourceFiles, level: FeatureLevel) -> CheckedFile:
    """Check the text of a file. files: those that a model may read."""
    try:
        document = Document(text)
    except JsonError as error:
        kind: Kind = "model" if PREFIX in text or '"dispatchables"' in text else "foreign"
        expected = "" if error.position > Position(1, 1) else "; expected a DxDispatch model or a descriptor, as JSON"
        return CheckedFile(file, kind, problems=(_whole(file, f"{error}{expected}", error.position),))
    reading = Reading(file, document)
    kind = kind_of(document.value)
    if kind == "model":
        return _ModelCheck(reading, files, level).checked()
    if kind == "descriptor":
        return _descriptor(reading, level)
    shown = "an object with other keys" if isinstance(document.value, dict) else "another value"
    reading.problem(
        (), f"expected a model {{resources, dispatchables, commands}} or a descriptor {{type: {PREFIX}…, desc}}, got {shown}"
    )
    return CheckedFile(file, kind, problems=reading.problems)


def _whole(file: str, message: str, position: tuple[int, int] | None) -> FileProblem:
    line, column = position or (None, None)
    return FileProblem(file=file, line=line, column=column, message=message)


def kind_of(value: object) -> Kind:
    """What a JSON value is: "model", "descriptor" or "foreign"."""
    if not isinstance(value, dict):
        return "foreign"
    if not SECTIONS.keys().isdisjoint(value):
        return "model"
    name = value.get("type", value.get("Type"))
    named = isinstance(name, str) and name.startswith(PREFIX)
    return "descriptor" if named or (name is not None and not {"desc", "Desc"}.isdisjoint(value)) else "foreign"


def _descriptor(reading: Reading, level: FeatureLevel) -> CheckedFile:
    dispatchables, refusals = {}, []
    with suppress(EnoughError):
        found = read_dispatchable(reading, "", ())
        if isinstance(found, ForeignPart):
            found.note(reading, reading.subject)
            refusals.append(reading.described(found.path, found.refusal("the descriptor")))
        elif found is not None:
            dispatchables[""] = found
            reading.about(validate(found.desc, level=level).findings, found.path, found.subject, found.type_path)
    return CheckedFile(
        reading.file,
        "descriptor",
        dispatchables=dispatchables,
        problems=reading.problems,
        findings=tuple(reading.findings),
        refusals=tuple(refusals),
    )


class _ModelCheck:
    """A model while it is checked."""

    def __init__(self, reading: Reading, files: SourceFiles, level: FeatureLevel) -> None:
        self.reading, self.files, self.level = reading, files, level
        self.root: dict[str, Any] = reading.document.value
        self.resources: dict[str, Resource] = {}
        self.dispatchables: dict[str, Dispatchable] = {}
        self.commands: list[Command] = []
        self.foreign: dict[tuple[str, str], ForeignPart] = {}
        """By section and name."""
        self.refusals: list[FileProblem] = []
        self.broken: dict[str, set[str]] = {}
        """The tensors of each dispatchable that break a rule of DML1xx."""

    def checked(self) -> CheckedFile:
        with suppress(EnoughError):
            self.check()
        return CheckedFile(
            self.reading.file,
            "model",
            self.resources,
            self.dispatchables,
            tuple(self.commands),
            self.reading.problems,
            tuple(self.reading.findings),
            tuple(self.refusals),
        )

    def check(self) -> None:
        """Read and check all sections. EnoughError when there is too much to report."""
        for key in self.root:
            if key not in SECTIONS:
                self.reading.unknown_key((key,), SECTIONS)
        for name in self.section("resources"):
            resource = read_resource(self.reading, name, ("resources", name), self.files)
            if isinstance(resource, ForeignPart):
                self.leave_out("resources", name, resource)
            elif resource is not None:
                self.resources[name] = resource
        for name in self.section("dispatchables"):
            self.dispatchable(name)
        for number in range(len(self.section("commands"))):
            command = read_command(self.reading, ("commands", number))
            if command is not None:
                self.commands.append(command)
                self.command(command)

    def leave_out(self, section: str, name: str, part: ForeignPart) -> None:
        self.foreign[section, name] = part
        part.note(self.reading)

    def refuse(self, section: str, name: str, path: Path) -> None:
        """Refuse to execute the command at `path` if what it names is foreign."""
        part = self.foreign.get((section, name))
        if part is not None:
            self.refusals.append(self.reading.described(path, part.refusal(repr(name))))

    def section(self, name: str) -> dict[str, Any] | list[Any]:
        """The section, or an empty one after reporting why it cannot be read."""
        kind = SECTIONS[name]
        if name not in self.root:
            if not any(closest(key, [name]) for key in self.root):  # else the misspelt key has been reported
                self.reading.problem((), f"{name!r} is missing: a model has {', '.join(SECTIONS)}")
        elif not isinstance(self.root[name], kind):
            self.reading.problem((name,), f"expected an {'object' if kind is dict else 'array'}")
        else:
            return self.root[name]  # type: ignore[no-any-return] # of the kind just tested
        return kind()

    def dispatchable(self, name: str) -> None:
        found = read_dispatchable(self.reading, name, ("dispatchables", name))
        if isinstance(found, ForeignPart):
            self.leave_out("dispatchables", name, found)
            return
        if found is None:
            return
        self.dispatchables[name] = found
        report = validate(found.desc, level=self.level)
        self.reading.about(report.findings, found.path, found.subject, found.type_path)
        self.broken[name] = {finding.path.partition(".")[0] for finding in report.errors if finding.code.startswith("DML1")}
        bindings.check_site(self.reading, self.site(found, found.initial_bindings, (*found.outer_path, "bindings")))

    def command(self, command: Command) -> None:
        match command:
            case Dispatch():
                place = (*command.path, "dispatchable")
                declared = self.declared("dispatchables")
                bindings.check_name(self.reading, "dispatchable", command.dispatchable, declared, place)
                found = self.dispatchables.get(command.dispatchable)
                if ("dispatchables", command.dispatchable) in self.foreign:
                    self.refuse("dispatchables", command.dispatchable, command.path)
                    bindings.check_foreign_dispatch(self.reading, command.bindings, self.declared("resources"))
                elif found is not None:
                    site = self.site(found, command.bindings, (*command.path, "bindings"), at_execution=True)
                    bindings.check_dispatch(self.reading, site)
                    for name in dict.fromkeys(source.resource for binding in command.bindings for source in binding.sources):
                        self.refuse("resources", name, command.path)
            case Print() | WriteFile():
                place = (*command.path, "resource")
                bindings.check_name(self.reading, "resource", command.resource, self.declared("resources"), place)
                self.refuse("resources", command.resource, command.path)
                if isinstance(command, WriteFile) and command.resource in self.resources:
                    bindings.check_dimensions(self.reading, command, self.resources[command.resource])

    def site(self, found: Dispatchable, given: tuple[FieldBinding, ...], path: Path, at_execution: bool = False) -> BindingSite:
        sound = {name: tensor for name, tensor in found.tensors.items() if name not in self.broken[found.name]}
        bound = bindings.buffer_bindings(sound, given, self.resources)
        declared = self.declared("resources")
        return BindingSite(found, given, at_execution, path, self.resources, declared, found.tensors, bound)

    def declared(self, section: str) -> Collection[str]:
        value = self.root.get(section)
        return value.keys() if isinstance(value, dict) else ()


SUFFIXES = (".npy", ".bin", ".dat")
"""Files that can hold an output: NumPy's, or raw bytes."""


class DispatchOutput(NamedTuple):
    """Where one dispatch puts its output. writes: the commands that write its resource to a file before another dispatch writes
    the resource; replaced_by: the number of that dispatch command, None where there is none.
    """

    command: Dispatch
    bound: BufferBinding
    writes: list[WriteFile]
    replaced_by: int | None = None

    @property
    def in_file(self) -> bool:
        """Whether a file of the model can be compared with it."""
        return any(write.target.lower().endswith(SUFFIXES) for write in self.writes)


def dispatch_outputs(model: CheckedFile) -> dict[int, DispatchOutput]:
    """What each dispatch command of a model writes, by the command's number."""
    outputs: dict[int, DispatchOutput] = {}
    last: dict[str, int] = {}
    for number, command in enumerate(model.commands):
        if isinstance(command, Dispatch):
            output = wire_name(model.dispatchables[command.dispatchable].desc.operator.output)
            bound = model.buffer_bindings(command)[0][output]
            before = last.get(bound.resource)
            if before is not None:
                outputs[before] = outputs[before]._replace(replaced_by=number)
            outputs[number] = DispatchOutput(command, bound, [])
            last[bound.resource] = number
        elif isinstance(command, WriteFile) and command.resource in last:
            outputs[last[command.resource]].writes.append(command)
    return outputs
