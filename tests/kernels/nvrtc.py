"""NVRTC without a driver and without CuPy. It turns a source into machine code, ptxas' report, or PTX."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cuda.bindings import nvrtc

from dmlgather.backends.cuda.driver import OPTIONS

ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120")

_ENTRY = re.compile(
    r"Compiling entry function '(?P<name>\w+)'.*?(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, "
    r"(?P<loads>\d+) bytes spill loads.*?Used (?P<registers>\d+) registers",
    re.DOTALL,
)


class CompilationError(Exception):
    """NVRTC's refusal of a source. The message is NVRTC's log."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The report of ptxas about one kernel: registers per thread, bytes of stack and of spills."""

    registers: int
    stack: int
    spills: int


@dataclass(frozen=True, slots=True)
class Compiled:
    """The machine code of a source, and the usage of each kernel in it."""

    cubin: bytes
    usage: dict[str, Usage]


def version() -> str:
    """Return the version of NVRTC, such as "13.5"."""
    _, major, minor = nvrtc.nvrtcVersion()
    return f"{major}.{minor}"


def compile_source(source: str, architecture: str) -> Compiled:
    """Compile for a real architecture such as "sm_90". Raises CompilationError."""
    with _program(source, architecture, "--ptxas-options=-v") as (program, log):
        cubin = _text(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program)
    return Compiled(cubin, {match["name"]: _usage(match) for match in _ENTRY.finditer(log)})


def ptx(source: str, architecture: str) -> str:
    """Return the PTX for a virtual architecture such as "compute_90", with the source's lines. Raises CompilationError."""
    with _program(source, architecture, "-lineinfo") as (program, _):
        return _text(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program).rstrip(b"\0").decode()


@contextmanager
def _program(source: str, architecture: str, option: str) -> Iterator[tuple[Any, str]]:
    options = [text.encode() for text in (*OPTIONS, f"-arch={architecture}", option)]
    program = _checked(nvrtc.nvrtcCreateProgram(source.encode(), b"kernels.cu", 0, [], []))
    try:
        (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
        log = _text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program).decode()
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise CompilationError(f"{architecture}:\n{log}")
        yield program, log
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _usage(match: re.Match[str]) -> Usage:
    return Usage(int(match["registers"]), int(match["stack"]), int(match["stores"]) + int(match["loads"]))


def _text(size_of: Any, content_of: Any, program: Any) -> bytes:
    content = bytearray(int(_checked(size_of(program))))  # NVRTC writes into this buffer; Python shares bytes of one character
    _checked((*content_of(program, content), None))
    return bytes(content)


def _checked(answer: Any) -> Any:
    status, *values = answer
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise CompilationError(str(status))
    return values[0]
