"""Traces of PyTorch programs: each operator's steps give PyTorch's bits, and entries say what they cost and where they run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import dmlgather as dg
from dmlgather.dialects.index_graph import Elementwise, IndexGraph, Opaque
from dmlgather.plan.compose import compose
from dmlgather.torch.tracing.index_graph import index_graph
from tests.chain_drawing import Chain, check_fresh_chains
from tests.test_docstrings import NEED_TORCH, run_examples
from tests.torch.executing import executed
from tests.torch.fused_chains import agrees, content, faults, leaves
from tests.torch.random_chains import random_chain

pytestmark = pytest.mark.torch

X = torch.linspace(-2, 2, 40).reshape(8, 5)
IDS = torch.tensor([1, -3, 7])
COLUMNS = torch.tensor([[0, 4, 2, 1]] * 8)
ALL_INT32 = torch.tensor([-(2**31), 2**31 - 1, -1, 0, 1, 7, -7, 6], dtype=torch.int32)


def works(graph: IndexGraph) -> list[str]:
    return [str(getattr(step.work, "operator", getattr(step.work, "name", "concatenation"))) for step in graph.steps]


@pytest.mark.parametrize(
    ("fn", "names"),
    [
        (lambda x: x.view(4, 10), ["reshape"]),
        (lambda x: x.flatten().unflatten(0, (2, 20)).squeeze().unsqueeze(0), ["reshape"] * 3),
        (lambda x: x.contiguous().clone().detach(), []),
        (lambda x: torch.nn.functional.dropout(x, 0.5, training=False), []),
        (lambda x: x.t(), ["transpose"]),
        (lambda x: x.T.mT.transpose(0, 1), ["transpose"] * 3),
        (lambda x: x[None].movedim(0, 2).swapaxes(0, 1), ["reshape", "transpose", "transpose"]),
        (lambda x: x.expand(2, 8, 5), ["expand"]),
        (lambda x: x[:, :1].expand_as(x), ["slice", "expand"]),
        (lambda x: x.repeat(2, 1), ["reshape", "expand", "reshape"]),
        (lambda x: x.repeat_interleave(2, 1), ["reshape", "expand", "reshape"]),
        (lambda x: x.select(1, -1), ["index"]),
        (lambda x: x[2:6:3], ["slice"]),
        (lambda x: x[:], []),
        (lambda x: x.narrow(0, -3, 2), ["slice"]),
        (lambda x: x.flip(0, 1), ["slice"]),
        (lambda x: x.unfold(0, 3, 2), ["strided view"]),
        (lambda x: x.diagonal(1), ["strided view"]),
        (lambda x: x.t().diagonal(-1), ["transpose", "strided view"]),
        (lambda x: x.chunk(3), ["slice"] * 3),
        (lambda x: x.split([3, 5]), ["slice"] * 2),
        (lambda x: x.tensor_split(3), ["slice"] * 3),
        (lambda x: x.unbind(1)[2], ["index"] * 5),
        (lambda x: torch.roll(x, 2, 0), ["slice", "slice", "concatenation"]),
        (lambda x: torch.roll(x, (1, -1), (0, 1)), ["slice", "slice", "concatenation"] * 2),
        (lambda x: torch.roll(x, 3), ["reshape", "slice", "slice", "concatenation", "reshape"]),
        (lambda x: torch.cat([x, x], 1), ["concatenation"]),
        (lambda x: torch.stack([x, x], -1), ["reshape", "reshape", "concatenation"]),
        (lambda x: torch.cat([x[:0, 0], x[0]]), None),
        (lambda x: torch.nn.functional.pixel_unshuffle(x[None, :, :4], 2), ["reshape", "slice", "pixel_unshuffle"]),
        (lambda x: x[[0, -1]], ["index"]),
        (lambda x: x[torch.tensor([True, False] * 4)], ["index"]),
        (lambda x: x.masked_fill(x > 0, 1.5), ["torch.gt.Scalar", "where"]),
        (lambda x: (x, x, torch.arange(3)), []),
    ],
)
def test_views_and_concatenations(fn: Callable[..., Any], names: list[str] | None) -> None:
    agrees(fn, X)
    assert names is None or works(index_graph(fn, X)) == names


@pytest.mark.parametrize(
    ("fn", "indices", "equation", "directml"),
    [
        (lambda x, i: x[i], IDS, "index.Tensor float32[8,5], int64[3] -> float32[3,5]", "GATHER from 1_0 (EXP201)"),
        (lambda x, i: x[:, i], IDS % 5, "index.Tensor float32[8,5], int64[3] -> float32[8,3]", "GATHER from 1_0 (EXP201)"),
        (
            lambda x, i: x[i, i % 5],
            *(IDS, "index.Tensor float32[8,5], int64[3,2] -> float32[3]", "GATHER_ND from 2_1 (EXP201)"),
        ),
        (
            lambda x, i: x.index_select(1, i),
            *(IDS % 5, "index_select.default float32[8,5], int64[3] -> float32[8,3]", "GATHER from 1_0 (EXP201, EXP202)"),
        ),
        (
            lambda x, i: x.gather(1, i),
            *(COLUMNS, "gather.default float32[8,5], int64[8,4] -> float32[8,4]", "GATHER_ELEMENTS from 2_1 (EXP201, EXP202)"),
        ),
        (
            lambda x, i: torch.nn.functional.embedding(i, x),
            *(COLUMNS[:2], "embedding.default float32[8,5], int64[2,4] -> float32[2,4,5]", "GATHER from 1_0 (EXP201, EXP202)"),
        ),
        (lambda x, i: x.take(i), IDS * 5, "take.default float32[40], int64[3] -> float32[3]", "GATHER from 1_0 (EXP201)"),
    ],
)
def test_gathers(fn: Callable[..., Any], indices: Any, equation: str, directml: str) -> None:
    (entry,) = agrees(fn, X, indices)
    assert (entry.equation, str(entry.directml), entry.mode) == (equation, directml, "raise")
    assert entry.plan is not None
    assert entry.bytes_moved is not None


@pytest.mark.parametrize("name", NEED_TORCH)
def test_examples_in_docstrings_run(name: str) -> None:
    run_examples(name)


def test_x_at_columns_is_gather_with_axis_1() -> None:
    (entry,) = dg.torch.trace(lambda x, i: x[:, i], X, IDS % 5)
    assert entry.directml is not None
    (desc,) = entry.directml.descriptors
    assert isinstance(desc, dg.GatherOperatorDesc)
    assert desc.axis == len(desc.input_tensor.sizes) - 1


def test_index_tensors_are_broadcast_and_converted() -> None:
    agrees(lambda x, i, j: x[i[:, None], j], X, IDS.to(torch.int32), IDS % 5)
    agrees(lambda x, i, j: x[:, None, :, None][i, :, j], X, IDS, IDS % 5)
    agrees(lambda x, i: x[i, :, None][..., 0], X, IDS)
    (mask,) = agrees(lambda x: x[X > 0], X)
    assert mask.indices is not None


def test_a_mask_of_unknown_elements_is_refused() -> None:
    with pytest.raises(ValueError, match="is known only when the program runs"):
        dg.torch.trace(lambda x: x[x > 0], X)


@pytest.mark.parametrize("values", [ALL_INT32, ALL_INT32 > 0], ids=["int32", "bool"])
def test_comparisons_and_casts(values: Any) -> None:
    def fn(a: Any, b: Any) -> Any:
        compared = a < b, a <= b, a > b, a >= b, a == b, a != b
        return (
            *compared,
            torch.where(compared[0], a, b),
            torch.where(compared[0], a, True),
            torch.where(compared[0], False, b),
            torch.where(compared[0], 3, -7),
            compared[0] & ~compared[4] | compared[5],
            a.to(torch.int64),
            a.to(torch.uint8),
        )

    graph = index_graph(fn, values, values.flip(0))
    assert all(isinstance(step.work, Elementwise) for step in graph.steps)
    agrees(fn, values, values.flip(0))


def test_arithmetic_wraps_around_as_in_pytorch() -> None:
    def fn(a: Any, b: Any) -> Any:
        return (
            a + b,
            a - b,
            a * b,
            -a,
            a.clamp(-7, 7),
            a.clamp(min=0),
            a.clip(-7, 7),
            torch.negative(a),
            7 - a,
            torch.rsub(a, b),
            torch.where(a < b, a, 0),
            torch.minimum(a, b),
            a + 1,
            3 * a,
            a % 7,
            a % -3,
            a + b.long(),
        )

    graph = index_graph(fn, ALL_INT32, ALL_INT32.flip(0))
    assert all(isinstance(step.work, Elementwise) for step in graph.steps)
    agrees(fn, ALL_INT32, ALL_INT32.flip(0))


def test_what_has_no_form_of_its_own_is_opaque() -> None:
    for fn in (lambda a: a // 3, lambda a: a & 3, lambda a: a / 2, lambda a: a.sort()[0], lambda a: a.float() * 1.5):
        assert any(isinstance(step.work, Opaque) for step in index_graph(fn, ALL_INT32).steps)
        agrees(fn, ALL_INT32)


@pytest.mark.parametrize(
    ("fn", "expected"),
    [
        (lambda x: x @ x.T, "torch.matmul.default"),
        (lambda x: x.softmax(-1), "torch.softmax.int"),
        (torch.nn.functional.gelu, "torch.gelu.default"),
        (torch.lgamma, "torch.lgamma.default"),
    ],
)
def test_an_opaque_step_has_the_name_of_its_operator(fn: Callable[..., Any], expected: str) -> None:
    (found,) = [step.work for step in index_graph(fn, X).steps if isinstance(step.work, Opaque)]
    assert found.operator == expected
    assert found in [step.work for step in index_graph(fn, X).steps]
    agrees(fn, X)


def test_random_chains_give_pytorchs_bits() -> None:
    check_fresh_chains(random_chain, faults, 24)


def test_a_wrong_merge_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    square = Chain((lambda x, _: x.flip(1), lambda x, _: x.T), ("flip", "T"), X[:5], ())
    assert faults([square]) == []

    def backwards(outer: Any, inner: Any, **how: Any) -> Any:
        plan = compose(outer, inner, **how)
        return replace(plan, out_strides=plan.out_strides[::-1])

    monkeypatch.setattr("dmlgather.fusion.fusing.compose", backwards)
    assert faults([square]) == ["fused differs: x torch.float32[5, 5]: flip, T"]


def test_an_index_that_a_later_slice_drops_is_still_checked() -> None:
    def fn(x: Any, i: Any) -> Any:
        return x[i][:2]

    traced = agrees(fn, X, IDS)
    bad = torch.tensor([1, 2, 8])
    with pytest.raises(IndexError):
        fn(X, bad)
    with pytest.raises(IndexError, match="8"):
        traced.run(X, bad)


class Net(torch.nn.Module):  # type: ignore[misc] # PyTorch is not installed where types are checked
    """Embeds, attends to nothing, and picks."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(10, 4)
        self.linear = torch.nn.Linear(4, 4)
        self.register_buffer("places", torch.tensor([2, 0]))
        self.register_buffer("count", torch.zeros(()))

    def forward(self, ids: Any, scale: float = 2.0) -> Any:
        self.count += 1
        rows = self.linear(self.table(ids)) * scale
        with torch.no_grad():
            picked = rows[:, self.places].clone()
        picked[:, 0] = 0
        return {"picked": picked.transpose(0, 1), "rows": [rows[..., ::2]]}


def test_modules_with_weights_buffers_and_writes() -> None:
    net, ids = Net().eval(), torch.randint(0, 10, (2, 5))
    with torch.no_grad():
        expected = net(ids)
    net.count.zero_()
    compared = executed(net, ids)
    assert compared.equal
    assert net.count == 0
    traced = compared.trace
    found = traced.run(ids)
    assert content(found["picked"]) == content(expected["picked"])
    assert content(found["rows"][0]) == content(expected["rows"][0])
    assert {entry.where for entry in traced} >= {"table", ""}
    first = traced[0]
    assert first.source is not None
    assert first.source.file != __file__ or first.source.function == "forward"
    assert all(isinstance(each, np.ndarray) for each in leaves(traced.run(ids.numpy())))
    program = torch.export.export(net, (ids,))
    again = dg.torch.trace(program)
    assert [entry.equation for entry in again] == [entry.equation for entry in traced]
    assert content(again.run(ids)["picked"]) == content(expected["picked"])


def test_a_parameter_requires_grad_in_a_fused_run_as_well() -> None:
    class Linear(torch.nn.Module):  # type: ignore[misc] # torch is not installed where types are checked
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(128, 256, generator=torch.Generator().manual_seed(1)))

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return torch.nn.functional.linear(x.permute(0, 2, 3, 1)[..., ::1], self.weight), requires_grad(x, self.weight)

    # matmul takes another kernel for weights that require grad, also under no_grad.
    agrees(Linear(), torch.randn(1, 256, 2, 2, generator=torch.Generator().manual_seed(0)))


@torch.library.custom_op("dmlgather_tests::requires_grad", mutates_args=())  # type: ignore[untyped-decorator]
def requires_grad(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """x, with 1 added where weight requires grad."""
    return x + float(weight.requires_grad)


@requires_grad.register_fake  # type: ignore[untyped-decorator]
def _(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def test_what_is_random_draws_the_numbers_of_its_turn() -> None:
    def fn(x: Any) -> Any:
        _ = torch.rand(3)
        return torch.nn.functional.dropout(x, 0.5)[::2].T, torch.rand_like(x)[1:]

    traced = dg.torch.trace(fn, X)
    torch.manual_seed(7)
    expected = fn(X)
    torch.manual_seed(7)
    assert [content(each) for each in traced.run(X)] == [content(each) for each in expected]
    works_of = [step.work for step in index_graph(fn, X).steps if isinstance(step.work, Opaque)]
    assert works_of != [step.work for step in index_graph(fn, X).steps if isinstance(step.work, Opaque)]


def test_dynamic_shapes_as_conditions() -> None:
    batch, width = torch.export.Dim("batch"), torch.export.Dim("width", min=4)

    def fn(x: Any, i: Any) -> Any:
        return x[:, i], x[:, 1:], x.unfold(1, 3, 1)

    compared = executed(fn, X, IDS % 5, dynamic_shapes=({0: batch, 1: width}, None))
    assert compared.equal
    traced = compared.trace
    texts = [str(entry.dynamic) for entry in traced]
    assert texts[0] == "[x[0],x[1]], [3] -> [x[0],3]: taken from 1_0 provided x[0] >= 1, x[1] >= 1"
    assert texts[1] == "[x[0],x[1]] -> [x[0],x[1] - 1]: taken from 1_0 provided x[0] >= 1, x[1] >= 2"
    assert re.search(r"x\[1\] - 2,3\]", texts[-1])
    plain = json.loads(json.dumps(traced.to_json()))
    assert plain["entries"][0]["dynamic"]["provided"] == ["x[0] >= 1", "x[1] >= 1"]
    assert "  dynamic   [x[0]" in str(traced[0])


def test_a_program_is_read_at_the_sizes_of_the_example() -> None:
    batch = torch.export.Dim("batch")
    program = torch.export.export(_Rows(), (X,), dynamic_shapes=({0: 2 * batch},))
    assert index_graph(program).types["x"].shape == (8, 5)
    assert index_graph(program, X[:6]).types["x"].shape == (6, 5)
    with pytest.raises(ValueError, match="x has size 4 in dimension 1, but the program was exported for 5"):
        index_graph(program, X[:, :4])
    with pytest.raises(TypeError, match="leave dynamic_shapes out"):
        index_graph(program, X, dynamic_shapes=({0: batch},))
    with pytest.raises(ValueError, match="x has 1 dimension, but the program was exported for 2"):
        index_graph(program, X[0])
    with pytest.raises(TypeError, match=r"x is torch.float64, but the program was exported for torch.float32"):
        index_graph(program, X.double())
    with pytest.raises(TypeError, match="x is of type str, expected a tensor"):
        index_graph(program, "x")


class _Rows(torch.nn.Module):  # type: ignore[misc] # as above
    def forward(self, x: Any) -> Any:
        return x[::2]


def test_other_sources_and_arguments_are_refused() -> None:
    with pytest.raises(TypeError, match="source is of type int, expected a module, a function or an ExportedProgram"):
        dg.torch.trace(3)
    with pytest.raises(TypeError, match=r"source is the class _Rows, expected an object of it: _Rows\(…\)"):
        dg.torch.trace(_Rows, X)
    traced = dg.torch.trace(lambda x: x[1:], X)
    with pytest.raises(TypeError, match="x is of type NoneType, expected a tensor, or another array"):
        traced.run(None)
    with pytest.raises(TypeError, match=r"the arguments form .* was exported: export the program again for others"):
        traced.run(X, X)
    with pytest.raises(ValueError, match=r"float32 \[7, 5\]"):
        traced.run(X[1:])


def test_entries_name_their_launches() -> None:
    traced = dg.torch.trace(lambda x, i: x[i][:, ::2].T, X, IDS)
    assert [entry.launches for entry in traced] == [(0,)] * 3
    assert traced.fused.bytes_saved > 0
    assert str(traced).splitlines()[0].split() == ["equation", "mode", "bytes", "DirectML", "launch", "where", "source"]


def test_results_are_the_callers_own() -> None:
    def fn(x: torch.Tensor, i: torch.Tensor) -> Any:
        return x, x[i], torch.relu(x), torch.relu(x).T, torch.arange(3)

    x, i = torch.arange(12.0).reshape(3, 4), torch.tensor([2, 0])
    trace = dg.torch.trace(fn, x, i)
    for _ in range(2):
        for given, kind in (((x, i), torch.Tensor), ((x.numpy(), i.numpy()), np.ndarray)):
            for result, expected in zip(trace.run(*given), fn(x, i), strict=True):
                assert isinstance(result, kind)
                assert np.array_equal(result, expected)
                result[...] = 0  # a warning where it cannot be written
    assert torch.equal(x, torch.arange(12.0).reshape(3, 4))


def test_a_check_of_elements_raises_in_a_trace_as_well() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        torch._assert_async(x.sum() > 0, "no positive sum")
        torch._assert_async((x[0] < 9).all(), "a large element")
        return x[::2]

    x = torch.arange(12.0).reshape(4, 3)
    trace = dg.torch.trace(fn, x)
    assert torch.equal(trace.run(x), fn(x))
    assert np.array_equal(trace.run(x.numpy()), fn(x))
    for given, message in ((-x, "no positive sum"), (x + 9, "a large element")):
        for call in (fn, trace.run):
            with pytest.raises(RuntimeError, match=message):
                call(given)
    assumed = [words.partition(" of the first")[0] for words in dg.equivalent(fn, lambda x: x[::2], x).assumptions]
    assert [words for words in assumed if "assert" in words] == ["_assert_async", "_assert_async_1"]


def test_a_check_of_a_number_that_only_a_run_tells_is_no_proof() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        torch._check(x[0, 0].item() > 3)
        return x[::2]

    x = torch.full((4, 3), 7.0)
    assert torch.equal(dg.torch.trace(fn, x).run(x), fn(x))
    with pytest.raises(RuntimeError):
        fn(-x)
    found = dg.equivalent(fn, lambda x: x[::2], x)
    assert ["_assert_scalar" in words for words in found.assumptions] == [True]
    assert dg.equivalent(fn, lambda x: x[::2], x, assume=()).verdict == "not proven"
