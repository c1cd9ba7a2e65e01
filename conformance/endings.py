"""How DxDispatch ended: what an exit code and what it printed say of a case.

DxDispatch catches what DirectML reports, prints "Failed to execute the model: " and what it caught, and ends. Its exit code is
then 1 in older versions, and an HRESULT in newer ones: that of the call which failed, or 0x8007023E where DxDispatch words the
failure itself. Windows gives a crash an NTSTATUS of 0xC0000000 and more. PowerShell notes a code as a signed number of 32 bits; a
shell notes its lowest 8 bits, or 128 and the number of a signal, or 126 or 127 for what it could not start.

Source: microsoft/DirectML, DxDispatch/src: older dxdispatch/main.cpp, newer exe/main.cpp and dxdispatch/dxDispatchWrapper.cpp.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

FAILURE = "Failed to execute the model"
"""What DxDispatch prints when it caught a failure of the execution. Without it the device, the model file or DxDispatch itself
failed."""

TIMEOUT, NOT_STARTED = "timeout", "not started"
"""What the scripts note in the place of an exit code."""

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
"""HRESULTs that say nothing of what DirectML takes. Older versions only print them."""

_SIGNALS = range(129, 193)
_SHELL = (126, 127)
_ABORTED = 3


class Ending(NamedTuple):
    """How a case ended.

    kind: "ended" normally; "refused" by DirectML, which DxDispatch reported; "failed" otherwise, so that nothing is known of what
    DirectML does; "missing", not run to its end. message: in words.
    """

    kind: Literal["ended", "refused", "failed", "missing"]
    message: str


def ending(code: str | None, printed: str, said: str) -> Ending:
    """How a case ended.

    code: as the script noted it; None or empty where it noted none. printed: all that DxDispatch printed. said: the line of it
    that says what failed.
    """
    because = f": {said}" if said else ""
    if not code:
        return Ending("missing", "it was not run")
    if code == TIMEOUT:
        return Ending("failed", f"it timed out{because}")
    number = int(code) % 2**32 if re.fullmatch("-?[0-9]{1,10}", code) else None
    if number is None or number in _SHELL or number in _NOT_FOUND:
        reason = f" ({_NOT_FOUND[number]})" if number in _NOT_FOUND else ""
        noted = "" if code == NOT_STARTED else f", exit code {code}{reason}"
        return Ending("failed", f"it was not started{noted}{because}")
    if number == 0:
        return Ending("ended", "DxDispatch ended with 0")
    if _crashed(number):
        shown = f"{code} (0x{number:08X})" if number > 255 else code
        return Ending("failed", f"it crashed, exit code {shown}{because}")
    for error, happened in _NO_ANSWER.items():
        if number == error or re.search(rf"\b(0x)?{error:08x}\b", printed, re.IGNORECASE):
            return Ending("failed", f"{happened}, exit code {code}{because}")
    if FAILURE not in printed:
        return Ending("failed", f"DxDispatch ended with {code} before it executed the model{because}")
    return Ending("refused", f"DxDispatch ended with {code}{because}")


def _crashed(number: int) -> bool:
    """Whether an exit code means an exception that nobody caught: an NTSTATUS, the code of abort(), or a signal in a shell."""
    return number >= 0xC0000000 or 0x80000000 <= number < 0x80004000 or number == _ABORTED or number in _SIGNALS
