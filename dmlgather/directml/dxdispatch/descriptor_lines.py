"""Checking of streams (files with one descriptor per line, written by dmlgather_dump.h) and of standard input."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path as FilePath
from typing import BinaryIO

from dmlgather.directml.descriptors import OperatorDesc
from dmlgather.directml.dxdispatch.dispatchables import read_dispatchable, read_label
from dmlgather.directml.dxdispatch.jsonc import Document, JsonError
from dmlgather.directml.dxdispatch.model_file import CheckedFile, check_text, kind_of, unchecked
from dmlgather.directml.dxdispatch.npy import SourceFiles
from dmlgather.directml.dxdispatch.reading import MOST_COUNTED, EnoughError, ForeignPart, Reading
from dmlgather.directml.findings import FileProblem, LocatedFinding
from dmlgather.directml.operator_types import NUMBERS, PREFIX
from dmlgather.directml.types import FeatureLevel
from dmlgather.directml.validation import validate
from dmlgather.files import (
    BYTES_PER_CHARACTER,
    STDIN,
    EncodingError,
    FileError,
    check_not_utf16,
    decoded,
    open_regular,
    read_stream,
)
from dmlgather.host import available_memory
from dmlgather.wording import counted

LONGEST = 2**20
"""Longest accepted line, in bytes."""

SHOWN = 100
"""Number of different bad lines that are reported. Further lines are only counted."""

SAMPLE = 2**16
"""Bytes at the start of a file that decide if it is a stream, a model or something else."""

FORM = f'{{"type": "{PREFIX}…", "desc": {{…}}}}'


def check_lines_file(path: FilePath, level: FeatureLevel, legal: dict[int, OperatorDesc] | None = None) -> CheckedFile:
    """Check the descriptor on each line of a file.

    `legal`: a dictionary to fill with the descriptors without errors, by line number.
    """
    file = str(path)
    try:
        with open_regular(path) as (stream, _):
            head = stream.read(SAMPLE)
            check_not_utf16(head)
            if not head.strip():
                return unchecked(file, "unreadable", "the file is empty: no descriptors")
            stream.seek(0)
            if _is_unrelated(_lines(stream)):
                return unchecked(file, "foreign", f"expected a descriptor {FORM} on each line")
            stream.seek(0)
            return check_lines(file, _lines(stream), level, legal)
    except FileError as error:
        return unchecked(file, "unreadable", str(error))


def check_stdin(stream: BinaryIO, level: FeatureLevel, allow_outside: bool = False) -> CheckedFile:
    """Check standard input: one descriptor per line, a model, or a single descriptor.

    `allow_outside`: True if initial values may come from files outside the current folder.
    """
    first: list[bytes] = []
    while sum(map(len, first)) < SAMPLE and (line := stream.readline(LONGEST + 1)):
        first.append(line)
    try:
        if any(map(_is_descriptor, first)):
            return check_lines(STDIN, chain(first, _lines(stream)), level)
        text = decoded(b"".join(first) + read_stream(stream))
        checked = check_text(STDIN, text, SourceFiles(FilePath.cwd(), allow_outside), level)
        reported = _reported_lines(checked)
        return replace(checked, lines={number: line for number, line in enumerate(text.split("\n"), 1) if number in reported})
    except FileError as error:
        return unchecked(STDIN, "unreadable", str(error), error.position)


def _is_descriptor(line: bytes) -> bool:
    if b"type" not in line.lower():  # fast answer for most lines of an indented document
        return False
    try:
        value = Document(decoded(line)).value
    except (EncodingError, JsonError):
        return False
    return kind_of(value) == "descriptor" or _numbered(value) is not None


def _is_unrelated(lines: Iterator[bytes]) -> bool:
    """Return True if the lines are JSON that has nothing to do with DirectML."""
    first = next((line for line in lines if line.strip()), b"")
    if PREFIX.encode() in first or _is_descriptor(first):
        return False
    try:
        Document(decoded(first))
    except (EncodingError, JsonError):
        return False
    return not any(PREFIX.encode() in line or _is_descriptor(line) for line in lines)


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    """Yield lines, cut after LONGEST + 1 bytes. This is enough to see that a line is too long."""
    while line := stream.readline(LONGEST + 1):
        rest = line
        while len(rest) > LONGEST and not rest.endswith(b"\n"):
            rest = stream.readline(LONGEST + 1)
        yield line


def check_lines(
    file: str, lines: Iterable[bytes], level: FeatureLevel, legal: dict[int, OperatorDesc] | None = None
) -> CheckedFile:
    """Check the descriptor on each line. Equal lines are checked once.

    `legal`: a dictionary to fill with the descriptors without errors, by line number.

    Raises FileError if the different lines do not fit into memory.
    """
    seen: dict[bytes, tuple[int, int]] = {}  # the first line number and the number of equal lines
    kept, free = 0, available_memory()
    for number, line in enumerate(lines, 1):
        raw = line.rstrip(b"\r\n")
        if not raw.strip():
            continue
        first, count = seen.get(raw, (number, 0))
        seen[raw] = (first, count + 1)
        kept += 0 if count else len(raw)
        if free is not None and kept > free // BYTES_PER_CHARACTER:
            raise FileError(f"has {kept} bytes of different lines, too many with {free} bytes of memory free: check it in parts")
    check = _LinesCheck(file, level, legal)
    for raw, (first, count) in seen.items():
        check.line(raw, first, count)
        if len(check.findings) >= MOST_COUNTED:
            check.stop(first)
            break
    checked = check.checked()
    reported = _reported_lines(checked)
    left_out = sum(count for _, count in seen.values()) - check.legal_lines
    lines_shown = {first: raw[:LONGEST].decode("utf-8", "replace") for raw, (first, _) in seen.items() if first in reported}
    return replace(checked, left_out=left_out, lines=lines_shown)


def _reported_lines(checked: CheckedFile) -> set[int | None]:
    return {finding.line for finding in checked.findings} | {problem.line for problem in checked.problems}


class _LinesCheck:
    def __init__(self, file: str, level: FeatureLevel, legal: dict[int, OperatorDesc] | None) -> None:
        self.file, self.level, self.legal = file, level, legal
        self.problems: list[FileProblem] = []
        self.findings: list[LocatedFinding] = []
        self.foreign: dict[str, tuple[ForeignPart, Reading, int]] = {}
        self.descriptors = self.legal_lines = 0
        self.broken = 0

    def line(self, raw: bytes, number: int, count: int) -> None:
        """Check a line that occurs `count` times, first at line `number`."""
        try:
            if len(raw) > LONGEST:
                raise FileError(f"is longer than {LONGEST} bytes, the limit for a descriptor")
            reading = Reading(self.file, Document(decoded(raw), lines_before=number - 1))
        except FileError as error:
            column = error.position.column if error.position else None
            self.add_problems([FileProblem(file=self.file, line=number, column=column, message=f"the line {error}")])
            return
        except JsonError as error:
            message = re.sub(r"\b(the|a) file\b", r"\1 line", str(error))
            line, column = error.position
            self.add_problems([FileProblem(file=self.file, line=line, column=column, message=message)])
            return
        with suppress(EnoughError):
            self.descriptor(reading, number, count)
        self.findings += reading.findings
        self.add_problems(reading.problems)

    def descriptor(self, reading: Reading, number: int, count: int) -> None:
        value = reading.document.value
        part = read_dispatchable(reading, "", ()) if kind_of(value) == "descriptor" else _numbered(value)
        if isinstance(part, ForeignPart):
            read_label(reading, value)
        if part is None and not reading.problems:
            reading.report_problem((), f"expected a descriptor {FORM}")
        elif isinstance(part, ForeignPart):
            earlier = self.foreign.get(part.what)
            self.foreign[part.what] = (part, reading, count) if earlier is None else (*earlier[:2], earlier[2] + count)
        elif part is not None:
            self.descriptors += count
            report = validate(part.desc, level=self.level)
            reading.report_findings(report.findings, part.path, part.subject, part.type_path, lines=count)
            if report.ok and not reading.problems:
                self.legal_lines += count
                if self.legal is not None:
                    self.legal[number] = part.desc

    def stop(self, number: int) -> None:
        message = f"has {len(self.findings)} findings, and the rest of the lines were not checked: correct the first ones"
        self.problems.append(FileProblem(file=self.file, line=number, message=message))

    def add_problems(self, problems: Sequence[FileProblem]) -> None:
        if problems:
            self.broken += 1
            if self.broken <= SHOWN:
                self.problems += problems

    def checked(self) -> CheckedFile:
        for part, reading, count in self.foreign.values():
            before = len(reading.findings)
            part.note(reading, reading.subject if count == 1 else "", lines=count)
            self.findings += reading.findings[before:]
        if self.broken > SHOWN:
            message = f"{counted(self.broken - SHOWN, 'more line')} cannot be understood"
            self.problems.append(FileProblem(file=self.file, message=message, count=self.broken - SHOWN))
        return CheckedFile(
            self.file,
            "descriptors",
            problems=tuple(self.problems),
            findings=tuple(sorted(self.findings, key=lambda finding: finding.line or 0)),
            descriptors=self.descriptors,
        )


def _numbered(value: object) -> ForeignPart | None:
    """Return a ForeignPart for an unknown number as type. dmlgather_dump.h writes it for operators that its header lacks."""
    number = value.get("type") if isinstance(value, dict) else None
    if not isinstance(number, int) or isinstance(number, bool) or number in {0, *NUMBERS.values()}:
        return None
    return ForeignPart(f"number {number} of DML_OPERATOR_TYPE", ("type",))
