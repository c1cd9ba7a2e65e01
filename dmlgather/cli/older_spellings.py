"""Older spellings of options, which keep working: `--json FILE`, where --json takes no value now."""

from __future__ import annotations

from collections.abc import Sequence

from dmlgather.cli.common import note

VALUED = ("selftest",)
"""The subcommands whose --json named a file. They take no arguments, so that a value behind it cannot be one."""


def spelled_anew(arguments: Sequence[str]) -> list[str]:
    """The command's arguments, in the spelling of today."""
    return with_output(arguments) if arguments and arguments[0] in VALUED else list(arguments)


def with_output(arguments: Sequence[str]) -> list[str]:
    """The arguments with `--json FILE` as `--output FILE`, and `--json -` (standard output) as `--json`. A note on standard error
    says so.
    """
    made: list[str] = []
    left = list(arguments)
    while left:
        option, equals, value = left.pop(0).partition("=")
        if option != "--json":
            made.append(f"{option}{equals}{value}")
            continue
        if not equals and left and (left[0] == "-" or not left[0].startswith("-")):
            equals, value = "=", left.pop(0)
        if equals:
            note("--json FILE is now spelled --output FILE, as in all commands, and --json prints; both work")
        made += ["--output", value] if equals and value != "-" else ["--json"]
    return made
