"""Mutated files of every kind that the command reads: DxDispatch models with .npy files, descriptors, streams of descriptors, and
ONNX models.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper

ROOT = Path(__file__).parents[2]

NUMBERS = (
    *(0, 1, -1, 2, 7, 8, 9, 255, 65_536, 30_000_000),
    *(2**31 - 1, 2**31, -(2**31), 2**32 - 1, 2**32, 2**40, 2**62, 2**63 - 1, -(2**63), 2**64 - 1, 2**64, 10**400),
    *(0.5, -0.0, 1e308, 5e-324, float("nan"), float("inf"), float("-inf")),
)
NAMES = (
    *("", "x", "InputTensor", "\x00", "\x1b[31m\r\n", "\u202e\u2066\u200b", "\x9b2J", "\ud800", "é\u00a0\u2028", "a" * 50_000),
    *("../../etc/passwd", "/dev/zero", "nul", "%s%n", "&amp;<>\"'", "]]>", "::error::", "9" * 30),
)
"""Names that control a terminal, leave a folder, end a quotation, or are long."""

LARGEST = 1_000_000
"""Approximate size limit of a model in bytes."""

KINDS = ("json", "jsonl", "onnx")


def mutated(draw: random.Random, kind: str, folder: Path, name: str) -> None:
    """Write one mutated file of a kind into a folder."""
    file = folder / f"{name}.{kind}"
    if kind == "json" and draw.random() < 0.2:
        file.write_text(json.dumps(_with_values(f"{name}.npy")), encoding="utf-8")
        (folder / f"{name}.npy").write_bytes(flipped(draw, _npy(draw)))
        return
    data = _MAKERS[kind](draw)
    file.write_bytes(flipped(draw, data) if draw.random() < 0.3 else data)


def flipped(draw: random.Random, data: bytes) -> bytes:
    """Return the bytes with flipped, removed, inserted and repeated ones."""
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 5, 30))):
        at, length = draw.randrange(len(changed) + 1), draw.choice((1, 1, 2, 8, 100))
        match draw.randrange(5):
            case 0 if at < len(changed):
                changed[at] ^= 1 << draw.randrange(8)
            case 1:
                del changed[at : at + length]
            case 2:
                changed[at:at] = draw.randbytes(length)
            case 3:
                changed[at:at] = changed[at : at + length] * draw.choice((1, 3, 50))
            case 4 if draw.random() < 0.1:
                del changed[at:]
    return bytes(changed)


def _npy(draw: random.Random) -> bytes:
    """Return a .npy file of three floats, or one with a wrong header."""
    kind, shape = "<f4", "(3,)"
    if draw.random() < 0.5:
        kind = draw.choice(("<f4", ">f4", "<f2", "|O", "<U3", "<c8", "|b1", "<i8", "V4", "<f4,<i4"))
        shape = draw.choice(
            ("(3,)", "()", "(1, 3)", "(0,)", "(-1,)", f"({2**63},)", f"({2**40}, {2**40})", f"({'2,' * 70})", "3")
        )
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\x00" + (len(head) + 1).to_bytes(2, "little") + head + b"\n" + bytes(12)


def _with_values(source: str) -> dict[str, Any]:
    """Return a model whose input is the file `source`."""
    tensor = {"DataType": "FLOAT32", "Sizes": [3]}
    return {
        "resources": {
            "input": {"initialValuesDataType": "FLOAT32", "initialValues": {"sourcePath": source}},
            "output": {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": 3, "value": 0}},
        },
        "dispatchables": {
            "s": {
                "type": "DML_OPERATOR_SLICE",
                "desc": {"InputTensor": tensor, "OutputTensor": tensor, "Offsets": [0], "Sizes": [3], "Strides": [1]},
            }
        },
        "commands": [
            {"type": "dispatch", "dispatchable": "s", "bindings": {"InputTensor": "input", "OutputTensor": "output"}},
            {"type": "print", "resource": "output"},
        ],
    }


def _jsonl(draw: random.Random) -> bytes:
    """Return lines, some of them mutated."""
    made = b""
    for _ in range(draw.choice((1, 3, 40))):
        value = {"name": draw.choice(NAMES), "type": "DML_OPERATOR_SLICE", "desc": _with_values("")["dispatchables"]["s"]["desc"]}
        line = json.dumps(changed(draw, value) if draw.random() < 0.7 else value).encode("utf-8", "surrogatepass")
        made += (flipped(draw, line) if draw.random() < 0.2 else line) + b"\n"
        if len(made) > LARGEST:
            break
    return made * min(draw.choice((1, 1, 100)), max(LARGEST // len(made), 1))


def _json(draw: random.Random) -> bytes:
    files = sorted((ROOT / "examples/directml").rglob("*.json"))
    path = draw.choice(files)
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:  # with comments
        return path.read_bytes()
    for _ in range(draw.choice((1, 1, 2, 4))):
        value = changed(draw, value)
        if sum(1 for _ in _places(value)) > 1_000:  # repeated once more, it would exceed the size limit
            break
    try:
        return json.dumps(value, ensure_ascii=draw.random() < 0.5).encode("utf-8", "surrogatepass")
    except RecursionError:
        return b"["


def changed(draw: random.Random, value: Any) -> Any:
    """Return the value with one part replaced, removed, repeated or nested."""
    places = list(_places(value))
    holder, key = draw.choice(places) if places else (None, None)
    if holder is None or draw.random() < 0.02:
        return _scalar(draw)
    part = holder[key]
    match draw.randrange(8):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, list):
            holder[key:key] = [copy.deepcopy(part)] * draw.choice((1, 7, 300))
        case 1 | 2 if isinstance(holder, dict):
            holder[draw.choice((*NAMES, *map(str, holder)))] = holder.pop(key)
        case 3:
            other, where = draw.choice(places)
            holder[key] = copy.deepcopy(other[where]) if where in _keys(other) else None
        case 4:
            holder[key] = draw.choice(([part], {"a": part}, [part] * 50))
        case 5 if isinstance(part, dict):
            part.update({f"{draw.choice(NAMES)}{number}": _scalar(draw) for number in range(draw.choice((1, 20, 2000)))})
        case _:
            holder[key] = _scalar(draw)
    return value


def _keys(holder: Any) -> Any:
    return holder.keys() if isinstance(holder, dict) else range(len(holder))


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, dict | list):
        for key in _keys(value):
            yield value, key
            yield from _places(value[key])


def _scalar(draw: random.Random) -> Any:
    return draw.choice((None, True, [], {}, *draw.sample(NUMBERS, 6), *draw.sample(NAMES, 4)))


def _onnx(draw: random.Random) -> bytes:
    model = draw.choice(_onnx_seeds())
    for _ in range(draw.choice((1, 1, 2, 4, 8))):
        _change_message(draw, model)
        if model.ByteSize() > LARGEST // 2:
            break
    return bytes(model.SerializePartialToString())


def _onnx_seeds() -> list[onnx.ModelProto]:
    """Return models with every operator of the family, constants, shape arithmetic, a branch and a local function."""
    info, node = helper.make_tensor_value_info, helper.make_node
    inputs = [info("x", TensorProto.FLOAT, [4, "n", 8]), info("i", TensorProto.INT64, [2]), info("c", TensorProto.BOOL, [])]
    constants = [
        helper.make_tensor(name, TensorProto.INT64, [1], [value]) for name, value in (("zero", 0), ("one", 1), ("end", 9))
    ]
    branches = [
        helper.make_graph([node("Gather", ["x", "i"], ["b"], axis=1)], name, [], [info("b", TensorProto.FLOAT, None)])
        for name in ("then", "else")
    ]
    function = helper.make_function(
        "d", "f", ["a", "b"], ["o"], [node("Gather", ["a", "b"], ["o"], axis=0)], [helper.make_opsetid("", 17)], ["k"]
    )
    nodes = [
        node("Gather", ["x", "i"], ["g"], axis=0),
        node("GatherElements", ["x", "e"], ["h"], axis=2),
        node("GatherND", ["x", "nd"], ["k"], batch_dims=0),
        node("Slice", ["x", "zero", "end", "one", "one"], ["s"]),
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "one"], ["size"]),
        node("Concat", ["size", "one", "zero"], ["wanted"], axis=0),
        node("Reshape", ["x", "wanted"], ["r"]),
        node("DepthToSpace", ["image"], ["d"], blocksize=2),
        node("SpaceToDepth", ["image"], ["sd"], blocksize=2),
        node("If", ["c"], ["p"], then_branch=branches[0], else_branch=branches[1]),
        node("f", ["x", "i"], ["q"], domain="d"),
    ]
    inputs += [
        info("e", TensorProto.INT32, [4, 1, 8]),
        info("nd", TensorProto.INT64, [3, 2]),
        info("image", TensorProto.FLOAT16, [1, 8, 4, 4]),
    ]
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("d", 1)]
    whole = helper.make_graph(nodes, "g", inputs, [info("g", TensorProto.FLOAT, None)], constants)
    small = helper.make_graph(nodes[:1], "g", inputs[:2], [info("g", TensorProto.FLOAT, None)])
    return [
        helper.make_model(whole, opset_imports=imports, functions=[function], ir_version=9),
        helper.make_model(small, opset_imports=imports[:1], ir_version=9),
    ]


def _messages(message: Any) -> Iterator[Any]:
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in [value] if hasattr(value, "ListFields") else value:
                yield from _messages(inner)


def _change_message(draw: random.Random, model: Any) -> None:
    """Change one field of one message inside the model."""
    messages = list(_messages(model))
    message = draw.choice(messages)
    field = draw.choice(message.DESCRIPTOR.fields)
    value = getattr(message, field.name)
    repeated = not isinstance(value, bool | int | float | str | bytes) and not hasattr(value, "ListFields")
    if draw.random() < 0.15:
        message.ClearField(field.name)
    elif field.message_type is not None:
        same = [other for other in messages if other.DESCRIPTOR is field.message_type]
        source = copy.deepcopy(draw.choice(same)) if same else field.message_type._concrete_class()
        if repeated:
            value.extend([source] * min(draw.choice((1, 1, 3, 70, 500)), LARGEST // max(source.ByteSize(), 1)))
        else:
            value.CopyFrom(source)
    elif repeated:
        single = _field_value(draw, field)
        size = len(single) if isinstance(single, str | bytes) else 8
        value.extend([single] * min(draw.choice((1, 1, 3, 70, 2000)), LARGEST // max(size, 1)))
    else:
        setattr(message, field.name, _field_value(draw, field))


def _field_value(draw: random.Random, field: Any) -> Any:
    """Return a value for a scalar field."""
    if field.type == field.TYPE_BYTES:
        return draw.randbytes(draw.choice((0, 1, 8, 1000)))
    if field.type == field.TYPE_STRING:
        return draw.choice((*"xigedn", *NAMES)).encode("utf-8", "replace").decode()
    if field.cpp_type in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return draw.uniform(-1e30, 1e30)
    if field.enum_type is not None:
        return draw.choice([value.number for value in field.enum_type.values])
    bits = 31 if field.cpp_type == field.CPPTYPE_INT32 else 63
    fitting = [int(number) for number in NUMBERS if isinstance(number, int) and -(2**bits) <= number < 2**bits]
    fitting = [number for number in fitting if number >= 0 or field.cpp_type not in (field.CPPTYPE_UINT32, field.CPPTYPE_UINT64)]
    return draw.choice(fitting)


_MAKERS: dict[str, Callable[[random.Random], bytes]] = {"json": _json, "jsonl": _jsonl, "onnx": _onnx}
