"""What several subcommands share: arguments, the file to execute, the device."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dmlgather.cli.failures import say
from dmlgather.output import flush, put
from dmlgather.wording import counted

if TYPE_CHECKING:
    from dmlgather.dialects.programs import Program
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

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, alone on standard output.")]

JsonFile = Annotated[
    Path | None, typer.Option("--output", metavar="FILE", help="Also write the JSON to FILE.", show_default=False)
]


@dataclass(frozen=True)
class JsonOutput:
    """Where a command's JSON goes. printed: to standard output, in the place of text. file: to a file. made_from: files that it
    must not replace. others: files that the command writes as well.
    """

    printed: bool
    file: Path | None = None
    made_from: Iterable[Path] = ()
    others: Iterable[Path | None] = ()

    def __post_init__(self) -> None:
        """Refuse a file that cannot be written before any work is done, as far as that can be told."""
        if self.file is None:
            return
        from dmlgather.files import check_spared

        if self.file.is_dir():
            raise typer.BadParameter(f"must be a file; {self.file} is a folder", param_hint="'--output'")
        check_spared([self.file, *filter(None, self.others)], self.made_from)

    def __bool__(self) -> bool:
        return self.printed or self.file is not None

    def write(self, data: Callable[[], object]) -> None:
        """Write what `data` returns, if it is wanted."""
        if self:
            self.write_pieces([json.dumps(data(), indent=2, allow_nan=False), "\n"])

    def write_pieces(self, pieces: Iterable[str]) -> None:
        """Write a JSON text that comes in pieces."""
        from dmlgather.files import writing

        flush()  # what was printed before is there, whatever becomes of the file
        with nullcontext() if self.file is None else writing(self.file, self.made_from) as file:
            for piece in pieces:
                if self.printed:
                    put(piece)
                if file is not None:
                    file.write(piece.encode("utf-8", "backslashreplace"))


def load(path: Path, allow_outside: bool = False, *, executes: bool = True) -> CheckedFile:
    """The checked file; its findings are shown on standard error.

    allow_outside: as in `check_file`. executes: whether its commands are going to be executed.

    Ends the command with exit code 2 when something could not be understood, or executed, with 1 when there are errors.
    """
    from dmlgather.directml.dxdispatch.model_file import check_file
    from dmlgather.files import STREAMS

    if path.suffix.lower() in STREAMS:
        say(
            f"{path}: only check, translate and compare --against MODEL.onnx take a stream of descriptors; write the line of one "
            "of them to a .json file"
        )
        raise typer.Exit(2)
    checked = check_file(path, allow_outside=allow_outside)
    refusals = checked.refusals if executes or checked.kind == "descriptor" else ()
    for item in (*checked.findings, *checked.problems, *refusals):
        say(item)
    if not checked.ok or refusals:
        raise typer.Exit(2 if checked.problems or refusals else 1)
    return checked


@dataclass(frozen=True)
class LeftOut:
    """How many lines of a file of descriptors on lines are left out, and the exit code for that."""

    lines: int = 0
    code: int = 0

    def __str__(self) -> str:
        were = "was" if self.lines == 1 else "were"
        return f", without {counted(self.lines, 'line')} that {were} left out" if self.lines else ""


def read_program_file(path: Path, allow_outside: bool) -> tuple[Program, LeftOut]:
    """The program of a DxDispatch model, a descriptor or descriptors on lines, and what is left out of the lines. What is said of
    these is shown on standard error. FileError for another file; otherwise ends the command as `load`.
    """
    from dmlgather.dialects.programs import FILES, Program, program_of, unknown_file
    from dmlgather.files import STREAMS, FileError

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
    """Write a note to standard error."""
    say(f"dmlgather: note: {text}")


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


OPTIONS = {
    r"\bagainst=": "--against or --save",
    r"^(?:device|opset|level) is (\S+), (expected .*)$": r"\2, got \1",  # the option is named already
}
"""How messages speak of arguments in Python, as patterns, and how the command does."""


def in_options(error: Exception) -> str:
    """The message of an error, with the command's options where it has arguments of Python."""
    text = str(error)
    for python, option in OPTIONS.items():
        text = re.sub(python, option, text)
    return text


# The values that a shell completes, beside the names of subcommands and options. Each is looked up when a shell asks.


def codes() -> list[str]:
    """The codes of findings."""
    from dmlgather.report.code_registry import CODES

    return list(CODES)


def operators() -> list[str]:
    """The operators, as `levels` takes them."""
    from dmlgather.directml import OPERATORS

    return [operator.name for operator in OPERATORS.values()]


def feature_levels() -> list[str]:
    """The feature levels."""
    from dmlgather.directml import FeatureLevel

    return list(map(str, FeatureLevel))


def formats() -> list[str]:
    """The formats of `check`."""
    from dmlgather.report.formats import FORMATS

    return list(FORMATS)


def devices() -> list[str]:
    """The devices of `run`."""
    return ["auto", "cpu", "cuda", "reference"]
