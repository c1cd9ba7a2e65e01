"""One file while it is read: its parsed text, and all problems and findings, with their places."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from dmlgather.directml.codes import CODES
from dmlgather.directml.dxdispatch.jsonc import Document, Path
from dmlgather.directml.dxdispatch.wire import WirePart, names
from dmlgather.directml.findings import Finding
from dmlgather.directml.located import FileProblem, LocatedFinding
from dmlgather.directml.types import AS_IN_FILES
from dmlgather.record import in_words

T = TypeVar("T")

_LEAVES = (str, int, float, bool, type(None))
_NAMES_ONLY = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_PATH_STEP = re.compile(r"([^.\[\]]+)|\[([0-9]+)\]")


class Reading:
    """Collects all problems and findings while a file is read."""

    def __init__(self, file: str, document: Document) -> None:
        self.file, self.document = file, document
        self.subject = ""
        """The name that a single descriptor states."""
        self.problems: list[FileProblem] = []
        self.findings: list[LocatedFinding] = []

    def at(self, path: Path) -> Any:
        """The value at `path`, which exists."""
        value = self.document.value
        for step in path:
            value = value[step]
        return value

    def problem(self, path: Path, message: str, key: bool = False) -> None:
        """Report that the value at `path` (or its key) cannot be understood."""
        problem = self.described(path, message, key)
        if problem not in self.problems:
            self.problems.append(problem)

    def described(self, path: Path, message: str, key: bool = False) -> FileProblem:
        """A problem with the value at `path` (or its key). It is not reported."""
        line, column = self.document.position(path, key)
        return FileProblem(file=self.file, line=line, column=column, subject=self.subject, path=dotted(path), message=message)

    def finding(self, finding: Finding, path: Path, subject: str = "", key: bool = False, lines: int = 1) -> None:
        """Report a finding about the value at `path` (or its key). lines: as in `LocatedFinding`."""
        line, column = self.document.position(path, key)
        self.findings.append(LocatedFinding.of(finding, self.file, line, column, subject, lines=lines))

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
        try:
            part = kind.validate_python(self.at(path), context=AS_IN_FILES)
        except ValidationError as error:
            self.invalid(error, path, [name for part in WirePart.__subclasses__() for name in names(part)])
            return None
        self.unknown_keys(part, path, also)
        return part

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


def dotted(path: Path) -> str:
    """A path as it is written in messages: resources.input.initialValues[3]."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _NAMES_ONLY.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f"[{json.dumps(step, ensure_ascii=False)}]"
    return text


def unknown(word: str, meant: str) -> str:
    """The message about a misspelt name."""
    return f"unknown name {word!r}; did you mean {meant!r}?"


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known word that `word` probably misspells; None where none is similar."""
    plain = {_plain(item): item for item in known}
    found = difflib.get_close_matches(_plain(word), list(plain), n=1, cutoff=0.8)
    return plain[found[0]] if found else None


def _plain(word: str) -> str:
    return word.replace("_", "").replace("-", "").lower()


def _within(step: Any, value: list[Any]) -> bool:
    return isinstance(step, int) and 0 <= step < len(value)
