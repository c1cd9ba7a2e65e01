"""Programs of PyTorch against what torch.onnx.export makes of them, and against JAX."""

from __future__ import annotations

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
