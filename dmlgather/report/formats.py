"""The formats of a report, by their names in `--output-format`, and where they are written."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dmlgather.output import put
from dmlgather.report import github, junit, sarif, text
from dmlgather.report.check_report import CheckReport
from dmlgather.report.node_lines import NodeListing
from dmlgather.wording import alternatives
from dmlgather.written_files import writing


def _json_lines(report: CheckReport) -> Iterator[str]:
    """The report as one JSON object; `dmlgather schema report` prints its schema."""
    yield json.dumps(report.model_dump(mode="json"), indent=2)


DATA: dict[str, Callable[[CheckReport], Iterator[str]]] = {
    "json": _json_lines,
    "sarif": sarif.lines,
    "junit": junit.lines,
    "github": github.lines,
}
"""The lines of a report in each format for other programs."""

FORMATS = ("text", "concise", *DATA)
"""The names of all formats."""


@dataclass(frozen=True, slots=True)
class Output:
    """A format and the file to write to; standard output where that is None."""

    format: str
    file: Path | None = None

    @classmethod
    def parse(cls, value: str, folder: Path | None = None) -> Output:
        """The output that a user names: "text", or "sarif:report.sarif" for a file in `folder`. ValueError for anything else."""
        name, colon, file = value.partition(":")
        if name not in FORMATS or (colon and not file):
            raise ValueError(
                f"expected {alternatives(FORMATS)}, or one of these and a file like sarif:report.sarif, got {value!r}"
            )
        return cls(name, (folder or Path()) / file if colon else None)

    def write(self, report: CheckReport, listed: NodeListing = NodeListing.WRONG, made_from: Iterable[Path] = ()) -> None:
        """Write the report there. FileError when a file cannot be written, or when it is one of `made_from`. listed: the nodes of
        models that text lists.
        """
        if self.file is not None:
            with writing(self.file, made_from) as file:
                for line in self._lines(report, listed, text.WIDTH):
                    file.write(line.encode("utf-8", "backslashreplace") + b"\n")
            return
        lines = self._lines(report, listed, text.terminal_width())
        if self.format in DATA:
            for line in lines:
                put(line + "\n")
        else:
            text.show(lines)

    def _lines(self, report: CheckReport, listed: NodeListing, width: int) -> Iterator[str]:
        if self.format in DATA:
            return DATA[self.format](report)
        return text.concise_lines(report, listed) if self.format == "concise" else text.lines(report, listed, width)


def complete(outputs: Iterable[Output]) -> tuple[Output, ...]:
    """These outputs, files first, and one for standard output: by default github in a workflow of GitHub Actions, text elsewhere.

    ValueError for two formats in one file or on standard output.
    """
    files: dict[Path | None, Output] = {}
    for output in outputs:
        other = files.setdefault(output.file, output)
        if other != output:
            place = "standard output" if output.file is None else str(output.file)
            raise ValueError(f"{other.format} and {output.format} cannot both be written to {place}; name a file: FORMAT:FILE")
    shown = files.pop(None, None) or Output("github" if os.environ.get("GITHUB_ACTIONS") == "true" else "text")
    return (*files.values(), shown)
