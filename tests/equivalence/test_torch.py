"""Programs of PyTorch against what torch.onnx.export makes of them, and against JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dmlgather as dg

pytestmark = pytest.mark.torch


def rows_of(x: Any, i: Any) -> Any:
    """A gather of columns, turned, flattened and cropped."""
    return x.index_select(1, i).transpose(0, 1).flatten(1)[:, 1:5]


@pytest.mark.filterwarnings("ignore")  # of the exporter
def test_an_export_keeps_the_meaning_where_torch_takes_the_indices() -> None:
    import torch

    class Rows(torch.nn.Module):  # type: ignore[misc] # torch is not installed where types are checked
        def forward(self, x: Any, i: Any) -> Any:
            return rows_of(x, i)

    module, x, i = Rows().eval(), torch.zeros(3, 6, 4), torch.tensor([1, 0, 5])
    exported = torch.onnx.export(module, (x, i), dynamo=True, verbose=False).model_proto
    assert dg.equivalent(module, exported, x, i, given="valid")
    found = dg.equivalent(module, exported, x, i)
    assert found.verdict == "different"  # torch refuses negative indices, which ONNX wraps
    assert found.counterexample is not None
    with pytest.raises(RuntimeError, match="out of DATA bounds"):
        module(torch.zeros(3, 6, 4), torch.from_numpy(found.counterexample.inputs["i"]))


def test_torch_and_jax() -> None:
    import jax
    import torch

    in_jax = jax.jit(lambda x, i: x.take(i, axis=1, mode="clip").swapaxes(0, 1).reshape(3, 12)[:, 1:5])
    x, i = torch.zeros(3, 6, 4), torch.tensor([1, 0, 5])
    assert dg.equivalent(torch.export.export(torch.nn.ReLU(), (x,)), torch.nn.ReLU(), x)
    assert dg.equivalent(rows_of, in_jax, x, i, given="valid")
    assert dg.equivalent(rows_of, in_jax, x, i).verdict == "different"
    assert np.all(np.asarray(in_jax(x.numpy(), i.numpy())) == rows_of(x, i).numpy())


def test_examples_of_any_library_go_with_functions_of_any_library() -> None:
    import jax
    import ml_dtypes
    import torch

    class Flip(torch.nn.Module):  # type: ignore[misc] # torch is not installed where types are checked
        def forward(self, x: Any) -> Any:
            return x.flip(0)

    in_jax, in_torch = jax.jit(lambda x: x[::-1]), Flip()
    halves = np.zeros((2, 3), ml_dtypes.bfloat16)
    struct = jax.ShapeDtypeStruct((2, 3), "bfloat16")  # type: ignore[no-untyped-call]
    stated = [((2, 3), "bfloat16"), ((2, 3), torch.bfloat16), ([2, 3], halves.dtype), struct]
    tensors = [torch.empty(2, 3, dtype=torch.bfloat16), torch.empty(2, 3, dtype=torch.bfloat16, device="meta")]
    for example in (*stated, *tensors, halves, halves[::-1], jax.numpy.asarray(halves)):
        assert dg.equivalent(in_torch, in_jax, example)


def test_examples_may_be_trees() -> None:
    import jax
    import torch

    x = torch.zeros(4)

    def in_torch(tree: Any) -> Any:
        return tree["a"][::2]

    for tree in ({"a": x}, {"a": x, "b": [x, x]}, {"a": ((4,), "float32"), "b": x}, {"a": np.zeros(4, np.float32), "b": (x,)}):
        assert dg.equivalent(in_torch, lambda tree: tree["a"][0:4:2], tree).verdict == "proven"
        assert dg.equivalent(in_torch, lambda tree: tree["a"][1::2], tree).verdict == "different"
        assert dg.equivalent(in_torch, jax.jit(lambda tree: tree["a"][::2]), tree).verdict == "proven"
    assert dg.equivalent(lambda pair: pair[1][0], lambda pair: pair[1][0:][0], (x, [x])).verdict == "proven"
    assert dg.equivalent(lambda tree: tree["a"]["b"], lambda tree: tree["a"]["b"].clone(), {"a": {"b": x}}).verdict == "proven"


def every_index(one: Any, two: Any) -> tuple[bool, Any]:
    """Whether PyTorch gives the same, or raises, in both functions for every pair of indices from -7 … 7; and the data."""
    import torch

    x = torch.arange(5.0) + 1

    def result(function: Any, i: Any) -> Any:
        try:
            return function(x, i).tolist()
        except (IndexError, RuntimeError):
            return None

    pairs = [torch.tensor([a, b]) for a in range(-7, 8) for b in range(-7, 8)]
    return all(result(one, i) == result(two, i) for i in pairs), x


INDICES: dict[str, Any] = {
    "divided by 1": lambda x, i: x[i // 1],
    "moved by no bits": lambda x, i: x[i >> 0],
    "or 0": lambda x, i: x[i | 0],
    "and -1": lambda x, i: x[i & -1],
    "exclusive or 0": lambda x, i: x[i ^ 0],
    "sorted": lambda x, i: x[i.sort().values],
    "absolute": lambda x, i: x[i.abs()],
    "halved": lambda x, i: x[i // 2],
    "with another operator that takes them": lambda x, i: x.put(i, x[i]).index_select(0, i.clamp(0, 4)),
    "looked up by another operator": lambda x, i: x.take(i),
    "one more": lambda x, i: x[i + 1],
    "clamped": lambda x, i: x[i.clamp(0, 4)],
}


@pytest.mark.parametrize("row", INDICES)
def test_a_difference_is_one_for_pytorch(row: str) -> None:
    def plain(x: Any, i: Any) -> Any:
        return x[i]

    import torch

    equal, x = every_index(plain, INDICES[row])
    for one, two in ((plain, INDICES[row]), (INDICES[row], plain)):
        found = dg.equivalent(one, two, x, torch.tensor([1, 2]))
        assert found.verdict != ("different" if equal else "proven"), found
        if row in ("one more", "clamped"):
            assert found.verdict == "different"


def dead_rows(x: Any, i: Any) -> Any:
    x[i]
    return x * 2


def dead_selection(x: Any, i: Any) -> Any:
    x.index_select(0, i).unsqueeze(0)
    return x[:2]


def dead_elements(x: Any, i: Any) -> Any:
    x.gather(0, i).relu()
    return x.flip(0)


def dead_beside_a_write(x: Any, i: Any) -> Any:
    """PyTorch rewrites a program that writes into a tensor."""
    x.take_along_dim(i, 0)
    x.take(i)
    y = x.clone()
    y.add_(1)
    return y


LIVE = {
    dead_beside_a_write: lambda x, i: x + 1,
    dead_rows: lambda x, i: x * 2,
    dead_selection: lambda x, i: x[:2],
    dead_elements: lambda x, i: x.flip(0),
}


@pytest.mark.parametrize("function", LIVE)
def test_a_trace_raises_where_a_gather_that_nothing_reads_does(function: Any) -> None:
    import torch

    x, i = torch.arange(5.0), torch.tensor([1, 2])
    trace, bad = dg.torch.trace(function, x, i), torch.tensor([1, 9])
    assert torch.equal(trace.run(x, i), function(x, i))
    for each in (function, trace.run):
        with pytest.raises((IndexError, RuntimeError) if each is function else IndexError):
            each(x, bad)
    found = dg.equivalent(function, LIVE[function], x, i)
    assert found.verdict == "different", found
    assert "raises nothing" in str(found)
    assert dg.equivalent(function, function, x, i)


def _attention(q: Any, k: Any, v: Any, mask: Any) -> Any:
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    return scores.masked_fill(~mask, -float("inf")).softmax(-1) @ v


NEAR_MISSES: dict[str, tuple[Callable[..., Any], Callable[..., Any], str]] = {
    "attention written out": (_attention, lambda q, k, v, m: functional().scaled_dot_product_attention(q, k, v, m), "float32"),
    "eps of a norm": (
        lambda x, *_: functional().rms_norm(x, [4], eps=1e-8),
        lambda x, *_: functional().rms_norm(x, [4], eps=1e-9),
        "float16",
    ),
    "a number": (lambda x, *_: x * 0.1, lambda x, *_: x * 0.09998, "float16"),
    "a number that is added": (lambda x, *_: x + 1e-3, lambda x, *_: x + 1.001e-3, "float16"),
    "a slope": (lambda x, *_: functional().leaky_relu(x), lambda x, *_: functional().leaky_relu(x, 0.0100001), "float64"),
    "another order": (lambda x, y, *_: x @ y @ x, lambda x, y, *_: x @ (y @ x), "float32"),
}
"""Two functions of q, k, v and a mask that compute nearly the same, and the type for which they do not."""


def functional() -> Any:
    from torch.nn import functional

    return functional


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_what_nearly_computes_the_same_is_not_proven(name: str) -> None:
    import torch

    one, other, kind = NEAR_MISSES[name]
    generator = torch.Generator().manual_seed(0)
    given = [torch.randn(64, 4, 4, generator=generator, dtype=torch.float64).to(getattr(torch, kind)) for _ in range(3)]
    given[0] *= 1e-3  # so that eps counts
    mask = torch.ones(64, 4, 4, dtype=torch.bool)
    mask[0, 1] = False  # a row without anything to attend to
    results = [function(*given, mask).numpy() for function in (one, other)]
    assert results[0].tobytes() != results[1].tobytes()
    assert dg.equivalent(one, other, *given, mask).verdict == "not proven"
    assert dg.equivalent(one, one, *given, mask)
