"""hypothesis strategies for calls of Gather: such as OpenVINO evaluates, any good ones, and ones with exactly one fault."""

from __future__ import annotations

import random

from tests.dialects.drafting import broken, seeds
from tests.openvino.drafts import finished, good
from tests.openvino.faults import Fault
from tests.openvino.judge import EVALUATED_DATA, EVALUATED_INDICES
from tests.openvino.specification import INTEGERS, NAMES, VERSIONS, Call
from tests.peers.nans import quiet

DATA = tuple(NAMES)
COVERED_DATA = tuple(dtype for dtype, name in NAMES.items() if name in EVALUATED_DATA)
COVERED_INDICES = tuple(dtype for dtype, name in NAMES.items() if name in EVALUATED_INDICES)


def evaluated_call(seed: int) -> Call:
    """The good call of a seed that `Model.evaluate` judges."""
    rng = random.Random(seed)
    version = rng.choice((*VERSIONS, 8, 8))
    draft = good(rng, version, COVERED_DATA, COVERED_INDICES, negatives=version == 8)
    draft.data = quiet(draft.data)
    return finished(rng, draft, "", seed)


def any_call(seed: int) -> Call:
    """The good call of a seed, of any types and with negative indices in every version."""
    rng = random.Random(seed)
    return finished(rng, good(rng, rng.choice(VERSIONS), DATA, INTEGERS, negatives=True), "", seed)


def broken_call(seed: int, version: int, fault: Fault) -> Call:
    """The call of a seed with that fault."""
    rng = random.Random(seed)
    dtypes, index_dtypes = rng.choice(((DATA, INTEGERS), (COVERED_DATA, COVERED_INDICES)))
    draft = broken(rng, fault, lambda: good(rng, version, dtypes, index_dtypes, negatives=version == 8))
    return finished(rng, draft, fault.name, seed)


evaluated_calls = seeds.map(evaluated_call)
any_calls = seeds.map(any_call)
