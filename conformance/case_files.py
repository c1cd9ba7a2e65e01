"""The files of one case: the model and inputs that dmlgather writes, and the result, log and exit code of DxDispatch.

Values are in files of raw bytes, because DxDispatch reads and writes these bit for bit, NaNs included. Before the run, all
bytes of an output are `POISON`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from conformance.endings import Ending, ending
from dmlgather.directml import OperatorDesc, parse_descriptor
from dmlgather.directml.dxdispatch.writing import write_dispatch
from dmlgather.directml.fields import wire_name
from dmlgather.directml.tensor import rounded_up
from dmlgather.files import FileError, leads_outside, open_regular, read_text, writing
from dmlgather.wording import printable

MODELS, RESULTS = "models", "results"
"""Folders of the models with their inputs, and of the results."""

POISON = 0xA5
"""Value of each byte of an output before the run."""

_LOG = 2**20
"""Largest part of DxDispatch's log that is read, in bytes."""


class StoredCase(NamedTuple):
    """The descriptor and inputs of a case. `inputs`: the bytes of each file."""

    desc: OperatorDesc
    inputs: list[NDArray[np.uint8]]


class Returned(NamedTuple):
    """The result of a case. `result`: the bytes of the output's buffer, and at most one more byte."""

    ending: Ending
    adapter: str | None
    result: NDArray[np.uint8] | None


def write_case(
    folder: Path, name: str, desc: OperatorDesc, inputs: Sequence[NDArray[Any]], *, in_place: bool = False
) -> dict[str, str]:
    """Write the model and the inputs of a case. Return the digests of the files by name.

    `inputs`: a buffer per input tensor. `in_place`: True to bind the output to the input's memory. Raises FileError.
    """
    resources: dict[str, Any] = {}
    for number, (field, values) in enumerate(zip(desc.operator.inputs, inputs, strict=True)):
        file = f"{name}.{number}.bin"
        with writing(folder / MODELS / file, ()) as stream:
            stream.write(np.ascontiguousarray(values).tobytes())
        kind = desc.tensor(field).data_type.name
        resources[wire_name(field)] = {"initialValuesDataType": kind, "initialValues": {"sourcePath": file}}
    bound = {resource: resource for resource in resources}
    output = wire_name(desc.operator.output)
    bound[output] = next(iter(resources)) if in_place else output
    if not in_place:
        poison = {"valueCount": result_bytes(desc), "value": POISON}
        resources[output] = {"initialValuesDataType": "UINT8", "initialValues": poison}
    write_dispatch(folder / MODELS / f"{name}.json", desc, resources, bound, f"{RESULTS}/{name}.bin")
    return digests(folder, [f"{name}.json", *(f"{name}.{number}.bin" for number in range(len(inputs)))])


def digests(folder: Path, names: Sequence[str]) -> dict[str, str]:
    """Return the SHA-256 digests of files in models/, by name. Raises FileError."""
    return {name: sha256(_content(inside(folder, f"{MODELS}/{name}"))).hexdigest() for name in names}


def read_case(folder: Path, name: str) -> StoredCase:
    """Read the descriptor and inputs of a case. Raises FileError."""
    path = inside(folder, f"{MODELS}/{name}.json")
    try:
        model = json.loads(read_text(path))
        (dispatchable,) = model["dispatchables"].values()
        desc = parse_descriptor(dispatchable)
        _check_readable(desc)
    except FileError as error:
        raise FileError(f"{path} {error}") from None
    except (ValidationError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise FileError(f"{path} is not the model of one dispatch that `python -m conformance write` makes") from None
    files = [inside(folder, f"{MODELS}/{name}.{number}.bin") for number in range(len(desc.operator.inputs))]
    return StoredCase(desc, [np.frombuffer(_content(file), np.uint8) for file in files])


def _check_readable(desc: OperatorDesc) -> None:
    """Raise ValueError if an output element is outside its buffer. The descriptor of a question may break any rule."""
    tensor = desc.tensor(desc.operator.output)
    if tensor.minimum_bytes > tensor.total_bytes or len(tensor.element_strides) != tensor.rank or 0 in tensor.sizes:
        raise ValueError


def result_bytes(desc: OperatorDesc) -> int:
    """Return the size of the output's buffer, and so of the result, in bytes."""
    return rounded_up(desc.tensor(desc.operator.output).total_bytes)


def read_returned(folder: Path, name: str, expected: int) -> Returned:
    """Read the result of a case. It should have `expected` bytes. Raises FileError."""
    suffixes = ("exit", "out", "err", "bin")
    *texts, binary = (inside(folder, f"{RESULTS}/{name}.{suffix}") for suffix in suffixes)
    exit_code, printed, errors = map(_text, texts)
    result = np.frombuffer(_content(binary, expected + 1), np.uint8) if binary.exists() else None
    adapter = re.search(r"^Running on '(.*)'\s*$", printed or "", re.MULTILINE)
    code = None if exit_code is None else printable(exit_code.strip()[:20])
    reason = printable(_failure_line(errors or "") or _failure_line(printed or ""))
    ended = ending(code, f"{printed or ''}\n{errors or ''}", reason)
    return Returned(ended, printable(adapter[1]) if adapter else None, result)


def inside(folder: Path, name: str) -> Path:
    """Return the path of a file in the folder. Raises FileError for a link out of the folder.

    A folder from a stranger must not make the report show other files.
    """
    path = folder / name
    if leads_outside(path, (folder,)):
        raise FileError(f"{path} is a link that leads outside of {folder}, and only files in it are read: copy the file there")
    return path


def _failure_line(text: str) -> str:
    """Return the first line with "error" or "failed", else the last line. Debug layers print warnings in front of it."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("Running on '")]
    errors = (line for line in lines if re.search("error|failed", line, re.IGNORECASE))
    return next(errors, lines[-1] if lines else "")[:300]


def _content(path: Path, limit: int = -1) -> bytes:
    try:
        with open_regular(path) as (file, _):
            return file.read(limit)
    except FileError as error:
        raise FileError(f"{path} {error}") from None


def _text(path: Path) -> str | None:
    """Return the beginning of a script's text file, or None if it does not exist. PowerShell may write UTF-16."""
    if not path.exists():
        return None
    content = _content(path, _LOG)
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    return content.decode(encoding, "replace")
