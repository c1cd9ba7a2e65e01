"""Runs the smallest input of a fault: it must show the fault, as long as the row names the installed version."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from tests.peers.faults import Peer, PeerFault

ROOT = Path(__file__).parents[2]


def check(peer: Peer[Any], fault: PeerFault[Any], script: str = "") -> None:
    """AssertionError where a row and its peer say different things. script: runs the example, in a process that it ends."""
    assert fault.covers(fault.example)
    if fault.unseen:  # only what it covers can be asserted
        return
    if fault.processors and not {*fault.processors} & _flags():
        pytest.skip(f"this processor has none of {', '.join(fault.processors)}: a fault of {peer.name} was not looked for")
    if fault.ends_process:
        shown = _ends(script)
    else:
        theirs, right = peer.answers(fault.example)
        shown = theirs != right
    at = f"{peer.distribution} {metadata.version(peer.distribution)}"
    if peer.may_have(fault):
        assert shown, f"{at} has this fault no more: remove its row, or narrow its versions, {fault.versions or 'all'!r}"
    else:
        assert not shown, f"{at} has this fault as well: widen its versions, {fault.versions!r}"


def _flags() -> set[str]:
    """Those of the processor, as Linux names them."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return {flag for line in lines if line.startswith(("flags", "Features")) for flag in line.partition(":")[2].split()}


def _ends(script: str) -> bool:
    """Whether a script ends its process, rather than to raise an exception there."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode != 1, done.stderr  # Python's own for an exception
    return done.returncode != 0
