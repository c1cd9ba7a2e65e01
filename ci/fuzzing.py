"""Check mutated files as a user does, in processes, run and explain some of them, and keep those at which the command fails.

    python -m ci.fuzzing [SECONDS [SEED]]

A failure is: a traceback, an internal error, an exit code other than 0, 1 and 2, more than 5 seconds of a processor, more than
500 MB of memory, a terminal's control character in the output, or a report that is no JSON or XML.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

from ci.mutating import KINDS, mutated
from tests.seeds import run_seed

SECONDS = 5.0
"""Of a processor, that one file may take."""

MEMORY = 500_000_000
"""Bytes that one file may take."""

WAIT = 120
"""Seconds after which a process that waits is ended."""

BATCH = 50
"""Files that one process checks."""

FORMATS = ("text", "concise", "json", "sarif", "junit", "github")

PICKED = 3
"""Files of a batch that are also run and explained."""


def checking(target: Path, form: str) -> list[str]:
    """The arguments that check a file or a folder."""
    return ["check", "--no-config", "--skip-others", "--output-format", form, str(target)]


def using(target: Path, scratch: Path) -> list[list[str]]:
    """The arguments that explain a file, and run it if it is a model."""
    limited = ["--memory-limit", "200MB", "--output-dir", str(scratch / "made")]
    return [["explain", str(target)], *([["run", str(target), *limited]] if target.suffix == ".json" else [])]


def failure(arguments: list[str], scratch: Path, form: str = "text") -> str:
    """How the command fails; empty where it does not. form: of its output."""
    out, err = scratch / "out", scratch / "err"
    command = [sys.executable, "-m", "dmlgather.cli", *arguments]
    with out.open("wb") as to_out, err.open("wb") as to_err:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=to_out, stderr=to_err)
        code, seconds, memory = _waited(process.pid)
    told, said = (path.read_bytes().decode("utf-8", "replace") for path in (out, err))
    if code not in (0, 1, 2):
        return f"exit code {code}"
    if "Traceback" in said:
        return "traceback"
    if "internal error" in said:
        return said[said.index("internal error") :].splitlines()[0][:200]
    if seconds > SECONDS:
        return f"{seconds:.1f} seconds"
    if memory > MEMORY:
        return f"{memory // 10**6} MB"
    if steering := {character for character in told + said if not (character.isprintable() or character in "\n\t")}:
        return f"control characters {sorted(map(ascii, steering))}"
    return _unreadable(told, form)


def _waited(pid: int) -> tuple[int, float, int]:
    """Exit code, seconds of a processor and bytes of memory of a process and those that it waited for."""
    limit = time.monotonic() + WAIT
    while True:
        ended, status, usage = os.wait4(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024
        if time.monotonic() > limit:
            os.kill(pid, 9)
        time.sleep(0.02)


def _unreadable(report: str, form: str) -> str:
    """Why a report cannot be read; empty where it can, or is empty because there was nothing to check."""
    try:
        if report and form in ("json", "sarif"):
            json.loads(report)
        elif report and form == "junit":
            ElementTree.fromstring(report)
    except (ValueError, ElementTree.ParseError) as error:
        return f"no {form} report: {error}"
    return ""


def main(seconds: float, seed: int) -> int:
    """Fuzz for so many seconds; the exit code."""
    draw, start = random.Random(seed), time.monotonic()
    kept, checked, found = Path("fuzz-failures").absolute(), 0, Counter[str]()
    print(f"seed {seed}, {seconds:g} seconds", flush=True)
    with tempfile.TemporaryDirectory(prefix="dmlgather-fuzz-") as temporary:
        folder, scratch = Path(temporary, "files"), Path(temporary)
        while time.monotonic() - start < seconds:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            for number in range(BATCH):
                mutated(draw, draw.choice(KINDS), folder, f"{checked + number}")
            checked += BATCH
            form = draw.choice(FORMATS)
            files = sorted(path for path in folder.iterdir() if path.suffix[1:] in KINDS)
            tries = [(path, checking(path, form)) for path in files] if failure(checking(folder, form), scratch, form) else []
            tries += [(path, arguments) for path in draw.sample(files, PICKED) for arguments in using(path, scratch)]
            for path, arguments in tries:
                if how := failure(arguments, scratch, form if arguments[0] == "check" else "text"):
                    kept.mkdir(exist_ok=True)
                    for part in folder.glob(f"{path.stem}.*"):
                        shutil.copy(part, kept)
                    found[how.split(" ", 1)[-1] if how[0].isdigit() else how] += 1
                    print(f"{kept / path.name}: {how} ({' '.join(arguments[:-1])})", flush=True)
    took = time.monotonic() - start
    print(f"{checked} files in {took:.0f} seconds, {sum(found.values())} failures: {dict(found) or 'none'}; seed {seed}")
    return 1 if found else 0


if __name__ == "__main__":
    given = sys.argv[1:]
    sys.exit(main(float(given[0]) if given else 60.0, int(given[1]) if len(given) > 1 else run_seed().value))
