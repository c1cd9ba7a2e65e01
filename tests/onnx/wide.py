"""Random good calls of up to ten dimensions, mostly of windows that are not empty."""

from __future__ import annotations

import random

import numpy as np

from dmlgather.directml import FeatureLevel
from tests.dialects.binding import held
from tests.dialects.drafting import sizes_within
from tests.directml.pages import PAGES
from tests.onnx.described import NAMES
from tests.onnx.drafts import DTYPES, MAKERS, Sizes, finished
from tests.onnx.specification import VERSIONS, Call

NUMBERS = tuple(kind for kind in DTYPES if np.dtype(kind).kind not in "OUST")


def drawn(seed: int, level: FeatureLevel) -> Call:
    """The good call of a seed, mostly of a data type that DirectML has at `level`."""
    rng = random.Random(seed)
    operator = rng.choice(list(NAMES))
    opset = rng.choice([opset for opset in (1, 10, 11, 12, 13, 16, 28) if opset >= VERSIONS[operator][0]])
    page = PAGES[NAMES[operator]]
    known = page.at(max(level, page.introduced)).data
    wanted = [kind for kind in NUMBERS if held(np.dtype(kind))[0] in known or rng.random() < 0.1]
    if opset < 13:
        wanted = [kind for kind in wanted if np.dtype(kind).name != "bfloat16"]
    return finished(rng, MAKERS[operator](rng, opset, rng.choice(wanted), WIDE), "", seed)


def _data(rng: random.Random, least: int) -> tuple[int, ...]:
    if rng.random() < 0.1:  # of which a part can be taken that does not merge
        return (3,) * rng.choice((5, 6))
    rank = 0 if not least and rng.random() < 0.03 else rng.choice((1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 9, 10, 10))
    return tuple(sizes_within(rng, rank, 100))


def _around(rng: random.Random) -> tuple[int, ...]:
    return tuple(sizes_within(rng, rng.choice((0, 0, 1, 1, 2, 3, 5, 9)), 8))


def _bounds(rng: random.Random, size: int) -> tuple[int, int, int]:
    """Seldom of an empty window."""
    first = rng.choice((0, 0, rng.randint(0, max(size - 1, 0))))
    last = rng.randint(first, max(size - 1, first)) if rng.random() < 0.98 else first - 1
    step = rng.choice((1, 1, 1, 2, 3, 2**63 - 1))
    if rng.random() < 0.2:
        return rng.choice((last, last - size) if last < size - 1 else (-1, 2**40)), first - 1 if first else -(2**63), -step
    return rng.choice((first, first - size)), last + 1 if last < size - 1 else rng.choice((size, 2**63 - 1)), step


WIDE = Sizes(_data, _around, _bounds)
