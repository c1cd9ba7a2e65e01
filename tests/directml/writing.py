"""Descriptors as files write them, in few words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dmlgather.directml import Finding, OperatorDesc, parse_descriptor, validate

OF_FILES = ("DML7", "DML8")
"""How the codes start that are about files, not about a descriptor."""


def tensor(sizes: list[int], kind: str = "", **fields: Any) -> dict[str, Any]:
    """A tensor; without a type, what `document` makes of it."""
    return {"DataType": kind, "Sizes": sizes, **fields}


def document(operator: str, *tensors: dict[str, Any], **fields: Any) -> dict[str, Any]:
    names = ["InputTensor", "IndicesTensor", "OutputTensor"] if len(tensors) == 3 else ["InputTensor", "OutputTensor"]
    typed = {
        name: {**each, "DataType": each["DataType"] or ("UINT32" if name == "IndicesTensor" else "FLOAT32")}
        for name, each in zip(names, tensors, strict=True)
    }
    return {"type": f"DML_OPERATOR_{operator}", "desc": {**typed, **fields}}


def legal(operator: str, dtype: str, index_dtype: str, *shapes: Sequence[int], **fields: Any) -> OperatorDesc:
    """A descriptor that breaks no rule, of NumPy's types, its tensors all of one dimension count, with 1s on the left."""
    rank = max(1, *map(len, shapes))
    kinds = (dtype, index_dtype, dtype) if len(shapes) == 3 else (dtype, dtype)
    padded = [[1] * (rank - len(shape)) + [*shape] for shape in shapes]
    written = document(operator, *(tensor(*each) for each in zip(padded, map(str.upper, kinds), strict=True)), **fields)
    assert not found(written), found(written)
    return parse_descriptor(written)


def found(written: dict[str, Any], level: str = "6_4") -> list[Finding]:
    return list(validate(parse_descriptor(written), level).findings)


def rows(data: dict[str, Any], indices: dict[str, Any], output: dict[str, Any], axis: int = 0, count: int = 1) -> dict[str, Any]:
    return document("GATHER", data, indices, output, Axis=axis, IndexDimensions=count)


def cut(data: dict[str, Any], output: dict[str, Any], **fields: Any) -> dict[str, Any]:
    ones = [1] * len(data["Sizes"])
    whole = {"Offsets": [0] * len(ones), "Sizes": output["Sizes"], "Strides": ones}
    return document("SLICE", data, output, **{**whole, **fields})


def moved(data: dict[str, Any], output: dict[str, Any], block: int = 1, operator: str = "DEPTH_TO_SPACE1") -> dict[str, Any]:
    return document(operator, data, output, BlockSize=block, Order="DEPTH_COLUMN_ROW")
