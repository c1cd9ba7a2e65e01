"""The generated part of dmlgather_dump.h: names of enumerators, and fields of structures."""

from __future__ import annotations

import enum
import textwrap
from collections.abc import Iterator
from pathlib import Path

from pydantic.fields import FieldInfo

from dmlgather.directml.fields import Structure, unstated
from dmlgather.directml.operator_types import NUMBERS, PREFIX
from dmlgather.directml.operators import OPERATORS
from dmlgather.directml.operators.operator import Operator
from dmlgather.directml.tensor import BufferTensorDesc
from dmlgather.directml.types import DataType, DepthSpaceOrder, FeatureLevel, TensorFlags

HEADER = Path("dmlgather/include/dmlgather_dump.h")
BEGIN, END = "// generated: from dmlgather's declarations, by ci/pages\n", "// end of generated\n"

ENUMERATIONS: dict[type[enum.Enum], str] = {
    DataType: "data_type_names",
    TensorFlags: "flag_names",
    DepthSpaceOrder: "order_names",
}
"""The header's array with the names of an enumeration's members, by number."""


LEVELS = {
    level: [operator for operator in OPERATORS.values() if operator.introduced is level]
    for level in sorted({operator.introduced for operator in OPERATORS.values()})
}
"""Operators by the feature level that introduced them. Older versions of directml.h lack them."""


def rendered(text: str) -> str:
    """Return the header's text with a new generated part."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{HEADER} lacks the line {BEGIN if not begin else END!r}")
    return before + begin + "\n".join(generated()) + "\n" + end + after


def generated() -> Iterator[str]:
    """Yield the generated lines."""
    yield ""
    yield from _names("operator_names", ["INVALID", *(name.removeprefix(PREFIX) for name in NUMBERS)])
    for kind, array in ENUMERATIONS.items():
        members = list(kind.__members__.values())
        assert [member.value for member in members] == list(range(len(members))), kind
        yield from _names(array, [member.name for member in members])
    yield ""
    yield from _fields(BufferTensorDesc, "DML_BUFFER_TENSOR_DESC")
    yield ""
    for level, operators in LEVELS.items():
        functions = [line for operator in operators for line in (*_fields(operator.desc, _structure(operator)), "")]
        yield from _guarded(level, functions[:-1])
        yield ""
    yield "// Writes the structure of the operator; nothing where dmlgather does not have the operator."
    yield "inline void operation(Line& line, const DML_OPERATOR_DESC& desc) {"
    yield "    switch (number_of(desc.Type)) {"
    for level, operators in LEVELS.items():
        cases = [f"    case {it.type}: return structure<{_structure(it)}>(line, desc.Desc);" for it in operators]
        yield from _guarded(level, cases)
    yield from ("    default: return;", "    }", "}", "")


def _structure(operator: Operator) -> str:
    return f"DML_{operator.name}_OPERATOR_DESC"


def _guarded(level: FeatureLevel, lines: list[str]) -> list[str]:
    """Guard lines by the version of directml.h that `level` needs. The first level needs no guard."""
    return lines if level is min(FeatureLevel) else [f"#if DMLGATHER_DML_VERSION >= {level.value:#x}", *lines, "#endif"]


def _names(array: str, names: list[str]) -> Iterator[str]:
    listed = textwrap.wrap(", ".join(f'"{name}"' for name in names), 122, break_on_hyphens=False)
    yield f"inline constexpr const char* {array}[] = {{"
    yield from (f"    {line}" for line in listed)
    yield "};"


def _fields(structure: type[Structure], name: str) -> Iterator[str]:
    """Yield the function that writes each field of a structure, in the order of directml.h."""
    count = next((field.alias for field in structure.model_fields.values() if field.default_factory is unstated), None)
    yield f"inline void fields(Line& line, const {name}& desc) {{"
    yield from (f"    {_field(field, count)}" for field in structure.model_fields.values())
    yield "}"


def _field(field: FieldInfo, count: str | None) -> str:
    name, kind = field.alias, field.annotation
    if kind is BufferTensorDesc:
        return f'tensor(line, "{name}", desc.{name});'
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return f'line.enumerator("{name}", desc.{name}, {ENUMERATIONS[kind]});'
    if "tuple" in str(kind):
        return f'line.array("{name}", desc.{name}, desc.{count});'
    return f'line.number("{name}", desc.{name});'
