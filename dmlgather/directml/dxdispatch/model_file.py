"""Reading and checking of a file with a DxDispatch model or a single operator descriptor."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, Literal, NamedTuple

from dmlgather.directml.dxdispatch import bindings
from dmlgather.directml.dxdispatch.bindings import BindingSet, BufferBinding
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

Kind = Literal["model", "descriptor", "descriptors", "foreign", "unreadable"]


@dataclass(frozen=True)
class CheckedFile:
    """The result of reading and checking a file. A file with problems or errors cannot be run.

    `kind`: "model", "descriptor", "descriptors" (a stream: one descriptor on each line), "foreign" (another format), or
    "unreadable" (the file could not be read as text).
    `dispatchables`: the descriptors by name. A single descriptor has an empty name. Descriptors of a stream are not kept.
    `refusals`: the commands that cannot be executed, because they use an unsupported part.
    `left_out`: the number of lines of a stream that hold no legal descriptor.
    `lines`: the text of each line with a problem or finding, by line number from 1; only for streams and standard input.
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
        """Return the bindings of a dispatch at execution, and the bindings at initialisation. The file must be `ok`."""
        dispatchable = self.dispatchables[dispatch.dispatchable]
        at_execution = bindings.buffer_bindings(dispatchable.tensors, dispatch.bindings, self.resources)
        return at_execution, bindings.buffer_bindings(dispatchable.tensors, dispatchable.initial_bindings, self.resources)

    @property
    def ok(self) -> bool:
        """True if there are no problems and no errors. The file can then be run, unless it has `refusals`."""
        return not self.problems and not self.errors


def check_file(path: FilePath, level: str | FeatureLevel = "6_4", allow_outside: bool = False) -> CheckedFile:
    """Read and check a file at a feature level. Raises ValueError for an unknown level.

    `allow_outside`: True if initial values may come from files outside the model's folder and the current folder.
    """
    level = FeatureLevel.parse(level)
    file = str(path)
    try:
        checked = check_text(file, read_text(path), SourceFiles(path.parent, allow_outside), level)
    except FileError as error:
        checked = unchecked(file, "unreadable", str(error), error.position)
    if checked.kind in ("unreadable", "foreign") and (message := recognised(path)):
        return unchecked(file, "foreign", message)
    return checked


def check_text(file: str, text: str, files: SourceFiles, level: FeatureLevel) -> CheckedFile:
    """Check the text of a file at a feature level."""
    try:
        document = Document(text)
    except JsonError as error:
        kind: Kind = "model" if PREFIX in text or '"dispatchables"' in text else "foreign"
        expected = "" if error.position > Position(1, 1) else "; expected a DxDispatch model or a descriptor, as JSON"
        return unchecked(file, kind, f"{error}{expected}", error.position)
    reading = Reading(file, document)
    kind = kind_of(document.value)
    if kind == "model":
        return _ModelCheck(reading, files, level).checked()
    if kind == "descriptor":
        return _descriptor(reading, level)
    shown = "an object with other keys" if isinstance(document.value, dict) else "another value"
    reading.report_problem(
        (), f"expected a model {{resources, dispatchables, commands}} or a descriptor {{type: {PREFIX}…, desc}}, got {shown}"
    )
    return CheckedFile(file, kind, problems=reading.problems)


def unchecked(file: str, kind: Kind, message: str, position: Position | None = None) -> CheckedFile:
    """Return the result for a file that cannot be checked. It has one problem."""
    line, column = position or (None, None)
    return CheckedFile(file, kind, problems=(FileProblem(file=file, line=line, column=column, message=message),))


def kind_of(value: object) -> Kind:
    """Return the kind of a parsed JSON file: "model", "descriptor" or "foreign"."""
    if not isinstance(value, dict):
        return "foreign"
    if not SECTIONS.keys().isdisjoint(value):
        return "model"
    name = value.get("type", value.get("Type"))
    has_prefix = isinstance(name, str) and name.startswith(PREFIX)
    return "descriptor" if has_prefix or (name is not None and not {"desc", "Desc"}.isdisjoint(value)) else "foreign"


def _descriptor(reading: Reading, level: FeatureLevel) -> CheckedFile:
    dispatchables, refusals = {}, []
    with suppress(EnoughError):
        part = read_dispatchable(reading, "", ())
        if isinstance(part, ForeignPart):
            part.note(reading, reading.subject)
            refusals.append(reading.problem_at(part.path, part.refusal("the descriptor")))
        elif part is not None:
            dispatchables[""] = part
            reading.report_findings(validate(part.desc, level=level).findings, part.path, part.subject, part.type_path)
    return CheckedFile(
        reading.file,
        "descriptor",
        dispatchables=dispatchables,
        problems=reading.problems,
        findings=tuple(reading.findings),
        refusals=tuple(refusals),
    )


class _ModelCheck:
    def __init__(self, reading: Reading, files: SourceFiles, level: FeatureLevel) -> None:
        self.reading, self.files, self.level = reading, files, level
        self.root: dict[str, Any] = reading.document.value
        self.resources: dict[str, Resource] = {}
        self.dispatchables: dict[str, Dispatchable] = {}
        self.commands: list[Command] = []
        self.foreign: dict[tuple[str, str], ForeignPart] = {}
        """Unsupported parts, by section and name."""
        self.refusals: list[FileProblem] = []
        self.invalid_tensors: dict[str, set[str]] = {}
        """Tensors with DML1xx errors, by dispatchable."""

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
        for key in self.root:
            if key not in SECTIONS:
                self.reading.report_unknown_key((key,), SECTIONS)
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
        """If the command at `path` uses an unsupported part, record that the command cannot be executed."""
        part = self.foreign.get((section, name))
        if part is not None:
            self.refusals.append(self.reading.problem_at(path, part.refusal(repr(name))))

    def section(self, name: str) -> dict[str, Any] | list[Any]:
        """Return a section of the model. If it cannot be read, report why and return an empty one."""
        kind = SECTIONS[name]
        if name not in self.root:
            if not any(closest(key, [name]) for key in self.root):  # a misspelt key is already reported
                self.reading.report_problem((), f"{name!r} is missing: a model has {', '.join(SECTIONS)}")
        elif not isinstance(self.root[name], kind):
            self.reading.report_problem((name,), f"expected an {'object' if kind is dict else 'array'}")
        else:
            return self.root[name]  # type: ignore[no-any-return] # of the kind just tested
        return kind()

    def dispatchable(self, name: str) -> None:
        part = read_dispatchable(self.reading, name, ("dispatchables", name))
        if isinstance(part, ForeignPart):
            self.leave_out("dispatchables", name, part)
            return
        if part is None:
            return
        self.dispatchables[name] = part
        report = validate(part.desc, level=self.level)
        self.reading.report_findings(report.findings, part.path, part.subject, part.type_path)
        tensor_errors = (finding for finding in report.errors if finding.code.startswith("DML1"))
        self.invalid_tensors[name] = {finding.path.partition(".")[0] for finding in tensor_errors}
        self.check_bindings(part, part.initial_bindings, (*part.outer_path, "bindings"), at_execution=False)

    def command(self, command: Command) -> None:
        match command:
            case Dispatch():
                path = (*command.path, "dispatchable")
                declared = self.declared("dispatchables")
                bindings.check_name(self.reading, "dispatchable", command.dispatchable, declared, path)
                dispatchable = self.dispatchables.get(command.dispatchable)
                if ("dispatchables", command.dispatchable) in self.foreign:
                    self.refuse("dispatchables", command.dispatchable, command.path)
                    for source in (source for binding in command.bindings for source in binding.sources):
                        bindings.check_name(self.reading, "resource", source.resource, self.declared("resources"), source.path)
                elif dispatchable is not None:
                    self.check_bindings(dispatchable, command.bindings, (*command.path, "bindings"), at_execution=True)
                    for name in dict.fromkeys(source.resource for binding in command.bindings for source in binding.sources):
                        self.refuse("resources", name, command.path)
            case Print() | WriteFile():
                path = (*command.path, "resource")
                bindings.check_name(self.reading, "resource", command.resource, self.declared("resources"), path)
                self.refuse("resources", command.resource, command.path)
                if isinstance(command, WriteFile) and command.resource in self.resources:
                    bindings.check_dimensions(self.reading, command, self.resources[command.resource])

    def check_bindings(
        self, dispatchable: Dispatchable, field_bindings: tuple[FieldBinding, ...], path: Path, at_execution: bool
    ) -> None:
        tensors, invalid = dispatchable.tensors, self.invalid_tensors[dispatchable.name]
        valid = {name: tensor for name, tensor in tensors.items() if name not in invalid}
        bound = bindings.buffer_bindings(valid, field_bindings, self.resources)
        names = self.declared("resources")
        bindings.check_bindings(
            self.reading, BindingSet(dispatchable, field_bindings, at_execution, path, self.resources, names, tensors, bound)
        )

    def declared(self, section: str) -> Collection[str]:
        value = self.root.get(section)
        return value.keys() if isinstance(value, dict) else ()


SUFFIXES = (".npy", ".bin", ".dat")
"""Suffixes of files that can hold an output."""


class DispatchOutput(NamedTuple):
    """The output of one dispatch command.

    `writes`: the commands that write the output to a file.
    `replaced_by`: the number of the next dispatch command that writes to the same resource.
    """

    command: Dispatch
    bound: BufferBinding
    writes: list[WriteFile]
    replaced_by: int | None = None

    @property
    def in_file(self) -> bool:
        """True if the model writes the output to a file that can hold it: .npy, .bin or .dat."""
        return any(write.target.lower().endswith(SUFFIXES) for write in self.writes)


def dispatch_outputs(model: CheckedFile) -> dict[int, DispatchOutput]:
    """Return the output of each dispatch command, by the position of the command in `model.commands`."""
    outputs: dict[int, DispatchOutput] = {}
    last: dict[str, int] = {}
    for number, command in enumerate(model.commands):
        if isinstance(command, Dispatch):
            output = wire_name(model.dispatchables[command.dispatchable].desc.operator.output)
            bound = model.buffer_bindings(command)[0][output]
            previous = last.get(bound.resource)
            if previous is not None:
                outputs[previous] = outputs[previous]._replace(replaced_by=number)
            outputs[number] = DispatchOutput(command, bound, [])
            last[bound.resource] = number
        elif isinstance(command, WriteFile) and command.resource in last:
            outputs[last[command.resource]].writes.append(command)
    return outputs
