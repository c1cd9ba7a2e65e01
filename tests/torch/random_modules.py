"""Random small modules of the layers that real ones have, and one change of an exported model."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import onnx
import torch
from torch import nn
from torch.nn import functional

BATCH, LENGTH, WIDTH = 2, 6, 8


class Block(nn.Module):  # type: ignore[misc] # PyTorch is not installed where types are checked
    """A function of data [2, 6, 8] and indices [6] that gives data of that shape, with the layers that it needs."""

    def __init__(self, function: Any, **layers: nn.Module) -> None:
        super().__init__()
        self.function = function
        self.layers = nn.ModuleDict(layers)

    def forward(self, x: Any, i: Any) -> Any:
        return self.function(self.layers, x, i)


def linear(rng: random.Random) -> Block:
    wide = rng.choice((4, 8, 16))
    one, two = nn.Linear(WIDTH, wide, bias=rng.random() < 0.7), nn.Linear(wide, WIDTH, bias=rng.random() < 0.7)
    middle = activation(rng)
    return Block(lambda layers, x, _: layers["two"](middle(layers["one"](x))), one=one, two=two)


def activation(rng: random.Random) -> Any:
    slope, limit = rng.choice((0.01, 0.1, 0.3)), rng.choice((0.5, 1.5))
    return rng.choice(
        (
            torch.relu,
            torch.tanh,
            functional.silu,
            functional.gelu,
            lambda x: functional.gelu(x, approximate="tanh"),
            lambda x: functional.leaky_relu(x, slope),
            lambda x: functional.elu(x, limit),
            functional.softplus,
            functional.hardswish,
            functional.mish,
            lambda x: x.clamp(-limit, limit),
            lambda x: torch.rsqrt(x * x + limit),
            lambda x: x * slope + limit,
        )
    )


def normed(rng: random.Random) -> Block:
    epsilon = rng.choice((1e-5, 1e-3))
    layer = rng.choice(
        (
            nn.LayerNorm(WIDTH, eps=epsilon),
            nn.RMSNorm(WIDTH, eps=epsilon),
            nn.GroupNorm(2, LENGTH, eps=epsilon),
            nn.LayerNorm([LENGTH, WIDTH]),
        )
    )
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(torch.rand_like(parameter))
    return Block(lambda layers, x, _: layers["norm"](x), norm=layer)


def attended(rng: random.Random) -> Block:
    heads = rng.choice((1, 2, 4))
    if rng.random() < 0.5:
        own = nn.MultiheadAttention(WIDTH, heads, batch_first=True)
        return Block(lambda layers, x, _: layers["attention"](x, x, x, need_weights=False)[0], attention=own)
    scale = rng.choice((WIDTH**0.5, 4.0))

    def attend(layers: Any, x: Any, _: Any) -> Any:
        q, k, v = (part.view(BATCH, LENGTH, heads, -1).transpose(1, 2) for part in layers["parts"](x).chunk(3, dim=-1))
        scores = torch.einsum("bhid,bhjd->bhij", q, k) if rng_einsum else q @ k.transpose(-1, -2)
        return ((scores / scale).softmax(-1) @ v).transpose(1, 2).reshape(BATCH, LENGTH, WIDTH)

    rng_einsum = rng.random() < 0.5
    return Block(attend, parts=nn.Linear(WIDTH, 3 * WIDTH))


def moved(rng: random.Random) -> Block:
    return rng.choice(
        (
            Block(lambda _, x, i: x.index_select(1, i)),
            Block(lambda _, x, i: x + x[:, i]),
            Block(lambda _, x, i: x.flip(2)),
            Block(lambda _, x, i: x.transpose(1, 2).reshape(BATCH, LENGTH, WIDTH)),
        )
    )


def convolved(rng: random.Random) -> Block:
    """Along the length, with as many groups as go."""
    groups, wide = rng.choice((1, 2)), rng.choice((1, 2))
    layer = nn.Conv1d(WIDTH, WIDTH, 3, padding=wide, dilation=wide, groups=groups, bias=rng.random() < 0.7)
    return Block(lambda layers, x, _: layers["conv"](x.transpose(1, 2)).transpose(1, 2), conv=layer)


def pooled(rng: random.Random) -> Block:
    counted = rng.random() < 0.5
    return rng.choice(
        (
            Block(lambda _, x, i: functional.avg_pool1d(x, 3, 1, 1, count_include_pad=counted)),
            Block(lambda _, x, i: functional.max_pool1d(x, 3, 1, 1)),
            Block(lambda _, x, i: x - x.mean(1, keepdim=True)),
            Block(lambda _, x, i: x / (x.norm(dim=-1, keepdim=True) + 1)),
            Block(lambda _, x, i: x.cumsum(1)),
        )
    )


class Chained(nn.Module):  # type: ignore[misc] # likewise
    """Blocks one after the other, some with what they read added."""

    def __init__(self, blocks: list[Block], added: list[bool]) -> None:
        super().__init__()
        self.blocks, self.added = nn.ModuleList(blocks), added

    def forward(self, x: Any, i: Any) -> Any:
        for block, adds in zip(self.blocks, self.added, strict=True):
            x = x + block(x, i) if adds else block(x, i)
        return x


def random_module(rng: random.Random) -> Chained:
    """A module of two to five blocks, with random weights."""
    torch.manual_seed(rng.getrandbits(32))
    makers = (linear, normed, attended, moved, convolved, pooled)
    blocks = [rng.choice(makers)(rng) for _ in range(rng.randrange(2, 6))]
    module = Chained(blocks, [rng.random() < 0.4 for _ in blocks])
    module.eval()
    return module


def example() -> tuple[Any, Any]:
    """Data and indices."""
    return torch.randn(BATCH, LENGTH, WIDTH), torch.randint(0, LENGTH, (LENGTH,))


def broken(model: onnx.ModelProto, rng: random.Random) -> onnx.ModelProto:
    """The model with one attribute, one initializer or the inputs of one node changed. It may still be the same function."""
    found = onnx.ModelProto()
    found.CopyFrom(model)
    change = rng.choice((_other_number, _other_initializer, _other_order))
    change(found.graph, rng)
    return found


def _other_number(graph: onnx.GraphProto, rng: random.Random) -> None:
    """One more, one less, or another sign of a number in an attribute."""
    attributes = [each for node in graph.node for each in node.attribute if each.type in (1, 2, 7)]
    if attributes:
        chosen = rng.choice(attributes)
        if chosen.type == onnx.AttributeProto.FLOAT:
            chosen.f = chosen.f * rng.choice((0.5, 2.0, 100.0))
        elif chosen.type == onnx.AttributeProto.INT:
            chosen.i = chosen.i + rng.choice((-1, 1))
        elif chosen.ints:
            place, other = rng.randrange(len(chosen.ints)), rng.randrange(len(chosen.ints))
            chosen.ints[place], chosen.ints[other] = chosen.ints[other], chosen.ints[place]


def _other_initializer(graph: onnx.GraphProto, rng: random.Random) -> None:
    """One element changed, rows exchanged, or a matrix turned."""
    if not graph.initializer:
        return
    chosen = rng.choice(graph.initializer)
    array = np.array(onnx.numpy_helper.to_array(chosen))
    if array.ndim == 2 and array.shape[0] == array.shape[1] and rng.random() < 0.5:
        array = array.T.copy()
    elif array.ndim and len(array) > 1 and rng.random() < 0.3:
        array = array[::-1].copy()
    elif array.size:
        array.reshape(-1)[rng.randrange(array.size)] += 1
    chosen.CopyFrom(onnx.numpy_helper.from_array(array, chosen.name))


def _other_order(graph: onnx.GraphProto, rng: random.Random) -> None:
    """Two inputs of a node exchanged."""
    chosen = rng.choice([node for node in graph.node if len(node.input) > 1] or [graph.node[0]])
    chosen.input[:] = rng.sample(list(chosen.input), len(chosen.input))
