"""`dmlgather compare`: run a file on several devices and compare bit for bit."""

from __future__ import annotations

import json
import secrets
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dmlgather.cli.common import AsJson, ModelFile, load, missing_gpu
from dmlgather.cli.failures import say

if TYPE_CHECKING:
    from dmlgather.comparing.compare_report import CompareReport
    from dmlgather.directml.dxdispatch.model_file import CheckedFile


def compare(
    file: ModelFile,
    *,
    devices: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME…",
            help="Devices out of cuda, cuda:N, cpu, reference, directml. Default: cuda where there is a GPU, cpu and reference.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="CASE",
            help="Write the case to CASE where that ends in .json, else to CASE/case.json; inputs, outputs and report beside it.",
        ),
    ] = None,
    emit_script: Annotated[
        Path | None, typer.Option(metavar="SCRIPT.py", help="Write the comparison as a Python script; large inputs beside it.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="For a single descriptor: the seed of its random inputs.")
    ] = None,
) -> int:
    """Run every dispatch of a file on several devices and compare the results bit for bit.

    A mismatch is shown with the number of elements, the first and the worst of them, the expected value, and both values as
    numbers and bits. A single descriptor runs once with random inputs, where some indices are out of range. A saved case is a
    DxDispatch model: `run`, `compare` and DxDispatch can read it.

    Exit codes: 0 equal, 1 a mismatch or the file has errors, 2 it could not be understood or run.
    """
    if emit_script is not None and emit_script.suffix != ".py":
        raise typer.BadParameter(f"expected a file name that ends in .py, got {emit_script}", param_hint="'--emit-script'")
    checked, names, case = load(file), _devices(devices), None
    with tempfile.TemporaryDirectory(prefix="dmlgather-") as scratch:
        model = checked
        if checked.kind != "model":
            seed = secrets.randbits(32) if seed is None else seed
            case = _random_case(checked, save or Path(scratch), seed)
            model = load(case)
        elif save is not None:
            from dmlgather.directml.dxdispatch.writing import write_model

            case = write_model(checked, save)
        if save is not None:
            say(f"Case written to '{case}'")
        if emit_script is not None and _dispatches(model):
            from dmlgather import __version__
            from dmlgather.comparing.script import write_script

            say(f"Script written to '{write_script(model, names, emit_script, file, __version__)}'")
        report = _compare(model, names, None if save is None else case, quiet=as_json)
    report = report.model_copy(update={"file": str(file), "seed": None if checked.kind == "model" else seed})
    if save is not None and case is not None:
        from dmlgather.comparing.saving import save_report

        save_report(case, report, [file])
    if as_json:
        sys.stdout.write(json.dumps(report.model_dump(mode="json"), indent=2, allow_nan=False) + "\n")
    return report.exit_code


def _dispatches(model: CheckedFile) -> bool:
    from dmlgather.directml.dxdispatch.commands import Dispatch

    return any(isinstance(command, Dispatch) for command in model.commands)


def _random_case(checked: CheckedFile, case: Path, seed: int) -> Path:
    from dmlgather.directml.dxdispatch.writing import random_inputs, sources, write_single

    say(f"Random inputs from --seed {seed}")
    desc = checked.dispatchables[""].desc
    return write_single(desc, random_inputs(desc, seed), case, sources(checked))


def _devices(given: str | None) -> list[str]:
    from dmlgather.comparing.comparison import check_devices

    if given is None:
        missing = missing_gpu()
        if missing is not None:
            say(f"cuda is left out: {missing}")
        return [*(["cuda"] if missing is None else []), "cpu", "reference"]
    names = [name.strip() for name in given.split(",") if name.strip()]
    try:
        check_devices(names)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="'--devices'") from None
    return names


def _compare(model: CheckedFile, devices: list[str], case: Path | None, *, quiet: bool) -> CompareReport:
    """Compare every dispatch, show each result unless `quiet`, and add the outputs to a case."""
    from dmlgather.comparing.compare_report import compare_report
    from dmlgather.comparing.dispatches import compare_model
    from dmlgather.comparing.saving import save_outputs
    from dmlgather.directml.dxdispatch.writing import sources
    from dmlgather.wording import printable

    reports = []
    for found in compare_model(model, devices):
        number, name, comparison = found.command, found.dispatchable, found.comparison
        files: dict[str, str] = {}
        if case is not None:
            outputs = dict(zip(comparison.devices, comparison.outputs, strict=True))
            files = save_outputs(case, number, name, outputs, sources(model))
        reports.append(comparison.report(number, name, files))
        if not quiet:
            sys.stdout.write(f"commands[{number}] '{printable(name)}': {comparison}\n")
            sys.stdout.flush()
    if not _dispatches(model):
        say(f"{model.file}: the model has no dispatch command, so nothing is compared and no script is written")
    return compare_report(devices, reports)
