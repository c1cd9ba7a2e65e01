"""Calls on tensors whose key is known: the bits and errors of the first time, without DLPack; and tensors that have no key."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch._subclasses import FakeTensorMode

import dmlgather as dg
from dmlgather.calls import eager, prepared
from dmlgather.torch import torch_function
from tests import seeds
from tests.peers.torch import PYTORCH, both
from tests.torch.drafts import MAKERS, draft
from tests.torch.drawing import EVERYWHERE, SOMEWHERE
from tests.torch.judge import ours, same_bits

pytestmark = pytest.mark.torch

X = torch.arange(24.0).reshape(2, 3, 4)
PAIR = torch.tensor([2, 0])
KEYED = sorted({*MAKERS} - {"index", "as_strided", "roll"})  # whose other arguments say all that they do
CALLS: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "index_select": lambda x, i: dg.torch.index_select(x, 1, i),
    "take": dg.torch.take,
    "flip": lambda x, _: dg.torch.flip(x, [0]),
    "chunk": lambda x, _: dg.torch.chunk(x, 2, 2),
    "onnx": lambda x, i: dg.onnx.gather(x, i, axis=1),
    "openvino": lambda x, i: dg.openvino.gather(x, i, 1),
    "fused": dg.fuse(dg.index[:, ((2,), "int64")][..., ::2].problems(((2, 3, 4), "float32"))),
}


FIRST: tuple[Callable[[Any], Any], ...] = (lambda x: dg.torch.index_select(x, 0, PAIR), lambda x: dg.onnx.gather(x, PAIR))
"""What a call does with rows 2 and 0."""


@pytest.fixture(autouse=True)
def unknown() -> Iterator[None]:
    prepared.forget()
    yield
    prepared.forget()


def other_elements(tensor: torch.Tensor, rng: random.Random) -> torch.Tensor:
    """A tensor of the same type, shape and strides elsewhere; integers stay, because indices do."""
    if tensor.numel() == 0 or tensor.is_conj() or tensor.is_neg() or 0 in tensor.stride():
        return tensor
    room = torch.zeros(sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True)) + 1, dtype=tensor.dtype)
    other = room.as_strided(tensor.shape, tensor.stride())
    same = tensor.dtype in {torch.int32, torch.int64, *SOMEWHERE} or not tensor.dim()
    other.copy_(tensor if same else tensor.flip(rng.randrange(tensor.dim())))
    return other


def test_calls_in_turn_give_pytorchs_bits_and_errors() -> None:
    rng = seeds.rng()
    calls = [draft(rng, rng.choice([*MAKERS]), faulty=rng.random() < 0.3) for _ in range(150)]
    for _ in range(900):
        call = rng.choice(calls)
        arguments = tuple(other_elements(each, rng) if isinstance(each, torch.Tensor) else each for each in call.arguments)
        said = both(replace(call, arguments=arguments))
        assert said.agree or PYTORCH.known_fault(said), str(said)


def test_errors_are_the_same_each_time() -> None:
    for bad in (3, -1, 3):
        for _ in range(3):
            with pytest.raises(
                RuntimeError, match=rf"^index\[1\] = {bad} is out of range for axis 1 of size 3: valid indices are 0 … 2$"
            ):
                dg.torch.index_select(X, 1, torch.tensor([0, bad]))
            with pytest.raises(IndexError, match=r"indices\[0\] = 7 is out of range"):
                dg.onnx.gather(X, torch.tensor([7]), axis=1)
            assert torch.equal(dg.torch.index_select(X, 1, torch.tensor([0, 2])), X[:, [0, 2]])


@pytest.mark.parametrize("name", CALLS)
def test_a_known_call_needs_no_dlpack_and_makes_no_problem(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    call = CALLS[name]
    for _ in range(2):
        call(X, PAIR)
    for place, attribute in ((np, "from_dlpack"), (torch, "from_dlpack"), (eager, "take"), (torch_function, "_TorchCall")):
        monkeypatch.setattr(place, attribute, lambda *_, **__: pytest.fail("planned again"))
    first = call(X, PAIR)
    second = call(X + 1, PAIR)
    if name == "chunk":
        first, second = first[1], second[1]
    assert type(second) is torch.Tensor
    assert torch.equal(first + 1, second)


@pytest.mark.parametrize("dtype", [*EVERYWHERE, *SOMEWHERE])
def test_known_calls_keep_the_bits_of_every_type(dtype: torch.dtype) -> None:
    for _ in range(3):
        raw = torch.randint(0, 2 if dtype is torch.bool else 256, (3, dtype.itemsize), dtype=torch.uint8)
        data = raw.view(dtype)[:, 0]
        for call in FIRST if dtype not in SOMEWHERE else FIRST[:1]:
            assert same_bits(call(data), torch.stack([data[2], data[0]]))


def test_conjugate_and_negative_views_are_never_read_raw() -> None:
    plain = torch.randn(3, dtype=torch.complex64)
    for _ in range(3):
        for data in (plain, plain.conj(), plain.conj().imag, plain.imag, plain.real, plain):
            for call in FIRST:
                assert torch.equal(call(data), data[PAIR])


def test_after_a_known_call_other_tensors_are_refused_as_before() -> None:
    class Sub(torch.Tensor):  # type: ignore[misc] # PyTorch is not there when types are checked
        pass

    with FakeTensorMode():
        fake = torch.empty(3)
    for call in FIRST:
        data = torch.rand(3)
        for _ in range(2):
            assert torch.equal(call(data), data[PAIR])
        for wanted in (data.clone().requires_grad_(), torch.nn.Parameter(data)):
            with pytest.raises(RuntimeError, match="requires grad"):
                call(wanted)
            with torch.no_grad():
                assert torch.equal(call(wanted), data[PAIR])
        for refused in (data.as_subclass(Sub), fake, data.to_sparse()):
            with pytest.raises(TypeError):
                call(refused)
        with pytest.raises(TypeError, match="as inside vmap"):
            torch.vmap(call)(torch.rand(2, 3))
        with torch.inference_mode():
            assert torch.equal(call(data), data[PAIR])


def test_in_a_trace_a_known_call_gives_what_any_call_gives() -> None:
    def said(call: Callable[[], Any]) -> Any:
        with FakeTensorMode():
            try:
                return type(call())
            except Exception as error:
                return type(error), str(error)

    data = torch.rand(3)
    for first in FIRST:
        call = partial(first, data)
        prepared.forget()
        unknown = said(call)
        for _ in range(2):
            call()
        assert said(call) == unknown


def test_out_is_written_resized_or_refused_each_time() -> None:
    expected = X[:, PAIR]
    for _ in range(3):
        for out in (torch.empty(2, 2, 4), torch.empty(0), torch.empty(4, 2, 2).permute(2, 1, 0), torch.empty(0)):
            assert dg.torch.index_select(X, 1, PAIR, out=out) is out
            assert torch.equal(out, expected)
        for wrong in (
            *(torch.empty(2, 2, 5), torch.empty(2, 2, 4, dtype=torch.float64), torch.empty(1).expand(2, 2, 4)),
            *(X.view(-1)[:16].view(2, 2, 4), torch.zeros(2, 2, 4, dtype=torch.cfloat).conj().imag),
            torch.empty(2, 2, 4, requires_grad=True),
        ):
            with pytest.raises(RuntimeError):
                dg.torch.index_select(X, 1, PAIR, out=wrong)
        array = np.empty((2, 2, 4), np.float32)
        assert dg.torch.index_select(X.numpy(), 1, PAIR.numpy(), out=array) is array
        array.flags.writeable = False
        with pytest.raises(RuntimeError, match="read-only"):
            dg.torch.index_select(X.numpy(), 1, PAIR.numpy(), out=array)
    assert torch.equal(X, torch.arange(24.0).reshape(2, 3, 4))


def test_tensors_and_arrays_in_turn_give_their_own_kind() -> None:
    for _ in range(3):
        for data in (X, X.numpy()):
            for index in (PAIR, PAIR.numpy()):
                assert type(dg.torch.index_select(data, 1, index)) is type(data)
                assert type(dg.onnx.gather(data, index, axis=1)) is type(data)
                assert np.array_equal(dg.torch.take(data, index), [2, 0])


def test_a_view_into_other_memory_is_another_call() -> None:
    storage = torch.arange(20.0)
    for first in (0, 3, 0, 5):
        view = storage[first : first + 6]
        assert torch.equal(dg.torch.as_strided(view, (2, 3), (1, 2)), torch.as_strided(view, (2, 3), (1, 2)))
        assert torch.equal(dg.torch.take(view.view(2, 3), PAIR), view[PAIR])
        assert torch.equal(dg.torch.index_select(view, 0, PAIR), view[PAIR])
    masks = ([True, False, True], [False, True, True])
    for mask in (*masks, *masks):
        assert torch.equal(dg.torch.index(X, (0, torch.tensor(mask))), X[0, torch.tensor(mask)])
    for indices in ([3, -1], [4, 9], [-3, 2]):
        found = dg.torch.take_along_dim(X[0, 0], torch.tensor(indices), 0)
        assert torch.equal(found, torch.take_along_dim(X[0, 0], torch.tensor(indices), 0))


def test_threads_may_call_at_once() -> None:
    def calls(seed: int) -> bool:
        rng = random.Random(seed)
        for _ in range(200):
            data = torch.rand(rng.randint(3, 6), rng.randint(1, 3))
            if not all(torch.equal(call(data), data[PAIR]) for call in FIRST):
                return False
        return True

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(calls, range(6)))


def test_every_keyed_function_is_known_the_second_time(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, known = random.Random(11), set[str]()
    for operation in KEYED:
        for _ in range(30):
            call = draft(rng, operation, faulty=False)
            if ours(call).error is None:
                ours(call)  # the first one tells which arguments are arrays
                monkeypatch.setattr(torch_function, "_TorchCall", lambda *_: next(iter(())))
                if ours(call).error is None:
                    known.add(operation)
                monkeypatch.undo()
    assert known == {*KEYED}
