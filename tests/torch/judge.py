"""PyTorch itself as the judge: what a call gives there, or which error."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn import functional

import dmlgather as dg

LIVE: Mapping[str, Callable[..., Any]] = {
    "as_strided": torch.as_strided,
    "chunk": torch.chunk,
    "diagonal": torch.diagonal,
    "embedding": functional.embedding,
    "expand": lambda input, size: input.expand(size),  # noqa: A006 - PyTorch's name
    "flip": torch.flip,
    "gather": torch.gather,
    "index": lambda input, indices: input[indices],  # noqa: A006
    "index_select": torch.index_select,
    "narrow": torch.narrow,
    "permute": torch.permute,
    "pixel_shuffle": functional.pixel_shuffle,
    "pixel_unshuffle": functional.pixel_unshuffle,
    "roll": torch.roll,
    "select": torch.select,
    "slice": torch.ops.aten.slice.Tensor,
    "split": torch.split,
    "take": torch.take,
    "take_along_dim": torch.take_along_dim,
    "tensor_split": torch.tensor_split,
    "transpose": torch.transpose,
    "unfold": lambda input, dimension, size, step: input.unfold(dimension, size, step),  # noqa: A006
}
"""PyTorch's functions, by the names that dg.torch has for them."""


@dataclass(frozen=True)
class TorchCall:
    """A call of one of the functions, by position."""

    operation: str
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        shown = [
            f"{each.dtype} {list(each.shape)} strides {each.stride()}" if isinstance(each, torch.Tensor) else repr(each)
            for each in (*self.arguments, *self.keywords.items())
        ]
        return f"{self.operation}({', '.join(shown)})"


@dataclass(frozen=True)
class Said:
    """What a call gave: tensors, or the class of an error and its text."""

    tensors: tuple[torch.Tensor, ...] = ()
    error: type[Exception] | None = None
    text: str = ""

    def same_bits(self, other: Said) -> bool:
        """Whether both gave the same numbers of tensors, of the same types, shapes and bits."""
        return len(self.tensors) == len(other.tensors) and all(map(same_bits, self.tensors, other.tensors))


def same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    return left.shape == right.shape and left.dtype == right.dtype and bits(left) == bits(right)


def bits(tensor: torch.Tensor) -> bytes:
    """The elements in row-major order."""
    plain = tensor.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
    return bytes(plain.reshape(-1).view(torch.uint8).numpy()) if plain.numel() else b""


def live(call: TorchCall) -> Said:
    """What PyTorch says."""
    return _said(LIVE[call.operation], call)


def ours(call: TorchCall, **more: Any) -> Said:
    """What dmlgather says."""
    return _said(getattr(dg.torch, call.operation), call, **more)


def _said(function: Callable[..., Any], call: TorchCall, **more: Any) -> Said:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            result = function(*call.arguments, **call.keywords, **more)
    except Exception as error:
        return Said(error=type(error), text=str(error))
    return Said(tuple(result) if isinstance(result, tuple | list) else (result,))
