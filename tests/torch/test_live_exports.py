"""Random modules against their exports: proven as exported, and never where a run shows that a change has changed them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx.reference import ReferenceEvaluator

import dmlgather as dg
from tests.torch.random_modules import broken, example, random_module

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore"),  # of the exporter
]

MODULES, CHANGES, MOST_TRIED = 8, 8, 40
"""Changes that matter, of so many that are tried: some change nothing, or break a rule of ONNX."""


def given(model: onnx.ModelProto, arguments: tuple[Any, ...]) -> Any:
    """What ONNX's reference evaluator gives; None where it refuses. A changed model may end the process of onnxruntime."""
    feeds = {value.name: each.numpy() for value, each in zip(model.graph.input, arguments, strict=True)}
    try:
        results: Any = ReferenceEvaluator(model).run(None, feeds)
        return results[0]
    except Exception:  # a changed model may break any rule
        return None


@pytest.mark.parametrize("number", range(MODULES))
def test_an_export_is_proven_and_a_changed_one_is_not(number: int) -> None:
    rng = random.Random(f"export {number}")
    module = random_module(rng)
    arguments = example()
    exported = torch.onnx.export(module, arguments, dynamo=True, verbose=False).model_proto
    program = torch.export.export(module, arguments)
    found = dg.equivalent(program, exported, *arguments, given="valid")
    assert found, str(found)
    right = given(exported, arguments)
    judged = 0
    for _ in range(MOST_TRIED):
        changed = broken(exported, rng)
        other = given(changed, arguments)
        if other is None or (other.shape == right.shape and np.allclose(other, right, rtol=1e-4, atol=1e-5)):
            continue
        try:
            verdict = dg.equivalent(program, changed, *arguments, given="valid").verdict
        except (TypeError, ValueError):  # the model states another shape than it has
            continue
        assert verdict != "proven"
        judged += 1
        if judged == CHANGES:
            break
    assert judged
