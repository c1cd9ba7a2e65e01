"""python -m tests.simcuda [SETTING=NUMBER…] COMMAND…: runs a command with simulated GPUs. Settings: those of `environment`."""

from __future__ import annotations

import itertools
import os
import shutil
import sys
from typing import Any

from tests.simcuda import library


def main(arguments: list[str]) -> None:
    """Run the command in this process's place."""
    settings: dict[str, Any] = dict(each.split("=", 1) for each in itertools.takewhile(lambda each: "=" in each, arguments))
    command = arguments[len(settings) :]
    for name, value in settings.items():
        if name not in library.SETTINGS or not value.isdecimal():
            raise SystemExit(f"{name}={value}: expected a number for one of {', '.join(library.SETTINGS)}")
    if not command or shutil.which(command[0]) is None:
        raise SystemExit(f"expected a command, got {' '.join(command) or 'none'}")
    os.execvpe(command[0], command, library.environment(**settings))


if __name__ == "__main__":
    main(sys.argv[1:])
