"""What several subcommands share: arguments, the file to execute, the device."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dmlgather.cli.failures import say

if TYPE_CHECKING:
    from dmlgather.directml.dxdispatch.model_file import CheckedFile

ModelFile = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="A DxDispatch model, or a single descriptor.", show_default=False),
]

AllowOutside = Annotated[
    bool,
    typer.Option("--allow-outside", help="Also read initial values (sourcePath) outside of the model's and the current folder."),
]

MemoryLimit = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Host memory that may be taken, such as 500MiB or 2GB. What needs more, or more than is free, is refused at once.",
        show_default=False,
    ),
]

StatedInputs = Annotated[
    str | None,
    typer.Option(
        metavar="NAME=SIZES[:TYPE],…",
        help="What models leave open: shapes of inputs, as in ids=1x128 or ids=1x128:int64, and named sizes, as in seq=128.",
        show_default=False,
    ),
]

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def load(path: Path, allow_outside: bool = False, *, executes: bool = True) -> CheckedFile:
    """The checked file; its findings are shown on standard error.

    allow_outside: as in `check_file`. executes: whether its commands are going to be executed.

    Ends the command with exit code 2 when something could not be understood, or executed, with 1 when there are errors.
    """
    from dmlgather.directml.dxdispatch.descriptor_lines import SUFFIXES
    from dmlgather.directml.dxdispatch.model_file import check_file

    if path.suffix.lower() in SUFFIXES:
        say(f"{path}: a stream of descriptors can only be checked; write the line of one of them to a .json file")
        raise typer.Exit(2)
    checked = check_file(path, allow_outside=allow_outside)
    refusals = checked.refusals if executes or checked.kind == "descriptor" else ()
    for item in (*checked.findings, *checked.problems, *refusals):
        say(item)
    if not checked.ok or refusals:
        raise typer.Exit(2 if checked.problems or refusals else 1)
    return checked


def memory_limit(size: str | None) -> int | None:
    """The bytes of a --memory-limit."""
    if size is None:
        return None
    from pydantic import ByteSize, TypeAdapter

    if re.fullmatch(r"\d+(\.\d+)? ?([KMGTPE]?B|[KMGTPE]iB|[KMGTPE])?", size, re.ASCII | re.IGNORECASE):
        return int(TypeAdapter(ByteSize).validate_python(size))
    raise typer.BadParameter(f"expected a number of bytes such as 500MiB or 2GB, got {size!r}", param_hint="'--memory-limit'")


def missing_gpu() -> str | None:
    """Why no GPU can be used; None where one can."""
    from dmlgather.backends import cuda
    from dmlgather.backends.cuda.driver import DeviceError

    try:
        cuda.require(0)
    except DeviceError as error:
        return str(error)
    return None


def stated_inputs(text: str | None) -> dict[str, Any]:
    """What --inputs states, by name: a number, a shape, or a shape with a type."""
    import numpy as np

    from dmlgather.dialects.problem import TensorType

    found: dict[str, Any] = {}
    for part in filter(None, (each.strip() for each in (text or "").split(","))):
        match = re.fullmatch(r"(?P<name>.+)=(?P<sizes>\d+(x\d+)*)?(:(?P<dtype>\w+))?", part, re.ASCII)
        if match is None:
            raise typer.BadParameter(f"expected NAME=SIZES, such as ids=1x128 or seq=128, got {part!r}", param_hint="'--inputs'")
        sizes = tuple(map(int, (match["sizes"] or "").split("x"))) if match["sizes"] else ()
        if match["dtype"]:
            try:
                found[match["name"]] = TensorType(sizes, np.dtype(match["dtype"]))
            except TypeError:
                raise typer.BadParameter(f"{match['dtype']!r} is no data type of NumPy", param_hint="'--inputs'") from None
        else:
            found[match["name"]] = sizes[0] if len(sizes) == 1 else sizes
    return found


def hint(error: Exception) -> str:
    """What follows a message that says how inputs are stated in Python."""
    return " (on the command line: --inputs N=1,x=1x2)" if "inputs=" in str(error) else ""
