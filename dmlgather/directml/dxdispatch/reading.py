"""One file while it is read: its parsed text, all problems and findings with their places, and the parts that are left out."""

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
"""Problems of one file that are listed."""

MOST_COUNTED = 10_000
"""Problems of one file that are counted, and findings that are listed. Then reading stops."""

MOST_ENTRIES = 1_000
"""Entries of an array or object inside a command or an operator; the longest that can be right have eight."""


class EnoughError(Exception):
    """There are more problems or findings than are counted."""


class Reading:
    """Collects problems and findings while a file is read."""

    def __init__(self, file: str, document: Document) -> None:
        self.file, self.document = file, document
        self.subject = ""
        """The name that a single descriptor states."""
        self.findings: list[LocatedFinding] = []
        self._problems: dict[tuple[Path, bool, str], FileProblem | None] = {}
        """The problems that are listed; None for one that is only counted."""

    @property
    def problem_count(self) -> int:
        """The number of problems so far, those included that are not listed."""
        return len(self._problems)

    @property
    def problems(self) -> tuple[FileProblem, ...]:
        """The problems that are listed, and a last one that says how many more there are."""
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

    def at(self, path: Path) -> Any:
        """The value at `path`, which exists."""
        value = self.document.value
        for step in path:
            value = value[step]
        return value

    def problem(self, path: Path, message: str, key: bool = False) -> None:
        """Report that the value at `path` (or its key) cannot be understood."""
        mark = (path, key, message)
        if mark in self._problems:
            return
        self._problems[mark] = None
        if self.problem_count <= MOST_LISTED:
            self._problems[mark] = self.described(path, message, key)
        elif self.problem_count >= MOST_COUNTED:
            raise EnoughError

    def described(self, path: Path, message: str, key: bool = False) -> FileProblem:
        """A problem with the value at `path` (or its key). It is not reported."""
        line, column = self.document.position(path, key)
        return FileProblem(
            file=self.file, line=line, column=column, subject=self.subject, path=dotted(path), message=shortened(message)
        )

    def finding(self, finding: Finding, path: Path, subject: str = "", key: bool = False, lines: int = 1) -> None:
        """Report a finding about the value at `path` (or its key). lines: as in `LocatedFinding`."""
        line, column = self.document.position(path, key)
        self.findings.append(LocatedFinding.of(finding, self.file, line, column, shortened(subject), lines=lines))
        if len(self.findings) >= MOST_COUNTED:
            raise EnoughError

    def about(self, findings: Iterable[Finding], path: Path, subject: str, whole: Path, lines: int = 1) -> None:
        """Report findings whose paths ("IndicesTensor.Sizes[2]") start from the value at `path`. A finding without a path is
        about the value at `whole`. lines: as in `LocatedFinding`.
        """
        for finding in findings:
            steps = [int(index) if index else name for name, index in _PATH_STEP.findall(finding.path)]
            self.finding(finding, self.existing(path, steps) if steps else whole, subject, lines=lines)

    def existing(self, path: Path, steps: Iterable[str | int]) -> Path:
        """`path` followed by the steps that exist. A step without a value, like the tag of a union or a field that was left out,
        is skipped; "Desc" is inserted where a tensor is written in its long form.
        """
        value = self.at(path)
        for step in steps:
            if isinstance(value, dict) and step not in value and isinstance(value.get("Desc"), dict):
                path, value = (*path, "Desc"), value["Desc"]
            found = step in value if isinstance(value, dict) else isinstance(value, list) and _within(step, value)
            if found:
                path, value = (*path, step), value[step]
        return path

    def validated(self, kind: TypeAdapter[T], path: Path, also: Iterable[str] = ()) -> T | None:
        """The value at `path` as `kind`, a WirePart or a union of them, where the keys `also` are allowed, too; None after
        reporting what is wrong.
        """
        if not self.short(path):
            return None
        try:
            part = kind.validate_python(self.at(path), context=AS_IN_FILES)
        except ValidationError as error:
            self.invalid(error, path, [name for part in WirePart.__subclasses__() for name in names(part)])
            return None
        self.unknown_keys(part, path, also)
        return part

    def short(self, path: Path) -> bool:
        """Whether no array or object in the value at `path` is too long, besides initial values; a long one is reported."""
        waiting = [(path, self.at(path))]
        for at, value in waiting:
            if not isinstance(value, list | dict) or (at[-1:] == ("initialValues",) and isinstance(value, list)):
                continue
            if len(value) > MOST_ENTRIES:
                self.problem(at, f"expected at most {MOST_ENTRIES} entries, got {len(value)}")
                return False
            pairs = value.items() if isinstance(value, dict) else enumerate(value)
            waiting += [((*at, step), item) for step, item in pairs if isinstance(item, list | dict)]
        return True

    def invalid(self, error: ValidationError, path: Path, known: Iterable[str], skip: Iterable[str] = ()) -> None:
        """Report each error that Pydantic found in the value at `path`, except for the kinds to `skip`.

        known: names of fields, none of which is taken for a misspelling of a missing one.
        """
        for item in error.errors(include_url=False):
            if item["type"] in skip:
                continue
            place = self.existing(path, item["loc"])
            if item["type"] == "missing":
                misspelt = closest(str(item["loc"][-1]), set(self.at(place)).difference(known))
                if misspelt is not None:
                    self.problem((*place, misspelt), unknown(misspelt, str(item["loc"][-1])), key=True)
                    continue
            self.problem(place, in_words(item))

    def unknown_keys(self, part: Any, path: Path, also: Iterable[str] = ()) -> None:
        """Report unknown keys: one that looks misspelt is a problem, any other a warning."""
        if isinstance(part, WirePart):
            known = names(type(part))
            for key in part.model_extra or ():
                if key not in known and key not in also:
                    self.unknown_key((*path, key), [*also, *known])
            for (name, item), key in zip(part, known, strict=False):  # what is in `model_extra` comes last
                if type(item) not in _LEAVES and name in part.model_fields_set:
                    self.unknown_keys(item, self.existing(path, [key]))
        elif isinstance(part, dict):
            for key, item in part.items():
                if type(item) not in _LEAVES:
                    self.unknown_keys(item, (*path, key))
        elif isinstance(part, list) and part and isinstance(part[0], WirePart | dict):
            for index, item in enumerate(part):
                self.unknown_keys(item, (*path, index))

    def unknown_key(self, path: Path, known: Iterable[str]) -> None:
        """Report the unknown key that ends `path`, unless it is a comment ("$schema", "_note")."""
        key = str(path[-1])
        if key.startswith(("$", "_")):
            return
        meant = closest(key, known)
        if meant:
            self.problem(path, unknown(key, meant), key=True)
            return
        finding = CODES["DML801"].finding(
            dotted(path),
            expected=f"one of {', '.join(known)}",
            got=repr(key),
            remedy="remove it, or start its name with '_' to make it a comment",
        )
        self.finding(finding, path, key=True)


def unknown(word: str, meant: str) -> str:
    """The message about a misspelt name."""
    return f"unknown name {word!r}; did you mean {meant!r}?"


def _within(step: Any, value: list[Any]) -> bool:
    return isinstance(step, int) and 0 <= step < len(value)


DISPATCHABLES = {"hlsl": "an HLSL shader", "onnx": "an ONNX model", "dmlSerializedGraph": "a serialized DirectML graph"}
"""The types of dispatchables that are no operators of DirectML."""

CONSTANTS = "a list of typed constants for HLSL shaders"
"""What a resource is that dmlgather does not read."""

OTHER = "DML804"
"""The code of what is noted and left out."""


class ForeignPart(NamedTuple):
    """A dispatchable, descriptor or resource that is noted and left out. path: of the value that says what it is.

    what: "DML_OPERATOR_GEMM", or words for anything else.
    """

    what: str
    path: Path

    def note(self, reading: Reading, subject: str = "", lines: int = 1) -> None:
        """Report that it is left out. subject, lines: as in `LocatedFinding`."""
        finding = CODES[OTHER].finding(
            dotted(self.path),
            expected="an operator that `dmlgather levels` lists",
            got=self.what,
            remedy="none is needed: it is left out",
        )
        reading.finding(finding, self.path, subject, lines=lines)

    def refusal(self, name: str) -> str:
        """Why what uses it, by its name in the file, cannot be executed."""
        known = alternatives(operator.name for operator in OPERATORS.values())
        return f"cannot be executed: {name} is {self.what}, and dmlgather executes only {known}"
