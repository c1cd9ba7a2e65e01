"""README and docs run as tests: Python blocks with their doctest output, console blocks with their printed output."""

from __future__ import annotations

import doctest
import os
import subprocess
import sys
from pathlib import Path

from sybil import Example, Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser

ROOT = Path(__file__).parent
os.environ.setdefault("JAX_PLATFORMS", "cpu")  # before anything imports JAX, which else looks for other devices and says so


def run_console(example: Example) -> str | None:
    """Run each `$ command` of a console block with bash and compare what it prints with the lines below it.

    A last line `(exit code N)` states an exit code other than 0. Standard error counts as output.
    """
    expected = str(example.parsed).strip().splitlines()
    printed: list[str] = []
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "120"}
    for command in (line.removeprefix("$ ") for line in expected if line.startswith("$ ")):
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=ROOT,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=120,
            check=False,
        )
        printed += [f"$ {command}", *(line.rstrip() for line in done.stdout.strip().splitlines())]
        if done.returncode:
            printed.append(f"(exit code {done.returncode})")
    if printed != expected:
        return "expected:\n" + "\n".join(expected) + "\n\nprinted:\n" + "\n".join(printed)
    return None


pytest_collect_file = Sybil(
    parsers=[
        PythonCodeBlockParser(doctest_optionflags=doctest.ELLIPSIS),
        CodeBlockParser("console", run_console),
    ],
    patterns=["README.md", "docs/*.md"],
).pytest()
