"""The command line: the subcommands, and the Typer application that runs them."""

from __future__ import annotations

import inspect
import io
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from dmlgather.cli import INTERRUPTED
from dmlgather.cli.failures import UsageError, guarded, say
from dmlgather.package import __version__
from dmlgather.wording import alternatives, printable

HELP = """Check, run, compare and explain DirectML's indexing operators: gather, gather-elements, gather-nd, slice, depth-to-space
and space-to-depth.

Files are DxDispatch models or single descriptors: JSON with comments and trailing commas. `check` and
`explain` also take ONNX models.

Exit codes: 0 success; 1 findings of severity error, or a mismatch; 2 wrong usage, an unreadable file or an
internal error; 130 after Ctrl-C; 141 when the reader of the output closed it early, as `head` does."""

SUBCOMMANDS: Mapping[str, str] = {
    "run": "MODEL.json: run a DxDispatch model on the CPU or a GPU",
    "check": "FILE…: find errors in models and descriptors",
    "rule": "CODE: explain the code of a finding, with examples",
    "levels": "[OPERATOR]: data types and dimension counts by feature level",
    "explain": "FILE: plan, kernel and bytes moved of each operator",
    "compare": "FILE: run on several devices and compare bit for bit",
    "translate": "FILE: convert descriptors or a model to an ONNX model",
    "schema": "NAME: the JSON Schema of a file format",
    "header": "a C++ header that dumps a program's descriptors for check",
    "env": "versions, CPU engine, GPU, driver, and missing packages",
    "selftest": "compare all kernels with the reference on random plans",
}
"""Each with its line in the help text. The function has the same name."""

MODULES = {"run": "run_model"}
"""The module of each subcommand that has another name."""


def build(*, lazy: bool = False) -> typer.Typer:
    """Return the application with all subcommands. `lazy`: import the subcommands' modules only when they are needed."""
    functions = {name: (_placeholder if lazy else _function(name), line) for name, line in SUBCOMMANDS.items()}
    app = with_commands(HELP, functions, add_completion=True, group=_LazyGroup if lazy else None)
    app.callback(help=HELP)(_options)
    return app


class _LazyGroup(TyperGroup):
    """A group that imports the module of a subcommand when it is looked up."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, _, rest = super().resolve_command(ctx, args)
        if name is None:  # during completion of an unfinished line
            return name, None, rest
        command = typer.main.get_command(with_commands("", {name: (_function(name), SUBCOMMANDS[name])}))
        return name, command, rest


def _placeholder() -> int:
    raise NotImplementedError


def _function(name: str) -> Callable[..., int]:
    function: Callable[..., int] = getattr(import_module(f"dmlgather.cli.{MODULES.get(name, name)}"), name)
    return function


def with_commands(
    text: str,
    functions: Mapping[str, tuple[Callable[..., int], str]],
    *,
    add_completion: bool = False,
    group: type[TyperGroup] | None = None,
) -> typer.Typer:
    """Return an application with these functions as commands.

    `functions`: for each command name, the function and its line in the help text.
    """
    app = typer.Typer(
        cls=group,
        help=text,
        no_args_is_help=True,
        add_completion=add_completion,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # rich's tables truncate option names at 80 columns
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for name, (function, line) in functions.items():
        app.command(name, help=paragraphs(function), short_help=line)(guarded(function))
    return app


def _show_version(requested: bool) -> None:
    if requested:
        typer.echo(f"dmlgather {__version__}")
        raise typer.Exit


def _options(
    _: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and end.")
    ] = False,
) -> None:
    pass


def paragraphs(function: Callable[..., int]) -> str:
    """Return a docstring with each paragraph on one line, because Typer wraps lines to the terminal."""
    return "\n\n".join(" ".join(part.split()) for part in (inspect.getdoc(function) or "").split("\n\n"))


def run(arguments: Sequence[str], application: Callable[[], typer.Typer] | None = None, name: str = "dmlgather") -> int:
    """Run a command line, and return the exit code. This never raises.

    `application`: a function that returns the Typer application. Default: dmlgather's own application.
    """
    if sys.stdout is None:
        say("dmlgather: standard output is closed")
        return 2
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # escapes characters that the encoding lacks
            stream.reconfigure(errors="backslashreplace")
    try:
        return guarded(_dispatch)(arguments, application, name)
    except KeyboardInterrupt:
        say("dmlgather: interrupted")
        return INTERRUPTED


def _message(error: UsageError) -> str:
    """Return the text of a usage error. Pydantic's own texts do not show the wrong value."""
    cause = error.__cause__
    if cause is None:
        return str(error.message)
    from pydantic import ValidationError

    from dmlgather.record import expected

    if not isinstance(cause, ValidationError):
        return str(error.message)
    item = cause.errors()[0]
    text = expected(item)
    if text is None and isinstance(choices := item.get("ctx", {}).get("error"), ValueError):
        _, _, names = str(choices).partition(" is not one of ")
        text = f"expected one of {names.rstrip('.')}" if names else str(choices)
    return f"{text or error.message}, got {item['input']!r}"


def _holders(error: UsageError) -> str:
    """Return the subcommands that have an unknown option, as the end of a message."""
    option = getattr(error, "option_name", None)
    if option is None:
        return ""
    holders = [name for name in SUBCOMMANDS if option in _options_of(name)]
    if holders:
        error.possibilities = None  # do not suggest similar options of this subcommand
    return f"; it is an option of {alternatives(holders)}" if holders else ""


def _options_of(name: str) -> list[str]:
    command = typer.main.get_command(with_commands("", {name: (_function(name), "")}))
    return [option for parameter in command.params for option in parameter.opts]


def _dispatch(arguments: Sequence[str], application: Callable[[], typer.Typer] | None, name: str) -> int:
    try:
        app = build(lazy=True) if application is None else application()
        code = app(list(arguments), prog_name=name, standalone_mode=False)
    except UsageError as error:
        error.message = printable(_message(error) + (_holders(error) if application is None else ""))
        error.show()
        return 2
    except SystemExit as ended:  # raised by Typer after a completion
        if ended.code:
            raise
        return 0
    if code == INTERRUPTED:  # Typer returns this code for a KeyboardInterrupt
        raise KeyboardInterrupt
    return code if isinstance(code, int) else 0
