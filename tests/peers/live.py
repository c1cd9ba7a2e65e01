"""Runs the smallest input of a fault: it must show the fault, as long as the row names the installed version."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from tests.peers.faults import Peer, PeerFault

ROOT = Path(__file__).parents[2]


def check(peer: Peer[Any], fault: PeerFault[Any], script: str = "") -> None:
    """AssertionError where a row and its peer say different things. script: runs the example, in a process that it ends."""
    assert fault.covers(fault.example)
    if fault.unseen:  # only what it covers can be asserted
        return
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


def _ends(script: str) -> bool:
    """Whether a script ends its process, rather than to raise an exception there."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode != 1, done.stderr  # Python's own for an exception
    return done.returncode != 0
