"""Formats of models that commands meet where they expect another one: told by what a file holds, whatever its name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from dmlgather.files import FileError, open_regular

HEAD = 4096
"""Bytes of a file that are looked at for words."""

MOST_FIELDS = 64
"""Fields of a message that are looked at: a graph of TensorFlow has one for each node."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
"""How the value of a field of protobuf is written."""

_WIDTHS = {_FIXED64: 8, _FIXED32: 4}

Fields = Mapping[int, int]
"""How the values of a message's fields are written, by the numbers of the fields; empty for what is no message."""


class Format(NamedTuple):
    """A format. test: whether a file has it, by its first bytes and its fields. what: it in words; remedy: what to do with a
    file, where {0} is its path in quotes.
    """

    test: Callable[[bytes, Fields], bool]
    what: str
    remedy: str


def _message(needed: dict[int, int], others: dict[int, int]) -> Callable[[bytes, Fields], bool]:
    """A test of messages that have the needed fields, and no fields but these and the others."""
    known = (needed | others).items()
    return lambda _, fields: needed.items() <= fields.items() <= known


def _words(pattern: bytes) -> Callable[[bytes, Fields], bool]:
    """A test of texts that begin as a pattern says, blanks and comments passed over."""
    compiled = re.compile(rb"(?:\s|#[^\n]*\n)*" + pattern)
    return lambda head, _: compiled.match(head) is not None


_SAVE = "write it in binary form, onnx.save(onnx.load({0}, format='%s'), 'MODEL.onnx'), which check and explain take"

ONNX = Format(
    _message({1: _VARINT, 7: _BYTES}, dict.fromkeys((2, 3, 4, 6, 8, 14, 20, 25, 26), _BYTES) | {5: _VARINT}),
    "an ONNX model",
    "two ONNX models are compared by running both in onnxruntime on the same inputs, with "
    "onnxruntime.InferenceSession({0}).run(None, INPUTS); check and explain take it, and compare FILE --against {0} compares a "
    "DxDispatch model or descriptors with it",
)
"""What commands know by the suffix .onnx."""

FORMATS = (
    ONNX,
    Format(
        lambda head, _: head[4:8] == b"ORTM",
        "a model in onnxruntime's own format, ORT, which is not read",
        "name the .onnx file that it was made from, or let onnxruntime write one: options = onnxruntime.SessionOptions(); "
        "options.optimized_model_filepath = 'MODEL.onnx'; onnxruntime.InferenceSession({0}, options)",
    ),
    Format(_words(rb"<[^<>]*\b(?:ir_version|opset_import)\s*:"), "an ONNX model in ONNX's text syntax", _SAVE % "onnxtxt"),
    Format(_words(rb"(?:ir_version|producer_name)\s*:"), "an ONNX model as protobuf's text", _SAVE % "textproto"),
    Format(_words(rb'\{\s*"ir_?[vV]ersion"\s*:'), "an ONNX model as JSON", _SAVE % "json"),
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
"""The first whose test holds counts."""


def recognised(path: Path, but: Format | None = None) -> str | None:
    """Return what a file is and what to do with it, for a message; None where it has no format, that of `but`, or cannot
    be read.
    """
    with suppress(FileError, OSError), open_regular(path) as (file, size):
        head = file.read(HEAD)
        fields = _fields(file, size)
        for each in FORMATS:
            if each is not but and each.test(head, fields):
                renamed = "" if each is not ONNX or path.suffix.lower() == ".onnx" else ", once its name ends in .onnx"
                return f"is {each.what}: {each.remedy.format(repr(str(path)))}{renamed}"
    return None


def _fields(file: BinaryIO, size: int) -> dict[int, int]:
    """The first fields of a message that a file may hold; of one that is written in several ways, the first of them."""
    found, at = dict[int, int](), 0
    for _ in range(MOST_FIELDS):
        if at == size:
            break
        file.seek(at)
        head = file.read(20)
        tag, used = _varint(head, 0)
        number, kind = tag >> 3, tag & 7
        value, past = _varint(head, used) if kind in (_VARINT, _BYTES) else (0, used)
        at += past + (value if kind == _BYTES else _WIDTHS.get(kind, 0))
        if number == 0 or past == 0 or kind not in (_VARINT, _BYTES, *_WIDTHS) or at > size:
            return {}
        found.setdefault(number, kind)
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number and the place behind it; (0, 0) where there is none."""
    value = 0
    for shift, byte in zip(range(0, 70, 7), data[at:], strict=False):
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + shift // 7 + 1
    return 0, 0
