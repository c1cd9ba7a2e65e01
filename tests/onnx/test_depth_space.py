"""1,000 random DepthToSpace and SpaceToDepth are what the specification, onnx's reference and onnxruntime say, everywhere."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from onnx import helper
from onnx.reference import ReferenceEvaluator

from tests.dialects.drafting import seeds
from tests.dialects.outcomes import Refusal, content
from tests.gpus import NUMBERS, placed
from tests.onnx.calling import plan, run
from tests.onnx.drafts import MAKERS, finished
from tests.onnx.judge import judge, strings
from tests.onnx.specification import VERSIONS, Array, Call, expected
from tests.onnx.strategies import good_call
from tests.onnx.test_types import executed
from tests.peers.onnxruntime import ONNXRUNTIME
from tests.test_devices_agree import EXECUTIONS

OPERATORS = ("DepthToSpace", "SpaceToDepth")
ROWS = [(operator, version) for operator in OPERATORS for version in VERSIONS[operator]]


def blocks(seed: int) -> Call:
    """A good call of either operator in any version: half of them of any type, half of one that onnxruntime takes."""
    rng = random.Random(seed)
    operator, version = rng.choice(ROWS)
    if rng.random() < 0.5:
        return good_call(seed, operator, version)
    return finished(rng, MAKERS[operator](rng, version, rng.choice(("float32", "float64"))), "", seed)


def by_reference(call: Call) -> Array:
    """What onnx's own evaluator makes of a call."""
    node = helper.make_node(call.operator, ["x"], ["y"], **call.named)
    data, output = (helper.make_tensor_value_info(name, 1, None) for name in "xy")
    model = helper.make_model(
        helper.make_graph([node], "one_node", [data], [output]), opset_imports=[helper.make_opsetid("", call.opset)]
    )
    outputs: Any = ReferenceEvaluator(model).run(None, {"x": call.data})
    found: Array = outputs[0]
    return found


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(seeds.map(blocks))
def test_blocks_are_the_same_everywhere(call: Call) -> None:
    wanted = expected(call)
    assert content(by_reference(call)) == content(wanted), str(call)
    if ONNXRUNTIME.known_fault(call) is None:
        judged = judge(call)
        assert not isinstance(judged, Refusal), judged
        assert content(judged) == content(strings(wanted)), str(call)
    for device in ("cpu", "reference"):
        assert content(run(call, device=device)) == content(wanted), (device, str(call))
    if call.data.dtype.kind not in "OUST":
        for execution in EXECUTIONS:
            assert executed(plan(call), call, execution) == wanted.tobytes(), (execution, str(call))


@pytest.mark.gpu
@settings(max_examples=200, deadline=None)
@given(seeds.map(blocks))
def test_blocks_are_the_same_on_a_gpu(call: Call) -> None:
    if call.data.dtype in NUMBERS:
        for there in (run(call, device="cuda"), run(replace(call, arrays=(placed(call.data),))).get()):
            assert content(there) == content(expected(call)), str(call)
