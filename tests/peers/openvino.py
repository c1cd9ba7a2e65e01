"""What OpenVINO gets wrong: `Model.evaluate` of Gather, Slice and StridedSlice, and the CPU plugin of the other gathers."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.dialects.outcomes import Array, Refusal, content, outcome
from tests.openvino.judge import PLUGIN_DATA, NotCoveredError, is_evaluated, is_integer, judge
from tests.openvino.runtime import openvino
from tests.openvino.specification import Call, expected, gather
from tests.peers.faults import Peer, PeerFault
from tests.peers.nans import SIGNALLING, quiet


def _answers(call: Call) -> tuple[object, object]:
    right = content(outcome(expected, call))
    try:
        verdict = judge(call)
    except NotCoveredError as error:
        return str(error), right
    return content(verdict.kind if isinstance(verdict, Refusal) else verdict), right


_ROW = np.arange(1, 6, dtype=np.float32)
_FIRST = np.array([0], np.int32)

EVALUATE = Peer(
    "OpenVINO's Model.evaluate of Gather",
    "openvino",
    _answers,
    (
        PeerFault(
            "negative indices before version 8",
            "wraps them, as constant folding does; the CPU plugin does not",
            "zero: the pages of versions 1 and 7 say that indices are within 0 … n-1, and what is not becomes zero",
            lambda call: call.version in (1, 7) and bool((call.indices < 0).any()),
            gather(7, _ROW, np.array([0, -2], np.int32), 0),
        ),
        PeerFault(
            "types outside of evaluate",
            "refuses good calls of other types",
            "take them: the pages take any type of data, and any integer type of indices",
            lambda call: not is_evaluated(call),
            gather(8, _ROW.astype(np.float64), _FIRST, 0),
        ),
        PeerFault(
            "signalling NaNs of float16",
            "takes float16 through float32, which makes them quiet",
            "move bits",
            lambda call: quiet(call.data).tobytes() != call.data.tobytes(),
            gather(8, SIGNALLING, np.array([1, 0], np.int32), 0),
        ),
        PeerFault(
            "types of indices in version 1",
            "builds a node with any, which evaluate does not cover",
            "refuse what is no integer type",
            lambda call: call.version == 1 and not is_integer(call.indices),
            gather(1, _ROW, _FIRST.astype(np.float32), 0),
        ),
        PeerFault(
            "batch_dims below minus the rank of indices",
            "does not check it",
            "refuse it: the page has it in [-min(data_rank, indices_rank), min(data_rank, indices_rank)]",
            lambda call: isinstance(call.more["batch_dims"], int) and call.more["batch_dims"] < -call.indices.ndim,
            gather(8, _ROW, _FIRST, 0, -2),
            unseen="it reads memory that is not the tensors', and may end the process or not",
        ),
    ),
)


def _gathers(call: Call) -> bool:
    return not call.operation.endswith("Slice")


def _marked(call: Call, *names: str) -> bool:
    """Whether all these masks have a 1 at one place."""
    masks = [[*call.more.get(name, ())] for name in names]
    return call.operation == "StridedSlice" and any(all(marks) for marks in zip(*masks, strict=False))


def _numbers(call: Call) -> list[int]:
    values = [call.more.get(name, []) for name in ("start", "stop", "step", "begin", "end", "strides")]
    return [int(number) for each in values for number in np.asarray(each).reshape(-1)]


_X = np.arange(6, dtype=np.float32)


def _strided(data: Array, begin: list[int], end: list[int], **more: Any) -> Call:
    return Call("StridedSlice", 1, (data,), {"begin": begin, "end": end, **more})


FAMILY = Peer(
    "OpenVINO of GatherElements, GatherND, Slice and StridedSlice",
    "openvino",
    _answers,
    (
        PeerFault(
            "types of data that the CPU plugin does not move as they are",
            "makes 64 bits 32, and bfloat16 and others floats",
            "move bits",
            lambda call: _gathers(call) and call.arrays[0].dtype.name not in PLUGIN_DATA,
            Call("GatherElements", 6, (np.array([2**32 + 1]), np.array([0])), {"axis": 0}),
        ),
        PeerFault(
            "indices out of range of GatherND",
            "the CPU plugin takes them",
            "refuse them: the page requires indices in range",
            lambda call: call.operation == "GatherND" and call.fault == "an index out of range",
            Call("GatherND", 8, (_X, np.array([[6]])), {"batch_dims": 0}, "an index out of range"),
            unseen="it reads memory that is not the tensor's",
        ),
        PeerFault(
            "tuples without components of GatherND",
            "the CPU plugin leaves the elements unwritten",
            "copy data: an empty tuple is of no dimension",
            lambda call: call.operation == "GatherND" and not call.fault and not call.indices.shape[-1],
            Call("GatherND", 8, (_X, np.zeros((1, 0), np.int32)), {"batch_dims": 0}),
            unseen="it gives memory that was not written",
        ),
        PeerFault(
            "indices of more than 32 bits",
            "the CPU plugin drops the high ones: 2^32 + 1 is 1",
            "refuse them",
            lambda call: len(call.arrays) > 1 and call.fault == "an index out of range" and call.arrays[1].itemsize == 8,
            Call("GatherElements", 6, (_X, np.array([2**32 + 1])), {"axis": 0}, "an index out of range"),
        ),
        PeerFault(
            "NaNs of float16",
            "the CPU plugin may take float16 through float32, which makes NaNs quiet",
            "move bits",
            lambda call: len(call.arrays) > 1 and call.arrays[0].dtype == np.float16 and bool(np.isnan(call.arrays[0]).any()),
            Call("GatherElements", 6, (SIGNALLING, np.array([1, 0])), {"axis": 0}),
        ),
        PeerFault(
            "unsigned bounds from 2^63 on",
            "evaluate takes them for negative ones",
            "clamp them to the end",
            lambda call: any(number >= 2**63 for number in _numbers(call)),
            Call("Slice", 8, (_X,), {"start": np.array([0], "u8"), "stop": np.array([2**64 - 1], "u8"), "step": [1]}),
        ),
        PeerFault(
            "an ellipsis where another mask has a 1 as well",
            "lets the ellipsis count in shape inference; evaluate lets the other mask, and leaves elements unwritten",
            "let one of them count",
            lambda call: _marked(call, "ellipsis_mask", "new_axis_mask") or _marked(call, "ellipsis_mask", "shrink_axis_mask"),
            _strided(_X, [0], [1], ellipsis_mask=[1], shrink_axis_mask=[1]),
        ),
        PeerFault(
            "a slice backwards of an empty dimension with a masked begin",
            "evaluate takes one element that does not exist",
            "take none",
            lambda call: call.operation == "StridedSlice" and 0 in call.arrays[0].shape and any(n < 0 for n in _numbers(call)),
            _strided(_X[:0], [0], [-1], strides=[-1], begin_mask=[1]),
        ),
        PeerFault(
            "strides that are no integers",
            "checks the types of begin and end alone",
            "refuse them: the page has integers for all three",
            lambda call: call.operation == "StridedSlice" and np.asarray(call.more.get("strides", ())).dtype.kind not in "iu",
            _strided(_X, [0], [6], strides=np.array([1], np.float32)),
        ),
        PeerFault(
            "scalars that are sliced",
            "evaluate does not read them",
            "give the scalar",
            lambda call: call.operation == "StridedSlice" and not call.arrays[0].ndim,
            _strided(_X[5].reshape(()), [], []),
            unseen="it reads memory that is not the tensor's",
        ),
    ),
)


def _broadcast(sizes: tuple[list[int], list[int]]) -> tuple[object, object]:
    before, after = sizes
    data = openvino.op.Parameter(openvino.Type.f32, openvino.PartialShape(before))
    model = openvino.Model([openvino.opset13.broadcast(data, openvino.op.Constant(np.array(after)))], [data], "one_broadcast")
    output = openvino.Tensor(openvino.Type.f32, openvino.Shape(after))
    assert model.evaluate([output], [openvino.Tensor(np.ones(before, np.float32))])
    return output.data.tolist(), np.ones(after).tolist()


BROADCAST = Peer(
    "OpenVINO's Model.evaluate of Broadcast",
    "openvino",
    _broadcast,
    (
        PeerFault(
            "tensors without elements",
            "divides by their size",
            "give one without elements",
            lambda sizes: 0 in sizes[0],
            ([0], [1, 0]),
            ends_process=True,
        ),
    ),
)
"""Of the sizes before and after."""
