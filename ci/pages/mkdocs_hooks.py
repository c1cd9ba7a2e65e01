"""Hook of mkdocs that generates the reference of the command from its help."""

from typing import Any

import typer
from typer.cli import get_docs_for_click

from dmlgather.cli.app import build

PLACE = "<!-- the subcommands: "
"""Start of the comment in docs/cli.md that is replaced by the reference."""


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the comment `PLACE` in a page by the reference."""
    before, place, _rest = markdown.partition(PLACE)
    return before + command_reference() if place else markdown


def command_reference() -> str:
    """Return Markdown for every subcommand with its arguments and options."""
    command = typer.main.get_command(build())
    text = get_docs_for_click(obj=command, ctx=typer.Context(command, info_name="dmlgather"), name="dmlgather")
    return text.partition("\n")[2]  # without its heading
