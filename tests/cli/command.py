"""The command, run as users run it (a process) and inside the test's process."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import seeds

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "directml"


@dataclass(frozen=True)
class Result:
    """How the command ended."""

    code: int
    out: str
    err: str


def process(*arguments: object, cwd: Path | None = None, **environment: str) -> Result:
    """Run `dmlgather` with these arguments in a process of its own."""
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-m", "dmlgather.cli", *map(str, arguments)],
        capture_output=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": paths, **environment},
        timeout=120,
        check=False,
    )
    return Result(ended.returncode, ended.stdout.decode(), ended.stderr.decode())


class Command:
    """Runs `dmlgather` inside this process, or the command of a folder of the checkout."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self.capture = capture

    def __call__(self, *arguments: object) -> Result:
        """Run with these arguments."""
        import benchmarks.command
        import conformance.command
        from dmlgather.cli import app

        others = {"benchmarks": benchmarks.command.run, "conformance": conformance.command.run}
        name = str(arguments[0]) if arguments else ""
        run, given = (others[name], arguments[1:]) if name in others else (app.run, arguments)
        self.capture.readouterr()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("secrets.randbits", seeds.seed)  # what the program chooses belongs to the test as well
            code = run([str(argument) for argument in given])
        captured = self.capture.readouterr()
        return Result(code, captured.out, captured.err)
