"""The baseline: a file of known findings, which do not fail the check."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PureWindowsPath
from typing import Literal

from pydantic import ValidationError

from dmlgather.files import FileError, read_text, writing
from dmlgather.record import Record, placed
from dmlgather.report.check_report import CheckReport, FileReport
from dmlgather.report.finding_status import CountedFingerprint, FindingStatus, Fingerprint, ReportedFinding
from dmlgather.report.paths import beside, named, program_line


class Baseline(Record):
    """The content of a baseline file: the findings that a project knows and accepts, without their lines and columns."""

    tool: Literal["dmlgather"] = "dmlgather"
    """The program that wrote the file."""

    baseline: Literal[1] = 1
    """The version of the format."""

    findings: tuple[CountedFingerprint, ...]
    """The known findings, sorted."""


class BaselineError(FileError):
    """A baseline cannot be used. The message names the file."""


def read(file: Path) -> Baseline:
    """Read a baseline file. Raise BaselineError if it is missing or no baseline."""
    remedy = "name a file that --write-baseline wrote, or write a new file"
    try:
        data = json.loads(read_text(file, "write it anew"))
        return Baseline.model_validate(data)
    except FileError as error:
        raise BaselineError(f"{file}: the baseline {error}; {remedy}: dmlgather check --write-baseline {file} FILE…") from None
    except ValidationError as error:
        raise BaselineError(
            f"{file}: is not a baseline: {placed(error.errors(include_url=False)[0])}; {remedy} with another name"
        ) from None
    except (ValueError, RecursionError) as error:
        place = f":{error.lineno}:{error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        raise BaselineError(f"{file}{place}: is not a baseline: it is not JSON; {remedy} with another name") from None


def write(file: Path, baseline: Baseline, made_from: Iterable[Path]) -> None:
    """Write a baseline file. Raise FileError if that fails, or if `file` is in `made_from`."""
    text = json.dumps(baseline.model_dump(mode="json"), indent=1)
    with writing(file, made_from) as stream:
        stream.write(text.encode() + b"\n")


def compared(report: CheckReport, file: Path, baseline: Baseline) -> CheckReport:
    """Mark the findings that the baseline knows, and list the baseline's entries that have vanished.

    If the baseline counts n equal findings, the first n open findings become known. An entry has vanished if the report has no
    such finding, and the file was checked completely or no longer exists.
    """
    remaining = _counts(baseline)
    is_complete = _complete_files(report, file)
    files = tuple(_with_known(checked, str(file.parent), remaining) for checked in report.files)
    vanished = {entry: count for entry, count in remaining.items() if count and is_complete(entry.file)}
    return report.model_copy(update={"files": files, "baseline": str(file), "vanished": _sorted(vanished)})


def _counts(baseline: Baseline) -> Counter[Fingerprint]:
    counts: Counter[Fingerprint] = Counter()
    for entry in baseline.findings:
        counts[Fingerprint(**entry.model_dump(exclude={"count"}))] += entry.count
    return counts


def _with_known(checked: FileReport, folder: str, remaining: Counter[Fingerprint]) -> FileReport:
    if not checked.findings:
        return checked
    name = named(checked.file, folder)
    findings = []
    for finding in checked.findings:
        entry = fingerprint(finding, name)
        if finding.status is FindingStatus.OPEN and remaining[entry] > 0:
            remaining[entry] -= 1
            findings.append(ReportedFinding.of_located(finding, FindingStatus.KNOWN))
        else:
            findings.append(finding)
    return checked.model_copy(update={"findings": tuple(findings)})


def renewed(report: CheckReport, file: Path, old: Baseline | None) -> Baseline:
    """Return a new baseline with all findings of the report that are not ignored.

    Old entries stay if the check did not cover the file completely.
    """
    folder = str(file.parent)
    counts: Counter[Fingerprint] = Counter()
    for checked in report.files:
        if checked.findings:
            name = named(checked.file, folder)
            counts.update(
                fingerprint(finding, name) for finding in checked.findings if finding.status is not FindingStatus.IGNORED
            )
    if old is not None:
        is_complete = _complete_files(report, file)
        counts |= Counter({entry: count for entry, count in _counts(old).items() if not is_complete(entry.file)})
    return Baseline(findings=_sorted(counts))


def _complete_files(report: CheckReport, file: Path) -> Callable[[str], bool]:
    """Return a function that is True for files that were checked without problems, or are missing."""
    complete = {named(checked.file, str(file.parent)): not checked.problems for checked in report.files}
    return lambda name: complete[name] if name in complete else not os.path.lexists(beside(name, str(file)))


def fingerprint(finding: ReportedFinding, file: str) -> Fingerprint:
    """Return the identity of a finding.

    A subject such as "src/rows.cpp:12" becomes "rows.cpp", because folders and lines change.
    """
    program = program_line(finding.subject)
    subject = PureWindowsPath(program[0]).name if program else finding.subject
    return Fingerprint(file=file, code=finding.code, subject=subject, path=finding.path, got=finding.got)


def _sorted(counts: Mapping[Fingerprint, int]) -> tuple[CountedFingerprint, ...]:
    entries = (CountedFingerprint(**entry.model_dump(), count=count) for entry, count in counts.items())
    return tuple(sorted(entries, key=lambda entry: tuple(entry.model_dump().values())))
