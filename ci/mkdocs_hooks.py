"""What the built site has beyond docs/: the reference of the command, from the command itself."""

from typing import Any

import typer
from typer.cli import get_docs_for_click

from dmlgather.cli.app import build

PLACE = "<!-- the subcommands, "
"""How the comment begins that the reference takes the place of."""


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the reference where a page has its place."""
    before, place, _rest = markdown.partition(PLACE)
    return before + command_reference() if place else markdown


def command_reference() -> str:
    """Every subcommand with its arguments and options."""
    command = typer.main.get_command(build())
    text = get_docs_for_click(obj=command, ctx=typer.Context(command, info_name="dmlgather"), name="dmlgather")
    return text.partition("\n")[2]  # the page has a heading of its own
