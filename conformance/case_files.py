"""The files of one case: the model and inputs that dmlgather writes, and the result, log and exit code of DxDispatch.

Values are in files of raw bytes, because DxDispatch reads and writes these bit for bit, NaNs included. All bytes of an output
are `POISON` before the run.
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
"""The folders of models with their inputs, and of results."""

POISON = 0xA5
"""The value of each byte of an output before the run."""

_LOG = 2**20
"""At most this many bytes of a log of DxDispatch are read."""


class StoredCase(NamedTuple):
    """The descriptor and inputs of a case. `inputs`: the bytes of each input's file."""

    desc: OperatorDesc
    inputs: list[NDArray[np.uint8]]


class Returned(NamedTuple):
    """The result of a case.

    `ending`: how DxDispatch ended. `adapter`: the adapter's name. `result`: the bytes of the output's buffer, and at most one
    more byte.
    """

    ending: Ending
    adapter: str | None
    result: NDArray[np.uint8] | None


def write_case(
    folder: Path, name: str, desc: OperatorDesc, inputs: Sequence[NDArray[Any]], *, in_place: bool = False
) -> dict[str, str]:
    """Write the model and the inputs of a case; return the digests of the files, by name. FileError if one cannot be written.

    `inputs`: a buffer per input tensor. `in_place`: True to bind the output to the input's memory.
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
    """Return the SHA-256 digests of files in models/, by name. FileError, with the path, if one cannot be read."""
    return {name: sha256(_content(inside(folder, f"{MODELS}/{name}"))).hexdigest() for name in names}


def read_case(folder: Path, name: str) -> StoredCase:
    """Read the descriptor and inputs of the case `name`. FileError, with the path, if its files cannot be read."""
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
    """Raise ValueError if an element of the output is outside its buffer: the descriptor of a question may break any rule."""
    tensor = desc.tensor(desc.operator.output)
    if tensor.minimum_bytes > tensor.total_bytes or len(tensor.element_strides) != tensor.rank or 0 in tensor.sizes:
        raise ValueError


def result_bytes(desc: OperatorDesc) -> int:
    """Return the size of the output's buffer, and so of the result, in bytes."""
    return rounded_up(desc.tensor(desc.operator.output).total_bytes)


def read_returned(folder: Path, name: str, expected: int) -> Returned:
    """Read the result of the case `name`, which should have `expected` bytes.

    FileError, with the path, for a file that cannot be read, or that is a link out of the folder.
    """
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
    """Return the path of a file in the folder.

    FileError, with the path, for a link out of the folder: a folder from a stranger must not make the report show other files.
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
    """Return the first bytes of a script's text file, decoded; None if it does not exist. PowerShell may write UTF-16."""
    if not path.exists():
        return None
    content = _content(path, _LOG)
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    return content.decode(encoding, "replace")
