"""The formats of a report, by the name that `--output-format` takes, and where they are written."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dmlgather.files import writing
from dmlgather.report import data, github, junit, sarif, text
from dmlgather.report.check_report import CheckReport
from dmlgather.wording import alternatives

FORMATS: dict[str, Callable[[CheckReport], Iterator[str]]] = {
    "text": text.lines,
    "json": data.lines,
    "sarif": sarif.lines,
    "junit": junit.lines,
    "github": github.lines,
}
"""Each yields lines."""


@dataclass(frozen=True, slots=True)
class Output:
    """A format and where it goes: a file, or standard output for none."""

    format: str
    file: Path | None = None

    @classmethod
    def parse(cls, value: str, folder: Path | None = None) -> Output:
        """What a user writes: "text", or "sarif:report.sarif" for a file in `folder`.

        ValueError, which says what is legal, for anything else.
        """
        name, colon, file = value.partition(":")
        if name not in FORMATS or (colon and not file):
            raise ValueError(
                f"expected {alternatives(FORMATS)}, or one of these and a file like sarif:report.sarif, got {value!r}"
            )
        return cls(name, (folder or Path()) / file if colon else None)

    def write(self, report: CheckReport) -> None:
        """Write the report there. FileError when a file cannot be written."""
        if self.file is not None:
            with writing(self.file) as file:
                for line in FORMATS[self.format](report):
                    file.write(line.encode("utf-8", "backslashreplace") + b"\n")
        elif self.format == "text":
            text.show(report)
        else:
            for line in FORMATS[self.format](report):
                sys.stdout.write(line + "\n")


def complete(outputs: Iterable[Output]) -> tuple[Output, ...]:
    """These outputs, files first, and one for standard output. ValueError where one place is given two formats.

    Where no format is asked for on standard output, it is github in a workflow of GitHub Actions and text elsewhere.
    """
    files: dict[Path | None, Output] = {}
    for output in outputs:
        other = files.setdefault(output.file, output)
        if other != output:
            place = "standard output" if output.file is None else str(output.file)
            raise ValueError(f"{other.format} and {output.format} cannot both be written to {place}; name a file: FORMAT:FILE")
    shown = files.pop(None, None) or Output("github" if os.environ.get("GITHUB_ACTIONS") == "true" else "text")
    return (*files.values(), shown)
