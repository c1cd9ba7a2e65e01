"""Descriptors of random calls give PyTorch's bits, and plans do."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch

import dmlgather as dg
from dmlgather.backends import reference
from dmlgather.dialects.exporter import LEVELS
from dmlgather.directml import FeatureLevel
from tests.dialects import binding
from tests.torch.drafts import MAKERS, draft
from tests.torch.drawing import Drawing
from tests.torch.judge import TorchCall, bits, live

pytestmark = pytest.mark.torch

INDEX = {"index_select": 2, "gather": 2, "take": 1, "take_along_dim": 1, "embedding": 0}
"""Which argument is the index."""


def packed(call: TorchCall) -> TorchCall:
    """The call with its data packed, as plans and descriptors read it, and of a type that both libraries keep the bits of."""
    arguments = [each.contiguous().clone() if isinstance(each, torch.Tensor) and each.dim() else each for each in call.arguments]
    return TorchCall(call.operation, tuple(arguments))


def inputs(call: TorchCall) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Data, and the index that descriptors bind."""
    if call.operation == "index":
        return call.arguments[0], None
    where = INDEX.get(call.operation)
    data = call.arguments[1 if call.operation == "embedding" else 0]
    return data, None if where is None else call.arguments[where]


def gather_of_remainders(call: TorchCall) -> TorchCall:
    """What the report on a take_along_dim says to describe in its place."""
    data, index, dim = call.arguments
    axis = int(dim) % data.dim()
    sizes = torch.broadcast_shapes(*((*each.shape[:axis], 1, *each.shape[axis + 1 :]) for each in (data, index)))
    data, index = (
        each.expand(*sizes[:axis], each.shape[axis], *sizes[axis + 1 :]).contiguous()
        for each in (data, index % max(data.shape[axis], 1))
    )
    return TorchCall("gather", (data, axis, index))


@pytest.mark.parametrize("operation", sorted({*MAKERS} - {"index"}))
def test_descriptors_and_plans_give_pytorchs_bits(operation: str) -> None:
    rng = random.Random(f"export of {operation}")
    said = Counter[str]()
    for _ in range(60):
        call = packed(draft(rng, operation, faulty=False))
        right = live(call)
        data, index = inputs(call)
        if right.error is not None or data.dtype in (torch.float16, torch.bfloat16) or data.is_conj():
            continue
        if operation == "take_along_dim" and len(call.arguments) == 3:  # whose remainders no plan takes
            call = gather_of_remainders(call)
            data, index = inputs(call)
        level = rng.choice(LEVELS)
        described = getattr(dg.torch, call.operation).to_directml(*call.arguments, level=level)
        plans = getattr(dg.torch, call.operation).plan(*call.arguments)
        if operation == "roll":
            check_parts(plans, data, right.tensors[0])
        several = operation in ("chunk", "split", "tensor_split")
        for tensor, each, plan in zip(
            right.tensors, described if several else [described], plans if several else [plans], strict=True
        ):
            if operation != "roll":
                check_plan(plan, call, data, index, tensor)
            if isinstance(each, dg.Report):
                empty = 0 in (*data.shape, *tensor.shape, *(() if index is None else index.shape))
                codes = {finding.code for finding in each.findings}
                assert (codes == {"EXP102"}) == empty, (str(call), str(each))
                said["refused"] += 1
                continue
            size = data.numel() if call.operation == "take" or len(call.arguments) == 2 else 1
            check_descriptors(each, level, tensor, data, indices=None if index is None else index.numpy(), sizes=np.array(size))
            said["taken"] += 1
    assert said["taken"] >= 10, said


def check_descriptors(described: Any, level: FeatureLevel, right: torch.Tensor, data: torch.Tensor, **bound: Any) -> None:
    """Descriptors give the right bits of tensors, whose types NumPy may lack."""
    expected, content = (np.frombuffer(bits(each), np.uint8) for each in (right, data))
    binding.check(described, level, expected, data=content, **bound)


def check_plan(plan: dg.IndexPlan, call: TorchCall, data: torch.Tensor, index: torch.Tensor | None, right: torch.Tensor) -> None:
    """The reference makes the right bits of the plan, over packed buffers."""
    if call.operation == "as_strided":
        data = data.reshape(-1)
    width = np.dtype(f"V{plan.element_bytes}")
    result = np.zeros(plan.out_extent, width)
    flat = None if index is None else index.reshape(-1).numpy()
    bad = reference.prepare(plan).run(np.frombuffer(bits(data), width), flat, result)
    assert bad is None, call
    assert result.tobytes() == bits(right), call


def check_parts(plans: tuple[dg.IndexPlan, ...], data: torch.Tensor, right: torch.Tensor) -> None:
    """The plans of a roll write all of the result, each a part of it."""
    width = np.dtype(f"V{data.dtype.itemsize}")
    result = np.zeros(right.numel(), width)
    for plan in plans:
        reference.prepare(plan).run(np.frombuffer(bits(data), width), None, result)
    assert result.tobytes() == bits(right)
    assert sum(plan.elements for plan in plans) == right.numel()


def test_index_expressions_give_pytorchs_bits() -> None:
    rng = random.Random(11)
    taken = 0
    for _ in range(200):
        call = packed(TorchCall("index", MAKERS["index"](Drawing(rng, faulty=False))))
        right = live(call)
        data, key = call.arguments
        if right.error is not None or data.is_conj():
            continue
        level = rng.choice(LEVELS)
        described: Any = dg.torch.index.to_directml(data, key, level=level)
        if isinstance(described, dg.Report):
            continue
        axes = dg.torch.index.problem(data, key).lookup_axes
        indices = dg.torch.index.inputs(data, key)[-1].numpy() if axes else None
        sizes = np.array([data.shape[axis] for axis in axes])
        check_descriptors(described, level, right.tensors[0], data, indices=indices, sizes=sizes)
        taken += 1
    assert taken > 60
