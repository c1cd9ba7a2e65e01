"""Random models as protobuf may write them: fields in any order and any number, elements in every form, numbers in more bytes
than they need, fields that nobody knows; and some that are damaged.
"""

from __future__ import annotations

import random
import struct
from functools import cache
from typing import Any

from onnx import ModelProto, TensorProto

AROUND_TENSORS = {
    *(
        *("graph", "functions", "training_info", "initialization", "algorithm", "node", "attribute", "attribute_proto", "g"),
        "graphs",
    ),
    *("initializer", "sparse_initializer", "values", "indices", "t", "tensors", "sparse_tensor", "sparse_tensors"),
}
"""The fields with tensors or with what may have some."""

VARINT, FIXED64, BYTES, GROUP, END_GROUP, FIXED32 = range(6)


def varint(value: int, rng: random.Random | None = None) -> bytes:
    """A number of at most 64 bits; with a generator of random numbers, sometimes in more bytes than it needs."""
    more = []
    value &= 2**64 - 1
    while value > 0x7F:
        more.append(value & 0x7F | 0x80)
        value >>= 7
    if rng is not None and len(more) < 4 and rng.random() < 0.05:
        more += value | 0x80, *[0x80] * rng.randrange(4 - len(more))
        value = 0
    return bytes((*more, value))


def field(number: int, wire: int, content: bytes, rng: random.Random | None = None) -> bytes:
    """A field with its tag, and with its length if it is written with one."""
    length = varint(len(content), rng) if wire == BYTES else b""
    return varint(number << 3 | wire, rng) + length + content


def random_model(rng: random.Random) -> bytes:
    """A model, of which a third is damaged."""
    data = bytearray(_message(rng, ModelProto.DESCRIPTOR, 0))
    if data and rng.random() < 0.33:
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(data) + 1)
            data[at : at + rng.randrange(3)] = rng.randbytes(rng.randrange(3))
    return bytes(data)


def _message(rng: random.Random, descriptor: Any, nested: int) -> bytes:
    every, around = _fields(descriptor)
    fields = []
    for _ in range(rng.randrange(1, 4)):
        each = rng.choice(around if around and rng.random() < 0.7 else every)
        if each.message_type is None or nested < 9:
            fields.append(_field(rng, each, nested))
    if descriptor.full_name == TensorProto.DESCRIPTOR.full_name:
        fields += _tensor(rng)
    if rng.random() < 0.05:
        unknown = field(rng.choice((99, 5000)), VARINT, varint(rng.getrandbits(40)), rng)
        fields.append(rng.choice((unknown, field(98, GROUP, unknown) + field(98, END_GROUP, b""))))
    rng.shuffle(fields)
    return b"".join(fields)


@cache
def _fields(descriptor: Any) -> tuple[list[Any], list[Any]]:
    """All fields of a message, and those around tensors."""
    fields = list(descriptor.fields)
    return fields, [each for each in fields if each.name in AROUND_TENSORS and each.message_type is not None]


def _tensor(rng: random.Random) -> list[bytes]:
    """Fields of a tensor that belong together more often than those of any random message."""
    dims = rng.choice(([4], [2, 2], [2000], [50, 50], [0], [], [-3, -1000], [1] * 65, [2**40, 2**40]))
    known = TensorProto(dims=dims, data_type=rng.choice((1, 6, 7, 8, 10, 11, 13, 22)), name=rng.choice("abc"))
    if rng.random() < 0.1:
        known.data_location = TensorProto.EXTERNAL
    payload = rng.choice([each for each in TensorProto.DESCRIPTOR.fields if each.name.endswith("_data")])
    elements = [_field(rng, payload, 0) for _ in range(rng.randrange(4))]
    return [known.SerializeToString(), *([field(9, BYTES, rng.randbytes(16))] if rng.random() < 0.3 else elements)]


def _field(rng: random.Random, descriptor: Any, nested: int) -> bytes:
    number = descriptor.number
    if rng.random() < 0.003:  # not the wire type that belongs to the field
        wire, content = rng.choice(((VARINT, varint(5)), (FIXED32, bytes(4)), (FIXED64, bytes(8)), (BYTES, b"\x80\x01x")))
        return field(number, wire, content, rng)
    if descriptor.message_type is not None:
        return field(number, BYTES, _message(rng, descriptor.message_type, nested + 1), rng)
    if descriptor.type in (descriptor.TYPE_STRING, descriptor.TYPE_BYTES):
        text = rng.choice((b"", b"name", b"x" * rng.randrange(100), b"\xff" if rng.random() < 0.003 else b"y"))
        return field(number, BYTES, text, rng)
    wire, values = _numbers(rng, descriptor)
    if descriptor.has_presence:
        return field(number, wire, values[0], rng)
    if rng.random() < 0.5:
        return field(number, BYTES, b"".join(values), rng)
    return b"".join(field(number, wire, value, rng) for value in values)


def _numbers(rng: random.Random, descriptor: Any) -> tuple[int, list[bytes]]:
    """The wire type of a field of numbers, and some of them."""
    count = rng.choice((1, 2, 4, 30))
    if descriptor.type == descriptor.TYPE_FLOAT:
        return FIXED32, [struct.pack("<f", rng.random()) for _ in range(count)]
    if descriptor.type == descriptor.TYPE_DOUBLE:
        return FIXED64, [struct.pack("<d", rng.random()) for _ in range(count)]
    bits = rng.choice((1, 7, 31, 64))
    return VARINT, [varint(rng.choice((1, -1)) * rng.getrandbits(bits), rng) for _ in range(count)]
