"""The command and its subcommands."""

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
from dmlgather.wording import printable

HELP = """Check, run, compare and explain DirectML's indexing operators: gather, gather-elements, gather-nd, slice, depth-to-space
and space-to-depth.

Files are DxDispatch models or single descriptors: JSON with comments and trailing commas. `check` and
`explain` also take ONNX models.

Exit codes: 0 clean; 1 findings of severity error, or a mismatch; 2 a usage, file or internal problem; 130
after Ctrl-C; 141 when whoever read the output closed it, as `head` does."""

SUBCOMMANDS: Mapping[str, str] = {
    "run": "MODEL.json: run a DxDispatch model on the CPU or a GPU",
    "check": "FILE…: say what is wrong in models and descriptors",
    "rule": "CODE: explain the code of a finding, with examples",
    "levels": "[OPERATOR]: data types and dimension counts of feature levels",
    "explain": "FILE: plan, kernel and bytes moved of each operator",
    "compare": "FILE: run it on several devices and compare bit for bit",
    "translate": "FILE: state descriptors or a model as an ONNX model",
    "schema": "NAME: the JSON Schema of a file format",
    "header": "the C++ header that writes a program's descriptors for check",
    "env": "versions, CPU engine, GPU and driver, and what is missing",
    "selftest": "compare every kernel with the reference on random plans",
}
"""Each subcommand, and its line in the list of all. The function of that name is in the module of that name."""

MODULES = {"run": "run_model"}
"""The modules of other names."""


def build(*, on_use: bool = False) -> typer.Typer:
    """The Typer application with all subcommands. on_use: whether each is imported only when it is run, completed or asked for
    its help; the list of all needs none.
    """
    functions = {name: (_not_imported if on_use else _function(name), line) for name, line in SUBCOMMANDS.items()}
    app = with_commands(HELP, functions, add_completion=True, group=_OnUse if on_use else None)
    app.callback(help=HELP)(_options)
    return app


class _OnUse(TyperGroup):
    """Subcommands of which each takes its place when its name is read."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, _, rest = super().resolve_command(ctx, args)
        if name is None:  # while an unfinished line is completed
            return name, None, rest
        found = typer.main.get_command(with_commands("", {name: (_function(name), SUBCOMMANDS[name])}))
        return name, found, rest


def _not_imported() -> int:
    """What stands for each subcommand until then."""
    raise NotImplementedError


def _function(name: str) -> Callable[..., int]:
    found: Callable[..., int] = getattr(import_module(f"dmlgather.cli.{MODULES.get(name, name)}"), name)
    return found


def with_commands(
    text: str,
    functions: Mapping[str, tuple[Callable[..., int], str]],
    *,
    add_completion: bool = False,
    group: type[TyperGroup] | None = None,
) -> typer.Typer:
    """A Typer application of these functions; one function alone is the application itself. group: of several, where it is not
    Typer's own.
    """
    app = typer.Typer(
        cls=group,
        help=text,
        no_args_is_help=True,
        add_completion=add_completion,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # whose tables cut option names at 80 columns
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for name, (function, line) in functions.items():
        app.command(name, help=paragraphs(function), short_help=line)(guarded(function))
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


def run(arguments: Sequence[str], application: Callable[[], typer.Typer] | None = None, name: str = "dmlgather") -> int:
    """Run the command, or another application of that name, with `arguments`; its exit code. Never raises."""
    if sys.stdout is None:
        say("dmlgather: standard output is closed")
        return 2
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # escape characters that the terminal cannot show
            stream.reconfigure(errors="backslashreplace")
    try:
        return guarded(_dispatched)(arguments, application, name)
    except KeyboardInterrupt:
        say("dmlgather: interrupted")
        return INTERRUPTED


def _plainly(error: UsageError) -> str:
    """What is wrong with an argument. Pydantic's sentences about a value, which do not show it, are replaced."""
    cause = error.__cause__
    if cause is None:
        return str(error.message)
    from pydantic import ValidationError

    from dmlgather.record import expected

    if not isinstance(cause, ValidationError):
        return str(error.message)
    item = cause.errors()[0]
    said = expected(item)
    if said is None and isinstance(choices := item.get("ctx", {}).get("error"), ValueError):
        _, _, known = str(choices).partition(" is not one of ")
        said = f"expected one of {known.rstrip('.')}" if known else str(choices)
    return f"{said or error.message}, got {item['input']!r}"


def _dispatched(arguments: Sequence[str], application: Callable[[], typer.Typer] | None, name: str) -> int:
    try:
        app = build(on_use=True) if application is None else application()
        code = app(list(arguments), prog_name=name, standalone_mode=False)
    except UsageError as error:
        error.message = printable(_plainly(error))
        error.show()
        return 2
    except SystemExit as ended:  # how Typer ends where it completes words
        if ended.code:
            raise
        return 0
    if code == INTERRUPTED:  # what Typer makes of an interrupt
        raise KeyboardInterrupt
    return code if isinstance(code, int) else 0
