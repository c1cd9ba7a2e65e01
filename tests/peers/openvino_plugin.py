"""What OpenVINO's CPU plugin gets wrong of gathers between other layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.openvino.runtime import openvino
from tests.peers.faults import Peer, PeerFault

op = openvino.opset13


@dataclass(frozen=True)
class Between:
    """A Gather-8 or GatherElements-6 along dimension 0 of what a layer of type `before` gives. index: the farthest one."""

    operation: str
    shape: tuple[int, ...]
    data: str
    index: int
    before: str = "Parameter"


def _answers(problem: Between) -> tuple[object, object]:
    """Of the gather, behind a slice of more rows where its data are one, and before a slice that takes all."""
    rows = problem.shape[0]
    table = np.arange(1, 1 + 2 * np.prod(problem.shape)).reshape(2 * rows, *problem.shape[1:]).astype(problem.data)
    given = table if problem.before == "Slice" else table[:rows]
    data = op.parameter(list(given.shape), given.dtype)
    before = _slice(data, rows) if problem.before == "Slice" else data
    right = np.zeros_like(given[:1])
    if -rows <= problem.index < rows:
        right = given[:rows][[problem.index]]
    indices = np.full(right.shape if problem.operation == "GatherElements" else (1,), problem.index)
    if problem.operation == "GatherElements":
        gathered = op.gather_elements(before, op.constant(indices), 0)
    else:
        gathered = op.gather(before, op.constant(indices), op.constant(np.array(0)))
    compiled = openvino.Core().compile_model(openvino.Model([_slice(gathered, 1)], [data], "between"), "CPU")
    return np.array(compiled([given])[0]).tolist(), right.tolist()


def _slice(node: Any, stop: int) -> Any:
    return op.slice(node, *(op.constant(np.array([number])) for number in (0, stop, 1)))


def _is_out_of_range(problem: Between) -> bool:
    return problem.operation == "Gather" and not -problem.shape[0] <= problem.index < problem.shape[0]


PLUGIN = Peer(
    "OpenVINO's CPU plugin between layers",
    "openvino",
    _answers,
    (
        PeerFault(
            "an index out of range into a dimension of size 1",
            "drops the Gather",
            "give zeros",
            lambda problem: _is_out_of_range(problem) and problem.shape[0] == 1,
            Between("Gather", (1, 2), "float32", 1),
        ),
        PeerFault(
            "an index out of range into a list of integers",
            "reads beyond its end",
            "give zeros",
            lambda problem: _is_out_of_range(problem) and len(problem.shape) == 1 and problem.data in ("int32", "int64"),
            Between("Gather", (3,), "int32", 4),
            unseen="it reads memory that is not the tensor's",
        ),
        PeerFault(
            "a GatherElements of a Slice",
            "drops the Slice, even where negative indices count from its end",
            "count from the end of the Slice",
            lambda problem: problem.operation == "GatherElements" and problem.before == "Slice",
            Between("GatherElements", (2,), "float32", -1, "Slice"),
        ),
    ),
)


def _of_a_size(size: int) -> tuple[object, object]:
    data = op.parameter([-1], np.float32)
    number = op.abs(op.subtract(op.shape_of(data), op.constant(np.array([5]))))
    compiled = openvino.Core().compile_model(openvino.Model([number], [data], "size"), "CPU")
    return np.array(compiled([np.zeros(size, np.float32)])[0]).tolist(), [abs(size - 5)]


SIZES = Peer(
    "OpenVINO's CPU plugin of sizes",
    "openvino",
    _of_a_size,
    (
        PeerFault(
            "Abs of what is computed from a size",
            "drops it",
            "give no negative numbers",
            lambda size: size < 5,
            4,
        ),
    ),
)
"""Of the size of a list, of which 5 are taken. `tests/openvino/test_folding.py` asks `Model.evaluate` instead."""


def _copied(values: Any, copied: Callable[[Any, Any], Any]) -> tuple[object, object]:
    """What a program of data and indices, all in range, makes of the values, and what it should make of them."""
    data, indices = op.parameter([len(values)], values.dtype), op.parameter([len(values)], np.int64)
    compiled = openvino.compile_model(openvino.Model([copied(data, indices)], [data, indices], "copied"), "CPU")
    return np.array(compiled([values, np.arange(len(values))])[0]).tolist(), values.tolist()


def _gathered(values: Any) -> tuple[object, object]:
    return _copied(values, lambda data, indices: op.gather(data, indices, op.constant(np.array(0))))


DOUBLES = Peer(
    "OpenVINO's CPU plugin of float64",
    "openvino",
    _gathered,
    (
        PeerFault(
            "numbers that float32 lacks",
            "rounds them to float32, also in a plain Gather",
            "copy them",
            lambda values: bool((values != values.astype(np.float32)).any()),
            np.array([0.1, 0.5]),
        ),
    ),
)
"""Of the values that are gathered."""


def _selected(values: Any) -> tuple[object, object]:
    count, zero = op.constant(np.array(len(values))), op.constant(np.array(0, values.dtype))
    return _copied(values, lambda data, indices: op.select(op.less(indices, count), data, zero))


SELECTED = Peer(
    "OpenVINO's CPU plugin of a Select behind a comparison",
    "openvino",
    _selected,
    (
        PeerFault(
            "integers that float32 lacks",
            "rounds them to float32",
            "copy them",
            lambda values: bool((values != values.astype(np.float32)).any()),
            np.array([2**24 + 1, 1, -(2**30) - 1, 7], np.int32),
        ),
    ),
)
"""Of the values that are selected."""
