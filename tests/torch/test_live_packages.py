"""Modules of public packages: every entry of their traces gives PyTorch's bits, and so does the whole module, fused."""

from __future__ import annotations

import copy
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
import torch

from tests.torch.executing import executed
from tests.torch.fused_chains import content

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore"),  # of the packages
]


def tokens(count: int = 12) -> Any:
    return (torch.randint(0, 50, (1, count)),)


def transformer(**options: Any) -> Any:
    package = import_module("x_transformers")
    layers = package.Decoder(dim=16, depth=1, heads=2, attn_dim_head=8, **options)
    return package.TransformerWrapper(num_tokens=50, max_seq_len=32, attn_layers=layers)


def vision_transformer() -> Any:
    package = import_module("x_transformers")
    layers = package.Encoder(dim=16, depth=1, heads=2, attn_dim_head=8)
    return package.ViTransformerWrapper(image_size=16, patch_size=4, num_classes=5, attn_layers=layers)


def rotary() -> Any:
    class Rotated(torch.nn.Module):  # type: ignore[misc] # PyTorch is not installed where types are checked
        def __init__(self) -> None:
            super().__init__()
            self.embedding = import_module("rotary_embedding_torch").RotaryEmbedding(dim=8)

        def forward(self, queries: Any) -> Any:
            return self.embedding.rotate_queries_or_keys(queries)

    return Rotated()


def local_attention() -> Any:
    return import_module("local_attention").LocalAttention(dim=8, window_size=4, causal=True, look_backward=1, look_forward=0)


def local_transformer() -> Any:
    package = import_module("local_attention")
    return package.LocalTransformer(num_tokens=50, dim=16, depth=1, heads=2, dim_head=8, max_seq_len=32, local_attn_window_size=4)


def patches() -> Any:
    rearrange = import_module("einops.layers.torch").Rearrange
    return torch.nn.Sequential(
        rearrange("b c (h p) (w q) -> b (h w) (p q c)", p=4, q=4), torch.nn.Linear(48, 8), rearrange("b (h w) d -> b d h w", h=4)
    )


def linformer() -> Any:
    return import_module("linformer").Linformer(dim=16, seq_len=16, depth=1, heads=2, k=8)


def routed() -> Any:
    return import_module("colt5_attention").ConditionalRoutedFeedForward(
        dim=16, num_heavy_tokens=4, light_ff_mult=1, heavy_ff_mult=2
    )


@pytest.mark.parametrize(
    ("module", "inputs", "least"),
    [
        pytest.param(lambda: transformer(rotary_pos_emb=True), tokens, 5, id="x-transformers with rotary embeddings"),
        pytest.param(lambda: transformer(rel_pos_bias=True), tokens, 5, id="x-transformers with relative positions"),
        pytest.param(lambda: transformer(alibi_pos_bias=True, shift_tokens=1), tokens, 9, id="x-transformers, shifted"),
        pytest.param(vision_transformer, lambda: (torch.randn(1, 3, 16, 16),), 5, id="x-transformers, vision"),
        pytest.param(rotary, lambda: (torch.randn(1, 2, 6, 8),), 2, id="rotary-embedding-torch"),
        pytest.param(local_attention, lambda: torch.randn(3, 2, 8, 8), 4, id="local-attention"),
        pytest.param(local_transformer, lambda: tokens(8), 20, id="local-attention, transformer"),
        pytest.param(patches, lambda: (torch.randn(1, 3, 16, 16),), 2, id="einops"),
        pytest.param(linformer, lambda: (torch.randn(1, 16, 16),), 6, id="linformer"),
        pytest.param(routed, lambda: (torch.randn(1, 8, 16),), 4, id="colt5-attention"),
    ],
)
def test_every_entry_and_the_fused_module_give_pytorchs_bits(
    module: Callable[[], Any], inputs: Callable[[], Any], least: int
) -> None:
    traced_module, arguments = module().eval(), tuple(inputs())
    judge = copy.deepcopy(traced_module)  # an export may leave tensors without elements in a module's caches
    trace = executed(traced_module, *arguments)
    assert len(trace) >= least
    assert [f"{entry.equation}: {entry.runs}" for entry in trace if str(entry.runs) != "1, equal"] == []
    assert all(entry.plan is not None and entry.directml is not None for entry in trace)
    with torch.no_grad():
        expected = judge(*arguments)
    leaves = torch.utils._pytree.tree_leaves
    assert [content(each) for each in leaves(trace.trace.run(*arguments))] == [content(each) for each in leaves(expected)]
