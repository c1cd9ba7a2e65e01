"""A small model to start from, and ways to change and check it."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from dmlgather.directml.dxdispatch.model_file import CheckedFile, check_file

GATHER: dict[str, Any] = {
    "type": "DML_OPERATOR_GATHER",
    "desc": {
        "InputTensor": {"DataType": "FLOAT32", "Sizes": [3, 2]},
        "IndicesTensor": {"DataType": "UINT32", "Sizes": [1, 4]},
        "OutputTensor": {"DataType": "FLOAT32", "Sizes": [4, 2]},
        "Axis": 0,
        "IndexDimensions": 1,
    },
}
"""Rows 0, 1, 1, 2 of three: documented as GATHER's second example."""

MODEL: dict[str, Any] = {
    "resources": {
        "table": {"initialValuesDataType": "FLOAT32", "initialValues": [1, 2, 3, 4, 5, 6]},
        "rows": {"initialValuesDataType": "UINT32", "initialValues": [0, 1, 1, 2]},
        "output": {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": 8, "value": "nan"}},
    },
    "dispatchables": {"gather": GATHER},
    "commands": [
        {
            "type": "dispatch",
            "dispatchable": "gather",
            "bindings": {"InputTensor": "table", "IndicesTensor": "rows", "OutputTensor": "output"},
        },
        {"type": "print", "resource": "output"},
    ],
}

PRINTED = "Resource 'output': 1, 2, 3, 4, 3, 4, 5, 6\n"
"""What running `MODEL` prints."""

REMOVED = object()
"""In `changed`: take the key away."""


def changed(*changes: tuple[tuple[str | int, ...], Any], start: Any = MODEL) -> Any:
    """A copy of `start` with the value at each path replaced, added or removed."""
    root = copy.deepcopy(start)
    for path, value in changes:
        place = root
        for step in path[:-1]:
            place = place[step]
        if value is REMOVED:
            del place[path[-1]]
        elif isinstance(place, list) and path[-1] == len(place):
            place.append(value)
        else:
            place[path[-1]] = value
    return root


def write(folder: Path, value: Any, name: str = "model.json") -> Path:
    """Write JSON, or text as it is; the file."""
    file = folder / name
    file.write_text(value if isinstance(value, str) else json.dumps(value, indent=1), encoding="utf-8")
    return file


def line_of(file: Path, text: str) -> int:
    """The number of the first line of a file that has a text in it."""
    return next(number for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1) if text in line)


def check(folder: Path, value: Any, level: str = "6_4") -> CheckedFile:
    """Write and check."""
    return check_file(write(folder, value), level)
