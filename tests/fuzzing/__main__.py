"""Check mutated files as a user does, in processes; run, explain, translate some of them, and compare them with ONNX models;
read mutated folders of conformance cases; and keep those at which the command fails.

    python -m tests.fuzzing [SECONDS [SEED]]

A failure is: a traceback, an internal error, an exit code other than 0, 1 and 2, more than 5 seconds of CPU time, more than
500 MB of memory, a terminal's control character in the output, a report that is no JSON or XML, or an input that has changed.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from hashlib import sha256
from pathlib import Path
from typing import IO
from xml.etree import ElementTree

from tests.fuzzing.mutating import KINDS, ROOT, flipped, mutated
from tests.fuzzing.mutating_cases import mutated_cases, whole_cases
from tests.seeds import run_seed

SECONDS = 5.0
"""CPU time that a file may take, in addition to loading libraries."""

MEMORY = 500_000_000
"""Memory in bytes that a file may take."""

PYTHON = sys.executable

RUNNING = (25.0, 1_750_000_000)
"""Additional seconds and bytes of a command that may run a model, by its limits."""

WAIT = 120
"""Seconds after which a waiting process is ended."""

BATCH = 50
"""Number of files that one process checks."""

FORMATS = ("text", "concise", "json", "sarif", "junit", "github")

PICKED = 3
"""Number of files per batch that are also run, explained, translated and compared with another."""

RUNS = ("translate", "compare")
"""Commands that load libraries to run models."""


def checking(target: Path, form: str) -> list[str]:
    """Return the arguments that check a file or a folder."""
    return ["check", "--no-config", "--skip-others", "--output-format", form, str(target)]


def using(target: Path, scratch: Path) -> list[list[str]]:
    """Return the arguments that explain a file, and run it if it is a model."""
    limited = ["--memory-limit", "200MB", "--output-dir", str(scratch / "made")]
    return [["explain", str(target)], *([["run", str(target), *limited]] if target.suffix == ".json" else [])]


def translating(draw: random.Random, target: Path, others: list[Path]) -> list[list[str]]:
    """Return the arguments that translate a file, possibly onto itself, and compare it with a model."""
    place = target.with_name(f"{draw.choice((target.stem, 'new'))}.onnx")
    models = [path for path in [target, *others] if path.suffix == ".onnx"]
    form = draw.choice(([], ["--json"]))
    return [
        ["translate", str(target), *(["-o", str(place)] if draw.random() < 0.8 else []), *form],
        *(["compare", str(target), "--against", str(model), *form] for model in draw.sample(models, min(len(models), 1))),
    ]


def digests(folder: Path) -> dict[str, str]:
    """Return the digest of every file below a folder, by name."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): sha256(path.read_bytes()).hexdigest() for path in files}


def harm(folder: Path, before: dict[str, str]) -> str:
    """Return the changed file of a folder, or an empty text. Remove new files next to them."""
    after = digests(folder)
    for name in sorted(after.keys() - before.keys()):
        (folder / name).unlink()
    return next((f"changed {Path(name).suffix or name}" for name, content in before.items() if after.get(name) != content), "")


def translation_cost(scratch: Path) -> tuple[float, bytes]:
    """Return the CPU seconds of translating a small model, mostly for loading libraries, and its ONNX file."""
    small, path = ROOT / "examples/directml/gather_2.json", scratch / "small.onnx"
    with (scratch / "out").open("wb") as out:
        command = [sys.executable, "-m", "dmlgather.cli", "translate", str(small), "-o", str(path)]
        code, seconds, _ = _measured(command, scratch / "used", out, out)
    assert code == 0
    return seconds, path.read_bytes()


def failure(arguments: list[str], scratch: Path, form: str = "text", loaded: float = 0.0) -> str:
    """Return the failure of the command, or an empty text. form: of its output. loaded: seconds for loading libraries."""
    out, err = scratch / "out", scratch / "err"
    module = ["conformance"] if arguments[0] == "conformance" else ["dmlgather.cli", arguments[0]]
    command = [sys.executable, "-m", *module, *arguments[1:]]
    with out.open("wb") as to_out, err.open("wb") as to_err:
        code, seconds, memory = _measured(command, scratch / "used", to_out, to_err)
    printed, logged = (path.read_bytes().decode("utf-8", "replace") for path in (out, err))
    if code not in (0, 1, 2):
        return f"exit code {code}"
    if "Traceback" in logged:
        return "traceback"
    if "internal error" in logged:
        return logged[logged.index("internal error") :].splitlines()[0][:200]
    runs = arguments[0] in RUNS
    if seconds > SECONDS + loaded + RUNNING[0] * runs:
        return f"{seconds:.1f} seconds"
    if memory > MEMORY + RUNNING[1] * runs:
        return f"{memory // 10**6} MB"
    if steering := {character for character in printed + logged if not (character.isprintable() or character in "\n\t")}:
        return f"control characters {sorted(map(ascii, steering))}"
    return _unreadable(printed, form)


_MEASURE = """
import json, resource, subprocess, sys
code, used = subprocess.call(sys.argv[2:]), resource.getrusage(resource.RUSAGE_CHILDREN)
json.dump([code, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024], open(sys.argv[1], "w"))
"""
"""Starts a command from a small process. Linux counts the memory of a starting process as its child's."""


def _measured(command: list[str], used: Path, out: IO[bytes], err: IO[bytes]) -> tuple[int, float, int]:
    """Return the exit code, CPU seconds and bytes of memory of a command and its children. used: a file for these."""
    started = [PYTHON, "-S", "-c", _MEASURE, str(used), *command]
    process = subprocess.Popen(started, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True)
    try:
        process.wait(WAIT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return -signal.SIGKILL, WAIT, 0
    code, seconds, memory = json.loads(used.read_text("utf-8"))
    return code, seconds, memory


def _unreadable(report: str, form: str) -> str:
    """Return why a report cannot be read. Empty if it is valid, or empty because there was nothing to check."""
    try:
        if report and form in ("json", "sarif"):
            json.loads(report)
        elif report and form == "junit":
            ElementTree.fromstring(report)
    except (ValueError, ElementTree.ParseError) as error:
        return f"no {form} report: {error}"
    return ""


def _form(arguments: list[str], checked: str) -> str:
    """Return the form of a command's output. checked: the form of a check."""
    return checked if arguments[0] == "check" else "json" if "--json" in arguments else "text"


def main(seconds: float, seed: int) -> int:
    """Fuzz for this number of seconds, and return the exit code."""
    draw, start = random.Random(seed), time.monotonic()
    kept, checked, found = Path("fuzz-failures").absolute(), 0, Counter[str]()
    print(f"seed {seed}, {seconds:g} seconds", flush=True)
    with tempfile.TemporaryDirectory(prefix="dmlgather-fuzz-") as temporary:
        folder, scratch = Path(temporary, "files"), Path(temporary)
        cases, (loaded, model) = whole_cases(Path(temporary, "whole")), translation_cost(scratch)
        while time.monotonic() - start < seconds:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            for number in range(BATCH):
                mutated(draw, draw.choice(KINDS), folder, f"{checked + number}")
            checked += BATCH
            form = draw.choice(FORMATS)
            files = sorted(path for path in folder.iterdir() if path.suffix[1:] in KINDS)
            tries = [(path, checking(path, form)) for path in files] if failure(checking(folder, form), scratch, form) else []
            for path in draw.sample(files, PICKED):
                tries += [(path, arguments) for arguments in (*using(path, scratch), *translating(draw, path, files))]
            damaged = folder / "damaged.onnx"
            damaged.write_bytes(flipped(draw, model))
            tries.append((damaged, ["compare", str(ROOT / "examples/directml/gather_2.json"), "--against", str(damaged)]))
            mutated_cases(draw, cases, folder / "cases")
            tries.append((folder / "cases", ["conformance", "read", str(folder / "cases"), *draw.choice(([], ["--json"]))]))
            before = digests(folder)
            for path, arguments in tries:
                how = failure(arguments, scratch, _form(arguments, form), loaded)
                if how := how or harm(folder, before):
                    kept.mkdir(exist_ok=True)
                    if path.is_dir():
                        shutil.copytree(path, kept / f"cases{sum(found.values())}", symlinks=True, dirs_exist_ok=True)
                    for part in folder.glob(f"{path.stem}.*"):
                        shutil.copy(part, kept)
                    found[how.split(" ", 1)[-1] if how[0].isdigit() else how] += 1
                    print(f"{kept / path.name}: {how} ({' '.join(arguments)})", flush=True)
    took = time.monotonic() - start
    print(f"{checked} files in {took:.0f} seconds, {sum(found.values())} failures: {dict(found) or 'none'}; seed {seed}")
    return 1 if found else 0


if __name__ == "__main__":
    given = sys.argv[1:]
    sys.exit(main(float(given[0]) if given else 60.0, int(given[1]) if len(given) > 1 else run_seed().value))
