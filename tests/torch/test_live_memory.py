"""Traces of programs where tensors share memory, and where memory is read by strides: PyTorch's bits, or a refusal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import dmlgather as dg
from tests.torch.fused_chains import agrees, same_run

pytestmark = pytest.mark.torch

BASE = torch.arange(8.0)
ONE, OTHER = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])


def both(x: Any, y: Any) -> Any:
    return torch.cat([x, y])


class Held(torch.nn.Module):  # type: ignore[misc] # PyTorch is not installed where types are checked
    """Its parameter and its buffers behind what it is given; two of the buffers are one."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([5.0, 6.0]))
        self.register_buffer("offset", torch.tensor([7.0, 8.0]))
        self.register_buffer("again", self.offset)

    def forward(self, x: Any) -> Any:
        return torch.cat([x, self.weight, self.offset, self.again])


@pytest.mark.parametrize(
    "examples",
    [
        (ONE, ONE),
        (BASE[:2], BASE[2:4]),
        (BASE[:2], BASE[1:3]),
        (BASE[:2], BASE[:2]),
        (BASE[::2][:2], BASE.view(4, 2)[0]),
        (torch.nn.Parameter(ONE),) * 2,
        (ONE.expand(3, 2)[0], ONE),
        (BASE.to_sparse().to_dense()[:2],) * 2,
    ],
)
def test_inputs_of_one_memory_are_several_inputs(examples: Any) -> None:
    same_run(dg.torch.trace(both, *examples), both, ONE, OTHER)
    assert dg.equivalent(both, lambda x, _: torch.cat([x, x]), *examples).verdict == "different"
    assert dg.equivalent(both, lambda x, y: torch.cat([y, x]).roll(2), *examples).verdict == "proven"


def test_inputs_in_one_tree_that_are_one_tensor() -> None:
    def fn(tree: Any) -> Any:
        return torch.cat([tree["a"], *tree["b"]])

    traced = dg.torch.trace(fn, {"a": ONE, "b": [ONE, BASE[:2], BASE[:2]]})
    same_run(traced, fn, {"a": ONE, "b": [OTHER, BASE[:2], BASE[2:4]]})


@pytest.mark.parametrize("name", ["weight", "offset", "again"])
def test_what_a_module_holds_may_be_its_example(name: str) -> None:
    module = Held()
    traced = dg.torch.trace(module, getattr(module, name))
    same_run(traced, module, ONE)
    assert dg.torch.trace(lambda x: x + module.weight, module.weight).run(ONE).tolist() == [6.0, 8.0]
    assert dg.equivalent(module, lambda x: torch.cat([x] * 4), getattr(module, name)).verdict == "different"


def test_an_example_is_left_as_it_is_and_its_layout_counts() -> None:
    x = torch.nn.Parameter(torch.randn(4, 6))
    strided = x.t()[::2]
    traced = dg.torch.trace(lambda a, b: (a.relu(), b.contiguous().view(-1)), strided, x)
    (relu, _) = traced.run(strided.detach(), x.detach())
    assert relu.stride() == torch.relu(strided).stride()
    assert x.requires_grad
    assert x.is_leaf


def test_examples_that_are_not_plain_tensors() -> None:
    conjugate = torch.randn(3, dtype=torch.complex64).conj()
    agrees(lambda a, b: torch.cat([a.resolve_conj(), b.flip(0)]), conjugate, conjugate)
    assert dg.torch.trace(both, *(torch.empty(2, device="meta"),) * 2).run(ONE, OTHER).tolist() == [1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x.as_strided((2,), (2,), 1),
        lambda x: x.as_strided((2, 3), (1, 2)),
        lambda x: (x * 2).as_strided((3, 3), (2, 0), 1),
        lambda x: x.view(2, 4).as_strided((0, 3), (2, 0), 5),
        lambda x: x.view(2, 4)[1].as_strided((2,), (2,), 5),
        lambda x: (x + 1)[3:].as_strided((3,), (1,)),
        lambda x: torch.as_strided_copy(x, (3,), (2,), 2),
        lambda x: torch.as_strided_scatter(x + 1, x[:2], (2,), (2,), 1),
        lambda x: torch.as_strided_scatter((x + 1)[2:], x[:2], (2,), (2,)),
    ],
)
def test_memory_that_a_tensor_fills_is_read_by_strides(fn: Callable[..., Any]) -> None:
    agrees(fn, BASE)
    agrees(fn, torch.arange(11.0)[3:].clone())


def test_an_example_may_begin_within_its_memory() -> None:
    view = torch.arange(12.0)[4:]
    for fn in (
        lambda x: x.as_strided((2,), (2,), 5),
        lambda x: x.as_strided((2,), (2,)),
        lambda x: (x + 1).as_strided((2,), (1,), 0),
    ):
        same_run(agrees(fn, view), fn, torch.arange(20.0, 40.0)[4:12])


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (lambda x: x[2:].as_strided((2,), (1,), 0), "elements -2 to -1 of memory, counted .* its tensor, which has 6"),
        (lambda x: (x * 1)[2:].as_strided((2,), (1,), 1), "elements -1 to 0 of memory"),
        (
            lambda x: (x * 1)[:2].as_strided((2,), (2,)),
            "elements 0 to 2 of memory, counted .* which has 2: take as_strided of the",
        ),
        (lambda x: x[::2].as_strided((2,), (1,), 1), "by strides, but its tensor is not packed there: make it contiguous"),
        (lambda x: x.view(2, 4).t().as_strided((2,), (1,)), "not packed"),
        (lambda x: x[:2].expand(3, 2).as_strided((2,), (1,)), "not packed"),
        (lambda x: torch.as_strided_copy(x[2:], (2,), (1,), 0), "elements -2 to -1"),
        (lambda x: torch.as_strided_scatter(x[2:], x[:1], (1,), (1,), 3), "but its tensor is a view: leave storage_offset out"),
    ],
)
def test_memory_outside_of_a_tensor_is_refused(fn: Callable[..., Any], message: str) -> None:
    for source in (dg.torch.trace, lambda *given: dg.equivalent(fn, *given)):
        with pytest.raises(ValueError, match=message):
            source(fn, BASE)


def test_where_memory_is_read_an_argument_lies_as_the_example() -> None:
    traced = dg.torch.trace(lambda x: x.as_strided((2,), (2,), 1), BASE)
    assert traced.run(BASE.numpy()).tolist() == [1.0, 3.0]
    far, wide = torch.arange(16.0), np.arange(16.0, dtype=np.float32)
    for other, said in (
        (far[2:10], "from element 2 on, packed, but the example from element 0 on, packed"),
        (far[::2], r"from element 0 on, with strides \(2,\)"),
        (wide[::2], r"with strides \(2,\)"),
        (wide[7::-1], r"with strides \(-1,\)"),
    ):
        with pytest.raises(ValueError, match=f"x lies in memory .*{said}.* as_strided reads memory: lay it out as the example"):
            traced.run(other)
    assert dg.torch.trace(lambda x: x[1:4], BASE).run(far[::2]).tolist() == [2.0, 4.0, 6.0]
