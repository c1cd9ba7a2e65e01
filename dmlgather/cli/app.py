"""The command and its subcommands."""

from __future__ import annotations

import inspect
import io
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

import typer

from dmlgather import __version__
from dmlgather.cli import (
    INTERRUPTED,
    bench,
    check,
    compare,
    conformance,
    env,
    equivalent,
    explain,
    header,
    levels,
    rule,
    run_model,
    schema,
    selftest,
    translate,
)
from dmlgather.cli.failures import UsageError, guarded, say
from dmlgather.wording import printable

HELP = """Check, run, compare and explain DirectML's indexing operators: gather, gather-elements, gather-nd, slice, depth-to-space
and space-to-depth.

Files are DxDispatch models or single descriptors: JSON with comments and trailing commas. `check` and `explain` also take ONNX
models and OpenVINO IR files.

Exit codes: 0 clean; 1 findings of severity error, or a mismatch; 2 a usage, file or internal problem; 130 after Ctrl-C; 141 when
whoever read the output closed it, as `head` does."""

SUBCOMMANDS: dict[str, Callable[..., int]] = {
    "run": run_model.run,
    "check": check.check,
    "rule": rule.rule,
    "levels": levels.levels,
    "explain": explain.explain,
    "compare": compare.compare,
    "translate": translate.translate,
    "equivalent": equivalent.equivalent,
    "schema": schema.schema,
    "header": header.header,
    "env": env.env,
    "bench": bench.bench,
    "selftest": selftest.selftest,
}

GROUPS: dict[str, tuple[str, dict[str, Callable[..., int]]]] = {
    "conformance": (conformance.HELP, {"write": conformance.write, "read": conformance.read}),
}
"""Subcommands that have subcommands themselves: help, and the functions."""


def build() -> typer.Typer:
    """The Typer application."""
    app = _with_commands(HELP, SUBCOMMANDS)
    app.callback(help=HELP)(_options)
    for name, (text, functions) in GROUPS.items():
        app.add_typer(_with_commands(text, functions), name=name)
    return app


def _with_commands(text: str, functions: Mapping[str, Callable[..., int]]) -> typer.Typer:
    app = typer.Typer(
        help=text,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for name, function in functions.items():
        app.command(name, help=paragraphs(function))(guarded(function))
    return app


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dmlgather {__version__}")
        raise typer.Exit


def _options(
    _: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and end.")
    ] = False,
) -> None:
    """The options before a subcommand."""


def paragraphs(function: Callable[..., int]) -> str:
    """A subcommand's docstring as help, without line breaks inside paragraphs, since terminals differ in width."""
    return "\n\n".join(" ".join(part.split()) for part in (inspect.getdoc(function) or "").split("\n\n"))


def run(arguments: Sequence[str]) -> int:
    """Run the command with `arguments`; its exit code. Never raises."""
    if sys.stdout is None:
        say("dmlgather: standard output is closed")
        return 2
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # escape characters that the terminal cannot show
            stream.reconfigure(errors="backslashreplace")
    try:
        return guarded(_dispatched)(arguments)
    except KeyboardInterrupt:
        say("dmlgather: interrupted")
        return INTERRUPTED


def _got(cause: BaseException | None) -> str:
    """The value of an option that Pydantic refused; its messages do not show it."""
    from pydantic import ValidationError

    return f", got {cause.errors()[0]['input']!r}" if isinstance(cause, ValidationError) else ""


def _dispatched(arguments: Sequence[str]) -> int:
    try:
        code = build()(list(arguments), prog_name="dmlgather", standalone_mode=False)
    except UsageError as error:
        error.message = printable(error.message + _got(error.__cause__))
        error.show()
        return 2
    if code == INTERRUPTED:  # what Typer makes of an interrupt
        raise KeyboardInterrupt
    return code if isinstance(code, int) else 0
