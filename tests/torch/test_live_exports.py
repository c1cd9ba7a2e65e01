"""Random modules against their exports: proven as exported, and never where a run shows that a change has changed them."""

from __future__ import annotations

import functools
import random
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx.reference import ReferenceEvaluator

import dmlgather as dg
from tests.noticing import BrokenPrograms
from tests.torch.random_modules import broken, example, random_module

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore"),  # of the exporter
]

MODULES, CHANGES = 8, 4


def given(model: onnx.ModelProto, arguments: tuple[Any, ...]) -> Any:
    """What ONNX's reference evaluator gives; None where it refuses. A changed model may end the process of onnxruntime."""
    feeds = {value.name: each.numpy() for value, each in zip(model.graph.input, arguments, strict=True)}
    try:
        results: Any = ReferenceEvaluator(model).run(None, feeds)
        return results[0]
    except Exception:  # a changed model may break any rule
        return None


@functools.cache
def export_of(number: int) -> tuple[Any, onnx.ModelProto, tuple[Any, ...], Any]:
    """A program, its export, arguments, and what the export gives for them."""
    module = random_module(random.Random(f"export {number}"))
    arguments = example()
    exported = torch.onnx.export(module, arguments, dynamo=True, verbose=False).model_proto
    return torch.export.export(module, arguments), exported, arguments, given(exported, arguments)


def judge(name: str, seed: int) -> tuple[str, str]:
    """The verdict on a changed export, where a run shows that the change matters."""
    program, exported, arguments, right = export_of(int(name.split()[1].rstrip(",")))
    changed = broken(exported, random.Random(f"{name} {seed}"))
    other = given(changed, arguments)
    if other is None or (other.shape == right.shape and np.allclose(other, right, rtol=1e-4, atol=1e-5)):
        return "", ""
    try:
        return "", dg.equivalent(program, changed, *arguments, given="valid").verdict
    except (TypeError, ValueError):  # the model states another shape than it has
        return "", ""


def names_of(number: int) -> list[str]:
    return [f"export {number}, change {change}" for change in range(CHANGES)]


PROGRAMS = BrokenPrograms(
    "tests/torch/test_live_exports.py", [name for number in range(MODULES) for name in names_of(number)], judge
)


@pytest.mark.parametrize("number", range(MODULES))
def test_an_export_is_proven_and_a_changed_one_is_not(number: int) -> None:
    program, exported, arguments, _ = export_of(number)
    found = dg.equivalent(program, exported, *arguments, given="valid")
    assert found, str(found)
    for name in names_of(number):
        assert PROGRAMS.check(name) != "proven", name
