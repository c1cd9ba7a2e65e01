"""Calls of the operators by seed: good ones, and ones with exactly one fault."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.dialects.drafting import broken
from tests.onnx.drafts import finished, good
from tests.onnx.faults import FAULTS, Fault
from tests.onnx.judge import NEWEST_OPSET
from tests.onnx.specification import LOOKS_UP, VERSIONS, Call

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


def bad_indices_call(seed: int) -> Call:
    """The call of a seed whose indices are bad at a few places, on axes that have elements."""
    rng = random.Random(seed)
    faults = [fault for fault in FAULTS if fault.name in ("index below", "index above", "index far outside")]
    while True:
        draft = good(rng, *rng.choice([row for row in ROWS if row[0] in LOOKS_UP]))
        if draft.data.dtype.kind in "OUST" or 0 in draft.data.shape:
            continue
        for _ in range(rng.randint(1, 4)):
            rng.choice(faults).breaks(rng, draft)
        return finished(rng, draft, "", seed)


def axis_of(call: Call, place: Sequence[int]) -> int:
    """The axis that the index at a place looks up."""
    if call.operator == "GatherND":
        return int(call.named.get("batch_dims", 0)) + place[-1]
    return int(call.named.get("axis", 0)) % call.data.ndim
