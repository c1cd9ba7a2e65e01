"""Reads an ONNX model file without the elements of its large tensors.

The fields of the protobuf message are read one by one. The descriptors of onnx say which fields hold elements; all other bytes
are kept. After a damaged or unusual field, the rest of its message is kept too. So decoding reports the same error as for the
whole file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, BinaryIO, Literal, NamedTuple, get_args

import numpy as np

from dmlgather.files import FileError
from dmlgather.onnx_checking.following.scopes import why_ignored

Payload = Literal["raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data"]

PAYLOADS: tuple[Payload, ...] = get_args(Payload)
"""Fields of a TensorProto that can hold its elements."""

LARGE = 4096
"""Messages of fewer bytes are kept whole, because they seldom contain elements to skip."""

MOST_FIELDS = 1_000_000
"""Limit of fields to read, which takes about a second. Then the rest of the file is kept whole."""

MOST_NESTED = 100
"""The greatest depth of messages that protobuf decodes."""

BUFFER = 4096
"""The file's read buffer in bytes. Only few bytes lie between the elements of two small tensors."""

_CHUNK = 2**18
"""Bytes to read at once from a tensor's elements."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
"""Wire types: how protobuf encodes a value. A tag is the field number and, in the last three bits, the wire type."""

_HEAD = 15
"""The most bytes before a field's content: a tag of up to 5, then a length of up to 5 or a varint of up to 10."""

_VALUES: Mapping[int, tuple[re.Pattern[bytes], int]] = {
    _VARINT: (re.compile(rb"(?:[\x80-\xff]{0,8}[\x00-\x7f]|[\x80-\xff]{9}[\x00\x01])"), 0),
    _FIXED64: (re.compile(rb"[\x00-\xff]{8}"), 8),
    _FIXED32: (re.compile(rb"[\x00-\xff]{4}"), 4),
}
"""For each wire type: the pattern of a value, and its bytes. Varints have 0, because their length varies."""


@dataclass(frozen=True)
class KeptParts:
    """A model file without the elements of large tensors. `parts`: bytes, or ranges of the file that are read later."""

    file: BinaryIO
    parts: list[bytes | range]
    size: int

    def read(self) -> bytes:
        """Return the parts as one protobuf message. Raise FileError if the file has become shorter."""
        return b"".join(part if isinstance(part, bytes) else _read(self.file, part.start, part.stop) for part in self.parts)


def without_weights(file: BinaryIO, size: int) -> KeptParts:
    """Find all of a model file but the elements of large tensors. FileError if the file becomes shorter than `size` bytes."""
    from onnx import ModelProto

    walk = _ElementSkipper(file)
    kept = walk.message(0, size, ModelProto.DESCRIPTOR, 1)
    return KeptParts(file, walk.parts, kept)


class _UnusualError(Exception):
    """Raised for a damaged or unusual field, and after MOST_FIELDS fields. The caller then keeps the rest of the message."""


class _Layout(NamedTuple):
    """The fields of a protobuf message type that may hold tensors or elements. The keys are tags: field number and wire type.
    `inner`: the types of nested messages.
    `single`: the fields with a tensor that may occur only once, because protobuf merges repeated fields.
    `packed`: the bytes per element in each field that holds a list of elements; 0 if they vary.
    `unpacked`: for each field that holds one element per occurrence, a pattern that matches a run of occurrences.
    """

    inner: Mapping[int, Any]
    single: frozenset[int]
    packed: Mapping[int, int]
    unpacked: Mapping[int, re.Pattern[bytes]]


@cache
def _layout(descriptor: Any) -> _Layout:
    messages = {field.number << 3 | _BYTES: field for field in descriptor.fields if field.message_type is not None}
    inner = {tag: field.message_type for tag, field in messages.items()}
    single = frozenset(tag for tag, field in messages.items() if field.has_presence and _has_tensor(field.message_type))
    packed, unpacked = {}, {}
    if _is_tensor(descriptor):
        for name in PAYLOADS:
            field = descriptor.fields_by_name[name]
            packed[field.number << 3 | _BYTES] = 1
            if field.type != field.TYPE_BYTES:
                wire = {field.TYPE_FLOAT: _FIXED32, field.TYPE_DOUBLE: _FIXED64}.get(field.type, _VARINT)
                tag = field.number << 3 | wire
                pattern, packed[field.number << 3 | _BYTES] = _VALUES[wire]
                unpacked[tag] = re.compile(b"(?:%b%b)*+" % (re.escape(_varint_of(tag)), pattern.pattern))
    return _Layout(inner, single, packed, unpacked)


def _is_tensor(descriptor: Any) -> bool:
    from onnx import TensorProto

    return bool(descriptor.full_name == TensorProto.DESCRIPTOR.full_name)


def _has_tensor(descriptor: Any, *around: Any) -> bool:
    """Return True for a tensor, or a message type with a tensor in a singular field. `around`: the enclosing message types."""
    if descriptor in around or _is_tensor(descriptor):
        return descriptor not in around
    inner = (field.message_type for field in descriptor.fields if field.message_type is not None and field.has_presence)
    return any(_has_tensor(message, descriptor, *around) for message in inner)


class _ElementSkipper:
    """Collects all of a model file but the elements of large tensors. `fields`: the number of fields read so far."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.fields = file, 0
        self.parts: list[bytes | range] = []

    def message(self, start: int, end: int, descriptor: Any, nested: int) -> int:
        """Keep a message, except the elements of its tensors. Return the number of kept bytes."""
        layout, first_part, singles = _layout(descriptor), len(self.parts), set()
        # `size` is the number of kept bytes before `since`. All bytes from `since` on are kept so far.
        size, since, at = 0, start, start
        try:
            while at < end:
                tag, content, stop = self._field(at, end)
                if tag in singles:
                    raise _UnusualError
                if tag in layout.single:
                    singles.add(tag)
                if tag in layout.inner and stop - content > LARGE and nested < MOST_NESTED:
                    place = len(self.parts)
                    self.parts += range(since, at), b""
                    kept = self._inner(content, stop, layout.inner[tag], nested + 1)
                    if kept == stop - content:
                        del self.parts[place:]
                    else:
                        self.parts[place + 1] = head = _varint_of(tag) + _varint_of(kept)
                        size, since = size + at - since + len(head) + kept, stop
                at = stop
        except _UnusualError:
            if singles:  # protobuf may merge tensors here, so all elements are needed
                del self.parts[first_part:]
                size, since = 0, start
        self.parts.append(range(since, end))
        return size + end - since

    def _inner(self, start: int, end: int, descriptor: Any, nested: int) -> int:
        if not _layout(descriptor).packed:
            return self.message(start, end, descriptor, nested)
        try:
            kept = self._without_elements(start, end, _layout(descriptor))
        except _UnusualError:
            kept = [range(start, end)]
        self.parts += kept
        return sum(map(len, kept))

    def _without_elements(self, start: int, end: int, layout: _Layout) -> list[range]:
        """Return the ranges of a tensor to keep. Small constants are kept whole: the check reads them."""
        from google.protobuf.message import DecodeError  # type: ignore[import-untyped] # protobuf ships no types
        from onnx import TensorProto

        kept, since, at = [], start, start
        while at < end:
            tag, content, stop = self._field(at, end)
            if tag in layout.packed:
                self._check(content, stop, layout.packed[tag])
            elif tag in layout.unpacked:
                stop = self._end_of_run(stop, end, layout.unpacked[tag])
            if tag in layout.packed or tag in layout.unpacked:
                if since < at:
                    kept.append(range(since, at))
                since = stop
            at = stop
        kept.append(range(since, end))
        if sum(map(len, kept)) > _CHUNK:
            raise _UnusualError
        try:
            tensor = TensorProto.FromString(b"".join(_read(self.file, part.start, part.stop) for part in kept))
        except (DecodeError, UnicodeDecodeError):  # protobuf in pure Python raises UnicodeDecodeError
            raise _UnusualError from None
        return [range(start, end)] if why_ignored(tensor) is None else kept

    def _field(self, at: int, end: int) -> tuple[int, int, int]:
        """Read the head of a field. Return its tag, and the start and end of its content."""
        self.fields += 1
        if self.fields > MOST_FIELDS:
            raise _UnusualError
        self.file.seek(at)
        head = self.file.read(_HEAD)
        if len(head) > 1 and head[0] & 0x87 == _BYTES and head[0] > 7 and head[1] < 0x80 and at + 2 + head[1] <= end:
            return head[0], at + 2, at + 2 + head[1]  # a fast path for the most frequent field
        tag, used = _varint(head, 0)
        wire, size = tag & 7, 0
        if wire == _BYTES:
            size, used = _varint(head, used)
        elif wire in _VALUES:
            value = _VALUES[wire][0].match(head, used)
            if value is None:
                raise _UnusualError
            size = value.end() - used
        content = at + used
        if tag < 8 or wire not in (_BYTES, *_VALUES) or content + size > end:
            raise _UnusualError
        return tag, content, content + size

    def _check(self, start: int, stop: int, width: int) -> None:
        """Raise _UnusualError if protobuf would refuse a list of elements. `width`: bytes; 0 for varints."""
        if width:
            if (stop - start) % width:
                raise _UnusualError
            return
        last = start - 1  # the end of the previous varint
        for at in range(start, stop, _CHUNK):
            data = np.frombuffer(_read(self.file, at, min(at + _CHUNK, stop)), np.uint8)
            ends = np.flatnonzero(data < 0x80)
            lengths = np.diff(ends + at, prepend=last)
            if (lengths > 10).any() or (data[ends[lengths == 10]] > 1).any():
                raise _UnusualError
            last = at + int(ends[-1]) if ends.size else last
        if last != stop - 1:
            raise _UnusualError

    def _end_of_run(self, at: int, end: int, pattern: re.Pattern[bytes]) -> int:
        """Return the position after a run of fields that match `pattern`, each with one element."""
        size = _HEAD
        while True:
            match = pattern.match(_read(self.file, at, min(at + size, end)))
            if not match or not match.end():
                return at
            at += match.end()
            size = min(2 * size, _CHUNK)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Decode a varint of at most 5 bytes. Return the value, and the position after the varint."""
    value = 0
    for shift, byte in zip(range(0, 35, 7), data[at:], strict=False):
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if not byte and shift:
                break  # not the shortest encoding
            return value, at + shift // 7 + 1
    raise _UnusualError


def _varint_of(value: int) -> bytes:
    more = []
    while value > 0x7F:
        more.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*more, value))


def _read(file: BinaryIO, start: int, stop: int) -> bytes:
    file.seek(start)
    data = file.read(stop - start)
    if len(data) < stop - start:
        raise FileError("became shorter while it was read: check it again")
    return data
