"""What a refusal says: the argument, the rule, both values and the remedy."""

from __future__ import annotations

from typing import Any

import numpy as np

import dmlgather as dg
from tests.dialects.refusals import Refusals, check_refused, each_of

onnx: Any = dg.onnx
X, IDS = np.zeros((2, 3), np.float32), np.zeros((2, 1), np.int64)

REFUSED: Refusals = {
    TypeError: {
        "data...list...numpy.asarray": lambda: onnx.gather([1, 2], IDS),
        "indices...list...numpy.asarray": lambda: onnx.gather(X, [0]),
        "indices...int...numpy.asarray": lambda: onnx.gather(X, 0),
        "data...masked....filled(": lambda: onnx.gather(np.ma.masked_array([1, 2], [False, True]), IDS),
        "axis is 1.0 of type float, expected an integer": lambda: onnx.gather(X, IDS, 1.0),
        "opset is '13' of type str, expected an integer": lambda: onnx.gather(X, IDS, opset="13"),
        "starts is 0, expected a list of integers or an array of one dimension": lambda: onnx.slice(X, 0, 1),
        "starts, ends, axes and steps have different types (starts int64...ends int32...one type": lambda: onnx.slice(
            X, IDS[0], IDS[0].astype(np.int32)
        ),
        "ends is None, expected a list of integers or an array of one dimension": lambda: onnx.slice(X, [0], None),
        "starts[0] is 0.5 of type float, expected an integer": lambda: onnx.slice(X, [0.5], [1]),
    },
    ValueError: {
        "axis is 2, but data has rank 2: expected -2 … 1": lambda: onnx.gather(X, IDS, 2),
        "axis is -3, but data has rank 2: expected -2 … 1": lambda: onnx.gather_elements(X, IDS, -3),
        "data is a scalar, but Gather-13 takes data of rank >= 1: reshape it to (1,)": lambda: onnx.gather(X[0, 0], IDS),
        "opset is 10, but GatherND exists from opset 11 on": lambda: onnx.gather_nd(X, IDS, opset=10),
        "indices...rank 1...rank 2...equal...reshape": lambda: onnx.gather_elements(X, IDS[0]),
        "indices...size 4...size 3...crop": lambda: onnx.gather_elements(X, np.zeros((1, 4), np.int64)),
        "batch_dims is 2, expected 0 … 1, because...ranks of data (2) and indices (2)": lambda: onnx.gather_nd(X, IDS, 2),
        "batch_dims is -1, expected 0 … 1, because...ranks of data (2) and indices (2)": lambda: onnx.gather_nd(X, IDS, -1),
        "batch_dims is 1, but GatherND-11 has no batch_dims; it came with opset 12": lambda: onnx.gather_nd(X, IDS, 1, opset=11),
        "batch dimension 0...2 in data...4 in indices": lambda: onnx.gather_nd(X, np.zeros((4, 1), np.int64), 1),
        "indices...3 components...2 dimensions": lambda: onnx.gather_nd(X, np.zeros((1, 3), np.int64)),
        "indices...scalar...rank >= 1": lambda: onnx.gather_nd(X, IDS[0, 0]),
        "starts[0] is 9223372036854775808": lambda: onnx.slice(X, [2**63], [1]),
        "starts[0] is -9223372036854775809": lambda: onnx.slice(X, [-(2**63) - 1], [1]),
        "starts has 1 entry and ends 2: expected equally many": lambda: onnx.slice(X, [0], [1, 1]),
        "starts has 1 entry and axes 2: expected equally many": lambda: onnx.slice(X, [0], [1], [0, 1]),
        "starts has 1 entry and steps 0: expected equally many": lambda: onnx.slice(X, [0], [1], steps=[]),
        "starts has 3 entries, but data has rank 2: at most one per axis": lambda: onnx.slice(X, [0] * 3, [1] * 3),
        "axes[0] is 5, but data has rank 2: expected -2 … 1": lambda: onnx.slice(X, [0], [1], [5]),
        "axes is (1, -1)...rank 2...more than once": lambda: onnx.slice(X, [0, 0], [1, 1], [1, -1]),
        "steps is (1, 0), but a step cannot be 0: steps[1] must be 1 or more, or negative": lambda: onnx.slice(
            X, [0, 0], [1, 1], steps=[1, 0]
        ),
        "steps is (1,), but Slice-1 has no steps; they came with opset 10": lambda: onnx.slice(X, [0], [1], steps=[1], opset=9),
        "starts has shape (), but Slice-13 takes one dimension: reshape to (-1,)": lambda: onnx.slice(X, IDS[0, 0], [1]),
        "starts has shape (), but Slice-1 takes one dimension: reshape to (-1,)": lambda: onnx.slice(
            X, np.array(0), [1], opset=1
        ),
        "ends has shape (2, 1), but Slice-13 takes one dimension: reshape to (-1,)": lambda: onnx.slice(X, [0], IDS),
        "data has rank 2, but DepthToSpace-13 takes [n, c, h, w]: reshape it to rank 4": lambda: onnx.depth_to_space(X, 1),
        "blocksize is 0, expected at least 1": lambda: onnx.space_to_depth(X[None, None], 0),
        "data has size 3...dimension 3...blocksize 2...multiples of 2...to 4": lambda: onnx.space_to_depth(X[None, None], 2),
        "data has size 2...dimension 1...multiples of 4...pad it to 4": lambda: onnx.depth_to_space(X[None, :, None], 2),
        "data has size 1...multiples of...choose a smaller blocksize": lambda: onnx.depth_to_space(X[None, None], 2**62),
        "mode is 'dcr', expected 'DCR' or 'CRD'": lambda: onnx.depth_to_space(X[None, None], 1, "dcr"),
        "mode is 'CRD'...SpaceToDepth-13...opset 28": lambda: onnx.space_to_depth(X[None, None], 1, "CRD"),
        "out_of_bounds is 'wrap'...'clamp'...Fill": lambda: onnx.gather(X, IDS, out_of_bounds="wrap"),
        "Fill value 256 cannot be stored as uint8: it would become 0": lambda: onnx.gather(
            X.astype(np.uint8), IDS, out_of_bounds=dg.Fill(256)
        ),
        "device is 'tpu'...'cpu'...'cuda'": lambda: onnx.gather(X, IDS, device="tpu"),
        "lookup 0 indexes an axis of size 0...FILL or RAISE": lambda: onnx.gather(X[:0], IDS, out_of_bounds="clamp"),
    },
}


@each_of(REFUSED)
def test_messages_state_the_facts(call: Any, error: type[Exception], message: str) -> None:
    check_refused(call, error, message)
