"""Tensors of every kind: types that NumPy lacks, gradients, conjugate views, classes and layouts that are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch._subclasses import FakeTensorMode

import dmlgather as dg
from tests.torch.drawing import EVERYWHERE, SOMEWHERE
from tests.torch.judge import same_bits

pytestmark = pytest.mark.torch

X = torch.arange(24.0).reshape(2, 3, 4)
PAIR = torch.tensor([2, 0])


@pytest.mark.parametrize("dtype", [*EVERYWHERE, *SOMEWHERE])
def test_every_type_keeps_its_bits(dtype: torch.dtype) -> None:
    raw = torch.randint(0, 256, (2, 3, 4 * dtype.itemsize), dtype=torch.uint8)
    data = raw.bool()[..., :4] if dtype is torch.bool else raw.view(dtype)
    assert same_bits(dg.torch.index_select(data, 1, PAIR), torch.stack([data[:, 2], data[:, 0]], 1))
    assert same_bits(dg.torch.transpose(data, 0, 2), data.transpose(0, 2).contiguous())
    assert dg.torch.index_select.plan(data, 1, PAIR).element_bytes == dtype.itemsize


def test_a_fill_has_the_tensors_type() -> None:
    data = torch.tensor([1.5, 2.5], dtype=torch.bfloat16)
    filled = dg.torch.index_select(data, 0, torch.tensor([1, 7]), out_of_bounds=dg.Fill(-3))
    assert filled.dtype is torch.bfloat16
    assert filled.tolist() == [2.5, -3.0]


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental:UserWarning")
@pytest.mark.parametrize("dtype", [torch.complex32, torch.float4_e2m1fn_x2])
def test_types_without_a_name_in_numpy_are_refused(dtype: torch.dtype) -> None:
    with pytest.raises(TypeError, match=str(dtype).removeprefix("torch.")):
        dg.torch.index_select(torch.empty(3, dtype=dtype), 0, PAIR)


def test_no_gradient_is_lost_unseen() -> None:
    weight = torch.nn.Parameter(torch.rand(3, 4))
    with pytest.raises(RuntimeError, match=r"weight: the tensor requires grad.*detach"):
        dg.torch.embedding(PAIR, weight)
    with torch.no_grad():
        assert torch.equal(dg.torch.embedding(PAIR, weight), weight[PAIR])
    assert torch.equal(dg.torch.embedding(PAIR, weight.detach()), weight[PAIR])
    with torch.inference_mode():
        assert torch.equal(dg.torch.embedding(PAIR, weight * 2), (weight * 2)[PAIR])


def test_conjugate_and_negative_views_are_what_they_stand_for() -> None:
    complex_ = torch.randn(5, dtype=torch.complex64)
    for data in (complex_.conj(), complex_.conj().imag, complex_.conj()[1:].conj()):
        found = dg.torch.index_select(data, 0, PAIR)
        assert torch.equal(found, data[PAIR])
        assert not found.is_conj()
        assert not found.is_neg()
    assert torch.equal(dg.torch.as_strided(complex_.conj()[1:], (2,), (2,)), torch.as_strided(complex_.conj()[1:], (2,), (2,)))


def test_other_dialects_read_such_tensors_alike() -> None:
    complex_ = torch.randn(5, dtype=torch.complex64)
    assert torch.equal(dg.onnx.gather(complex_.conj().imag, PAIR), complex_.conj().imag[PAIR])
    assert torch.equal(dg.onnx.gather(complex_.conj(), PAIR), complex_.conj()[PAIR])
    halves = torch.randn(5).bfloat16()
    assert same_bits(dg.onnx.gather(halves, PAIR), halves[PAIR])
    with pytest.raises(RuntimeError, match="requires grad"):
        dg.onnx.gather(torch.nn.Parameter(halves), PAIR)


_ROWS = [dg.BufferTensorDesc(data_type=kind, sizes=(1, size)) for kind, size in (("FLOAT32", 4), ("INT64", 2), ("FLOAT32", 2))]
_GATHER = dg.compile(
    dg.GatherElementsOperatorDesc(input_tensor=_ROWS[0], indices_tensor=_ROWS[1], output_tensor=_ROWS[2], axis=1)
)
NAMED: dict[str, Any] = {
    "torch": lambda row: dg.torch.index_select(row, 0, PAIR),
    "onnx": lambda row: dg.onnx.gather(row, PAIR),
    "brackets": dg.index[PAIR.numpy()],
    "chain": dg.index[PAIR.numpy()][::-1][::-1],
    "operator": lambda row: _GATHER(row, PAIR)[0],
}
"""What gives elements 2 and 0 of four."""


def _traced() -> Any:
    with FakeTensorMode():
        return torch.empty(3)


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning")
@pytest.mark.parametrize(
    ("made", "text"),
    [
        (_traced, "a tensor of the class torch._subclasses.fake_tensor.FakeTensor"),
        (lambda: torch.empty(3, device="meta"), "in host or CUDA memory, got a tensor on meta"),
        (lambda: torch.ones(3).to_sparse(), r"layout torch.sparse_coo: pass tensor.to_dense\(\)"),
        (lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8), "torch.quint8"),
        (lambda: torch._efficientzerotensor(3), r"without.*: pass tensor.clone\(\)"),
    ],
)
def test_tensors_without_plain_elements_are_refused(made: Any, text: str) -> None:
    tensor = made()
    for _ in range(2):
        with pytest.raises(TypeError, match=f"input.*{text}"):
            dg.torch.index_select(tensor, 0, PAIR.to(tensor.device))
        with pytest.raises(TypeError, match=f"(x|data): .*{text}"):
            dg.index[PAIR.numpy()](tensor)
        with pytest.raises(TypeError, match=f"(x|data): .*{text}"):
            dg.index[PAIR.numpy()][::2](tensor)


def test_tensors_on_several_devices_are_refused() -> None:
    with pytest.raises(RuntimeError, match=r"tensors lie on different devices \(cpu, meta\)"):
        dg.torch.index_select(torch.empty(3), 0, PAIR.to("meta"))


def test_vmap_is_refused() -> None:
    for call in NAMED.values():
        with pytest.raises(TypeError, match=r": .* got a tensor without elements, as inside vmap"):
            torch.vmap(call)(torch.rand(2, 4))


@pytest.mark.parametrize("name", NAMED)
def test_functionalize_is_refused_after_a_known_call(name: str) -> None:
    call, data = NAMED[name], torch.rand(4)
    for _ in range(3):
        assert torch.equal(call(data), data[PAIR])
    with pytest.raises(TypeError, match=r": .* got a tensor without elements, as inside vmap: call this outside of it"):
        torch.func.functionalize(call)(data)


def test_a_plan_needs_no_elements() -> None:
    meta = torch.empty((4, 10), dtype=torch.bfloat16, device="meta")
    plan = dg.torch.index_select.plan(meta, 1, ((3,), torch.int64))
    assert plan == dg.torch.index_select.plan(((4, 10), "bfloat16"), 1, ((3,), "int64"))
    assert dg.torch.index.plan(meta, (slice(None), PAIR)).shape == (4, 2)


def test_views_of_scattered_tensors_are_pytorchs() -> None:
    data = X.permute(2, 0, 1)[:, :, ::2]
    assert torch.equal(dg.torch.unfold(data, 0, 2, 1), data.unfold(0, 2, 1))
    assert torch.equal(dg.torch.diagonal(data), torch.diagonal(data))
    assert torch.equal(dg.torch.take(data, PAIR), torch.take(data, PAIR))
    assert torch.equal(dg.torch.roll(data, 3), torch.roll(data, 3))
    assert torch.equal(dg.torch.as_strided(X[1], (2,), (5,)), torch.as_strided(X[1], (2,), (5,)))
    with pytest.raises(ValueError, match="not contiguous"):
        dg.torch.as_strided(data.numpy(), (2,), (5,))


def test_the_data_decide_whose_array_the_result_is() -> None:
    found = dg.torch.index_select(X, 1, PAIR.numpy())
    assert isinstance(found, torch.Tensor)
    back = dg.torch.index_select(X.numpy(), 1, PAIR)
    assert isinstance(back, np.ndarray)
    assert torch.equal(found, torch.from_numpy(back))


def test_flat_indices_of_take_along_dim_may_be_int32() -> None:
    rows = torch.tensor([[5, 0], [23, 7]], dtype=torch.int32)
    assert torch.equal(dg.torch.take_along_dim(X, rows), torch.take_along_dim(X, rows))
    for function in (dg.torch.take_along_dim, torch.take_along_dim):
        with pytest.raises(RuntimeError, match="int32"):
            function(X, rows.to(torch.int16))


def test_a_policy_decides_where_an_index_is_out_of_range() -> None:
    far = torch.tensor([0, 7, -1])
    row = torch.tensor([10, 20, 30])
    assert dg.torch.index_select(row, 0, far, out_of_bounds="clamp").tolist() == [10, 30, 10]
    assert dg.torch.take(row, far, out_of_bounds="clamp").tolist() == [10, 30, 30]
    assert dg.torch.gather(row, 0, far, out_of_bounds=dg.Fill(5)).tolist() == [10, 5, 5]
    assert dg.torch.index(row, far, out_of_bounds=dg.Fill(5)).tolist() == [10, 5, 30]
    assert dg.torch.take_along_dim(row, far, 0).tolist() == [10, 20, 30]
    with pytest.raises(RuntimeError, match="= 7 is out of range"):
        dg.torch.take_along_dim(row, far, 0, out_of_bounds="raise")
    with pytest.raises(ValueError, match="'wrap'"):
        dg.torch.take(row, far, out_of_bounds="wrap")
