"""The command, run as users run it (a process) and inside the test's process."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from dmlgather.cli.schema import Schema, schema_of
from tests import processes, seeds

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "directml"


@dataclass(frozen=True)
class Result:
    """How the command ended."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        """Standard error as one line, without the frame that Typer draws."""
        return " ".join(self.err.replace("│", " ").split())


def without_known_bugs(text: str) -> str:
    """Remove the line that says what was not tried because of a bug of onnxruntime before 1.32."""
    return re.sub(r"\n *indices beyond 2147483647 were not tried: onnxruntime .*", "", text)


def python(script: str, *arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run Python, which knows this checkout, in a process of its own. options: of `tests.processes.run`."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "GITHUB_ACTIONS": "", **options.pop("environment", {})}
    return processes.run([sys.executable, "-c", script, *map(str, arguments)], env=environment, timeout=120, **options)


def on_terminal(*arguments: object, cwd: Path, code: int, **environment: str) -> str:
    """What `dmlgather` shows on a terminal, where it ends with this exit code."""
    import pty

    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "dmlgather.cli", *map(str, arguments)]
    known = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "GITHUB_ACTIONS")}
    with subprocess.Popen(
        command, stdout=follower, stderr=subprocess.DEVNULL, cwd=cwd, env={**known, "PYTHONPATH": str(ROOT), **environment}
    ) as running:
        os.close(follower)
        shown = b""
        with suppress(OSError):  # on Linux, an error is the end
            while part := os.read(leader, 65536):
                shown += part
        os.close(leader)
        assert running.wait(60) == code
    return shown.decode().replace("\r\n", "\n")


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

    def refused(self, *arguments: object) -> str:
        """Run with these arguments, which are refused: what is said, on one line."""
        ended = self(*arguments)
        assert (ended.code, ended.out) == (2, ""), ended
        return ended.said

    def report(self, schema: Schema, *arguments: object, code: int = 0) -> Any:
        """Run with these arguments and --json: the report, which obeys the schema."""
        ended = self(*arguments, "--json")
        report = json.loads(ended.out, parse_constant=pytest.fail)  # no NaN, no Infinity
        jsonschema.validate(report, schema_of(schema), jsonschema.Draft202012Validator)
        assert ended.code == code, ended
        return report
