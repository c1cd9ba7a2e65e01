"""What onnxruntime gets wrong of single nodes that gather, slice or move blocks, run without graph optimisations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, defs, helper, numpy_helper

from tests.dialects.outcomes import Array, content, outcome
from tests.onnx import specification
from tests.onnx.specification import Call, type_name
from tests.peers.faults import Peer, PeerFault
from tests.peers.nans import SIGNALLING


def _answers(call: Call) -> tuple[object, object]:
    from tests.dialects.outcomes import Refusal
    from tests.onnx.judge import judge  # which need onnxruntime; generators that ask for faults do without

    verdict = judge(call)
    theirs = verdict.kind if isinstance(verdict, Refusal) else verdict
    return content(theirs), content(outcome(specification.expected, call))


def _bad_index_is_all(call: Call) -> bool:
    """Whether a bad index is what the specification refuses."""
    return outcome(specification.expected, call) is IndexError


def _is_string(array: Array) -> bool:
    return type_name(array.dtype) == "tensor(string)"


def _on_the_last_axis(call: Call) -> bool:
    return call.named.get("axis", 0) in (-1, call.data.ndim - 1)


def _has_no_output(call: Call) -> bool:
    return 0 in (*call.indices.shape[:-1], *call.data.shape[_batch(call) + call.indices.shape[-1] :])


def _batch(call: Call) -> int:
    return int(call.named.get("batch_dims", 0))


def _runs_backwards_to_int_max(call: Call) -> bool:
    ends, steps = (np.ravel(call.named.get(name, ())).tolist() for name in ("ends", "steps"))
    pairs = zip(ends, steps, strict=False)  # lengths that differ are a fault of their own
    return any(end in (2**31 - 1, 2**63 - 1) and step < 0 for end, step in pairs)


def _moves_blocks(call: Call) -> bool:
    return call.operator in ("DepthToSpace", "SpaceToDepth")


_BYTES, _FLOATS = ("int8", "uint8"), ("float32", "float64")


def _blocks_are_moved(call: Call) -> bool:
    """Whether onnxruntime has the operator for this type, before version 28 has it for all."""
    more = {1: _BYTES if call.operator == "SpaceToDepth" else (), 28: (call.data.dtype.name,)}.get(
        call.version, (*_BYTES, "float16")
    )
    return call.data.dtype.name in (*_FLOATS, *more)


_SQUARE = np.arange(4, dtype=np.float32).reshape(2, 2)
_WORDS = np.array([["a", "bb"], ["ccc", "d"]], object)


def _ints(*values: Any) -> Array:
    return np.array(values, np.int64)


ONNXRUNTIME = Peer(
    "onnxruntime",
    "onnxruntime",
    _answers,
    (
        PeerFault(
            "Gather of strings",
            "copies only the first string of each contiguous block",
            "copy all of them",
            lambda call: call.operator == "Gather" and _is_string(call.data) and not _on_the_last_axis(call),
            Call("Gather", 13, (_WORDS, _ints(1, 0)), {}),
        ),
        PeerFault(
            "Gather-1 with a negative index",
            "wraps it",
            "refuse it: the page of version 1 says within bounds, and counts nothing from the back",
            lambda call: call.operator == "Gather" and call.version == 1 and _bad_index_is_all(call),
            Call("Gather", 1, (_SQUARE, _ints(-1)), {}),
        ),
        PeerFault(
            "GatherND with a bad index and no output",
            "does not look at the indices",
            "refuse it: the page calls any bad index an error",
            lambda call: call.operator == "GatherND" and _bad_index_is_all(call) and _has_no_output(call),
            Call("GatherND", 13, (np.zeros((2, 0), np.float32), _ints([9])), {}),
        ),
        PeerFault(
            "GatherND with unequal batches",
            "compares products of batch sizes and spreads data over multiples",
            "refuse it: the page says equal dimensions",
            lambda call: call.operator == "GatherND" and call.data.shape[: _batch(call)] != call.indices.shape[: _batch(call)],
            Call("GatherND", 13, (_SQUARE, _ints([0], [1], [0], [1])), {"batch_dims": 1}),
        ),
        PeerFault(
            "GatherND with batch_dims below 0",
            "counts with it and may end the process",
            "refuse it: the page speaks of a number of dimensions",
            lambda call: call.operator == "GatherND" and _batch(call) < 0,
            Call("GatherND", 13, (_SQUARE[0], _ints(1)), {"batch_dims": -2}),
            ends_process=True,
        ),
        PeerFault(
            "GatherND with batch_dims equal to a rank",
            "takes it for some shapes",
            "refuse it: the page says b < min(q, r)",
            lambda call: call.operator == "GatherND" and _batch(call) >= min(call.data.ndim, call.indices.ndim) > 0,
            Call("GatherND", 13, (_SQUARE[0], np.empty((2, 0), np.int64)), {"batch_dims": 1}),
        ),
        PeerFault(
            "Slice backwards to INT_MAX",
            "reads this end as the front of the axis (its open bug 11107)",
            "clamp it to the last element",
            lambda call: call.operator == "Slice" and _runs_backwards_to_int_max(call),
            Call("Slice", 13, (_SQUARE[0],), {"starts": [-1], "ends": [2**63 - 1], "axes": [0], "steps": [-1]}),
        ),
        PeerFault(
            "Slice of a scalar",
            "refuses it",
            "take it: with empty bounds there is nothing to slice, and the page excludes no rank",
            lambda call: call.operator == "Slice" and not call.data.ndim and np.size(call.named["starts"]) == 0,
            Call("Slice", 13, (np.array(1, np.float32),), {"starts": _ints(), "ends": _ints()}),
        ),
        PeerFault(
            "complex numbers",
            "has no tensors of them",
            "take them: every version lists complex64 and complex128",
            lambda call: call.data.dtype.kind == "c",
            Call("Gather", 13, (_SQUARE.astype(np.complex64), _ints(0)), {}),
        ),
        PeerFault(
            "blocks of most types before opset 28",
            "has no DepthToSpace and SpaceToDepth of them",
            "take them: every version lists all types",
            lambda call: _moves_blocks(call) and not _blocks_are_moved(call),
            Call("DepthToSpace", 13, (np.zeros((1, 4, 1, 1), np.int16),), {"blocksize": 2}),
        ),
        PeerFault(
            "blocks of bytes",
            "has no DepthToSpace and SpaceToDepth of some of them",
            "take them: every version lists all types",
            lambda call: _moves_blocks(call) and call.data.itemsize == 1,
            Call("DepthToSpace", 13, (np.zeros((1, 4, 1, 1), np.int8),), {"blocksize": 2}),
            versions="<1.28",
        ),
        PeerFault(
            "blocks of NaNs of float16",
            "changes their bits",
            "move bits",
            lambda call: _moves_blocks(call) and call.data.dtype == np.float16 and bool(np.isnan(call.data).any()),
            Call("DepthToSpace", 13, (SIGNALLING.repeat(2).reshape(1, 4, 1, 1),), {"blocksize": 2}),
        ),
        PeerFault(
            "opset 28",
            "does not load it",
            "take the operators of the installed onnx",
            lambda call: call.opset > 23,
            Call("SpaceToDepth", 28, (_SQUARE[None, None],), {"blocksize": 2, "mode": "CRD"}),
            versions="<1.32",
            unseen="" if defs.onnx_opset_version() >= 28 else "the installed onnx does not know it either",
        ),
    ),
)


def _ran(nodes: Sequence[NodeProto], opset: int, x: Array, *constants: TensorProto) -> Array:
    """The output y of a graph with the input x, which has the same type, as onnxruntime optimises it."""
    from onnxruntime import InferenceSession

    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    given = helper.make_tensor_value_info("x", kind, x.shape)
    graph = helper.make_graph(nodes, "graph", [given], [helper.make_tensor_value_info("y", kind, None)], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    found: Array = InferenceSession(model.SerializeToString()).run(None, {"x": x})[0]
    return found


def _clipped(values: Array) -> tuple[object, object]:
    limits = [numpy_helper.from_array(np.array(limit, np.int64), name) for name, limit in (("low", 0), ("high", 2))]
    return content(_ran([helper.make_node("Clip", ["x", "low", "high"], ["y"])], 13, values, *limits)), content(values.clip(0, 2))


CLAMPS = Peer(
    "onnxruntime's Clip, Min and Max",
    "onnxruntime",
    _clipped,
    (
        PeerFault(
            "integers of more than 32 bits",
            "leaves some of them as they are",
            "clamp them",
            lambda values: bool(((values > 2**31 - 1) | (values < -(2**31))).any()),
            _ints(2**31, 2**31),
            versions="<1.32",
        ),
    ),
)
"""Of the values that are clamped."""


def clamps(model: ModelProto) -> bool:
    """Whether a model has one of these operators."""
    return any(node.op_type in ("Clip", "Min", "Max") for node in model.graph.node)


def _selected(array: Array) -> tuple[object, object]:
    nodes = [helper.make_node("Equal", ["x", "x"], ["m"]), helper.make_node("Where", ["m", "x", "x"], ["y"])]
    return content(_ran(nodes, 16, array)), content(array)


SELECTS = Peer[Array](
    "onnxruntime's Where",
    "onnxruntime",
    _selected,
    (
        PeerFault(
            "NaNs of float16",
            "computes in float32, and writes a NaN of its own",
            "move the elements",
            lambda array: array.dtype == np.float16,
            np.array([0x7E01], np.uint16).view(np.float16),
        ),
        PeerFault(
            "negative zeros",
            "writes 0.0 where the condition selects -0.0 of the first operand",
            "move the elements",
            lambda array: array.dtype.kind == "f" and bool(((array == 0) & np.signbit(array)).any()),
            np.array([-0.0], np.float32),
        ),
    ),
)
"""Of the elements of the first operand."""
