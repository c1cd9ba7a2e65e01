"""Expressions of every kind in `dg.index`, alone, step by step, and fused with known indices: NumPy judges."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dmlgather as dg
from dmlgather.calls.arguments import Fill
from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.dialects.problem import TensorType
from dmlgather.fusion import Fused, fuse
from dmlgather.numpy import IndexExpression
from tests.dialects.binding import DEVICES
from tests.dialects.brackets import Key, Spelling, is_array, random_bits, some_key
from tests.dialects.expressions import numpys
from tests.dialects.outcomes import content
from tests.numpy.random_chains import stepped, steps
from tests.peers.numpy import NUMPY, Indexed

TYPES = ("int64", "float32", "uint8", "float16", "bool", "complex128")
Outcome = NDArray[Any] | type[IndexError]


def check_brackets(seed: int, kind: str = "") -> bool:
    """One to three brackets of a seed give NumPy's bits, or an IndexError, in each way to run them. Whether NumPy takes them.

    kind: of the expressions; any by default. Half of those of one bracket have another policy for indices out of range.
    """
    rng = random.Random(seed)
    data = random_bits(rng, rng.choice(TYPES))
    chain, expected, keys = _some_brackets(rng, data, kind)
    choice: str | Fill | None = None
    if len(keys) == 1 and rng.random() < 0.5 and data.size:
        choice = rng.choice(("clamp", Fill(1)))
        expected = _within(data, keys[0], choice)
    device = rng.choice(DEVICES)
    case = f"{chain} of {data.dtype} {data.shape} under {choice}: {keys}"
    runs: dict[str, Callable[[], Any]] = {
        "at once": lambda: chain(data, out_of_bounds=choice, device=device),
        "a second time": lambda: [chain(data, out_of_bounds=choice) for _ in range(2)][1],
        "step by step": lambda: stepped(chain, data, choice),
        "with known indices": lambda: _known(chain, data, choice)(data, device=device),
    }
    for how, run in runs.items():
        try:
            found: Any = np.asarray(run())
        except IndexError as error:
            if type(error) is not IndexError:  # NumPy has errors that are IndexErrors as well
                raise
            if isinstance(expected, np.ndarray) and NUMPY.known_fault(Indexed(data, chain, error)):
                return False
            found = IndexError
        assert content(found) == content(expected), f"{how}: {case}: expected {expected!r}, found {found!r}"
    return isinstance(expected, np.ndarray)


def _some_brackets(rng: random.Random, data: NDArray[Any], kind: str) -> tuple[IndexExpression, Outcome, list[Key]]:
    """Brackets one behind the other, and what NumPy gives."""
    chain, found, keys = dg.index, data, list[Key]()
    for _ in range(rng.choice((1, 1, 2, 3))):
        key = some_key(rng, found.shape, Spelling(), far=rng.choice((0.0, 0.3)), kind=kind)
        chain, keys = chain[key], [*keys, key]
        following = numpys(found, key)
        if isinstance(following, Exception):
            assert isinstance(following, IndexError), (key, following)
            return chain, IndexError, keys
        found = following
        if found.ndim > 6 or found.size > 2000:
            break
    return chain, found, keys


def _within(data: NDArray[Any], key: Key, choice: str | Fill) -> Outcome:
    """What NumPy gives of data that has one element more along each axis that is looked up, for each index out of range."""
    clamps = choice == "clamp"
    masks = [isinstance(entry, np.ndarray) and not is_array(entry) for entry in key]
    ranks = [entry.ndim if mask else int(entry is not None and entry is not ...) for entry, mask in zip(key, masks, strict=True)]
    for number, entry in enumerate(key):
        if entry is ...:
            ranks[number] += data.ndim - sum(ranks)
    entries, pads = list[Any](), [(0, 0)] * data.ndim
    for number, entry in enumerate(key):
        axis = sum(ranks[:number])
        if not is_array(entry) or not entry.ndim:  # one without dimensions is an integer
            entries.append(entry)
            continue
        size, wide = data.shape[axis], entry.astype(np.int64)
        counted = np.where(wide < 0, wide + size, wide)
        outside = (counted < 0) | (counted >= size)
        entries.append(np.clip(counted, 0, size - 1) if clamps else np.where(outside, size, counted))
        pads[axis] = (0, 1)
    padded = np.pad(data, [(0, 0)] * data.ndim if clamps else pads, constant_values=data.dtype.type(1))
    found = numpys(padded, tuple(entries))
    return found if isinstance(found, np.ndarray) else IndexError


def _known(chain: IndexExpression, data: NDArray[Any], choice: str | Fill | None) -> Fused:
    """The brackets fused, with indices that are constants of the graph."""
    graph = GraphBuilder()
    value = graph.input("x", TensorType(data.shape, data.dtype))
    for problem, indices in steps(chain, data, choice):
        value = graph.problem("brackets", problem, value, *map(graph.constant, indices))
    return fuse(graph.build([value]))
