"""Recognition of model formats by content, for errors about files that cannot be read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from dmlgather.files import FileError, open_regular

HEAD = 4096
"""Bytes of a file that text patterns are matched with."""

MOST_FIELDS = 64
"""Only this many fields are read, because a TensorFlow graph has one for each node."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # protobuf's wire types

_WIDTHS = {_FIXED64: 8, _FIXED32: 4}

Fields = Mapping[int, int]
"""The wire type of each field of a protobuf message, by field number."""


class Format(NamedTuple):
    """A model format, and how to recognise it.

    `test`: a function that recognises the format by the file's first bytes and protobuf fields. `remedy`: advice, in which {0}
    stands for the quoted path of the file.
    """

    test: Callable[[bytes, Fields], bool]
    what: str
    remedy: str


def _message(required: dict[int, int], optional: dict[int, int]) -> Callable[[bytes, Fields], bool]:
    """Return a function that recognises protobuf messages: all required fields, perhaps optional fields, and no others."""
    allowed = (required | optional).items()
    return lambda _, fields: required.items() <= fields.items() <= allowed


def _text(pattern: bytes) -> Callable[[bytes, Fields], bool]:
    """Return a function that recognises text files that begin with a pattern, after blanks and comments."""
    compiled = re.compile(rb"(?:\s|#[^\n]*\n)*" + pattern)
    return lambda head, _: compiled.match(head) is not None


_SAVE = "write it in binary form, onnx.save(onnx.load({0}, format='%s'), 'MODEL.onnx'), which check and explain take"

_TWO_MODELS = (
    "give both the same inputs in onnx.reference.ReferenceEvaluator({0}).run(None, INPUTS), or in onnxruntime with its "
    "optimisations off: docs/compare.md, section Two ONNX models, has a program"
)

ONNX = Format(
    _message({1: _VARINT, 7: _BYTES}, dict.fromkeys((2, 3, 4, 6, 8, 14, 20, 25, 26), _BYTES) | {5: _VARINT}),
    "an ONNX model",
    "check and explain take it, and compare FILE --against {0} compares a DxDispatch model or descriptors with it; to compare "
    f"two ONNX models, {_TWO_MODELS}",
)

_RUN = "onnxruntime.InferenceSession({0}).run(None, INPUTS)"

ONNX_REMEDIES = {
    "run": f"onnxruntime runs it, {_RUN}; dmlgather.onnx.Backend.run_model(onnx.load({{0}}), INPUTS) does if the model has only "
    "gathers, slices, DepthToSpace and SpaceToDepth",
    "translate": "translate writes ONNX models, so this one needs no translation; check and explain take it",
    "compare": "compare FILE --against {0} compares a DxDispatch model or descriptors with it; to compare two ONNX models, "
    + _TWO_MODELS,
}
"""The advice of commands that take no ONNX models."""

FORMATS = (
    ONNX,
    Format(
        lambda head, _: head[4:8] == b"ORTM",
        "a model in onnxruntime's own format, ORT, which is not read",
        "name the .onnx file that it was made from, or let onnxruntime write one: options = onnxruntime.SessionOptions(); "
        "options.optimized_model_filepath = 'MODEL.onnx'; onnxruntime.InferenceSession({0}, options)",
    ),
    Format(_text(rb"<[^<>]*\b(?:ir_version|opset_import)\s*:"), "an ONNX model in ONNX's text syntax", _SAVE % "onnxtxt"),
    Format(_text(rb"(?:ir_version|producer_name)\s*:"), "an ONNX model as protobuf's text", _SAVE % "textproto"),
    Format(_text(rb'\{\s*"ir_?[vV]ersion"\s*:'), "an ONNX model as JSON", _SAVE % "json"),
    Format(
        _message({2: _VARINT}, {1: _VARINT} | dict.fromkeys((4, 5, 7, 8, 9, 10, 11, 12, 13), _BYTES) | {14: _VARINT}),
        "a tensor of ONNX (TensorProto), and no model",
        "name the .onnx file of the model",
    ),
    Format(
        lambda head, fields: head.startswith(b"\x08\x01") and fields == {1: _VARINT, 2: _BYTES},
        "a SavedModel of TensorFlow, which is not read",
        "make an ONNX model of its folder: python -m tf2onnx.convert --saved-model FOLDER --output MODEL.onnx",
    ),
    Format(
        _message({1: _BYTES}, {2: _BYTES, 3: _VARINT, 4: _BYTES, 5: _BYTES}),
        "a graph of TensorFlow (GraphDef), which is not read",
        "make an ONNX model of it: python -m tf2onnx.convert --graphdef {0} --output MODEL.onnx --inputs … --outputs …",
    ),
)
"""Tested in this order."""


def recognised(path: Path, but: Format | None = None) -> str | None:
    """Return "is FORMAT: REMEDY", the end of an error message about a file. Return None if the format is unknown.

    `but`: a format that is not considered.
    """
    with suppress(FileError, OSError), open_regular(path) as (file, size):
        head = file.read(HEAD)
        fields = _fields(file, size)
        for candidate in FORMATS:
            if candidate is not but and candidate.test(head, fields):
                remedy = candidate.remedy.format(repr(str(path)))
                if candidate is ONNX and path.suffix.lower() != ".onnx":
                    remedy = "rename it, so that its name ends in .onnx; then check and explain take it"
                return f"is {candidate.what}: {remedy}"
    return None


def onnx_model(path: Path, command: str) -> str | None:
    """Return "is an ONNX model: REMEDY" for the error message of a command that takes no ONNX models.

    Returns None if the file is no ONNX model.
    """
    with suppress(FileError, OSError), open_regular(path) as (file, size):
        if ONNX.test(file.read(HEAD), _fields(file, size)):
            return f"is {ONNX.what}: {ONNX_REMEDIES[command].format(repr(str(path)))}"
    return None


def _fields(file: BinaryIO, size: int) -> dict[int, int]:
    """Return the wire types of a protobuf message's first fields."""
    fields, offset = dict[int, int](), 0
    for _ in range(MOST_FIELDS):
        if offset == size:
            break
        file.seek(offset)
        head = file.read(20)
        tag, tag_end = _varint(head, 0)
        number, wire_type = tag >> 3, tag & 7
        value, end = _varint(head, tag_end) if wire_type in (_VARINT, _BYTES) else (0, tag_end)
        offset += end + (value if wire_type == _BYTES else _WIDTHS.get(wire_type, 0))
        if number == 0 or end == 0 or wire_type not in (_VARINT, _BYTES, *_WIDTHS) or offset > size:
            return {}
        fields.setdefault(number, wire_type)
    return fields


def _varint(data: bytes, start: int) -> tuple[int, int]:
    """Return the value of a protobuf varint and the offset of its end, or (0, 0) if it is invalid."""
    value = 0
    for shift, byte in zip(range(0, 70, 7), data[start:], strict=False):
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, start + shift // 7 + 1
    return 0, 0
