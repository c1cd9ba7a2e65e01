"""Reading of one file: the parsed text, the problems and findings so far, and unsupported parts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple, TypeVar

from pydantic import TypeAdapter, ValidationError

from dmlgather.directml.codes import CODES
from dmlgather.directml.dxdispatch.jsonc import Document, Path
from dmlgather.directml.dxdispatch.wire import WirePart, names
from dmlgather.directml.findings import FileProblem, Finding, LocatedFinding
from dmlgather.directml.operators import OPERATORS
from dmlgather.directml.types import AS_IN_FILES
from dmlgather.record import in_words
from dmlgather.wording import alternatives, closest, dotted, shortened

T = TypeVar("T")

_LEAVES = (str, int, float, bool, type(None))
_PATH_STEP = re.compile(r"([^.\[\]]+)|\[([0-9]+)\]")


MOST_LISTED = 1_000
"""Number of problems of a file that are listed. Further ones are only counted."""

MOST_COUNTED = 10_000
"""Number of problems or findings after which reading stops, with EnoughError."""

MOST_ENTRIES = 1_000
"""Most entries of an array or object in a command or operator. Valid ones have at most eight."""


class EnoughError(Exception):
    """A file has MOST_COUNTED problems or findings, and reading it stops."""


class Reading:
    """A parsed file, and the problems and findings that were reported so far."""

    def __init__(self, file: str, document: Document) -> None:
        self.file, self.document = file, document
        self.subject = ""
        """The "name" of a single descriptor. Empty for a model."""
        self.findings: list[LocatedFinding] = []
        self._problems: dict[tuple[Path, bool, str], FileProblem | None] = {}
        """By place and message. The value is None for problems that are counted but not listed."""

    @property
    def problem_count(self) -> int:
        """Number of problems so far, including those that are not listed."""
        return len(self._problems)

    @property
    def problems(self) -> tuple[FileProblem, ...]:
        """The listed problems. If there are more, the last entry states how many, or that reading stopped."""
        listed = tuple(problem for problem in self._problems.values() if problem is not None)
        more = self.problem_count - len(listed)
        if self.problem_count >= MOST_COUNTED:
            last = f"{more} more problems, and the rest of the file was not read: correct the first ones"
        elif len(self.findings) >= MOST_COUNTED:
            last = f"has {len(self.findings)} findings, and the rest of the file was not checked: correct the first ones"
        elif more:
            last = f"{more} more problems, which are not listed: correct the first ones"
        else:
            return listed
        return (*listed, FileProblem(file=self.file, message=last, count=max(more, 1)))

    def value_at(self, path: Path) -> Any:
        """Return the value at `path`, which must exist."""
        value = self.document.value
        for step in path:
            value = value[step]
        return value

    def report_problem(self, path: Path, message: str, key: bool = False) -> None:
        """Report that the value at `path` cannot be read. `key`: True if its key is at fault."""
        identity = (path, key, message)
        if identity in self._problems:
            return
        self._problems[identity] = None
        if self.problem_count <= MOST_LISTED:
            self._problems[identity] = self.problem_at(path, message, key)
        elif self.problem_count >= MOST_COUNTED:
            raise EnoughError

    def problem_at(self, path: Path, message: str, key: bool = False) -> FileProblem:
        """Return the problem that `report_problem` would report."""
        line, column = self.document.position(path, key)
        return FileProblem(
            file=self.file, line=line, column=column, subject=self.subject, path=dotted(path), message=shortened(message)
        )

    def report_finding(self, finding: Finding, path: Path, subject: str = "", key: bool = False, lines: int = 1) -> None:
        """Report a finding about the value at `path`.

        `subject`: the part of the file where the finding's own path starts.
        `key`: True if the value's key is at fault.
        """
        line, column = self.document.position(path, key)
        self.findings.append(LocatedFinding.of(finding, self.file, line, column, shortened(subject), lines=lines))
        if len(self.findings) >= MOST_COUNTED:
            raise EnoughError

    def report_findings(self, findings: Iterable[Finding], path: Path, subject: str, whole: Path, lines: int = 1) -> None:
        """Report findings about the descriptor at `path`. The paths in the findings are relative to `path`.

        `whole`: the path to report for findings about the whole descriptor.
        """
        for finding in findings:
            steps = [int(index) if index else name for name, index in _PATH_STEP.findall(finding.path)]
            self.report_finding(finding, self.existing_path(path, steps) if steps else whole, subject, lines=lines)

    def existing_path(self, path: Path, steps: Iterable[str | int]) -> Path:
        """Return `path`, extended by the keys and indices in `steps` that exist in the file.

        Others are skipped, such as the tags that Pydantic adds for unions. "Desc" is inserted for {"Type": …, "Desc": {…}}.
        """
        value = self.value_at(path)
        for step in steps:
            if isinstance(value, dict) and step not in value and "Type" in value and isinstance(value.get("Desc"), dict):
                path, value = (*path, "Desc"), value["Desc"]
            exists = step in value if isinstance(value, dict) else isinstance(value, list) and step in range(len(value))
            if exists:
                path, value = (*path, step), value[step]
        return path

    def validated(self, kind: TypeAdapter[T], path: Path, also: Iterable[str] = ()) -> T | None:
        """Return the JSON object at `path` as a WirePart. If it is invalid, report why and return None.

        `also`: further allowed keys.
        """
        if not self.check_lengths(path):
            return None
        try:
            part = kind.validate_python(self.value_at(path), context=AS_IN_FILES)
        except ValidationError as error:
            self.report_invalid(error, path, [name for part in WirePart.__subclasses__() for name in names(part)])
            return None
        self.report_unknown_keys(part, path, also)
        return part

    def check_lengths(self, path: Path) -> bool:
        """Return True if no array or object at `path` has too many entries. Otherwise report the first one.

        A list of initial values may have any length.
        """
        pending = [(path, self.value_at(path))]
        for at, value in pending:
            if not isinstance(value, list | dict) or (at[-1:] == ("initialValues",) and isinstance(value, list)):
                continue
            if len(value) > MOST_ENTRIES:
                self.report_problem(at, f"expected at most {MOST_ENTRIES} entries, got {len(value)}")
                return False
            pairs = value.items() if isinstance(value, dict) else enumerate(value)
            pending += [((*at, step), item) for step, item in pairs if isinstance(item, list | dict)]
        return True

    def report_invalid(self, error: ValidationError, path: Path, known: Iterable[str], skip: Iterable[str] = ()) -> None:
        """Report Pydantic's errors about the value at `path` as problems.

        `known`: allowed keys, to recognise misspelt ones.
        `skip`: types of errors that are not reported.
        """
        for item in error.errors(include_url=False):
            if item["type"] in skip:
                continue
            location = self.existing_path(path, item["loc"])
            if item["type"] == "missing" and isinstance(parent := self.value_at(location), dict):
                misspelt = closest(str(item["loc"][-1]), set(parent).difference(known))
                if misspelt is not None:
                    self.report_problem((*location, misspelt), unknown(misspelt, str(item["loc"][-1])), key=True)
                    continue
            self.report_problem(location, in_words(item))

    def report_unknown_keys(self, part: Any, path: Path, also: Iterable[str] = ()) -> None:
        """Report unknown keys in an object that was read as `part`, and in the objects inside it."""
        if isinstance(part, WirePart):
            known = names(type(part))
            for key in part.model_extra or ():
                if key not in known and key not in also:
                    self.report_unknown_key((*path, key), [*also, *known])
            for (name, item), key in zip(part, known, strict=False):  # iteration yields `model_extra` last
                if type(item) not in _LEAVES and name in part.model_fields_set:
                    self.report_unknown_keys(item, self.existing_path(path, [key]))
        elif isinstance(part, dict):
            for key, item in part.items():
                if type(item) not in _LEAVES:
                    self.report_unknown_keys(item, (*path, key))
        elif isinstance(part, list) and part and isinstance(part[0], WirePart | dict):
            for index, item in enumerate(part):
                self.report_unknown_keys(item, (*path, index))

    def report_unknown_key(self, path: Path, known: Iterable[str]) -> None:
        """Report the unknown key at the end of `path`, unless it is a comment ("$schema", "_note").

        It is a problem if it is similar to a known key, else a finding.
        """
        key = str(path[-1])
        if key.startswith(("$", "_")):
            return
        similar = closest(key, known)
        if similar:
            self.report_problem(path, unknown(key, similar), key=True)
            return
        finding = CODES["DML801"].finding(
            dotted(path),
            expected=f"one of {', '.join(known)}",
            got=repr(key),
            remedy="remove it, or start its name with '_' to make it a comment",
        )
        self.report_finding(finding, path, key=True)


def unknown(word: str, similar: str) -> str:
    """Return the message about an unknown name that is similar to a known one."""
    return f"unknown name {word!r}; did you mean {similar!r}?"


DISPATCHABLES = {"hlsl": "an HLSL shader", "onnx": "an ONNX model", "dmlSerializedGraph": "a serialized DirectML graph"}
"""Words for dispatchables that are not DirectML operators, by type."""

CONSTANTS = "a list of typed constants for HLSL shaders"

OTHER = "DML804"


class ForeignPart(NamedTuple):
    """A part of a file that dmlgather does not support, and leaves out. `what`: for example "an ONNX model"."""

    what: str
    path: Path

    def note(self, reading: Reading, subject: str = "", lines: int = 1) -> None:
        """Report a finding of severity NOTE, which says that the part is left out. `lines`: the number of equal lines."""
        finding = CODES[OTHER].finding(
            dotted(self.path),
            expected="an operator that `dmlgather levels` lists",
            got=self.what,
            remedy="none is needed: it is left out",
        )
        reading.report_finding(finding, self.path, subject, lines=lines)

    def refusal(self, name: str) -> str:
        """Return the reason why commands that use this part cannot be executed."""
        known = alternatives(operator.name for operator in OPERATORS.values())
        return f"cannot be executed: {name} is {self.what}, and dmlgather executes only {known}"
