"""DepthToSpace and SpaceToDepth of every version: onnx's own evaluator, too, gives what the specification says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from onnx.reference import ReferenceEvaluator

from tests.dialects.drafting import seeds
from tests.dialects.outcomes import content
from tests.onnx.judge import one_node, strings
from tests.onnx.specification import expected
from tests.onnx.strategies import ROWS, good_call


@pytest.mark.parametrize(("operator", "version"), [row for row in ROWS if row[0] in ("DepthToSpace", "SpaceToDepth")])
@settings(max_examples=70, deadline=None)
@given(seeds)
def test_blocks_are_those_of_onnx_s_evaluator(operator: str, version: int, seed: int) -> None:
    call = good_call(seed, operator, version)
    model = one_node(call.node, call.opset, {"data": strings(call.data)})
    found: Any = ReferenceEvaluator(model).run(None, {"data": call.data})
    assert content(found[0]) == content(expected(call)), str(call)
