"""The functions on tensors of a GPU: PyTorch's bits and errors, on its current stream."""

from __future__ import annotations

import pytest

import dmlgather as dg
from tests import seeds

pytestmark = pytest.mark.gpu


def test_calls_on_a_gpu_give_the_bits_of_the_cpu() -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch was built without CUDA")
    from tests.torch.drafts import MAKERS, draft
    from tests.torch.judge import TorchCall, bits, ours

    rng = seeds.rng()
    for _ in range(500):
        call = draft(rng, rng.choice(sorted({*MAKERS} - {"index", "tensor_split", "as_strided"})), faulty=False)
        moved = tuple(each.cuda() if isinstance(each, torch.Tensor) and each.dim() else each for each in call.arguments)
        right = ours(call)
        with torch.cuda.stream(torch.cuda.Stream()):
            found = ours(TorchCall(call.operation, moved))
            torch.cuda.current_stream().synchronize()
        assert found.error is right.error, (str(call), found)
        assert [bits(each.cpu()) for each in found.tensors] == [bits(each) for each in right.tensors], call
        assert all(each.is_cuda for each in found.tensors if moved[0].is_cuda)


def test_bad_indices_on_a_gpu_are_errors_and_the_device_stays_in_use() -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch was built without CUDA")
    data, bad = torch.arange(5.0, device="cuda"), torch.tensor([1, 5], device="cuda")
    with pytest.raises(IndexError, match=r"index\[1\] = 5 is out of range"):
        dg.torch.index_select(data, 0, bad)
    assert dg.torch.index_select(data, 0, bad, out_of_bounds="clamp").tolist() == [1.0, 4.0]
    assert torch.equal(dg.torch.index(data, bad - 2), data[bad - 2])
    halves = data.bfloat16()
    assert torch.equal(dg.torch.flip(halves, (0,)), halves.flip(0))
