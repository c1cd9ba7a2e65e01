"""The baseline: known findings, so that an old code base can adopt the check before everything is fixed."""

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
    """A baseline file. Findings are compared without their lines and columns."""

    tool: Literal["dmlgather"] = "dmlgather"
    """The program that wrote this."""

    baseline: Literal[1] = 1
    """The version of this format."""

    findings: tuple[CountedFingerprint, ...]
    """The known findings, sorted."""


class BaselineError(FileError):
    """A baseline cannot be used. The message names the file."""


def read(file: Path) -> Baseline:
    """The baseline in `file`. BaselineError when it is missing or not a baseline."""
    remedy = "name a file that --write-baseline wrote, or write one"
    try:
        data = json.loads(read_text(file, "write it anew"))
        return Baseline.model_validate(data)
    except FileError as error:
        raise BaselineError(f"{file}: the baseline {error}; {remedy}: dmlgather check --write-baseline {file} FILE…") from None
    except ValidationError as error:
        raise BaselineError(
            f"{file}: is no baseline: {placed(error.errors(include_url=False)[0])}; {remedy} of another name"
        ) from None
    except (ValueError, RecursionError) as error:
        place = f":{error.lineno}:{error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        raise BaselineError(f"{file}{place}: is no baseline: it is no JSON; {remedy} of another name") from None


def write(file: Path, baseline: Baseline, made_from: Iterable[Path]) -> None:
    """Write the baseline. FileError, with the path, when that is impossible or would overwrite a file of `made_from`."""
    text = json.dumps(baseline.model_dump(mode="json"), indent=1)
    with writing(file, made_from) as stream:
        stream.write(text.encode() + b"\n")


def compared(report: CheckReport, file: Path, baseline: Baseline) -> CheckReport:
    """`report` where the findings in the baseline of `file` are known, and those that are no longer there have vanished.

    Of findings that are the same, as many are known as the baseline counts. Findings in an existing file that was not checked or
    has problems have not vanished.
    """
    left = _counts(baseline)
    judged = _judged_files(report, file)
    files = tuple(_known(checked, str(file.parent), left) for checked in report.files)
    vanished = {mark: count for mark, count in left.items() if count and judged(mark.file)}
    return report.model_copy(update={"files": files, "baseline": str(file), "vanished": _sorted(vanished)})


def _counts(baseline: Baseline) -> Counter[Fingerprint]:
    counts: Counter[Fingerprint] = Counter()
    for entry in baseline.findings:
        counts[Fingerprint(**entry.model_dump(exclude={"count"}))] += entry.count
    return counts


def _known(checked: FileReport, folder: str, left: Counter[Fingerprint]) -> FileReport:
    if not checked.findings:
        return checked
    name = named(checked.file, folder)
    findings = []
    for finding in checked.findings:
        mark = fingerprint(finding, name)
        if finding.status is FindingStatus.OPEN and left[mark] > 0:
            left[mark] -= 1
            findings.append(ReportedFinding.of_located(finding, FindingStatus.KNOWN))
        else:
            findings.append(finding)
    return checked.model_copy(update={"findings": tuple(findings)})


def renewed(report: CheckReport, file: Path, old: Baseline | None) -> Baseline:
    """The new baseline for `file`: all findings that are not ignored, and of the `old` one those in files that were not checked
    or have problems.
    """
    folder = str(file.parent)
    found: Counter[Fingerprint] = Counter()
    for checked in report.files:
        if checked.findings:
            name = named(checked.file, folder)
            found.update(
                fingerprint(finding, name) for finding in checked.findings if finding.status is not FindingStatus.IGNORED
            )
    if old is not None:
        judged = _judged_files(report, file)
        found |= Counter({entry: count for entry, count in _counts(old).items() if not judged(entry.file)})
    return Baseline(findings=_sorted(found))


def _judged_files(report: CheckReport, file: Path) -> Callable[[str], bool]:
    """Whether the report is complete for a file, by its name in the baseline of `file`: it was checked without problems, or no
    longer exists.
    """
    judged = {named(checked.file, str(file.parent)): not checked.problems for checked in report.files}
    return lambda name: judged[name] if name in judged else not os.path.lexists(beside(name, str(file)))


def fingerprint(finding: ReportedFinding, file: str) -> Fingerprint:
    """What identifies `finding`. file: its name in the baseline. Of a descriptor that is called after the line of a program that
    creates it, only the name of the source file counts: lines move, and folders differ between machines.
    """
    program = program_line(finding.subject)
    subject = PureWindowsPath(program[0]).name if program else finding.subject
    return Fingerprint(file=file, code=finding.code, subject=subject, path=finding.path, got=finding.got)


def _sorted(found: Mapping[Fingerprint, int]) -> tuple[CountedFingerprint, ...]:
    entries = (CountedFingerprint(**entry.model_dump(), count=count) for entry, count in found.items())
    return tuple(sorted(entries, key=lambda entry: tuple(entry.model_dump().values())))
