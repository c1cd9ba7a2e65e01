"""`dmlgather run` as a stand-in for DxDispatch, with the same command line, the same places of files, and the same streams.

Source: microsoft/DirectML, DxDispatch/src/dxdispatch: CommandLineArgs.cpp (options), Logging.cpp (streams), Executor.cpp (files).
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable
from pathlib import Path

from dmlgather.cli.app import run
from tests.cli.command import ROOT

PROGRAM = '''#!{python}
"""Stands in for DxDispatch. argparse refuses every option that DxDispatch does not have."""
import argparse, sys
sys.path.insert(0, {root!r})
sys.dont_write_bytecode = True
parser = argparse.ArgumentParser(prog="dxdispatch", allow_abbrev=False)
parser.add_argument("model")
parser.add_argument("-a", "--adapter", default="stand-in")
parser.add_argument("-d", "--debug", action="store_true")
given = parser.parse_args()
print(f"Running on '{{given.adapter}}'", flush=True)
from dmlgather.cli.app import run
if run(["run", given.model, "--device", "cpu", "--output-dir", "."]):
    sys.exit("Failed to execute the model: see above")
'''


def program(folder: Path, name: str = "dxdispatch") -> Path:
    """Write a program that takes DxDispatch's command line."""
    file = folder / name
    file.write_text(PROGRAM.format(python=sys.executable, root=str(ROOT)))
    file.chmod(0o755)
    return file


def run_models(folder: Path, spoil: Callable[[str], None] | None = None) -> None:
    """Run every model of a folder of cases in this process, like its scripts. spoil: called with each name after its run."""
    results = folder / "results"
    results.mkdir(exist_ok=True)
    with contextlib.chdir(folder):
        for model in sorted(Path("models").glob("*.json")):
            out, err = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                print("Running on 'stand-in'")
                code = int(run(["run", str(model), "--device", "cpu", "--output-dir", "."]) != 0)
                if code:
                    print("Failed to execute the model: see above", file=sys.stderr)
            for kind, text in (("out", out.getvalue()), ("err", err.getvalue()), ("exit", str(code))):
                (Path("results") / f"{model.stem}.{kind}").write_text(text)
            if spoil is not None:
                spoil(model.stem)
