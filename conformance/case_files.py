"""The files of one case: its model and inputs, which are written, and its result, output and exit code, which come back.

Values are raw bytes in files of their own: DxDispatch then reads and writes every data type bit for bit, NaNs included. An output
is filled with `POISON` before it is written, as unsigned bytes, whatever its type is.
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
"""The folders of what is written and of what comes back."""

POISON = 0xA5
"""Every byte of an output before it is written."""

_LOG = 2**20
"""Bytes of what DxDispatch printed that are looked at: the first ones."""


class StoredCase(NamedTuple):
    """What a case runs. inputs: the bytes of each input's file."""

    desc: OperatorDesc
    inputs: list[NDArray[np.uint8]]


class Returned(NamedTuple):
    """What came back of a case. ending: how DxDispatch ended. adapter: on what it ran. result: the bytes of the output's buffer,
    at most one more than asked for.
    """

    ending: Ending
    adapter: str | None
    result: NDArray[np.uint8] | None


def write_case(
    folder: Path, name: str, desc: OperatorDesc, inputs: Sequence[NDArray[Any]], *, in_place: bool = False
) -> dict[str, str]:
    """Write the model and the inputs of a case; the digests of the files, by name. FileError when one cannot be written.

    inputs: a buffer per input tensor. in_place: the output is bound to the input's memory.
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
        filled = {"valueCount": result_bytes(desc), "value": POISON}
        resources[output] = {"initialValuesDataType": "UINT8", "initialValues": filled}
    write_dispatch(folder / MODELS / f"{name}.json", desc, resources, bound, f"{RESULTS}/{name}.bin")
    return digests(folder, [f"{name}.json", *(f"{name}.{number}.bin" for number in range(len(inputs)))])


def digests(folder: Path, names: Sequence[str]) -> dict[str, str]:
    """The SHA-256 digest of each of these files in models/. FileError, with the path, when one cannot be read."""
    return {name: sha256(_content(inside(folder, f"{MODELS}/{name}"))).hexdigest() for name in names}


def read_case(folder: Path, name: str) -> StoredCase:
    """What the case called `name` runs. FileError, with the path, when its files cannot be read."""
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
    """ValueError unless every element of the output lies in its buffer; the model of a question may break any rule."""
    tensor = desc.tensor(desc.operator.output)
    if tensor.minimum_bytes > tensor.total_bytes or len(tensor.element_strides) != tensor.rank or 0 in tensor.sizes:
        raise ValueError


def result_bytes(desc: OperatorDesc) -> int:
    """The size of the buffer that the output is bound to, and that comes back."""
    return rounded_up(desc.tensor(desc.operator.output).total_bytes)


def read_returned(folder: Path, name: str, expected: int) -> Returned:
    """What came back of the case called `name`, whose result has `expected` bytes. FileError, with the path, for a file that
    cannot be read, or that a link leads to from elsewhere.
    """
    kinds = ("exit", "out", "err", "bin")
    *texts, place = (inside(folder, f"{RESULTS}/{name}.{kind}") for kind in kinds)
    exit_code, printed, errors = map(_text, texts)
    result = np.frombuffer(_content(place, expected + 1), np.uint8) if place.exists() else None
    adapter = re.search(r"^Running on '(.*)'\s*$", printed or "", re.MULTILINE)
    code = None if exit_code is None else printable(exit_code.strip()[:20])
    said = printable(_said(errors or "") or _said(printed or ""))
    ended = ending(code, f"{printed or ''}\n{errors or ''}", said)
    return Returned(ended, printable(adapter[1]) if adapter else None, result)


def inside(folder: Path, name: str) -> Path:
    """A file of the folder. FileError, with the path, where a link leads out of it: the folder may come from anywhere, and what
    its files hold is shown.
    """
    path = folder / name
    if leads_outside(path, (folder,)):
        raise FileError(f"{path} is a link that leads outside of {folder}, and only files in it are read: copy the file there")
    return path


def _said(text: str) -> str:
    """The line that says what failed: the first that names an error, else the last; debug layers print warnings before it."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("Running on '")]
    named = (line for line in lines if re.search("error|failed", line, re.IGNORECASE))
    return next(named, lines[-1] if lines else "")[:300]


def _content(path: Path, limit: int = -1) -> bytes:
    try:
        with open_regular(path) as (file, _):
            return file.read(limit)
    except FileError as error:
        raise FileError(f"{path} {error}") from None


def _text(path: Path) -> str | None:
    """The beginning of a file that the script wrote; None where there is none. PowerShell may have written UTF-16."""
    if not path.exists():
        return None
    content = _content(path, _LOG)
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    return content.decode(encoding, "replace")
