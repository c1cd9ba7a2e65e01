"""Calls in graphs of torch.compile and torch.export: PyTorch's functions say what they give, and opcheck what an operator is."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch._subclasses import FakeTensorMode

import dmlgather as dg
from dmlgather.torch.operators import RULE, RUN_BY_PYTORCH, TENSORS
from tests import seeds
from tests.torch.drafts import MAKERS, draft
from tests.torch.judge import LIVE, live, same_bits

pytestmark = pytest.mark.torch

DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64)

X, I = torch.arange(24.0).reshape(4, 6), torch.tensor([2, 0])  # noqa: E741 - PyTorch's letters

ROWS: dict[str, Callable[[torch.Tensor, torch.Tensor], tuple[Any, ...]]] = {
    "index_select.str": lambda x, i: (x, 0, i),
    "index_select.Fill": lambda x, i: (x, 0, i),
    "gather.str": lambda x, i: (x, 0, i[:, None]),
    "gather.Fill": lambda x, i: (x, 0, i[:, None]),
    "take.str": lambda x, i: (x.T, i - 2),
    "take.Fill": lambda x, i: (x, i),
    "take_along_dim.str": lambda x, i: (x, i[:, None] - 2, 0),
    "take_along_dim.Fill": lambda x, i: (x, i),
    "embedding.str": lambda x, i: (i[:, None], x),
    "embedding.Fill": lambda x, i: (i, x, 0),
    "select.default": lambda x, i: (x, 1, -2),
    "narrow.default": lambda x, i: (x, 0, x.shape[0] - 2, 2),
    "slice.default": lambda x, i: (x, 0, 1, -1, 2),
    "flip.default": lambda x, i: (x, (0, 1)),
    "chunk.default": lambda x, i: (x, 4, 1),
    "split.int": lambda x, i: (x, 4, 1),
    "split.Sequence": lambda x, i: (x, [1, x.shape[0] - 1]),
    "tensor_split.int": lambda x, i: (x, 4, 1),
    "tensor_split.Sequence": lambda x, i: (x, (1, 3)),
    "permute.default": lambda x, i: (x, (1, 0)),
    "transpose.default": lambda x, i: (x, 0, -1),
    "expand.default": lambda x, i: (x[:, None], (2, -1, 3, 6)),
    "unfold.default": lambda x, i: (x, 0, 3, 2),
    "diagonal.default": lambda x, i: (x, 1),
    "pixel_shuffle.default": lambda x, i: (x[:, :4, None, None], 2),
    "pixel_unshuffle.default": lambda x, i: (x[:, None, :4, None].expand(-1, -1, -1, 6), 2),
    "roll.int_int": lambda x, i: (x, 7),
    "roll.int_Sequence": lambda x, i: (x, 2, (0,)),
    "roll.Sequence_int": lambda x, i: (x, (2,), 0),
    "roll.Sequence_Sequence": lambda x, i: (x, (1, 2), (0, 1)),
    "as_strided": lambda x, i: (x, (3, 2), (1, 6), 2),
    "index": lambda x, i: (x, (slice(1, None, 2), None, i % 5)),
}
"""Arguments of each overload of each operator, and of the functions without one, of data [size, 6] and as many positions."""

OPERATORS = [label for label in ROWS if "." in label]


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def arrays(size: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randint(0, 100, (size, 6)).to(dtype), torch.randint(0, 5, (size,))


def tensors(result: Any) -> tuple[torch.Tensor, ...]:
    return result if isinstance(result, tuple) else (result,)


def compiled(function: Callable[..., Any], **more: Any) -> Callable[..., Any]:
    return torch.compile(function, **{"backend": "aot_eager", "fullgraph": True, **more})  # type: ignore[no-any-return]


def named(label: str) -> tuple[str, Callable[..., Any]]:
    """A function's name, and what calls it as a label of ROWS says."""
    name, _, overload = label.partition(".")
    function = getattr(dg.torch, name)
    return name, partial(function, out_of_bounds=dg.Fill(1)) if overload == "Fill" else function


def operator_of(label: str) -> Any:
    name, _, overload = label.partition(".")
    return getattr(getattr(torch.ops.dmlgather, name), overload)


def test_the_rows_are_all_functions_and_all_overloads() -> None:
    names = {*dg.torch.__all__}
    found = {f"{name}.{each}" for name in names - {*RUN_BY_PYTORCH} for each in getattr(torch.ops.dmlgather, name).overloads()}
    assert found | {*RUN_BY_PYTORCH} == {*ROWS}
    assert names == {*LIVE}


@pytest.mark.parametrize("label", ROWS)
def test_a_call_is_compiled_without_a_break_for_every_size(label: str) -> None:
    name, function = named(label)
    for dtype in DTYPES:
        torch.compiler.reset()
        run = compiled(lambda x, i: function(*ROWS[label](x, i)))
        for size in (7, 12):
            given = arrays(size, dtype)
            for each in given:
                torch._dynamo.mark_dynamic(each, 0)
            with torch.compiler.set_stance("default" if size == 7 else "fail_on_recompile"):
                found = tensors(run(*given))
            wanted = tensors(LIVE[name](*ROWS[label](*given)))
            assert len(found) == len(wanted)
            assert all(map(same_bits, found, wanted))
            assert all(each.is_contiguous() for each in found)


@pytest.mark.parametrize("label", OPERATORS)
def test_an_operator_is_what_pytorch_asks_of_one(label: str) -> None:
    more = {"out_of_bounds": 1} if label.endswith(".Fill") else {}
    for dtype in (torch.float32, torch.int16):
        torch.library.opcheck(operator_of(label), ROWS[label](*arrays(7, dtype)), more)


def test_types_and_shapes_are_known_without_elements() -> None:
    rng, checked = seeds.rng(), Counter[str]()
    names = sorted({*MAKERS} - {*RUN_BY_PYTORCH})
    while min(checked[name] for name in names) < 20:
        call = draft(rng, rng.choice(names), faulty=False)
        places = {place for place, each in enumerate(call.arguments) if isinstance(each, torch.Tensor)}
        theirs = live(call)
        if theirs.error or not places <= TENSORS[call.operation]:
            continue
        with FakeTensorMode() as mode:
            given = [mode.from_tensor(each) if isinstance(each, torch.Tensor) else each for each in call.arguments]
            found = getattr(torch.ops.dmlgather, call.operation)(*given)
        said = [(each.dtype, each.shape, each.is_contiguous()) for each in (found if isinstance(found, list) else [found])]
        assert said == [(each.dtype, each.shape, True) for each in theirs.tensors], call
        checked[call.operation] += 1


def test_a_graph_for_a_gpu_is_made_without_one() -> None:
    with FakeTensorMode():
        data, ids = torch.empty((4, 6), device="cuda"), torch.empty(3, device="cuda", dtype=torch.int64)
        found = torch.ops.dmlgather.index_select(data, 1, ids)
    assert (found.device.type, found.shape, found.stride()) == ("cuda", (4, 3), (3, 1))


class Looking(torch.nn.Module):  # type: ignore[misc] # PyTorch is not installed where types are checked
    """Each function of `face`, which is dg.torch or PyTorch's functions, in one program."""

    def __init__(self, face: Any) -> None:
        super().__init__()
        self.face, self.table = face, torch.nn.Parameter(torch.rand(5, 3))

    def forward(self, x: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, ...]:
        face = self.face
        rows = face.embedding(i, self.table)
        first, *_ = face.split(face.roll(face.flip(x * 2, (0,)), 1, 0), 4, 1)
        chosen = face.index_select(first, 0, i)
        moved = face.gather(face.transpose(chosen, 0, 1), 1, i[None].expand(4, -1))
        return rows + 1, moved, face.take(x, i) + face.index(x, (i, 2)), face.as_strided(x, (2, 2), (6, 1)) * 2


def in_both(size: int) -> tuple[Looking, tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]:
    """The module with our functions, its inputs, and what it gives with PyTorch's."""
    given = arrays(size, torch.float32)
    module, theirs = Looking(dg.torch), Looking(SimpleNamespace(**LIVE))
    theirs.load_state_dict(module.state_dict())
    with torch.no_grad():
        return module, given, theirs(*given)


def sized(size: str) -> dict[int, Any]:
    return {0: torch.export.Dim(size, min=5)}


@pytest.mark.parametrize("strict", [False, True])
def test_an_exported_program_runs_at_other_sizes(strict: bool) -> None:
    module, _, _ = in_both(7)
    with torch.no_grad():
        program = torch.export.export(
            module, arrays(7, torch.float32), dynamic_shapes=(sized("rows"), sized("count")), strict=strict
        )
        for size in (7, 12):
            _, given, _ = in_both(size)
            theirs = Looking(SimpleNamespace(**LIVE))
            theirs.load_state_dict(module.state_dict())
            assert all(map(same_bits, program.module()(*given), theirs(*given)))
    called = {str(node.target).split(".")[1] for node in program.graph.nodes if str(node.target).startswith("dmlgather.")}
    assert called == {"embedding", "flip", "roll", "split", "index_select", "transpose", "gather", "take"}


def test_a_constant_may_be_what_is_read() -> None:
    class Table(torch.nn.Module):  # type: ignore[misc] # as above
        def __init__(self) -> None:
            super().__init__()
            self.table = X.clone()

        def forward(self, i: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return dg.torch.flip(self.table, (0,)), dg.torch.take(self.table, i), dg.torch.index(self.table, (slice(None), i))

    for strict in (False, True):
        found = torch.export.export(Table(), (I,), strict=strict).module()(I + 1)
        assert all(map(same_bits, found, (X.flip(0), X.take(I + 1), X[:, I + 1])))


@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is:DeprecationWarning")  # inductor's own
def test_inductor_gives_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    module, given, wanted = in_both(7)
    with torch.no_grad():
        run = compiled(module, backend="inductor", options={"compile_threads": 1})  # and no pool of processes
        assert all(map(same_bits, run(*given), wanted))


@pytest.mark.parametrize(
    "first",
    ["import dmlgather.torch.operators", "torch.compile(dg.torch.take, fullgraph=True, backend='eager')(*given)"],
    ids=["import", "call in a graph"],
)
def test_a_saved_program_runs_where_operators_are_registered(tmp_path: Path, first: str) -> None:
    module, given, wanted = in_both(7)
    with torch.no_grad():
        torch.export.save(torch.export.export(module, given), tmp_path / "program.pt2")
    torch.save((given, wanted), tmp_path / "tensors.pt")
    code = f"""
        import sys, torch, dmlgather as dg
        given, wanted = torch.load(sys.argv[2])
        dg.torch.take(*given)
        assert "dmlgather.torch.operators" not in sys.modules  # a call outside of a graph needs none
        {first}
        with torch.no_grad():
            assert all(map(torch.equal, torch.export.load(sys.argv[1]).module()(*given), wanted))
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "program.pt2"), str(tmp_path / "tensors.pt")]
    subprocess.run(command, check=True)


BAD: dict[str, Callable[[torch.Tensor, torch.Tensor], tuple[Any, ...]]] = {
    "index_select": lambda x, i: (x, 0, i),
    "gather": lambda x, i: (x, 1, i[:, None]),
    "take": lambda x, i: (x, i),
    "embedding": lambda x, i: (i, x),
    "index": lambda x, i: (x, (slice(None), i)),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_index_is_pytorchs_error_when_the_graph_runs(name: str) -> None:
    data, good = arrays(7, torch.float32)
    bad = good.index_fill(0, torch.tensor([3]), 42)
    run = compiled(lambda x, i: getattr(dg.torch, name)(*BAD[name](x, i)))
    assert same_bits(run(data, good), LIVE[name](*BAD[name](data, good)))
    with pytest.raises((IndexError, RuntimeError)) as theirs:
        LIVE[name](*BAD[name](data, bad))
    with pytest.raises(theirs.type) as ours:
        run(data, bad)
    assert ours.type is theirs.type


def test_policies_in_a_graph_are_those_of_calls() -> None:
    data = torch.arange(24).reshape(4, 6)
    ids = torch.tensor([-1, 0, 9, 5])
    inside = ids.clamp(0, 5)
    wanted: dict[Any, torch.Tensor] = {"clamp": data[:, inside], dg.Fill(-7): torch.where(inside == ids, data[:, inside], -7)}
    for policy, result in wanted.items():
        for device in (None, "reference"):
            run = compiled(partial(dg.torch.index_select, dim=1, out_of_bounds=policy, device=device))
            assert torch.equal(run(data, index=ids), result)
    with pytest.raises(ValueError, match="out_of_bounds is 'nearest', expected one of"):
        compiled(partial(dg.torch.take, out_of_bounds="nearest"))(data, ids)


OTHERS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "out": (lambda x: dg.torch.index_select(x, 1, I, out=torch.empty(4, 2)), lambda x: x[:, I]),
    "tensor for integer": (lambda x: dg.torch.select(x, 1, I[0]), lambda x: x[:, 2]),
    "tensor for integers": (lambda x: dg.torch.tensor_split(x, I)[2], lambda x: x),
    "index with a policy": (lambda x: dg.torch.index(x, I + 2, out_of_bounds="clamp"), lambda x: x[[3, 2]]),
    "as_strided with a device": (lambda x: dg.torch.as_strided(x, (2,), (1,), device="reference"), lambda x: x[0, :2]),
    "NumPy's number": (
        lambda x: dg.torch.take(x, I + 30, out_of_bounds=dg.Fill(np.float32(1.5))),
        lambda x: torch.full((2,), 1.5),
    ),
    "NumPy": (lambda x: torch.from_numpy(dg.torch.flip(x.numpy(), (0,))), lambda x: x.flip(0)),
}
"""What no graph can hold, and what it gives between two graphs."""


@pytest.mark.parametrize("case", OTHERS)
def test_a_call_that_no_graph_can_hold_runs_between_graphs(case: str) -> None:
    function, wanted = OTHERS[case]
    with pytest.raises(torch._dynamo.exc.Unsupported, match=re.escape(RULE)):
        compiled(function)(X)
    assert torch.equal(compiled(lambda x: function(x + 1) * 2, fullgraph=False)(X), wanted(X + 1) * 2)


@pytest.mark.parametrize("label", ["transpose.default", "flip.default", "index_select.str", "index"])
def test_a_graph_reads_what_conjugate_views_stand_for(label: str) -> None:
    name, function = named(label)
    run = compiled(lambda x: function(*ROWS[label](x, I)))
    data = torch.complex(*torch.rand(2, 4, 6)).conj()
    for view in (data, data.imag):
        assert same_bits(run(view), LIVE[name](*ROWS[label](view, I)))


def test_an_operator_runs_while_a_graph_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where draft_export runs the program on its example."""
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert same_bits(torch.ops.dmlgather.index_select(X, 1, I), X[:, I])
    assert all(map(same_bits, torch.ops.dmlgather.chunk(X, 2), X.chunk(2)))


def test_arrays_of_numpy_are_constants_of_an_export() -> None:
    class Module(torch.nn.Module):  # type: ignore[misc] # as above
        def forward(self, x: torch.Tensor) -> Any:
            return x + torch.from_numpy(dg.torch.flip(np.arange(6, dtype=np.float32), (0,)))

    assert same_bits(torch.export.export(Module(), (X,)).module()(X * 2), X * 2 + torch.arange(6.0).flip(0))


def test_export_refuses_what_no_graph_can_hold() -> None:
    class Written(torch.nn.Module):  # type: ignore[misc] # as above
        def forward(self, x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
            return dg.torch.flip(x, (0,), out=out)

    with pytest.raises(RuntimeError, match=re.escape(RULE)):
        torch.export.export(Written(), (X, torch.empty(4, 6)))


def test_no_gradient_is_lost_in_silence() -> None:
    weight = torch.nn.Parameter(torch.rand(5, 3))
    with pytest.raises(torch._dynamo.exc.Unsupported, match=re.escape(RULE)):
        compiled(lambda w: dg.torch.embedding(I, w * 2))(weight)
    with pytest.raises(RuntimeError, match="requires grad, but no gradient is recorded here"):
        compiled(lambda w: dg.torch.embedding(I, w), fullgraph=False)(weight)
    result = compiled(lambda w: dg.torch.embedding(I, w.detach()).sum() + w.sum())(weight)
    result.backward()
    assert torch.equal(weight.grad, torch.ones(5, 3))
    with torch.no_grad():
        assert same_bits(compiled(lambda w: dg.torch.embedding(I, w))(weight), weight[I])
