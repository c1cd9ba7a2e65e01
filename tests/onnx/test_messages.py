"""What a refusal says: the argument, the rule, both values and the remedy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlgather as dg


class Refusal:
    """A call, what it raises, and the facts its message must state: the argument, the rule, both values, the remedy."""

    def __init__(self, call: Any, raises: type[Exception], *facts: str) -> None:
        self.call, self.raises, self.facts = call, raises, facts


onnx: Any = dg.onnx
X, IDS = np.zeros((2, 3), np.float32), np.zeros((2, 1), np.int64)
REFUSALS: dict[str, Refusal] = {
    "list for data": Refusal(lambda: onnx.gather([1, 2], IDS), TypeError, "data", "list", "numpy.asarray"),
    "list for indices": Refusal(lambda: onnx.gather(X, [0]), TypeError, "indices", "list", "numpy.asarray"),
    "int for indices": Refusal(lambda: onnx.gather(X, 0), TypeError, "indices", "int", "numpy.asarray"),
    "masked data": Refusal(
        lambda: onnx.gather(np.ma.masked_array([1, 2], [False, True]), IDS), TypeError, "data", "masked", ".filled("
    ),
    "axis above": Refusal(lambda: onnx.gather(X, IDS, 2), ValueError, "axis is 2", "rank 2", "-2 … 1"),
    "axis below": Refusal(lambda: onnx.gather_elements(X, IDS, -3), ValueError, "axis is -3", "rank 2", "-2 … 1"),
    "axis of a wrong type": Refusal(lambda: onnx.gather(X, IDS, 1.0), TypeError, "axis", "1.0", "float", "integer"),
    "scalar data": Refusal(lambda: onnx.gather(X[0, 0], IDS), ValueError, "data", "scalar", "rank >= 1", "reshape"),
    "opset too old": Refusal(lambda: onnx.gather_nd(X, IDS, opset=10), ValueError, "opset is 10", "GatherND", "from opset 11"),
    "opset of a wrong type": Refusal(lambda: onnx.gather(X, IDS, opset="13"), TypeError, "opset", "'13'", "integer"),
    "ranks": Refusal(lambda: onnx.gather_elements(X, IDS[0]), ValueError, "indices", "rank 1", "rank 2", "equal", "reshape"),
    "larger off the axis": Refusal(
        lambda: onnx.gather_elements(X, np.zeros((1, 4), np.int64)), ValueError, "indices", "size 4", "size 3", "crop"
    ),
    "batch_dims": Refusal(lambda: onnx.gather_nd(X, IDS, 2), ValueError, "batch_dims is 2", "0 … 1", "(2)"),
    "batch_dims below 0": Refusal(lambda: onnx.gather_nd(X, IDS, -1), ValueError, "batch_dims is -1", "0 … 1"),
    "batch_dims too early": Refusal(
        lambda: onnx.gather_nd(X, IDS, 1, opset=11), ValueError, "batch_dims is 1", "GatherND-11", "opset 12"
    ),
    "batches": Refusal(
        lambda: onnx.gather_nd(X, np.zeros((4, 1), np.int64), 1), ValueError, "dimension 0", "2 in data", "4 in indices"
    ),
    "tuples": Refusal(
        lambda: onnx.gather_nd(X, np.zeros((1, 3), np.int64)), ValueError, "indices", "3 components", "2 dimensions"
    ),
    "scalar indices": Refusal(lambda: onnx.gather_nd(X, IDS[0, 0]), ValueError, "indices", "scalar", "rank >= 1"),
    "lengths of ends": Refusal(lambda: onnx.slice(X, [0], [1, 1]), ValueError, "starts", "1 entry", "ends 2", "equally many"),
    "lengths of axes": Refusal(lambda: onnx.slice(X, [0], [1], [0, 1]), ValueError, "1 entry", "axes 2", "equally many"),
    "lengths of steps": Refusal(lambda: onnx.slice(X, [0], [1], steps=[]), ValueError, "1 entry", "steps 0", "equally many"),
    "too many bounds": Refusal(lambda: onnx.slice(X, [0] * 3, [1] * 3), ValueError, "starts", "3 entries", "rank 2"),
    "axes entry": Refusal(lambda: onnx.slice(X, [0], [1], [5]), ValueError, "axes[0] is 5", "rank 2", "-2 … 1"),
    "axes repeated": Refusal(
        lambda: onnx.slice(X, [0, 0], [1, 1], [1, -1]), ValueError, "axes is (1, -1)", "rank 2", "more than once"
    ),
    "step 0": Refusal(lambda: onnx.slice(X, [0, 0], [1, 1], steps=[1, 0]), ValueError, "steps is (1, 0)", "cannot be 0", "[1]"),
    "steps too early": Refusal(lambda: onnx.slice(X, [0], [1], steps=[1], opset=9), ValueError, "steps", "Slice-1", "opset 10"),
    "scalar bound": Refusal(lambda: onnx.slice(X, 0, 1), TypeError, "starts is 0", "list"),
    "bound as a 0-d array": Refusal(lambda: onnx.slice(X, IDS[0, 0], [1]), ValueError, "starts", "shape ()", "one dimension"),
    "bound as a 0-d array at opset 1": Refusal(
        lambda: onnx.slice(X, np.array(0), [1], opset=1), ValueError, "starts", "shape ()", "one dimension"
    ),
    "bound with two dimensions": Refusal(lambda: onnx.slice(X, [0], IDS), ValueError, "ends", "shape (2, 1)", "reshape"),
    "bounds of two types": Refusal(
        lambda: onnx.slice(X, IDS[0], IDS[0].astype(np.int32)), TypeError, "starts int64", "ends int32", "one type"
    ),
    "ends left out": Refusal(lambda: onnx.slice(X, [0], None), TypeError, "ends is None", "list"),
    "fractions as bounds": Refusal(lambda: onnx.slice(X, [0.5], [1]), TypeError, "starts[0] is 0.5", "float", "integer"),
    "rank of blocks": Refusal(lambda: onnx.depth_to_space(X, 1), ValueError, "data", "rank 2", "DepthToSpace-13", "reshape"),
    "no block": Refusal(lambda: onnx.space_to_depth(X[None, None], 0), ValueError, "blocksize is 0", "at least 1"),
    "half a block": Refusal(
        lambda: onnx.space_to_depth(X[None, None], 2),
        ValueError,
        "size 3",
        "dimension 3",
        "blocksize 2",
        "multiples of 2",
        "to 4",
    ),
    "half a block of channels": Refusal(
        lambda: onnx.depth_to_space(X[None, None], 2), ValueError, "size 1", "dimension 1", "multiples of 4", "pad it to 4"
    ),
    "a block beyond any size": Refusal(
        lambda: onnx.depth_to_space(X[None, None], 2**62), ValueError, "size 1", "multiples of", "choose a smaller blocksize"
    ),
    "unknown mode": Refusal(lambda: onnx.depth_to_space(X[None, None], 1, "dcr"), ValueError, "mode is 'dcr'", "'DCR' or 'CRD'"),
    "mode too early": Refusal(
        lambda: onnx.space_to_depth(X[None, None], 1, "CRD"), ValueError, "mode is 'CRD'", "SpaceToDepth-13", "opset 28"
    ),
    "unknown policy": Refusal(lambda: onnx.gather(X, IDS, out_of_bounds="wrap"), ValueError, "'wrap'", "'clamp'", "Fill"),
    "fill too large": Refusal(
        lambda: onnx.gather(X.astype(np.uint8), IDS, out_of_bounds=dg.Fill(256)), ValueError, "256", "uint8", "become 0"
    ),
    "unknown device": Refusal(lambda: onnx.gather(X, IDS, device="tpu"), ValueError, "'tpu'", "'cpu'", "'cuda'"),
    "nothing to clamp to": Refusal(lambda: onnx.gather(X[:0], IDS, out_of_bounds="clamp"), ValueError, "size 0", "FILL or RAISE"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_messages_state_the_facts(name: str) -> None:
    refusal = REFUSALS[name]
    with pytest.raises((IndexError, TypeError, ValueError)) as raised:
        refusal.call()
    text = str(raised.value)
    assert raised.type is refusal.raises, text
    assert [fact for fact in refusal.facts if fact not in text] == [], text
    assert "\n" not in text
