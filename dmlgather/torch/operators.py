"""The functions as operators of PyTorch, `torch.ops.dmlgather`: nodes of the graphs that torch.compile and torch.export make.

Importing this imports PyTorch and registers them. The first call in a graph does so; whoever loads an exported program has to.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import torch

import dmlgather.torch as public
from dmlgather.calls.arguments import Fill
from dmlgather.torch.torch_function import TorchFunction


def _take_along_dim(data: Any, indices: Any, dim: int | None = None) -> Any:
    """A tensor like take_along_dim's, of which PyTorch's own makes numbers of sizes that are left open."""
    if dim is None:
        return data.new_empty(indices.numel())
    along = dim % (data.dim() or 1)
    sizes = [1 if axis == along else size for axis, size in enumerate(data.shape)]
    return torch.broadcast_tensors(data.new_empty(sizes), indices)[0]


THEIRS: Mapping[str, Callable[..., Any]] = {
    "embedding": torch.nn.functional.embedding,
    "index": operator.getitem,
    "pixel_shuffle": torch.nn.functional.pixel_shuffle,
    "pixel_unshuffle": torch.nn.functional.pixel_unshuffle,
    "slice": torch.ops.aten.slice.Tensor,
    "take_along_dim": _take_along_dim,
}
"""PyTorch's functions, whose results have the shapes; those that are missing are methods of tensors."""

PLAIN = ("as_strided", "index")
"""What PyTorch runs in a graph: only it knows the storage of a tensor there, and no schema says what stands between brackets."""

RULE = (
    "a graph of torch.compile or torch.export takes calls of dg.torch on tensors of PyTorch whose gradients are not wanted, with "
    "Python's numbers in the place of integers and in a Fill, without out=, and those of index and as_strided without "
    "out_of_bounds= and device="
)

TYPES = {
    "Any": "Tensor",
    "Fill": "Scalar",
    "Sequence[int]": "SymInt[]",
    "bool": "bool",
    "float": "float",
    "int": "SymInt",
    "str": "str",
}
"""What the annotations of parameters are in a schema."""

_TAGS = [
    getattr(torch.Tag, name)
    for name in ("pt2_compliant_tag", "flexible_layout", "cudagraph_unsafe")  # any strides are read; a call may wait for the GPU
    if hasattr(torch.Tag, name)  # the last came with PyTorch 2.9
]

TENSORS: dict[str, set[int | str]] = {}
"""The arguments of each function that are tensors, by place and by name."""

_OUTSIDE: dict[str, Callable[..., Any]] = {}
"""What runs a function between two graphs."""

_LIBRARY = torch.library.Library("dmlgather", "FRAGMENT")


def in_graph(function: TorchFunction[Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """A call while a graph is made. One that breaks RULE is run between two graphs; in torch.export, it is a RuntimeError."""
    name = function.__name__  # type: ignore[attr-defined] # set by update_wrapper
    if not _fits(name, args, kwargs):
        if torch.compiler.is_dynamo_compiling():
            return _OUTSIDE[name](*args, **kwargs)
        if any(isinstance(item, torch.Tensor) for item in (*args, *kwargs.values())):
            raise RuntimeError(RULE)
        return function.run_anew(args, kwargs)
    if name in PLAIN:
        return _theirs(name)(*args, **kwargs).clone(memory_format=torch.contiguous_format)
    fill = kwargs.get("out_of_bounds")
    given = {**kwargs, "out_of_bounds": fill.value} if isinstance(fill, Fill) else kwargs
    result = getattr(torch.ops.dmlgather, name)(*args, **given)
    return tuple(result) if isinstance(result, list) else result


def _fits(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a call keeps to RULE."""
    tensors = {place: item for place, item in (*enumerate(args), *kwargs.items()) if isinstance(item, torch.Tensor)}
    if not tensors or not TENSORS[name].issuperset(tensors):
        return False
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors.values()):
        return False
    fill = kwargs.get("out_of_bounds")
    if isinstance(fill, Fill) and not isinstance(fill.value, int | float | complex):
        return False
    return all(kwargs.get(word) is None for word in (("out", "out_of_bounds", "device") if name in PLAIN else ("out",)))


def schemas(name: str, function: TorchFunction[Any]) -> Iterator[str]:
    """The schemas of a function: an overload for each choice among the types of its parameters, which it is named after."""
    parameters = dict(inspect.signature(function).parameters)
    returned = "Tensor" if parameters.pop("out", None) else "Tensor[]"
    kinds = [each.annotation.removesuffix(" | None").removesuffix(" | Any").split(" | ") for each in parameters.values()]
    for chosen in product(*kinds):
        words: list[str] = []
        for kind, each in zip(chosen, parameters.values(), strict=True):
            if each.kind is each.KEYWORD_ONLY and "*" not in words:
                words.append("*")
            optional = "?" if each.annotation.endswith(" | None") else ""
            default = "" if each.default is each.empty else f"={each.default}"
            words.append(f"{TYPES[kind]}{optional} {each.name}{default}")
        overload = "_".join(kind.removesuffix("[int]") for kind, among in zip(chosen, kinds, strict=True) if len(among) > 1)
        yield f"{name}{'.' if overload else ''}{overload}({', '.join(words)}) -> {returned}"


def _theirs(name: str) -> Callable[..., Any]:
    return THEIRS.get(name) or getattr(torch.Tensor, name)


def _register(name: str, function: TorchFunction[Any]) -> None:
    theirs = _theirs(name)

    def run(*args: Any, **kwargs: Any) -> Any:
        fill = kwargs.get("out_of_bounds")
        if fill is not None and not isinstance(fill, str):
            kwargs["out_of_bounds"] = Fill(fill)
        # a graph's maker may run it on its example: that call is none of the graph
        result = function.run_anew(args, kwargs) if torch.compiler.is_compiling() else function(*args, **kwargs)
        return list(result) if isinstance(result, tuple) else result

    def fake(*args: Any, out_of_bounds: Any = None, device: Any = None, **kwargs: Any) -> Any:  # noqa: ARG001 - no shape depends on them
        return _packed(theirs(*args, **kwargs))

    for schema in schemas(name, function):
        overload = schema[: schema.index("(")]
        _LIBRARY.define(schema, tags=_TAGS)
        _LIBRARY.impl(overload, run, "CompositeExplicitAutograd")
        torch.library.register_fake(f"dmlgather::{overload}", fake, lib=_LIBRARY)


def _packed(result: Any) -> Any:
    """New tensors of the types and shapes of PyTorch's, which may be views."""
    if isinstance(result, torch.Tensor):
        return torch.empty_like(result, memory_format=torch.contiguous_format)
    return [_packed(each) for each in result]


def _register_all() -> None:
    for name in public.__all__:
        function = getattr(public, name)
        if not isinstance(function, TorchFunction):
            continue
        parameters = enumerate(inspect.signature(function).parameters.values())
        TENSORS[name] = {key for place, each in parameters if each.annotation == "Any" for key in (place, each.name)}
        _OUTSIDE[name] = torch.compiler.disable(function.__call__, reason=RULE)
        if name not in PLAIN:
            _register(name, function)


_register_all()
