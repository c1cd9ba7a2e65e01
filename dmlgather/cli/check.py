"""The subcommand `check`: validate files."""

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


def providers() -> list[str]:
    """Return the providers, for completion."""
    from dmlgather.onnx_checking.checked_model import Provider

    return list(Provider)


def check(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE…",
            help="DxDispatch models, descriptors, streams of descriptors (.jsonl), ONNX models, folders to search, or - for "
            "standard input. In folders, hidden folders, virtual environments and files that git ignores are skipped.",
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
            help=f"Format of the report: {FORMATS}. Written to standard output, or to FILE; may be repeated. Default: text, or "
            "github in GitHub Actions.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Configuration file. Default: the nearest dmlgather.toml, or pyproject.toml with a table tool.dmlgather.",
        ),
    ] = None,
    no_config: Annotated[bool, typer.Option("--no-config", help="Ignore configuration files.")] = False,
    baseline: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Known findings: they are shown, but do not fail the check.")
    ] = None,
    write_baseline: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write all findings to FILE, for --baseline.")
    ] = None,
    error_on_warning: Annotated[
        bool | None,
        typer.Option("--error-on-warning/--no-error-on-warning", help="Warnings fail the check, too.", show_default=False),
    ] = None,
    include_host: Annotated[
        bool | None,
        typer.Option(
            "--include-host/--no-include-host",
            help="Also judge nodes of ONNX models whose results are only used for shapes, bounds and conditions.",
            show_default=False,
        ),
    ] = None,
    provider: Annotated[
        str | None,
        typer.Option(
            "--provider",
            metavar="NAME",
            autocompletion=providers,
            help="Also show what this provider does with the nodes of ONNX models: onnxruntime-directml, which needs level 5_0. "
            "For a node that it runs on the CPU, errors about DirectML are notes, which do not fail the check.",
            show_default=False,
        ),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Write only findings and problems: no summary, notes or lines about models.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="List all nodes of models, and all places of each finding.")
    ] = False,
    skip_others: Annotated[
        bool, typer.Option("--skip-others", help="Skip named JSON and XML files that are neither models nor descriptors.")
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Worker processes for thousands of files. Default: one per CPU, at most four."),
    ] = None,
    time_limit: TimeLimit = None,
    memory_limit: WorkMemory = None,
    allow_outside: AllowOutside = False,
) -> int:
    """Validate DxDispatch models and single descriptors (operators, bindings, initial values), and check whether DirectML can
    run the nodes of ONNX models (.onnx).

    In an ONNX model, each Gather, GatherElements, GatherND, Slice, DepthToSpace and SpaceToDepth is judged: which DirectML
    operators express it at the level, why none does, or what the model leaves open. Findings with the same cause are shown
    once. Nothing is run, and no weights are read.

    Nodes are counted by verdict; --verbose lists them. decided: taken without conditions. conditional: taken if sizes are as
    stated ("on data": some of these sizes are known only after a run). undecided: the model leaves too much open. refused: not
    taken; findings say why. host: computes only shapes, bounds and conditions, which the caller of DirectML computes on the
    CPU; --include-host judges these nodes, too. unreached: dead, no run of the model executes the node.

    A .jsonl or .ndjson file has one descriptor per line, as dmlgather_dump.h writes them (see header). Standard input is read
    in this way if one of its first lines is a descriptor; otherwise it is one model or descriptor.

    In folders, other JSON and XML files are skipped. If you name such a file, it is a problem, unless --skip-others is given.
    Findings go to standard output, problems and the summary to standard error. Options override the configuration file.

    Exit codes: 0 no errors, or only known ones; 1 findings of severity error (or warning, with --error-on-warning); 2 a file
    could not be read.
    """
    from dmlgather.directml.types import FeatureLevel
    from dmlgather.report.configuration import ConfigurationError, find, load
    from dmlgather.report.file_check import no_note, reduce_garbage_collection
    from dmlgather.report.settings import Settings
    from dmlgather.report.text import NodeListing, problem_lines, terminal_width

    if config is not None and no_config:
        raise typer.BadParameter("give one of --config and --no-config", param_hint="'--no-config'")
    if baseline is not None and write_baseline is not None:
        raise typer.BadParameter("give one of --baseline and --write-baseline", param_hint="'--write-baseline'")
    if quiet and verbose:
        raise typer.BadParameter("give one of --quiet and --verbose", param_hint="'--verbose'")
    outputs = _outputs(as_json, output, output_format or (), no_note if quiet else note)
    try:
        loaded = None if no_config else find(Path.cwd()) if config is None else load(config)
    except ConfigurationError as error:
        for problem in error.problems:
            say(problem)
        return 2
    try:
        feature_level = None if level is None else FeatureLevel.parse(level)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="'--level'") from None
    chosen_provider = None if provider is None else _provider(provider)
    settings = Settings(
        loaded,
        feature_level,
        outputs,
        baseline,
        write_baseline,
        error_on_warning,
        include_host,
        skip_others,
        jobs,
        allow_outside,
        no_note if quiet else note,
        stated(time_limit, memory_limit),
        chosen_provider,
    )
    if low := list(settings.low_levels()):
        return _refuse(low, loaded)
    try:
        destinations = settings.complete_outputs()
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="'--output-format'") from None
    reduce_garbage_collection()
    report = settings.check(files, destinations)
    listed = NodeListing.NONE if quiet else NodeListing.ALL if verbose else NodeListing.WRONG
    for destination in destinations:
        destination.write(report, listed, settings.made_from(report))
    sys.stdout.flush()
    brief = destinations[-1].format != "text"
    for line in problem_lines(report, terminal_width(sys.stderr), brief=brief):
        say(line)
    if not quiet:
        _summarise(report, baseline_written=write_baseline is not None)
    return report.exit_code


def _provider(name: str) -> Provider:
    from dmlgather.onnx_checking.checked_model import Provider
    from dmlgather.wording import alternatives

    if name not in list(Provider):
        raise typer.BadParameter(f"expected {alternatives(Provider)}, got {name!r}", param_hint="'--provider'")
    return Provider(name)


def _refuse(low: Sequence[tuple[tuple[str, ...], str]], loaded: LoadedConfiguration | None) -> int:
    """Report feature levels that are too low for onnxruntime's DirectML provider. Return the exit code."""
    from dmlgather.wording import dotted

    for keys, reason in low:
        if not keys or loaded is None:
            raise typer.BadParameter(reason, param_hint="'--level'")
        place = f"{loaded.file}:{loaded.line(*keys)}: {dotted(keys)}"
        say(f"{place}: {reason}; fix: state a newer level, or check without the provider")
    return 2


def _outputs(as_json: bool, output: Path | None, formats: Sequence[str], note: Note) -> list[Output]:
    from dmlgather.report.formats import Output

    outputs = [_output(value) for value in formats]
    for requested in outputs:
        if requested.format == "json":
            older, newer = ("json", "--json") if requested.file is None else ("json:FILE", "--output FILE")
            note(f"--output-format {older} is now spelled {newer}, as in all commands; both work")
    outputs += [Output("json")] if as_json else []
    return outputs if output is None else [*outputs, Output("json", output)]


def _output(value: str) -> Output:
    from dmlgather.report.formats import Output

    try:
        return Output.parse(value)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="'--output-format'") from None


def _summarise(report: CheckReport, *, baseline_written: bool) -> None:
    for entry in report.vanished:
        remedy = "removed from it" if baseline_written else "write the baseline anew"
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
        verdict_counts = ", ".join(
            verdicts.described(name) for name, number in verdicts.counts.items() if number or name != "unreached"
        )
        summaries = [file.provider for file in report.files if file.provider is not None]
        provided = f"; {summaries[0].provider}: {type(summaries[0]).total(summaries).text}" if summaries else ""
        parts.append(f"{counted(nodes, 'node')} ({verdict_counts}{provided})")
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
    unjudged = any(file.others for file in report.files)
    none = f", no findings{'; only gathers and slices are judged' if unjudged else ''}" if clean else ""
    return f"{', '.join(parts)}{none}{fail}"
