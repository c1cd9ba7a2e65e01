"""The interpretation of DxDispatch's exit code and output.

DxDispatch catches an error of DirectML, prints "Failed to execute the model: " with the error's text, and exits. The exit code
is then 1 in older versions. In newer ones it is the HRESULT of the failed call, or 0x8007023E for an error of DxDispatch
itself. A crash on Windows has an NTSTATUS of 0xC0000000 or more as its exit code. PowerShell writes exit codes as signed
integers of 32 bits. A shell writes the lowest 8 bits, 128 plus the number of a signal, or 126 or 127 if the program could not
be started.

Source: microsoft/DirectML, DxDispatch/src: older dxdispatch/main.cpp, newer exe/main.cpp and dxdispatch/dxDispatchWrapper.cpp.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

FAILURE = "Failed to execute the model"
"""DxDispatch's text for a failed execution. Without it, the device, the model file or DxDispatch itself failed."""

TIMEOUT, NOT_STARTED = "timeout", "not started"
"""Words that the scripts write instead of an exit code."""

_NOT_FOUND = {
    0xC0000135: "a DLL is missing",
    0xC0000139: "a DLL has another version",
    0xC000007B: "a DLL is of another processor",
}
_NO_ANSWER = {
    0x887A0005: "the device was removed",
    0x887A0006: "the device hung",
    0x887A0007: "the device was reset",
    0x887A0020: "the driver failed",
    0x8007000E: "the memory did not suffice",
}
"""HRESULTs of failures that do not depend on the descriptor. Older versions only print them."""

_SIGNALS = range(129, 193)
_SHELL = (126, 127)
_ABORTED = 3


class Ending(NamedTuple):
    """The ending of a case.

    `kind`: "ended" for exit code 0; "refused" for an error that DirectML reported; "failed" for any other failure, which says
    nothing about DirectML; "missing" for a case without an exit code.
    """

    kind: Literal["ended", "refused", "failed", "missing"]
    message: str


def ending(code: str | None, printed: str, reason: str) -> Ending:
    """Return the ending of a case.

    `code`: as the script wrote it, or None. `reason`: the line of the output with the reason of a failure, or "".
    """
    because = f": {reason}" if reason else ""
    if not code:
        return Ending("missing", "it was not run")
    if code == TIMEOUT:
        return Ending("failed", f"it timed out{because}")
    number = int(code) % 2**32 if re.fullmatch("-?[0-9]{1,10}", code) else None
    if number is None or number in _SHELL or number in _NOT_FOUND:
        cause = f" ({_NOT_FOUND[number]})" if number in _NOT_FOUND else ""
        exit_code = "" if code == NOT_STARTED else f", exit code {code}{cause}"
        return Ending("failed", f"it was not started{exit_code}{because}")
    if number == 0:
        return Ending("ended", "DxDispatch ended with 0")
    if _crashed(number):
        exit_code = f"{code} (0x{number:08X})" if number > 255 else code
        return Ending("failed", f"it crashed, exit code {exit_code}{because}")
    for error, description in _NO_ANSWER.items():
        if number == error or re.search(rf"\b(0x)?{error:08x}\b", printed, re.IGNORECASE):
            return Ending("failed", f"{description}, exit code {code}{because}")
    if FAILURE not in printed:
        return Ending("failed", f"DxDispatch ended with {code} before it executed the model{because}")
    return Ending("refused", f"DxDispatch ended with {code}{because}")


def _crashed(number: int) -> bool:
    """Return True for the exit code of an uncaught exception: an NTSTATUS, the code of abort(), or a shell's for a signal."""
    return number >= 0xC0000000 or 0x80000000 <= number < 0x80004000 or number == _ABORTED or number in _SIGNALS
