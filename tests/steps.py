"""Runs commands, one per line of standard input, until one fails. Ends with a table of seconds, tests, and commands left out.

A command that cannot run here ends with status 3, and its last line says NOT RUN. It counts as left out.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field

CLOSING = re.compile(r"(?:^|, |=+ )(\d+) (passed|failed|error|errors|skipped)(?=,| in )")
"""Matches a count in the last line of pytest."""
SKIPPED = re.compile(r"SKIPPED \[(\d+)\] \S+?(?::\d+)?: (.+)")
NOT_RUN = 3
"""Exit status of a command that cannot run here, if its last line says so. (pytest's internal errors have status 3, too.)"""


@dataclass(slots=True)
class Step:
    """A command and its result."""

    command: str
    seconds: float = 0
    status: int = 0
    not_run: bool = False
    tests: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)

    def run(self) -> None:
        """Run the command with bash, show its output, and count its tests."""
        print(f"\n=== {self.command}", flush=True)
        start, last = time.monotonic(), ""
        command = ["bash", "-euo", "pipefail", "-c", self.command]
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                print(line, end="", flush=True)
                self.read(line)
                last = line.strip() or last
        self.status, self.seconds = process.returncode, time.monotonic() - start
        self.not_run = self.status == NOT_RUN and "NOT RUN" in last
        if self.not_run:
            self.left_out[last] += 1

    @property
    def failed(self) -> bool:
        return self.status != 0 and not self.not_run

    def read(self, line: str) -> None:
        """Count the tests in a line of the output."""
        if re.search(r" in [\d.]+s", line):
            for number, outcome in CLOSING.findall(line):
                self.tests[outcome.removesuffix("s") if outcome == "errors" else outcome] += int(number)
        if match := SKIPPED.match(line):
            self.left_out[match[2]] += int(match[1])

    def row(self) -> str:
        outcome = f"FAILED with {self.status}" if self.failed else "not run" if self.not_run else ""
        return f"{self.seconds:8.0f} {self.tests['passed']:8} {self.tests['skipped']:8}  {self.command}  {outcome}".rstrip()


def main() -> int:
    steps: list[Step] = []
    try:
        for line in sys.stdin.read().splitlines():
            if line.strip() and not line.startswith("#"):
                steps.append(Step(line.strip()))
                steps[-1].run()
                if steps[-1].failed:
                    break
    finally:
        report(steps)
    return next((step.status for step in steps if step.failed), 0)


def report(steps: list[Step]) -> None:
    print(f"\n{'seconds':>8} {'passed':>8} {'skipped':>8}  step")
    for step in steps:
        print(step.row())
    print(f"{sum(step.seconds for step in steps):8.0f} {sum(step.tests['passed'] for step in steps):8}\n")
    for step in steps:
        for reason, number in step.left_out.items():
            print(f"Left out of {step.command}: {reason} ({number})")
    failed = sum(step.tests["failed"] + step.tests["error"] for step in steps)
    print(f"{sum(step.tests['passed'] for step in steps)} passed, {failed} failed", flush=True)


if __name__ == "__main__":
    sys.exit(main())
