"""The `dmlgather` command. One module per subcommand; nothing heavy is imported before a subcommand needs it."""

from __future__ import annotations

import sys
from typing import NoReturn


def main() -> NoReturn:
    """Entry point of the command: run the subcommand that the arguments name and exit with its code."""
    try:
        from dmlgather.cli.app import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # while the command was still being imported: whatever comes later is handled by `run`
        sys.stderr.write("dmlgather: interrupted\n")
        code = 130
    sys.exit(code)
