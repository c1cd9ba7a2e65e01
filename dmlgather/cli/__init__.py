"""The `dmlgather` command. One module per subcommand; nothing heavy is imported before a subcommand needs it."""

from __future__ import annotations

import sys
from typing import NoReturn


def main() -> NoReturn:
    """Entry point of the command: run the subcommand that the arguments name and exit with its code."""
    from dmlgather.cli.app import run

    sys.exit(run(sys.argv[1:]))
