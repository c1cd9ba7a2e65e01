"""Calls of OpenVINO's operations by seed: good ones, and ones with exactly one fault."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.dialects.drafting import broken
from tests.openvino.drafts import Draft, good
from tests.openvino.faults import FAULTS, Fault
from tests.openvino.judge import EVALUATED_DATA, EVALUATED_INDICES, PLUGIN_DATA
from tests.openvino.specification import INTEGERS, NAMES, VERSIONS, Call
from tests.peers.nans import quiet

ROWS = [f"{operation}-{version}" for operation, versions in VERSIONS.items() for version in versions]
"""Every operation with each of its versions."""

DATA = tuple(NAMES)
COVERED_DATA = tuple(dtype for dtype, name in NAMES.items() if name in EVALUATED_DATA)
COVERED_INDICES = tuple(dtype for dtype, name in NAMES.items() if name in EVALUATED_INDICES)


def _version(row: str) -> tuple[str, int]:
    operation, version = row.split("-")
    return operation, int(version)


def _judged_data(operation: str) -> Sequence[Any]:
    """The types of data that OpenVINO moves."""
    return PLUGIN_DATA if operation in ("GatherElements", "GatherND") else COVERED_DATA


def faults_of(row: str) -> list[Fault]:
    """The faults that an operation can have in a version."""
    operation, version = _version(row)
    return [fault for fault in FAULTS if operation in fault.operations and version in fault.versions]


def good_call(seed: int, row: str) -> Call:
    """The good call of a seed: half of them such as OpenVINO judges, half of any types and values."""
    rng = random.Random(seed)
    operation, version = _version(row)
    if rng.random() < 0.5:
        return good(rng, operation, version, DATA).finished(rng, "", seed)
    draft = good(rng, operation, version, _judged_data(operation), COVERED_INDICES)
    draft.arrays[0] = quiet(draft.data)
    if operation == "Gather" and version < 8:  # where OpenVINO contradicts itself on negative indices
        draft.arrays[1] = np.asarray(np.maximum(draft.arrays[1], 0))
    return draft.finished(rng, "", seed)


def broken_call(seed: int, row: str, fault: Fault) -> Call:
    """The call of a seed with that fault."""
    rng = random.Random(seed)
    operation, version = _version(row)
    covered = (_judged_data(operation), COVERED_INDICES)
    dtypes, index_dtypes = rng.choice(((DATA, INTEGERS), covered, covered))

    def breakable() -> Draft:
        while True:
            draft = good(rng, operation, version, dtypes, index_dtypes)
            if operation == "Gather" or 0 not in draft.data.shape:  # in which any index is out of range
                return draft

    return broken(rng, fault, breakable).finished(rng, fault.name, seed)
