"""out=, as PyTorch takes it: written, resized where it has no elements, refused where it does not fit."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import dmlgather as dg
from tests.torch.drafts import MAKERS, draft
from tests.torch.judge import bits, live, ours, same_bits

pytestmark = pytest.mark.torch

X = torch.arange(24.0).reshape(2, 3, 4)
PAIR = torch.tensor([2, 0])
SEVERAL = ("chunk", "split", "tensor_split")


def test_every_function_writes_to_out() -> None:
    rng = random.Random(3)
    for operation in sorted({*MAKERS} - {*SEVERAL}):
        for _ in range(12):
            call = draft(rng, operation, faulty=False)
            right = live(call)
            if right.error is not None or right.tensors[0].dtype in (torch.float16, torch.bfloat16):
                continue
            (expected,) = right.tensors
            wide = torch.zeros((*expected.shape, 2), dtype=expected.dtype).transpose(0, -1) if expected.dim() else None
            plain = torch.zeros_like(expected, memory_format=torch.contiguous_format)
            for out in (
                plain,
                torch.empty(0, dtype=expected.dtype),
                wide.transpose(0, -1)[..., 1] if wide is not None else plain,
            ):
                found = ours(call, out=out)
                assert found.error is None, (str(call), found)
                assert found.tensors[0] is out, call
                assert same_bits(out, expected), call


@pytest.mark.parametrize("device", [None, "reference"])
def test_a_strided_out_keeps_what_lies_between(device: str | None) -> None:
    calls: list[Callable[[torch.Tensor], Any]] = [
        lambda out: dg.torch.index_select(X, 1, PAIR, out=out, device=device),
        lambda out: dg.torch.roll(X[:, :2], 5, out=out, device=device),
    ]
    for call in calls:
        for part, between in ((slice(None, None, 2), slice(1, None, 2)), (slice(4), slice(4, None))):
            memory = torch.full((2, 2, 8), -1.0)
            call(memory[..., part])
            assert (memory[..., between] == -1).all()
            assert (memory[..., part] >= 0).all()


@pytest.mark.parametrize(
    "out",
    [
        lambda: torch.empty(2, 2, 4, dtype=torch.float64),
        lambda: torch.empty(0, dtype=torch.float64),
        lambda: torch.empty(1).expand(2, 2, 4),
        lambda: X.view(-1)[:16].view(2, 2, 4),
        lambda: torch.empty(2, 2, 4, requires_grad=True),
    ],
)
def test_an_out_that_does_not_fit_is_an_error_of_pytorchs_class(out: Any) -> None:
    with pytest.raises(RuntimeError) as theirs:
        torch.index_select(X, 1, PAIR, out=out())
    with pytest.raises(RuntimeError) as ours_:
        dg.torch.index_select(X, 1, PAIR, out=out())
    assert type(theirs.value) is type(ours_.value)


def test_a_tensor_of_another_shape_is_not_resized() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert torch.index_select(X, 1, PAIR, out=torch.empty(3)).shape == (2, 2, 4)
    out = torch.empty(3)
    with pytest.raises(RuntimeError, match=r"out is float32 \[3\], expected float32 \[2, 2, 4\]"):
        dg.torch.index_select(X, 1, PAIR, out=out)
    assert out.shape == (3,)


def test_an_empty_tensor_of_the_right_shape_may_require_grad() -> None:
    for function in (torch.index_select, dg.torch.index_select):
        out = torch.empty(2, 0, 4, requires_grad=True)
        with torch.no_grad():
            assert function(X, 1, PAIR[:0], out=out) is out


def test_a_rolled_tensor_is_not_written_over_itself() -> None:
    data = torch.arange(6.0)
    for rolled in (1, 3):
        with pytest.raises(RuntimeError, match="out shares memory with input"):
            dg.torch.roll(data, rolled, 0, out=data)
    assert data.tolist() == [0, 1, 2, 3, 4, 5]


def test_conjugate_and_negative_views_are_not_written() -> None:
    complex_ = torch.zeros(2, dtype=torch.complex64)
    for out, data in ((complex_.conj(), torch.ones(3, dtype=torch.complex64)), (complex_.conj().imag, torch.ones(3))):
        with pytest.raises(RuntimeError, match="out is a conjugate or negative view"):
            dg.torch.index_select(data, 0, PAIR, out=out)
    assert bits(complex_) == bytes(16)


def test_arrays_of_numpy_are_written_too() -> None:
    out = np.empty((2, 2, 4), np.float32)
    assert dg.torch.index_select(X.numpy(), 1, PAIR.numpy(), out=out) is out
    assert torch.equal(torch.from_numpy(out), X[:, PAIR])
    with pytest.raises(RuntimeError, match="out is"):
        dg.torch.index_select(X.numpy(), 1, PAIR.numpy(), out=np.empty(3, np.float32))
    out.flags.writeable = False
    with pytest.raises(RuntimeError, match="read-only"):
        dg.torch.index_select(X.numpy(), 1, PAIR.numpy(), out=out)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.int16, torch.bfloat16])
def test_functions_of_other_libraries_write_tensors_too(dtype: torch.dtype) -> None:
    data = torch.randint(0, 2, (5, 4)).to(dtype)
    right = torch.index_select(data, 0, PAIR)
    for function in (dg.onnx.gather, dg.openvino.gather):
        for out in (torch.empty(2, 4, dtype=dtype), torch.empty(4, 2, dtype=dtype).T, torch.empty(2, 4, dtype=dtype)):
            out.view(torch.uint8 if dtype is torch.bool else dtype).fill_(1)
            assert function(data, PAIR, axis=0, out=out) is out
            assert same_bits(out, right)
        with pytest.raises(TypeError, match=r"out is \w+ \[2, 4\], expected \w+ \[2, 4\]"):
            function(data, PAIR, axis=0, out=torch.empty(2, 4, dtype=torch.float64))
        with pytest.raises(ValueError, match="out overlaps data"):
            function(data, PAIR, axis=0, out=data[:2])
        with pytest.raises(RuntimeError, match="requires grad"):
            function(X[0], PAIR, axis=0, out=torch.empty(2, 4, requires_grad=True))
