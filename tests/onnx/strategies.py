"""Calls of the operators by seed: good ones, and ones with exactly one fault."""

from __future__ import annotations

import random

from tests.dialects.drafting import broken
from tests.onnx.drafts import finished, good
from tests.onnx.faults import FAULTS, Fault
from tests.onnx.judge import NEWEST_OPSET
from tests.onnx.specification import VERSIONS, Call

ROWS = [(operator, version) for operator, versions in VERSIONS.items() for version in versions]
"""Every operator with each of its versions."""


def faults_of(operator: str, version: int) -> list[Fault]:
    """The faults a version can have."""
    return [fault for fault in FAULTS if operator in fault.operators and version in fault.versions]


def _opset(rng: random.Random, operator: str, version: int) -> int:
    """An opset in which that version is in force."""
    last = [item - 1 for item in VERSIONS[operator] if item > version]
    return rng.randint(version, max(version, min([*last, NEWEST_OPSET])))


def good_call(seed: int, operator: str, version: int) -> Call:
    """The good call of a seed."""
    rng = random.Random(seed)
    return finished(rng, good(rng, operator, _opset(rng, operator, version)), "", seed)


def broken_call(seed: int, operator: str, version: int, fault: Fault) -> Call:
    """The call of a seed with that fault."""
    rng = random.Random(seed)
    opset = _opset(rng, operator, version)
    return finished(rng, broken(rng, fault, lambda: good(rng, operator, opset)), fault.name, seed)
