"""Findings as test results in JUnit's format: a test case per file, and per node of a model."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from dmlgather.directml.located import FileProblem
from dmlgather.report import node_lines
from dmlgather.report.check_report import CheckReport, FileReport
from dmlgather.report.finding_status import ReportedFinding
from dmlgather.wording import counted, printable

if TYPE_CHECKING:
    from junitparser import TestCase
    from junitparser.junitparser import FinalResult


def lines(report: CheckReport) -> Iterator[str]:
    """A suite of test cases: findings that fail the check are failures, problems are errors, all other findings are output."""
    from junitparser import JUnitXml, TestSuite

    suite = TestSuite("dmlgather check")
    suite.add_testcases([case for file in report.files for case in _cases(file, report.fails)])
    document = JUnitXml("dmlgather")
    document.add_testsuite(suite)
    written = io.BytesIO()
    document.write(written, pretty=True)
    yield written.getvalue().decode("utf-8").rstrip()


def _cases(file: FileReport, fails: Callable[[ReportedFinding], bool]) -> Iterator[TestCase]:
    name = printable(file.file)
    others, of_nodes = node_lines.by_node(file)
    yield _case(name, "dmlgather.check", _split(others, fails), file.problems)
    for node in file.nodes:
        verdict = node_lines.line(node, file.level)
        yield _case(printable(node.place), name, _split(of_nodes[node.place], fails), (), verdict)


_Split = tuple[list[ReportedFinding], list[ReportedFinding]]
"""The findings that fail the check, and the others."""


def _split(findings: Iterable[ReportedFinding], fails: Callable[[ReportedFinding], bool]) -> _Split:
    found: _Split = ([], [])
    for finding in findings:
        found[not fails(finding)].append(finding)
    return found


def _case(name: str, group: str, findings: _Split, problems: Sequence[FileProblem], verdict: str = "") -> TestCase:
    from junitparser import Error, Failure, TestCase

    errors, others = findings
    output = [*filter(None, [verdict]), *(f"{finding}{finding.remark}" for finding in others)]
    results: list[FinalResult] = []
    if problems:
        results.append(_told(Error("not understood", "problem"), problems))
    if errors:
        codes = ", ".join(dict.fromkeys(finding.code for finding in errors))
        results.append(_told(Failure(f"{counted(len(errors), 'error')}: {codes}", "error"), errors))
    case = TestCase(name, group)
    case.result = results
    if output:
        case.system_out = _text(output)
    return case


def _told(result: FinalResult, found: Iterable[object]) -> FinalResult:
    result.text = _text(found)
    return result


def _text(found: Iterable[object]) -> str:
    return "\n".join(printable(str(line)) for line in found)
