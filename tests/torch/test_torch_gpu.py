"""The functions on tensors of a GPU: PyTorch's bits and errors, on its current stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import dmlgather as dg
from tests import seeds

pytestmark = pytest.mark.gpu


@pytest.fixture
def torch() -> Any:
    found = pytest.importorskip("torch")
    if not found.cuda.is_available():
        pytest.skip("this PyTorch was built without CUDA")
    return found


def test_calls_on_a_gpu_give_the_bits_of_the_cpu(torch: Any) -> None:
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


def test_bad_indices_on_a_gpu_are_errors_that_leave_it_usable(torch: Any) -> None:
    data, bad = torch.arange(5.0, device="cuda"), torch.tensor([1, 5], device="cuda")
    with pytest.raises(IndexError, match=r"index\[1\] = 5 is out of range"):
        dg.torch.index_select(data, 0, bad)
    assert dg.torch.index_select(data, 0, bad, out_of_bounds="clamp").tolist() == [1.0, 4.0]
    assert torch.equal(dg.torch.index(data, bad - 2), data[bad - 2])
    halves = data.bfloat16()
    assert torch.equal(dg.torch.flip(halves, (0,)), halves.flip(0))


def test_a_call_on_any_stream_keeps_pytorchs_order(torch: Any) -> None:
    """What is written late on PyTorch's stream is seen, and what PyTorch writes next is not, whatever stream the call runs on."""
    import cupy

    table, ids, out = torch.rand(5000, 256, device="cuda"), torch.randint(5000, (4000,), device="cuda"), torch.empty(4000, 256)
    operator = dg.compile(dg.GatherOperatorDesc.of(table, ids, axis=0))
    for stream in (None, cupy.cuda.Stream(non_blocking=True), torch.cuda.Stream()):
        for way in (lambda *given, **more: operator(*given[:2], out=given[2], **more), bound_once(operator)):
            data, target = torch.zeros_like(table), torch.zeros_like(out, device="cuda")
            torch.cuda.synchronize()
            with torch.cuda.stream(torch.cuda.Stream()):
                torch.cuda._sleep(10_000_000)
                data.copy_(table)
                way(data, ids, target, stream=stream)
                found = target.clone()
                data.zero_()
                torch.cuda.current_stream().synchronize()
            assert torch.equal(found, table[ids]), stream


def bound_once(operator: dg.CompiledOperator) -> Callable[..., None]:
    return lambda data, ids, target, stream: operator.bind(data, ids, out=target)(stream)
