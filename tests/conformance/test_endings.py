"""Exit codes and messages of DxDispatch. Only its explicit refusals are statements about DirectML."""

from __future__ import annotations

import pytest

from conformance.endings import ending

CAUGHT = "Running on 'x'\nFailed to execute the model: The parameter is incorrect."

SAYS = {
    ("0", ""): ("ended", "DxDispatch ended with 0"),
    ("1", CAUGHT): ("refused", "DxDispatch ended with 1: why"),  # older versions
    ("-2147024809", CAUGHT): ("refused", "DxDispatch ended with -2147024809: why"),  # E_INVALIDARG, as PowerShell notes it
    ("2147942487", CAUGHT): ("refused", "DxDispatch ended with 2147942487: why"),
    ("-2147024322", CAUGHT): ("refused", "DxDispatch ended with -2147024322: why"),  # DxDispatch's own words
    ("87", CAUGHT): ("refused", "DxDispatch ended with 87: why"),  # a shell sees the lowest 8 bits
    (None, CAUGHT): ("missing", "it was not run"),
    ("timeout", CAUGHT): ("failed", "it timed out: why"),
    ("not started", ""): ("failed", "it was not started: why"),
    ("127", "DirectML.dll: cannot open shared object file"): ("failed", "it was not started, exit code 127: why"),
    ("126", ""): ("failed", "it was not started, exit code 126: why"),
    ("-1073741515", ""): ("failed", "it was not started, exit code -1073741515 (a DLL is missing): why"),
    ("-1073741819", CAUGHT): ("failed", "it crashed, exit code -1073741819 (0xC0000005): why"),
    ("-2147483645", ""): ("failed", "it crashed, exit code -2147483645 (0x80000003): why"),
    ("3", ""): ("failed", "it crashed, exit code 3: why"),
    ("139", CAUGHT): ("failed", "it crashed, exit code 139: why"),
    ("-2005270523", CAUGHT): ("failed", "the device was removed, exit code -2005270523: why"),
    ("1", f"{CAUGHT} 887A0006"): ("failed", "the device hung, exit code 1: why"),
    ("1", f"{CAUGHT} hr=0x8007000e"): ("failed", "the memory did not suffice, exit code 1: why"),
    ("1", "Failed to create a device: x"): ("failed", "DxDispatch ended with 1 before it executed the model: why"),
    ("-2147418113", "Failed to parse the model: x"): (
        "failed",
        "DxDispatch ended with -2147418113 before it executed the model: why",
    ),
    ("", ""): ("missing", "it was not run"),
    ("what", ""): ("failed", "it was not started, exit code what: why"),
}


@pytest.mark.parametrize(("code", "printed"), SAYS)
def test_an_exit_code_with_its_messages_is_classified(code: str | None, printed: str) -> None:
    assert ending(code, printed, "why") == SAYS[code, printed]
