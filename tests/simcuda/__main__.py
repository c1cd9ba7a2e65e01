"""python -m tests.simcuda [SETTING=VALUE…] COMMAND…: runs a command with simulated GPUs; settings as of `environment`."""

from __future__ import annotations

import itertools
import os
import sys
from typing import Any

from tests.simcuda.library import environment


def main(arguments: list[str]) -> None:
    """The command. It takes this process's place."""
    settings: dict[str, Any] = dict(each.split("=", 1) for each in itertools.takewhile(lambda each: "=" in each, arguments))
    command = arguments[len(settings) :]
    os.execvpe(command[0], command, environment(**settings))


if __name__ == "__main__":
    main(sys.argv[1:])
