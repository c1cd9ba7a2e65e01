"""`dmlgather check`: validate files."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dmlgather.cli import common
from dmlgather.cli.common import AllowOutside, AsJson, JsonFile, note
from dmlgather.cli.failures import say
from dmlgather.cli.limiting import TimeLimit, WorkMemory, stated

if TYPE_CHECKING:
    from dmlgather.onnx_checking.checked_model import Provider
    from dmlgather.report.check_report import CheckReport
    from dmlgather.report.configuration import LoadedConfiguration
    from dmlgather.report.file_check import Note
    from dmlgather.report.formats import Output

FORMATS = "text, concise, json, sarif, junit, github"
"""The names of the report formats."""


def providers() -> list[str]:
    """The providers, for shells that complete their names."""
    from dmlgather.onnx_checking.checked_model import Provider

    return list(Provider)


def check(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE…",
            help="Models, descriptors, streams of descriptors (.jsonl), ONNX models, folders that are searched for them, or - "
            "for standard input. Hidden folders, environments of Python, and what git ignores are left out.",
            show_default=False,
        ),
    ],
    *,
    level: Annotated[
        str | None,
        typer.Option(
            "--level",
            metavar="LEVEL",
            help="Feature level to check for: 1_0 … 6_4 (the default), or 'DirectML 1.8'.",
            autocompletion=common.feature_levels,
        ),
    ] = None,
    as_json: AsJson = False,
    output: JsonFile = None,
    output_format: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FORMAT[:FILE]",
            autocompletion=common.formats,
            help=f"How findings are written to standard output, or to FILE; may be repeated: {FORMATS}. Default: text, and "
            "github in a workflow of GitHub Actions.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The configuration, instead of the nearest dmlgather.toml, or pyproject.toml with a table tool.dmlgather.",
        ),
    ] = None,
    no_config: Annotated[bool, typer.Option("--no-config", help="Use no configuration.")] = False,
    baseline: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Known findings: they are shown and do not fail the check.")
    ] = None,
    write_baseline: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write all findings to FILE; they are known from now on.")
    ] = None,
    error_on_warning: Annotated[
        bool | None,
        typer.Option(
            "--error-on-warning/--no-error-on-warning", help="Warnings fail the check as errors do.", show_default=False
        ),
    ] = None,
    include_host: Annotated[
        bool | None,
        typer.Option(
            "--include-host/--no-include-host",
            help="Judge also nodes of models whose results reach only shapes, bounds and conditions.",
            show_default=False,
        ),
    ] = None,
    provider: Annotated[
        str | None,
        typer.Option(
            "--provider",
            metavar="NAME",
            autocompletion=providers,
            help="Also say what this provider does with the nodes of models: onnxruntime-directml, which needs level 5_0.",
            show_default=False,
        ),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Write findings and problems alone: no summary, notes or lines about models.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="List all nodes of models, and all places of a finding that has several.")
    ] = False,
    skip_others: Annotated[
        bool, typer.Option("--skip-others", help="Skip JSON and XML files of another sort also when they are named.")
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Processes that check thousands of files. Default: one per CPU, four at most."),
    ] = None,
    time_limit: TimeLimit = None,
    memory_limit: WorkMemory = None,
    allow_outside: AllowOutside = False,
) -> int:
    """Validate DxDispatch models and single descriptors (operators, bindings, initial values), and check ONNX models (.onnx)
    for what DirectML can do.

    Of an ONNX model, each Gather, GatherElements, GatherND, Slice, DepthToSpace and SpaceToDepth is judged: which DirectML
    operators do it at the level, or why none does, or what the model does not specify. Findings with the same cause are shown
    once. Nothing is run, and no weights are read.

    Nodes are counted by verdict, and --verbose lists them. decided: taken without conditions. conditional: taken, provided that
    sizes are as stated; on data: only a run shows some of these. undecided: the model does not specify enough. refused: not
    taken; findings say why. host: only computes shapes, bounds and conditions, which DirectML's caller does on the CPU;
    --include-host judges it too. unreached: no run of the model reaches it.

    A file .jsonl or .ndjson has a descriptor on each line, as dmlgather_dump.h writes them (see header). So has standard input
    if one of its first lines is a descriptor; otherwise it is one model or descriptor.

    A JSON or XML file of another sort is skipped in a folder, and a problem when named, unless --skip-others is given. Findings
    go to standard output, problems and the summary to standard error. Options override the project's configuration.

    Exit codes: 0 no errors that count, 1 findings of severity error (or warning, with --error-on-warning), 2 a file could not be
    understood.
    """
    from dmlgather.directml.types import FeatureLevel
    from dmlgather.report.configuration import ConfigurationError, find, load
    from dmlgather.report.file_check import ignored, prepare_to_end
    from dmlgather.report.settings import Settings
    from dmlgather.report.text import NodeListing, problem_lines, terminal_width

    if config is not None and no_config:
        raise typer.BadParameter("give one of --config and --no-config", param_hint="'--no-config'")
    if baseline is not None and write_baseline is not None:
        raise typer.BadParameter("give one of --baseline and --write-baseline", param_hint="'--write-baseline'")
    if quiet and verbose:
        raise typer.BadParameter("give one of --quiet and --verbose", param_hint="'--verbose'")
    outputs = _outputs(as_json, output, output_format or (), ignored if quiet else note)
    try:
        loaded = None if no_config else find(Path.cwd()) if config is None else load(config)
    except ConfigurationError as error:
        for told in error.problems:
            say(told)
        return 2
    try:
        wanted = None if level is None else FeatureLevel.parse(level)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="'--level'") from None
    asked = None if provider is None else _provider(provider)
    settings = Settings(
        loaded,
        wanted,
        outputs,
        baseline,
        write_baseline,
        error_on_warning,
        include_host,
        skip_others,
        jobs,
        allow_outside,
        ignored if quiet else note,
        stated(time_limit, memory_limit),
        asked,
    )
    if low := list(settings.low_levels()):
        return _refuse(low, loaded)
    try:
        destinations = settings.complete_outputs()
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="'--output-format'") from None
    prepare_to_end()
    report = settings.check(files, destinations)
    listed = NodeListing.NONE if quiet else NodeListing.ALL if verbose else NodeListing.WRONG
    for destination in destinations:
        destination.write(report, listed, settings.made_from(report))
    sys.stdout.flush()
    brief = destinations[-1].format != "text"
    for line in problem_lines(report, terminal_width(sys.stderr), brief=brief):
        say(line)
    if not quiet:
        _say_about(report, written=write_baseline is not None)
    return report.exit_code


def _provider(name: str) -> Provider:
    from dmlgather.onnx_checking.checked_model import Provider
    from dmlgather.wording import alternatives

    if name not in list(Provider):
        raise typer.BadParameter(f"expected {alternatives(Provider)}, got {name!r}", param_hint="'--provider'")
    return Provider(name)


def _refuse(low: Sequence[tuple[tuple[str, ...], str]], loaded: LoadedConfiguration | None) -> int:
    """Say which levels are too low for the provider. low: as `Settings.low_levels` gives them. Exit code 2."""
    from dmlgather.wording import dotted

    for keys, told in low:
        if not keys or loaded is None:
            raise typer.BadParameter(told, param_hint="'--level'")
        say(
            f"{loaded.file}:{loaded.line(*keys)}: {dotted(keys)}: {told}; fix: state a newer level, or check without the provider"
        )
    return 2


def _outputs(as_json: bool, output: Path | None, formats: Sequence[str], note: Note) -> list[Output]:
    """The outputs that the options name."""
    from dmlgather.report.formats import Output

    outputs = [_output(value) for value in formats]
    for each in outputs:
        if each.format == "json":
            older, newer = ("json", "--json") if each.file is None else ("json:FILE", "--output FILE")
            note(f"--output-format {older} is now spelled {newer}, as in all commands; both work")
    outputs += [Output("json")] if as_json else []
    return outputs if output is None else [*outputs, Output("json", output)]


def _output(value: str) -> Output:
    from dmlgather.report.formats import Output

    try:
        return Output.parse(value)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="'--output-format'") from None


def _say_about(report: CheckReport, written: bool) -> None:
    """Write notes and the summary to standard error."""
    for entry in report.vanished:
        remedy = "removed from it" if written else "write the baseline anew"
        say(f"{report.baseline}: note: no longer found: {entry}; {remedy}")
    for unused in report.unused_ignores:
        say(unused)
    say(_summary(report))


def _summary(report: CheckReport) -> str:
    from dmlgather.directml.findings import Severity
    from dmlgather.report.finding_status import FindingStatus
    from dmlgather.wording import counted

    summary, verdicts = report.summary, report.verdicts
    parts = [f"{counted(summary.files, 'file')} checked"]
    if descriptors := sum(file.descriptors for file in report.files):
        parts.append(counted(descriptors, "descriptor"))
    if nodes := sum(verdicts.counts.values()):
        found = ", ".join(verdicts.told(name) for name, number in verdicts.counts.items() if number or name != "unreached")
        summaries = [file.provider for file in report.files if file.provider is not None]
        provided = f"; {summaries[0].provider}: {type(summaries[0]).total(summaries).text}" if summaries else ""
        parts.append(f"{counted(nodes, 'node')} ({found}{provided})")
    open_causes = [cause for file in report.files for cause in file.causes if cause.standing is FindingStatus.OPEN]
    severities = {Severity.ERROR: summary.errors, Severity.WARNING: summary.warnings, Severity.NOTE: summary.notes}
    if summary.problems:
        parts.append(counted(summary.problems, "problem"))
    for severity, number in severities.items():
        causes = sum(cause.severity is severity for cause in open_causes)
        if number:
            parts.append(counted(number, str(severity)) + (f" of {counted(causes, 'cause')}" if causes < number else ""))
    others = (("known", summary.known), ("ignored", summary.ignored), ("no longer found", summary.vanished))
    parts += [f"{number} {name}" for name, number in others if number]
    if summary.skipped:
        parts.append(f"{counted(summary.skipped, 'file')} of another sort skipped")
    clean = not any((summary.problems, *severities.values(), *(number for _, number in others), summary.skipped))
    fail = "; warnings fail the check" if report.error_on_warning and summary.warnings else ""
    return f"{', '.join(parts)}{', no findings' if clean else ''}{fail}"
