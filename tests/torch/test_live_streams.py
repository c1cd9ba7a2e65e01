"""What is used of PyTorch's streams is there and takes what is passed: stand-ins for tensors on a GPU, held to PyTorch."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dmlgather.backends import torch_tensors
from tests.other_libraries import Tensor, Torch

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.torch

OWN = {"held", "now"}
"""What the stand-ins have for tests."""


def test_the_stand_ins_offer_nothing_that_pytorch_lacks() -> None:
    class Empty:
        pass

    stand_in = Torch()
    names = {name for name in {*vars(stand_in), *dir(Torch)} if not name.startswith("_")} - OWN
    assert {name for name in names if not hasattr(torch, name)} == set()
    assert {name for name in vars(stand_in.cuda) if not hasattr(torch.cuda, name)} == set()
    of_tensors = {*dir(Tensor), *vars(Tensor(np.zeros(1)))} - {*dir(Empty)} - OWN
    assert {name for name in of_tensors if not hasattr(torch.Tensor, name)} == set()


def test_functions_of_streams_take_what_is_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in's parameters are PyTorch's, and `used_on` calls what it calls with arguments that PyTorch takes."""
    stand_in, place = Torch().cuda, torch.device("cuda", 1)
    told: list[Any] = []
    for name in ("current_stream", "default_stream", "ExternalStream"):
        signature = inspect.signature(getattr(torch.cuda, name))
        stated = inspect.signature(getattr(stand_in, name)).parameters
        assert [*signature.parameters][: len(stated)] == [*stated]

        def checked(*positional: Any, _signature: inspect.Signature = signature, _name: str = name, **keywords: Any) -> Any:
            _signature.bind(*positional, **keywords)
            return SimpleNamespace(cuda_stream=(_name, positional, keywords))

        monkeypatch.setattr(torch.cuda, name, checked)
    tensor = SimpleNamespace(device=place, record_stream=told.append)
    for stream in (0, 1, 2, 64):
        torch_tensors.used_on(tensor, stream)
    assert [each.cuda_stream for each in told] == [
        ("default_stream", (place,), {}), ("default_stream", (place,), {}), ("ExternalStream", (64,), {"device": place}),
    ]  # fmt: skip


def test_a_stream_and_a_tensor_have_the_attributes_that_are_read() -> None:
    stubs = (Path(torch.__file__).parent / "_C" / "__init__.pyi").read_text(encoding="utf-8")  # the CPU's build has no streams
    assert re.search(r"class _CudaStreamBase\(\w*\):\n(    .*\n|\n)*?    cuda_stream: (_int|int)\n", stubs)
    assert torch.Tensor.record_stream.__doc__.lstrip().startswith("record_stream(stream)")


def test_tensors_go_through_dlpack_without_a_stream() -> None:
    tensor = torch.arange(6, dtype=torch.float32).reshape(2, 3).T
    lent = torch_tensors._InOrder(tensor)
    assert lent.__dlpack_device__() == tensor.__dlpack_device__()
    found = torch.from_dlpack(lent.__dlpack__(stream=77, max_version=(1, 0), copy=None))  # as cupy.from_dlpack asks
    assert (found.data_ptr(), found.stride()) == (tensor.data_ptr(), tensor.stride())
    found = torch.from_dlpack(lent.__dlpack__(stream=2))  # as it asks old libraries
    assert found.data_ptr() == tensor.data_ptr()


def test_pytorch_refuses_the_stream_of_each_thread() -> None:
    """Why nothing else is asked. When PyTorch takes it, this goes."""
    refusing = inspect.getsource(torch.Tensor.__dlpack__)
    assert 'raise BufferError("per-thread default stream is not supported.")' in refusing


def test_tensors_elsewhere_than_on_a_gpu_have_no_stream() -> None:
    for array in (torch.zeros(2), torch.zeros(2, device="meta"), np.zeros(2), None, "cuda"):
        assert torch_tensors.gpu_of(array) is None
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fake = torch.empty(2, device="cuda")
    assert fake.device.type == "cuda"
    assert torch_tensors.gpu_of(fake) is None
