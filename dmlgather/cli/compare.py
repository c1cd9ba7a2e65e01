"""`dmlgather compare`: run a file on several devices and compare bit for bit."""

from __future__ import annotations

import secrets
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dmlgather.cli.failures import say
from dmlgather.cli.options import ModelFile

if TYPE_CHECKING:
    from dmlgather.directml.dxdispatch.model_file import CheckedFile


def compare(
    file: ModelFile,
    devices: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME…",
            help="Devices out of cuda, cuda:N, cpu, reference. Default: cuda where there is a GPU, cpu and reference.",
            show_default=False,
        ),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(metavar="CASE", help="Write the case as a model with its inputs beside it: a folder, or a .json file."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="For a single descriptor: where its random inputs come from.")
    ] = None,
) -> int:
    """Run every dispatch of a file on several devices and compare the results bit for bit.

    A single descriptor runs once over random inputs, some of their indices out of range. A saved case is a DxDispatch model:
    run and compare take it.

    Exit codes: 0 equal, 1 a mismatch or the file has errors, 2 it could not be understood or run.
    """
    from dmlgather.cli.loading import load

    checked = load(file)
    names = _devices(devices)
    if checked.kind == "model":
        if save is not None:
            from dmlgather.directml.dxdispatch.writing import write_model

            say(f"Case written to '{write_model(checked, save)}'")
        return _compare(checked, names)
    with tempfile.TemporaryDirectory(prefix="dmlgather-") as scratch:
        return _compare(_random_case(checked, save or Path(scratch), seed, keep=save is not None), names)


def _random_case(checked: CheckedFile, case: Path, seed: int | None, *, keep: bool) -> CheckedFile:
    from dmlgather.cli.loading import load
    from dmlgather.directml.dxdispatch.writing import write_random

    seed = secrets.randbits(32) if seed is None else seed
    say(f"Random inputs from --seed {seed}")
    target = write_random(checked.dispatchables[""], seed, case)
    if keep:
        say(f"Case written to '{target}'")
    return load(target)


def _devices(given: str | None) -> list[str]:
    from dmlgather.cli.devices import missing_gpu
    from dmlgather.compare import check_devices

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


def _compare(checked: CheckedFile, devices: list[str]) -> int:
    from dmlgather.compare_model import compare_model
    from dmlgather.directml.dxdispatch.commands import Dispatch
    from dmlgather.wording import printable

    if not any(isinstance(command, Dispatch) for command in checked.commands):
        say(f"{checked.file}: the model dispatches nothing, so there is nothing to compare")
    code = 0
    for found in compare_model(checked, devices):
        sys.stdout.write(f"commands[{found.command}] '{printable(found.dispatchable)}': {found.comparison}\n")
        sys.stdout.flush()
        code = code if found.comparison.equal else 1
    return code
