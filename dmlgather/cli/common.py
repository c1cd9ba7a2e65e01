"""Functions and options that several subcommands share: JSON output, loading of files, completion."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dmlgather.cli.failures import say
from dmlgather.output import flush, put
from dmlgather.wording import bytes_of, counted

if TYPE_CHECKING:
    from dmlgather.dialects.programs import Program
    from dmlgather.directml.dxdispatch.model_file import CheckedFile


ModelFile = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="A DxDispatch model, or a single descriptor.", show_default=False),
]

AllowOutside = Annotated[
    bool,
    typer.Option("--allow-outside", help="Also read initial values (sourcePath) outside the model's and the current folder."),
]

MemoryLimit = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Limit of host memory, such as 500MiB or 2GB. Work that needs more, or more than is free, is refused at once.",
        show_default=False,
    ),
]

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on standard output.")]

JsonFile = Annotated[
    Path | None, typer.Option("--output", metavar="FILE", help="Also write the JSON to FILE.", show_default=False)
]


@dataclass(frozen=True)
class JsonOutput:
    """Where a command writes its JSON: to standard output, to `file`, to both or nowhere.

    `made_from`: the input files of the command, which are never overwritten. `others`: other files that the command writes.
    """

    printed: bool
    file: Path | None = None
    made_from: Iterable[Path] = ()
    others: Iterable[Path | None] = ()

    def __post_init__(self) -> None:
        """Raise an error if `file` is a folder, or would overwrite another file."""
        if self.file is None:
            return
        from dmlgather.files import check_spared

        if self.file.is_dir():
            raise typer.BadParameter(f"must be a file; {self.file} is a folder", param_hint="'--output'")
        check_spared([self.file, *filter(None, self.others)], self.made_from)

    def __bool__(self) -> bool:
        return self.printed or self.file is not None

    def write(self, data: Callable[[], object]) -> None:
        """Write a value as JSON. `data` is called only if JSON was asked for."""
        if self:
            self.write_pieces([json.dumps(data(), indent=2, allow_nan=False), "\n"])

    def write_pieces(self, pieces: Iterable[str]) -> None:
        """Write a JSON text in pieces, to save memory."""
        from dmlgather.files import writing

        flush()  # so that earlier text appears even if writing the file fails
        with nullcontext() if self.file is None else writing(self.file, self.made_from) as file:
            for piece in pieces:
                if self.printed:
                    put(piece)
                if file is not None:
                    file.write(piece.encode("utf-8", "backslashreplace"))


def load(path: Path, allow_outside: bool = False, *, executes: bool = True, command: str = "") -> CheckedFile:
    """Check a DxDispatch model or a descriptor. Findings go to standard error.

    End the command with exit code 1 if the file has errors, with 2 if it cannot be read or executed. `command`: the name of
    a subcommand that takes no ONNX models, or "".
    """
    from dmlgather.directml.dxdispatch.model_file import check_file
    from dmlgather.directml.dxdispatch.writing import NAME
    from dmlgather.files import STREAMS

    if path.suffix.lower() in STREAMS:
        say(
            f"{path}: only check, translate and compare --against MODEL.onnx take a stream of descriptors; write the line of one "
            "of them to a .json file"
        )
        raise typer.Exit(2)
    if os.path.isfile(path / NAME):  # noqa: PTH113 # unlike Path.is_file, it never raises
        say(f"{path} is a folder: name {path / NAME}")
        raise typer.Exit(2)
    refuse_onnx(path, command)
    checked = check_file(path, allow_outside=allow_outside)
    refusals = checked.refusals if executes or checked.kind == "descriptor" else ()
    for item in (*checked.findings, *checked.problems, *refusals):
        say(item)
    if not checked.ok or refusals:
        raise typer.Exit(2 if checked.problems or refusals else 1)
    return checked


def refuse_onnx(path: Path, command: str) -> None:
    """End the command with exit code 2 if the file is an ONNX model. If `command` is empty, do nothing."""
    from dmlgather.model_formats import onnx_model

    if command and (message := onnx_model(path, command)) is not None:
        say(f"{path}: {message}")
        raise typer.Exit(2)


@dataclass(frozen=True)
class LeftOut:
    """How many lines of a stream were left out. `code`: the exit code that the command therefore returns."""

    lines: int = 0
    code: int = 0

    def __str__(self) -> str:
        were = "was" if self.lines == 1 else "were"
        return f", without {counted(self.lines, 'line')} that {were} left out" if self.lines else ""


def read_program_file(path: Path, allow_outside: bool, command: str) -> tuple[Program, LeftOut]:
    """Read a DxDispatch model, a descriptor or a stream of descriptors as a program. Findings go to standard error.

    If a model or descriptor is not valid, end the command, like `load`. Raise FileError if the file is of another kind.
    """
    from dmlgather.dialects.programs import FILES, Program, program_of, unknown_file
    from dmlgather.files import STREAMS, FileError

    refuse_onnx(path, command)
    suffix = path.suffix.lower()
    if suffix not in FILES:
        raise FileError(unknown_file(path))
    if suffix not in STREAMS:
        return program_of(load(path, allow_outside)), LeftOut()
    from dmlgather.dialects.descriptor_graph import checked_stream

    checked, graph = checked_stream(path)
    for item in (*checked.findings, *checked.problems):
        say(item)
    return Program(graph), LeftOut(checked.left_out, 2 if checked.problems else 1 if checked.left_out else 0)


def note(text: str) -> None:
    """Write a note for the user to standard error."""
    say(f"dmlgather: note: {text}")


def memory_limit(size: str | None) -> int | None:
    """Convert the value of --memory-limit, such as "2GB", to bytes."""
    found = None if size is None else bytes_of(size)
    if size is not None and found is None:
        expected = f"expected a number of bytes such as 500MiB or 2GB, got {size!r}"
        raise typer.BadParameter(expected, param_hint="'--memory-limit'")
    return found


def missing_gpu() -> str | None:
    """Return the reason why no GPU can be used. None if a GPU can be used."""
    from dmlgather.backends import cuda
    from dmlgather.backends.cuda.driver import DeviceError

    try:
        cuda.require(0)
    except DeviceError as error:
        return str(error)
    return None


def left_out(missing: str) -> None:
    """Write the reason why the command runs without a GPU. `dmlgather env` shows the remedy."""
    what = re.match(r"([^;(]|\([^)]*\))*", missing)
    say(f"cuda is left out: {missing if what is None else what[0]}; `dmlgather env` says what to do")


OPTIONS = {
    r"\bagainst=": "--against or --save",
    r"^(?:device|opset|level) is (\S+), (expected .*)$": r"\2, got \1",  # Typer's message names the option
}
"""Patterns of Python arguments in messages, and the command's options that replace them."""


def in_options(error: Exception) -> str:
    """Return the message of an error, with options in place of Python arguments."""
    text = str(error)
    for python, option in OPTIONS.items():
        text = re.sub(python, option, text)
    return text


# Values for shell completion, computed when a shell asks for them.


def codes() -> list[str]:
    """Return all codes of findings, for completion."""
    from dmlgather.report.code_registry import CODES

    return list(CODES)


def operators() -> list[str]:
    """Return the operators of `levels`, for completion."""
    from dmlgather.directml import OPERATORS

    return [operator.name for operator in OPERATORS.values()]


def feature_levels() -> list[str]:
    """Return the feature levels, for completion."""
    from dmlgather.directml import FeatureLevel

    return list(map(str, FeatureLevel))


def formats() -> list[str]:
    """Return the report formats of `check`, for completion."""
    from dmlgather.report.formats import FORMATS

    return list(FORMATS)


def devices() -> list[str]:
    """Return the devices of `run`, for completion."""
    return ["auto", "cpu", "cuda", "reference"]
