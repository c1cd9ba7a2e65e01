"""Where NumPy does not do what its manual says of index expressions. A fault is known by what both answered."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import dmlgather as dg
from tests.dialects.expressions import numpys
from tests.peers.faults import Peer, PeerFault


class Indexed(NamedTuple):
    """An array, an index expression or a chain of them, and what dmlgather gives or raises."""

    data: Any
    key: Any
    found: Any


def _refused(data: Any, key: Any) -> Indexed:
    try:
        dg.index[key](data)
    except IndexError as error:
        return Indexed(data, key, error)
    raise AssertionError("it must be refused")


def _answers(problem: Indexed) -> tuple[object, object]:
    return type(numpys(problem.data, problem.key)), type(problem.found)


NUMPY = Peer(
    "NumPy",
    "numpy",
    _answers,
    (
        PeerFault(
            "a mask of size 0",
            "takes it for a dimension of any size",
            "refuse it: the manual says that a mask must have the sizes of the dimensions that it stands for",
            lambda problem: isinstance(problem.found, IndexError) and "has size 0" in str(problem.found),
            _refused(np.arange(3), (np.zeros(0, bool),)),
        ),
    ),
)
