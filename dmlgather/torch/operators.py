"""The functions of dmlgather.torch as PyTorch operators, `torch.ops.dmlgather`, for torch.compile and torch.export.

The first traced call imports this module, which registers the operators. A program that loads an exported graph must
import it itself.
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
    """Return an empty tensor with the result's type and shape. PyTorch's function would replace symbolic sizes by numbers."""
    if dim is None:
        return data.new_empty(indices.numel())
    gathered = dim % (data.dim() or 1)
    sizes = [1 if axis == gathered else size for axis, size in enumerate(data.shape)]
    return torch.broadcast_tensors(data.new_empty(sizes), indices)[0]


THEIRS: Mapping[str, Callable[..., Any]] = {
    "embedding": torch.nn.functional.embedding,
    "index": operator.getitem,
    "pixel_shuffle": torch.nn.functional.pixel_shuffle,
    "pixel_unshuffle": torch.nn.functional.pixel_unshuffle,
    "slice": torch.ops.aten.slice.Tensor,
    "take_along_dim": _take_along_dim,
}
"""PyTorch's function that infers the result's shape during tracing. Other names are methods of torch.Tensor."""

RUN_BY_PYTORCH = ("as_strided", "index")
"""Functions that become PyTorch's own operators in a graph.

An operator of ours could not read the storage for as_strided, and no schema can declare the entries of index.
"""

RULE = (
    "in a graph of torch.compile or torch.export, a call of dg.torch needs PyTorch tensors that need no gradient, Python numbers "
    "for integers and for the value of a Fill, and no out=; index and as_strided allow no out_of_bounds= and no device="
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
"""PyTorch's type in a schema for an annotation in Python."""

_TAGS = [
    getattr(torch.Tag, name)
    # flexible_layout: inputs may have any strides. cudagraph_unsafe: calls may synchronise.
    for name in ("pt2_compliant_tag", "flexible_layout", "cudagraph_unsafe")
    if hasattr(torch.Tag, name)  # the last is new in PyTorch 2.9
]

TENSORS: dict[str, set[int | str]] = {}
"""Parameters of each function that take tensors, by position and by name."""

_UNCOMPILED: dict[str, Callable[..., Any]] = {}
"""The functions in a form that torch.compile does not trace. PyTorch runs them between two graphs."""

_LIBRARY = torch.library.Library("dmlgather", "FRAGMENT")


def in_graph(function: TorchFunction[Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Add a call to the graph that PyTorch traces.

    If a graph cannot contain the call (`RULE`), torch.compile splits the graph, and torch.export raises RuntimeError.
    """
    name = function.__name__  # type: ignore[attr-defined] # set by update_wrapper
    if not _follows_rule(name, args, kwargs):
        if torch.compiler.is_dynamo_compiling():
            return _UNCOMPILED[name](*args, **kwargs)
        if any(isinstance(item, torch.Tensor) for item in (*args, *kwargs.values())):
            raise RuntimeError(RULE)
        return function.run_anew(args, kwargs)
    if name in RUN_BY_PYTORCH:
        return _pytorch_function(name)(*args, **kwargs).clone(memory_format=torch.contiguous_format)
    fill = kwargs.get("out_of_bounds")
    keywords = {**kwargs, "out_of_bounds": fill.value} if isinstance(fill, Fill) else kwargs
    result = getattr(torch.ops.dmlgather, name)(*args, **keywords)
    return tuple(result) if isinstance(result, list) else result


def _follows_rule(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Return True if a graph can contain a call with these arguments. The message `RULE` states the conditions."""
    tensors = {key: item for key, item in (*enumerate(args), *kwargs.items()) if isinstance(item, torch.Tensor)}
    if not tensors or not TENSORS[name].issuperset(tensors):
        return False
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors.values()):
        return False
    fill = kwargs.get("out_of_bounds")
    if isinstance(fill, Fill) and not isinstance(fill.value, int | float | complex):
        return False
    forbidden = ("out", "out_of_bounds", "device") if name in RUN_BY_PYTORCH else ("out",)
    return all(kwargs.get(keyword) is None for keyword in forbidden)


def schemas(name: str, function: TorchFunction[Any]) -> Iterator[str]:
    """Yield the schemas of a PyTorch operator: one overload for each combination of parameter types.

    Names of overloads contain the types, such as "split.int" and "split.Sequence".
    """
    parameters = dict(inspect.signature(function).parameters)
    returned = "Tensor" if parameters.pop("out", None) else "Tensor[]"
    unions = [item.annotation.removesuffix(" | None").removesuffix(" | Any").split(" | ") for item in parameters.values()]
    for types in product(*unions):
        declarations: list[str] = []
        for annotation, parameter in zip(types, parameters.values(), strict=True):
            if parameter.kind is parameter.KEYWORD_ONLY and "*" not in declarations:
                declarations.append("*")
            optional = "?" if parameter.annotation.endswith(" | None") else ""
            default = "" if parameter.default is parameter.empty else f"={parameter.default}"
            declarations.append(f"{TYPES[annotation]}{optional} {parameter.name}{default}")
        chosen = [annotation for annotation, union in zip(types, unions, strict=True) if len(union) > 1]
        overload = "_".join(annotation.removesuffix("[int]") for annotation in chosen)
        yield f"{name}{'.' if overload else ''}{overload}({', '.join(declarations)}) -> {returned}"


def _pytorch_function(name: str) -> Callable[..., Any]:
    return THEIRS.get(name) or getattr(torch.Tensor, name)


def _register(name: str, function: TorchFunction[Any]) -> None:
    pytorch_function = _pytorch_function(name)

    def run(*args: Any, **kwargs: Any) -> Any:
        fill = kwargs.get("out_of_bounds")
        if fill is not None and not isinstance(fill, str):
            kwargs["out_of_bounds"] = Fill(fill)
        # A compiler may run the operator on its example inputs. Then the call must not be traced.
        result = function.run_anew(args, kwargs) if torch.compiler.is_compiling() else function(*args, **kwargs)
        return list(result) if isinstance(result, tuple) else result

    def fake(*args: Any, out_of_bounds: Any = None, device: Any = None, **kwargs: Any) -> Any:  # noqa: ARG001 - shapes do not depend on them
        return _packed(pytorch_function(*args, **kwargs))

    for schema in schemas(name, function):
        overload = schema[: schema.index("(")]
        _LIBRARY.define(schema, tags=_TAGS)
        _LIBRARY.impl(overload, run, "CompositeExplicitAutograd")
        torch.library.register_fake(f"dmlgather::{overload}", fake, lib=_LIBRARY)


def _packed(result: Any) -> Any:
    """Return empty contiguous tensors with the types and shapes of PyTorch's results, which may be views."""
    if isinstance(result, torch.Tensor):
        return torch.empty_like(result, memory_format=torch.contiguous_format)
    return [_packed(tensor) for tensor in result]


def _register_all() -> None:
    for name in public.__all__:
        function = getattr(public, name)
        if not isinstance(function, TorchFunction):
            continue
        parameters = enumerate(inspect.signature(function).parameters.values())
        TENSORS[name] = {key for position, item in parameters if item.annotation == "Any" for key in (position, item.name)}
        _UNCOMPILED[name] = torch.compiler.disable(function.__call__, reason=RULE)
        if name not in RUN_BY_PYTORCH:
            _register(name, function)


_register_all()
