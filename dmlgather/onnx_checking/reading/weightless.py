"""An ONNX model file without the elements of its large tensors, which are passed over and not read.

The file is walked field by field as protobuf writes it, guided by onnx's own descriptors of its messages. All but those elements
is kept. Where the walk meets something damaged or unusual, it keeps the rest of that message as it is: decoding what is kept then
says of a damaged file what decoding all of it would.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, BinaryIO, Literal, NamedTuple, get_args

import numpy as np

from dmlgather.files import FileError
from dmlgather.onnx_checking.following.scopes import left_out

Payload = Literal["raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data"]

PAYLOADS: tuple[Payload, ...] = get_args(Payload)
"""The fields of a TensorProto that can hold its elements."""

LARGE = 4096
"""Bytes: a shorter message is kept as it is. A tensor of so many elements that they are not looked at is seldom shorter."""

MOST_FIELDS = 1_000_000
"""Fields that are walked, in about a second; what follows is kept as it is. A model has one for each node and each tensor."""

MOST_NESTED = 100
"""Messages inside each other: protobuf decodes no more."""

BUFFER = 4096
"""Bytes that the file should be read in at least: where there are many tensors, few between one's elements and the next one's."""

_CHUNK = 2**18
"""Bytes that are looked at at once."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
"""Wire types: how the value of a field is written. They are the last three bits of its tag; the others are the field's number."""

_HEAD = 15
"""Bytes of a tag and of a length or a varint, at most: a tag or a length has up to 5, a varint up to 10."""

_VALUES: Mapping[int, tuple[re.Pattern[bytes], int]] = {
    _VARINT: (re.compile(rb"(?:[\x80-\xff]{0,8}[\x00-\x7f]|[\x80-\xff]{9}[\x00\x01])"), 0),
    _FIXED64: (re.compile(rb"[\x00-\xff]{8}"), 8),
    _FIXED32: (re.compile(rb"[\x00-\xff]{4}"), 4),
}
"""By wire type: the pattern of a value, and its bytes, or 0 if that differs."""


@dataclass(frozen=True)
class KeptParts:
    """What is kept of a file: bytes, and ranges of places in the file. size: of all of it, in bytes."""

    file: BinaryIO
    parts: list[bytes | range]
    size: int

    def read(self) -> bytes:
        """The kept bytes. FileError where the file has become shorter."""
        return b"".join(part if isinstance(part, bytes) else _read(self.file, part.start, part.stop) for part in self.parts)


def without_weights(file: BinaryIO, size: int) -> KeptParts:
    """What is kept of a file of that many bytes that holds a ModelProto. FileError where the file becomes shorter meanwhile."""
    from onnx import ModelProto

    walk = _ElementSkipper(file)
    kept = walk.message(0, size, ModelProto.DESCRIPTOR, 1)
    return KeptParts(file, walk.parts, kept)


class _UnusualError(Exception):
    """A field is damaged, or is not written as encoders write it, or there have been too many fields."""


class _Layout(NamedTuple):
    """The fields of a type of message, by tag.

    inner: messages inside it, with their descriptors. single: those of them that are a tensor or have one, and should occur once;
    protobuf merges what occurs more often. packed: lists of elements of a tensor, with the bytes of an element, or 0 if that
    differs. unpacked: single elements, with the pattern of a run of them.
    """

    inner: Mapping[int, Any]
    single: frozenset[int]
    packed: Mapping[int, int]
    unpacked: Mapping[int, re.Pattern[bytes]]


@cache
def _layout(descriptor: Any) -> _Layout:
    messages = {each.number << 3 | _BYTES: each for each in descriptor.fields if each.message_type is not None}
    inner = {tag: each.message_type for tag, each in messages.items()}
    single = frozenset(tag for tag, each in messages.items() if each.has_presence and _has_tensor(each.message_type))
    packed, unpacked = {}, {}
    if _is_tensor(descriptor):
        for name in PAYLOADS:
            each = descriptor.fields_by_name[name]
            packed[each.number << 3 | _BYTES] = 1
            if each.type != each.TYPE_BYTES:
                wire = {each.TYPE_FLOAT: _FIXED32, each.TYPE_DOUBLE: _FIXED64}.get(each.type, _VARINT)
                tag = each.number << 3 | wire
                pattern, packed[each.number << 3 | _BYTES] = _VALUES[wire]
                unpacked[tag] = re.compile(b"(?:%b%b)*+" % (re.escape(_varint_of(tag)), pattern.pattern))
    return _Layout(inner, single, packed, unpacked)


def _is_tensor(descriptor: Any) -> bool:
    from onnx import TensorProto

    return bool(descriptor.full_name == TensorProto.DESCRIPTOR.full_name)


def _has_tensor(descriptor: Any, *around: Any) -> bool:
    """Whether a message is a tensor or, as a sparse one, has one in fields that should occur once. around: messages around it."""
    if descriptor in around or _is_tensor(descriptor):
        return descriptor not in around
    inner = (each.message_type for each in descriptor.fields if each.message_type is not None and each.has_presence)
    return any(_has_tensor(each, descriptor, *around) for each in inner)


class _ElementSkipper:
    """Walks a file. parts: what is kept so far. fields: how many have been walked."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.fields = file, 0
        self.parts: list[bytes | range] = []

    def message(self, start: int, end: int, descriptor: Any, nested: int) -> int:
        """Keep what is to be kept of the message between two places; how many bytes that is. nested: its depth, from 1."""
        layout, first, met = _layout(descriptor), len(self.parts), set()
        size, since, at = 0, start, start  # the bytes that are kept up to `since`; from there on all is kept so far
        try:
            while at < end:
                tag, content, stop = self._field(at, end)
                if tag in met:
                    raise _UnusualError
                if tag in layout.single:
                    met.add(tag)
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
            if met:  # nothing may be left out of a tensor that another one may be merged with
                del self.parts[first:]
                size, since = 0, start
        self.parts.append(range(since, end))
        return size + end - since

    def _inner(self, start: int, end: int, descriptor: Any, nested: int) -> int:
        if not _layout(descriptor).packed:
            return self.message(start, end, descriptor, nested)
        try:
            rest = self._without_elements(start, end, _layout(descriptor))
        except _UnusualError:
            rest = [range(start, end)]
        self.parts += rest
        return sum(map(len, rest))

    def _without_elements(self, start: int, end: int, layout: _Layout) -> list[range]:
        """What is kept of the tensor between two places."""
        from google.protobuf.message import DecodeError  # type: ignore[import-untyped] # protobuf ships no types
        from onnx import TensorProto

        rest, since, at = [], start, start
        while at < end:
            tag, content, stop = self._field(at, end)
            if tag in layout.packed:
                self._check(content, stop, layout.packed[tag])
            elif tag in layout.unpacked:
                stop = self._end_of_run(stop, end, layout.unpacked[tag])
            if tag in layout.packed or tag in layout.unpacked:
                if since < at:
                    rest.append(range(since, at))
                since = stop
            at = stop
        rest.append(range(since, end))
        if sum(map(len, rest)) > _CHUNK:
            raise _UnusualError
        try:
            tensor = TensorProto.FromString(b"".join(_read(self.file, part.start, part.stop) for part in rest))
        except (DecodeError, UnicodeDecodeError):  # the latter of protobuf in pure Python
            raise _UnusualError from None
        return [range(start, end)] if left_out(tensor) is None else rest

    def _field(self, at: int, end: int) -> tuple[int, int, int]:
        """The tag of the field at a place of a message that ends at another, and where its content begins and ends."""
        self.fields += 1
        if self.fields > MOST_FIELDS:
            raise _UnusualError
        self.file.seek(at)
        head = self.file.read(_HEAD)
        if len(head) > 1 and head[0] & 0x87 == _BYTES and head[0] > 7 and head[1] < 0x80 and at + 2 + head[1] <= end:
            return head[0], at + 2, at + 2 + head[1]  # the most frequent, and faster so
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
        """_UnusualError where decoding would refuse a list of elements. width: the bytes of each, or 0 for varints."""
        if width:
            if (stop - start) % width:
                raise _UnusualError
            return
        last = start - 1  # where the varint before ended
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
        """Where a run of elements ends, each of which is a field."""
        size = _HEAD
        while True:
            match = pattern.match(_read(self.file, at, min(at + size, end)))
            if not match or not match.end():
                return at
            at += match.end()
            size = min(2 * size, _CHUNK)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The number of at most 5 bytes that begins at a place, and the place behind it."""
    value = 0
    for shift, byte in zip(range(0, 35, 7), data[at:], strict=False):
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if not byte and shift:
                break  # fewer bytes would do
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
