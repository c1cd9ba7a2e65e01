"""Read descriptors, look up support tables by operator name, and lower descriptors to plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dmlgather.directml.descriptors import OperatorDesc
from dmlgather.directml.fields import wire_name
from dmlgather.directml.operators import operator_named
from dmlgather.directml.types import AS_IN_FILES
from dmlgather.plan import IndexPlan, Layout, OutOfBounds


def parse_descriptor(obj: Mapping[str, Any]) -> OperatorDesc:
    """The descriptor in {"type": "DML_OPERATOR_GATHER", "desc": {...}}, as DxDispatch writes it ("Desc" is accepted, too).

    ValueError for an unknown operator, with the known names, and for a missing key; pydantic.ValidationError (a ValueError)
    for a field of the wrong type.

    >>> tensor = {"DataType": "FLOAT16", "Sizes": [8]}
    >>> desc = dg.parse_descriptor({"type": "DML_OPERATOR_SLICE", "desc": {
    ...     "InputTensor": tensor, "OutputTensor": {**tensor, "Sizes": [3]}, "Offsets": [1], "Sizes": [3], "Strides": [2]}})
    >>> desc.output_tensor.sizes, desc.strides
    ((3,), (2,))
    """
    form = '{"type": "DML_OPERATOR_…", "desc": {…}}'
    if not isinstance(obj, Mapping):
        raise ValueError(f"expected {form}, got a value of type {type(obj).__name__}")
    keys = [key for key in ("desc", "Desc") if key in obj]
    if "type" not in obj or len(keys) != 1:
        raise ValueError(f"expected {form}, got the keys {list(obj)}")
    return operator_named(obj["type"]).desc.model_validate(obj[keys[0]], context=AS_IN_FILES)


def support(name: str) -> dict[str, Any]:
    """The support table of an operator ("GATHER" or "DML_OPERATOR_GATHER") as plain data, ready for JSON.

    Each level lists, per tensor, the data types and dimension counts accepted from that level on. ValueError for an unknown
    name.

    >>> [row["level"] for row in dg.support("GATHER")["levels"]]
    ['1_0', '2_1', '3_0', '4_1']
    """
    operator = operator_named(name)
    levels = sorted({row.level for row in operator.table})
    return {
        "operator": operator.type,
        "value": operator.value,
        "introduced": str(operator.introduced),
        "levels": [
            {
                "level": str(level),
                "tensors": {
                    row.tensor: {
                        "data_types": [data_type.name for data_type in row.data_types],
                        "dimension_counts": list(row.dimension_counts),
                        "source": row.source,
                    }
                    for row in operator.table
                    if row.level == level
                },
            }
            for level in levels
        ],
    }


def lower(
    desc: OperatorDesc,
    layouts: Mapping[str, Layout] | None = None,
    out_of_bounds: OutOfBounds = OutOfBounds.CLAMP,
    fill: bytes = b"",
) -> IndexPlan:
    """The plan of a descriptor without ERROR findings.

    layouts: by field ("indices_tensor"), of the described sizes; a tensor that is left out has its described layout.
    out_of_bounds, fill: what an index out of range reads, CLAMP in DirectML; `fill` has one element's bytes, for FILL only.
    ValueError for a field that is no tensor of the operator and for a layout whose sizes are not the described ones.
    """
    operator = desc.operator
    given = dict(layouts or {})
    for field, layout in given.items():
        if field not in operator.tensors:
            raise ValueError(f"{operator.name} has no tensor {field!r}; its tensors are {list(operator.tensors)}")
        if layout.sizes != desc.tensor(field).sizes:
            sizes = desc.tensor(field).sizes
            raise ValueError(f"the layout of {wire_name(field)} has sizes {layout.sizes}, the descriptor has {sizes}")
    complete = {field: given.get(field) or desc.tensor(field).layout() for field in operator.tensors}
    return replace(operator.lower(desc, complete), out_of_bounds=out_of_bounds, fill=fill)
