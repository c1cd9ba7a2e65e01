"""Files are read without the elements of large tensors, and what is made of them is what decoding all of the file would give."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from functools import reduce
from pathlib import Path

import onnx
import pytest
from google.protobuf.message import DecodeError  # type: ignore[import-untyped] # protobuf ships no types
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    SparseTensorProto,
    TensorProto,
    TrainingInfoProto,
)

from dmlgather.files import FileError
from dmlgather.onnx_checking.reading import weightless
from dmlgather.onnx_checking.reading.file import strip
from tests.onnx_checking.large_models import MEMORY, measured, write_large
from tests.onnx_checking.wire import BYTES, FIXED32, FIXED64, VARINT, field, random_model, varint


def _made_of(data: bytes) -> bytes | str:
    """The model that `data` decodes to, without large and damaged constants, or what is wrong."""
    try:
        model = onnx.load_model_from_string(data)
        strip(model)
    except (DecodeError, UnicodeDecodeError):  # the latter of protobuf in pure Python
        return "cannot be decoded"
    except FileError as error:
        return str(error)
    return bytes(model.SerializeToString(deterministic=True))


def _kept(data: bytes) -> bytes:
    parts = weightless.without_weights(io.BytesIO(data), len(data))
    kept = parts.read()
    assert parts.size == len(kept)
    return kept


@pytest.mark.slow
@settings(max_examples=500)
@given(
    seed=st.integers(0, 2**63),
    large=st.sampled_from((0, 4, 100)),
    chunk=st.sampled_from((16, 100, 2**18)),
    fields=st.sampled_from((5, 20, 10**6)),
)
def test_random_files(seed: int, large: int, chunk: int, fields: int) -> None:
    """Also damaged ones, and ones with more than the walk looks at."""
    data = random_model(random.Random(seed))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weightless, "LARGE", large)
        patch.setattr(weightless, "_CHUNK", chunk)
        patch.setattr(weightless, "MOST_FIELDS", fields)
        kept = _kept(data)
    assert len(kept) <= len(data)
    assert _made_of(kept) == _made_of(data)


ELEMENTS = 5000

FORMS: dict[str, bytes] = {
    "raw_data": field(9, BYTES, bytes(4 * ELEMENTS)),
    "float_data": field(4, BYTES, bytes(4 * ELEMENTS)),
    "float_data in parts": field(4, BYTES, bytes(2 * ELEMENTS)) * 2,
    "float_data, each a field": field(4, FIXED32, b"\x25\x00\x80\xff") * ELEMENTS,
    "double_data": field(10, BYTES, bytes(8 * ELEMENTS)),
    "double_data, each a field": field(10, FIXED64, bytes(8)) * ELEMENTS,
    "int32_data": field(5, BYTES, varint(-1) * ELEMENTS),
    "int32_data, each a field": field(5, VARINT, varint(300)) * ELEMENTS,
    "int64_data": field(7, BYTES, varint(-1) * ELEMENTS),
    "int64_data, each a field": field(7, VARINT, varint(-1)) * ELEMENTS,
    "uint64_data": field(11, BYTES, varint(2**64 - 1) * ELEMENTS),
    "uint64_data, each a field": field(11, VARINT, varint(2**63)) * ELEMENTS,
    "string_data": field(6, BYTES, b"word") * ELEMENTS,
    "several": field(6, BYTES, b"word") * 9 + field(9, BYTES, bytes(4 * ELEMENTS)) + field(5, VARINT, b"\x05") * ELEMENTS,
}


def _tensor(form: str) -> bytes:
    """A large tensor whose name stands behind its elements, as every encoder writes those with a low number."""
    head, name = TensorProto(dims=[ELEMENTS], data_type=1), TensorProto(name="W")
    return bytes(head.SerializeToString() + FORMS[form] + name.SerializeToString())


def _inside(message: type, name: str, content: bytes) -> bytes:
    """A message of which a field is another one."""
    number: int = message.DESCRIPTOR.fields_by_name[name].number  # type: ignore[attr-defined] # the stubs leave it out
    return field(number, BYTES, content)


def _in_node(attribute: bytes) -> bytes:
    return _inside(GraphProto, "node", _inside(NodeProto, "attribute", attribute))


def _in_sparse(tensor: bytes) -> bytes:
    return _inside(SparseTensorProto, "values", tensor) + _inside(SparseTensorProto, "indices", tensor)


def _initializer(tensor: bytes) -> bytes:
    return _inside(GraphProto, "initializer", tensor)


def _initializers(*tensors: bytes) -> bytes:
    return _inside(ModelProto, "graph", b"".join(map(_initializer, tensors)))


TENSOR = _tensor("raw_data")

PLACES: dict[str, Callable[[bytes], bytes]] = {
    "an initializer": _initializer,
    "a sparse initializer": lambda tensor: _inside(GraphProto, "sparse_initializer", _in_sparse(tensor)),
    "an attribute": lambda tensor: _in_node(_inside(AttributeProto, "t", tensor)),
    "an attribute that is a list": lambda tensor: _in_node(_inside(AttributeProto, "tensors", tensor) * 2),
    "a sparse attribute": lambda tensor: _in_node(_inside(AttributeProto, "sparse_tensor", _in_sparse(tensor))),
    "sparse ones in a list": lambda tensor: _in_node(_inside(AttributeProto, "sparse_tensors", _in_sparse(tensor))),
    "a graph inside": lambda tensor: _in_node(_inside(AttributeProto, "g", _initializer(tensor))),
    "graphs inside": lambda tensor: _in_node(_inside(AttributeProto, "graphs", _initializer(tensor))),
}
"""Where a graph may have tensors."""

ROOTS: dict[str, Callable[[bytes], bytes]] = {
    "the graph": lambda graph: _inside(ModelProto, "graph", graph),
    "a graph in two parts": lambda graph: _inside(ModelProto, "graph", graph) * 2,
    "training": lambda graph: _inside(ModelProto, "training_info", _inside(TrainingInfoProto, "algorithm", graph)),
}


def _function(tensor: bytes) -> bytes:
    """A function with a tensor in a node, and in the default of an attribute."""
    attribute = _inside(AttributeProto, "t", tensor)
    inside = _inside(FunctionProto, "node", _inside(NodeProto, "attribute", attribute))
    return _inside(ModelProto, "functions", inside + _inside(FunctionProto, "attribute_proto", attribute))


LEFT_OUT = {
    **{f"{place} in {root}": ROOTS[root](PLACES[place](TENSOR)) for root in ROOTS for place in PLACES},
    "a function": _function(TENSOR),
    **{form: _initializers(*[_tensor(form)] * 3) for form in FORMS},
}
"""Models with large tensors in every place and every form."""


@pytest.mark.parametrize("case", LEFT_OUT)
def test_elements_are_left_out_wherever_they_are(case: str) -> None:
    kept = _kept(LEFT_OUT[case])
    assert len(kept) < 200
    assert _made_of(kept) == _made_of(LEFT_OUT[case])


def test_every_tensor_has_a_place() -> None:
    """Each field of any message of a model that is a tensor occurs above."""
    shown = {
        "onnx.GraphProto.initializer",
        *(f"onnx.SparseTensorProto.{name}" for name in ("values", "indices")),
        *(f"onnx.AttributeProto.{name}" for name in ("t", "tensors")),
    }
    found, todo = set(), [ModelProto.DESCRIPTOR]
    for message in todo:
        for each in message.fields:
            if each.message_type is TensorProto.DESCRIPTOR:
                found.add(each.full_name)
            elif each.message_type is not None and each.message_type not in todo:
                todo.append(each.message_type)
    assert found == shown


class _Counted(io.BytesIO):
    """A file that counts the bytes that are read."""

    count = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self.count += len(data)
        return data


@pytest.mark.parametrize("form", ["raw_data", "float_data", "double_data"])
def test_elements_are_not_even_looked_at(form: str) -> None:
    data = _initializers(*[_tensor(form)] * 10)
    file = _Counted(data)
    weightless.without_weights(file, len(data)).read()
    assert file.count < 3000 < len(data) // 50


KEPT = {
    "few elements": _initializers(TENSOR.replace(varint(ELEMENTS), varint(1000), 1)),
    "two tensors that are one": ROOTS["the graph"](_in_node(_inside(AttributeProto, "t", TENSOR) * 2)),
    "a group": ROOTS["the graph"](b"\x9b\x06\x9c\x06" + _initializer(TENSOR)),
    "a length in more bytes than it needs": _initializers(TENSOR.replace(b"\x4a\xa0\x9c\x01", b"\x4a\xa0\x9c\x81\x00")),
}
DAMAGED = {
    "a number that does not end": _initializers(_tensor("int64_data").replace(varint(-1), b"\xff" * 10, 1)),
    "numbers of which the last does not end": _initializers(TENSOR + field(7, BYTES, b"\xff" * 9)),
    "no whole number of floats": _initializers(TENSOR + field(4, BYTES, bytes(7))),
    "cut off": _initializers(TENSOR)[:-9],
    "a tensor longer than its graph": _initializer(TENSOR) + b"\x3a\x09\x2a\xff\x7f",
    "field 0": _initializers(TENSOR + b"\x00\x00"),
    "a wire type that there is not": _initializers(TENSOR + b"\x4f"),
    "a group that is not opened": _initializers(TENSOR + b"\x4c"),
    "dims that do not end": _initializers(TENSOR + b"\x0a\x02\x80\x80"),
    "messages nested too deeply": ROOTS["the graph"](
        reduce(lambda graph, _: _in_node(_inside(AttributeProto, "g", graph)), range(40), _initializer(TENSOR))
    ),
}


@pytest.mark.parametrize("data", KEPT.values(), ids=KEPT)
def test_unusual_encodings_are_kept(data: bytes) -> None:
    assert _kept(data) == data
    assert _made_of(data) != "cannot be decoded"


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED)
def test_damage_is_kept(data: bytes) -> None:
    assert _made_of(data) == _made_of(_kept(data)) == "cannot be decoded"


@pytest.mark.parametrize("data", [b"\x08\x01" * 300_000, _initializers(TENSOR + b"\x28\x05\x25abcd" * 100_000)])
def test_many_tiny_fields(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weightless, "MOST_FIELDS", 1000)
    file = _Counted(data)
    parts = weightless.without_weights(file, len(data))
    assert file.count < 100_000
    assert parts.read() == data


def test_a_file_that_becomes_shorter(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(_initializers(TENSOR))
    with path.open("rb+") as file:
        parts = weightless.without_weights(file, path.stat().st_size)
        file.truncate(10)
        with pytest.raises(FileError, match="became shorter while it was read: check it again"):
            parts.read()


@pytest.mark.slow
def test_the_memory_for_a_large_model(tmp_path: Path) -> None:
    """Of the command and of the process that infers shapes; a model whose weights were read would take at least its size."""
    path = tmp_path / "model.onnx"
    write_large(path, 500_000_000)
    took = measured([path])
    summary = took.output.splitlines()[-1]
    assert summary.startswith("1 file checked, 200 nodes ")
    assert ", no findings" in summary
    assert 50_000_000 < took.memory < MEMORY
