"""Random small modules of operators that PyTorch and ONNX share, and one change of an exported model."""

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


def product(rng: random.Random) -> Block:
    """Two products of matrices, with a function of each element between them."""
    wide, middle = rng.choice((4, 8, 16)), activation(rng)
    one, two = Weights(WIDTH, wide), Weights(wide, WIDTH)
    return Block(lambda layers, x, _: layers["two"](middle(layers["one"](x))), one=one, two=two)


class Weights(nn.Module):  # type: ignore[misc] # PyTorch is not installed where types are checked
    """A product of matrices, and a sum: as operators of their own, since ONNX's Gemm is no operator of PyTorch's."""

    def __init__(self, read: int, wide: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(read, wide)), nn.Parameter(torch.randn(wide))

    def forward(self, x: Any) -> Any:
        return x @ self.weight + self.bias


def activation(rng: random.Random) -> Any:
    slope, limit = rng.choice((0.01, 0.1, 0.3)), rng.choice((0.5, 1.5))
    return rng.choice(
        (
            torch.relu,
            torch.tanh,
            torch.sigmoid,
            functional.gelu,
            torch.erf,
            lambda x: x * torch.sigmoid(x),
            lambda x: torch.maximum(x, x * slope),
            lambda x: torch.sqrt(torch.abs(x) + limit),
            lambda x: x * slope + limit,
        )
    )


def along(rng: random.Random) -> Block:
    """A function along one dimension."""
    axis, function = rng.choice((1, 2, -1)), rng.choice((torch.softmax, torch.log_softmax))
    return Block(lambda _, x, i: function(x, axis))


def attended(rng: random.Random) -> Block:
    heads, scale = rng.choice((1, 2, 4)), rng.choice((WIDTH**0.5, 4.0))

    def attend(layers: Any, x: Any, _: Any) -> Any:
        q, k, v = (part.view(BATCH, LENGTH, heads, -1).transpose(1, 2) for part in layers["parts"](x).chunk(3, dim=-1))
        return ((q @ k.transpose(-1, -2) / scale).softmax(-1) @ v).transpose(1, 2).reshape(BATCH, LENGTH, WIDTH)

    return Block(attend, parts=Weights(WIDTH, 3 * WIDTH))


def moved(rng: random.Random) -> Block:
    return rng.choice(
        (
            Block(lambda _, x, i: x.index_select(1, i)),
            Block(lambda _, x, i: x + x[:, i]),
            Block(lambda _, x, i: x.flip(2)),
            Block(lambda _, x, i: x.transpose(1, 2).reshape(BATCH, LENGTH, WIDTH)),
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
    makers = (product, along, attended, moved)
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
