"""Nodes of exported programs: operators, arguments, results and sizes. Here and in `exported` stand PyTorch's structures."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dmlgather.dialects.element_types import numpy_type
from dmlgather.dialects.problem import TensorType
from dmlgather.fusion.traces import SourceLine
from dmlgather.package import missing_extra

Values = Mapping[Any, int]
"""The values of a program's symbols."""


class UnknownSizeError(ValueError):
    """A size that only a run of the program tells."""


def library() -> Any:
    """The module torch. MissingExtraError where it is missing."""
    try:
        import torch
        import torch.export
    except ModuleNotFoundError as error:
        raise missing_extra("tracing a program", "torch", error) from None
    return torch


def number(size: Any, values: Values) -> int:
    """A size, or an integer that is computed from sizes, as a number. UnknownSizeError where it depends on elements."""
    if isinstance(size, int):
        return size
    found = size.node.expr.subs(values)
    if found.free_symbols:
        raise UnknownSizeError(
            f"{size} is known only when the program runs: it follows from elements, as item() and the size of x[mask] do"
        )
    return int(found)


def expression(size: Any) -> Any:
    """A size as an expression of sympy's."""
    import sympy

    return sympy.Integer(size) if isinstance(size, int) else size.node.expr


def read_by(node: Any) -> list[Any]:
    """The nodes that a node reads, in order; the tensor itself where a node reads its only element."""
    return [element_of(each) or each for each in node.all_input_nodes]


def element_of(given: Any) -> Any:
    """The node of the tensor, where an argument is a node that gives its only element as a number: item(). None for others."""
    is_item = getattr(given, "op", None) == "call_function" and operator_name(given) in (
        "item.default",
        "_local_scalar_dense.default",
    )
    return given.args[0] if is_item else None


def tensor_type(value: Any, values: Values) -> TensorType:
    """Shape and type of the tensor that a node gives. UnknownSizeError as `number`; TypeError for types that NumPy lacks."""
    return TensorType(tuple(number(size, values) for size in value.shape), numpy_type(value.dtype))


def is_tensor(value: Any) -> bool:
    """Whether what a node gives is a tensor."""
    return isinstance(value, library().Tensor)


def strides(value: Any, values: Values) -> tuple[int, ...] | None:
    """The strides of a tensor that a node gives; None where it is packed, and where they are not known."""
    if value.layout is not library().strided:
        return None
    try:
        found = tuple(number(step, values) for step in value.stride())
        sizes = tuple(number(size, values) for size in value.shape)
    except UnknownSizeError:
        return None
    moved = [(size, step) for size, step in zip(sizes, found, strict=True) if size > 1]
    packed, step = True, 1
    for size, own in reversed(moved):
        packed, step = packed and own == step, step * size
    return None if packed or 0 in sizes else found


def offset(value: Any, values: Values) -> int | None:
    """Which element of its memory a tensor that a node gives begins with; None where that is not known."""
    try:
        return number(value.storage_offset(), values) if value.layout is library().strided else None
    except UnknownSizeError:
        return None


def plain(given: Any, values: Values) -> Any:
    """An argument that is no tensor: a size as a number, a graph inside the program, or what it is."""
    if getattr(given, "op", None) == "get_attr":
        return given.graph.owning_module.get_submodule(given.target)
    if hasattr(given, "meta"):
        given = given.meta.get("val")
    return number(given, values) if isinstance(given, library().SymInt) else given


def gives_tensor(node: Any) -> bool:
    """Whether this is a node that gives a tensor."""
    return hasattr(node, "meta") and is_tensor(node.meta.get("val"))


def inlined(node: Any) -> tuple[Any, Sequence[Any]] | None:
    """The graph that a node runs on nodes as it stands, with gradients recorded or not, or with autocast off; None for others."""
    place = graph_place(node)
    return None if place is None else (plain(node.args[place], {}).graph, node.args[place + 1 :])


def graph_place(node: Any) -> int | None:
    """Which argument of a node is the graph that `inlined` is about."""
    name = str(getattr(node.target, "__name__", ""))
    if name == "wrap_with_autocast" and not node.args[2]:
        return 4
    return 1 if name == "wrap_with_set_grad_enabled" else None


def is_single(node: Any) -> bool:
    """Whether a node equals no other: it gives other elements each time, or nothing is known of it."""
    return is_random(node.target) or not hasattr(node.target, "_schema")


def gives(node: Any) -> tuple[Any, ...]:
    """The values that a node gives; one for a node that gives no tuple or list, none for one that gives nothing."""
    value = node.meta.get("val")
    return tuple(value) if isinstance(value, tuple | list) else () if value is None else (value,)


def item_of(node: Any) -> tuple[Any, int] | None:
    """The node and the number of the value, where a node picks one of several values."""
    return (node.args[0], node.args[1]) if node.target is operator.getitem else None


UNINITIALISED = (
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
    "resize",
    "resize_as",
)
"""The operators that give memory as it was."""


def is_random(target: Any) -> bool:
    """Whether an operator gives other elements each time."""
    schema = getattr(target, "_schema", None)
    name = "" if schema is None else schema.name.removeprefix("aten::").removesuffix("_")
    return name in UNINITIALISED or library().Tag.nondeterministic_seeded in getattr(target, "tags", ())


def operator_name(node: Any) -> str:
    """The operator of a node: "index.Tensor" for aten.index.Tensor, and "torchvision.nms.default" for one of another library."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return str(getattr(node.target, "__name__", node.target))
    return f"{schema.name.replace('::', '.')}.{schema.overload_name or 'default'}".removeprefix("aten.")


def arguments(node: Any) -> dict[str, Any]:
    """The arguments of a node by the names of its operator's schema, defaults included; by number where there is no schema."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return {**{str(number): value for number, value in enumerate(node.args)}, **node.kwargs}
    found = {}
    for place, argument in enumerate(schema.arguments):
        if place < len(node.args) and not argument.kwarg_only:
            found[argument.name] = node.args[place]
        elif argument.name in node.kwargs:
            found[argument.name] = node.kwargs[argument.name]
        else:
            found[argument.name] = argument.default_value
    return found


def run(node: Any, given: Mapping[str, Any]) -> list[Any]:
    """The tensors that a node gives for arguments as `arguments` has them."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        placed = [str(place) for place in range(len(node.args))]
    else:
        placed = [argument.name for argument in schema.arguments if not argument.kwarg_only]
    named = {name: value for name, value in given.items() if name not in placed}
    with library().no_grad():
        result = node.target(*(given[name] for name in placed), **named)
    return [each for each in (result if isinstance(result, tuple | list) else (result,)) if is_tensor(each)]


def where(node: Any) -> str:
    """The path of the innermost module that a node comes from: "blocks.0.attention"; empty for the program itself."""
    for path, _ in reversed((node.meta.get("nn_module_stack") or {}).values()):
        if not path.startswith("_"):  # of torch's own hooks
            return str(path).removeprefix("L['self'].").removeprefix("L['self']")
    return ""


_FRAME = re.compile(r'File "(?P<file>[^"]*)", line (?P<line>\d+), in (?P<function>\S+)')


def source_line(node: Any) -> SourceLine | None:
    """The user's line that a node comes from; None where none is known."""
    frames = list(_FRAME.finditer(node.meta.get("stack_trace") or ""))
    package = Path(library().__file__).parent
    for frame in reversed(frames):
        if not Path(frame["file"]).is_relative_to(package):
            return SourceLine(frame["file"], int(frame["line"]), frame["function"])
    return None
