"""ONNX's published cases of every operator, as they are and with one output stated wrongly; judged by what onnxruntime logs."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from onnx import ModelProto
from onnx.backend.test.case.node import collect_testcases

from tests import seeds
from tests.onnx.test_backend_published import quiet
from tests.onnx_checking.sessions import OFF, loads
from tests.onnx_checking.statement_judge import found
from tests.rates import assert_often

UNFOLLOWED = {"CenterCropPad", "GroupNormalization", "NegativeLogLikelihoodLoss"}
"""Functions of ONNX: onnxruntime looks into their bodies for shapes, ONNX's inference does not."""

IGNORED = {"Constant"}
"""Operators whose outputs onnxruntime knows before it reads what a model states of them."""

Messages = pytest.CaptureFixture[str]


@pytest.mark.heavy
def test_every_operator(tmp_path: Path, capfd: Messages) -> None:
    rng, outcomes = seeds.rng(), Counter[str]()
    for name, model in _cases():
        assert found(tmp_path, model) == [], name
        merged, _ = _said(model, capfd)
        assert not merged, name
        for kind in ("size", "rank", "type"):
            changed = _changed(rng, model, kind)
            if changed is None:
                continue
            findings = found(tmp_path, changed)
            merged, refuses = _said(changed, capfd)
            known = model.graph.node[-1].op_type
            if kind == "type":
                assert [each.code for each in findings] == ["EXP307" if refuses else "EXP306"], name
                assert refuses or known in IGNORED, name
            elif merged and known not in UNFOLLOWED:
                assert [each.code for each in findings] == ["EXP306"], (name, kind)
            outcomes[f"{kind} {'found' if findings else 'not found'}"] += 1
    print(f"\n{outcomes}")
    for kind in ("size", "rank", "type"):
        assert_often(outcomes[f"{kind} found"], outcomes.total(), 0.25)


def _cases() -> Iterator[tuple[str, ModelProto]]:
    with quiet():
        cases = collect_testcases(None)
    yield from ((case.name, case.model) for case in cases if case.model is not None)


def _said(model: ModelProto, messages: Messages) -> tuple[list[str], bool]:
    """The tensors whose sizes onnxruntime says that it could not merge, and whether it refuses the model."""
    messages.readouterr()
    refuses = not loads(model, OFF, severity=2)
    return re.findall(r"Error merging shape info for output\. '([^']*)'", messages.readouterr().err), refuses


def _changed(rng: random.Random, model: ModelProto, kind: str) -> ModelProto | None:
    """The model with another size, rank or type of one output; none where no output has such."""
    changed = ModelProto()
    changed.CopyFrom(model)
    tensors = [value.type.tensor_type for value in changed.graph.output if value.type.HasField("tensor_type")]
    if not tensors:
        return None
    tensor = rng.choice(tensors)
    if kind == "type":
        tensor.elem_type = rng.choice([each for each in (1, 2, 6, 7, 9, 11) if each != tensor.elem_type])
    elif kind == "rank":
        tensor.shape.dim.add(dim_value=rng.choice((1, 2)))
    else:
        numbers = [size for size in tensor.shape.dim if size.HasField("dim_value")]
        if not numbers:
            return None
        rng.choice(numbers).dim_value += rng.choice((1, 3, 64))
    return changed
