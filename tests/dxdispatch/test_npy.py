"""Values in files. NumPy writes them, and says what they hold."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dmlgather.directml import DataType
from dmlgather.directml.dxdispatch.model_file import CheckedFile
from dmlgather.directml.dxdispatch.npy import read_npy, read_raw
from dmlgather.files import FileError
from tests.dxdispatch.models import changed, check

TYPES = ["f4", "f2", "f8", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "?"]


def of_file(folder: Path, name: str, resource: str = "file", **stated: Any) -> CheckedFile:
    """The check of a model with a resource whose values lie in a file."""
    return check(folder, changed((("resources", resource), {"initialValues": {"sourcePath": name}, **stated})))


def loaded(folder: Path, name: str, data_type: str | None = None) -> Any:
    """The resource whose values lie in the file, as bytes."""
    stated = {} if data_type is None else {"initialValuesDataType": data_type}
    found = of_file(folder, name, **stated)
    assert not found.problems, [str(problem) for problem in found.problems]
    resource = found.resources["file"]
    return resource, resource.buffer()[: resource.values.bytes].tobytes()


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("layout", ["C", "F"])
def test_npy_of_every_type(tmp_path: Path, kind: str, order: Any, layout: Any) -> None:
    random = np.random.default_rng(1)
    bits = random.integers(0, 2, (3, 4, 2)) if kind == "?" else random.integers(0, 100, (3, 4, 2))
    array = np.asarray(bits.astype(np.dtype(kind).newbyteorder(order)), order=layout)
    np.save(tmp_path / "x.npy", array)
    resource, got = loaded(tmp_path, "x.npy")
    expected = np.dtype(kind)
    assert resource.data_type.name.lower() == ("uint8" if kind == "?" else expected.name)
    assert got == np.load(tmp_path / "x.npy").astype(expected.newbyteorder("<")).tobytes(order="C")


def test_npy_keeps_nan_payloads(tmp_path: Path) -> None:
    bits = np.array([0x7FC00001, 0xFF812345, 0x80000000], np.uint32)
    np.save(tmp_path / "x.npy", bits.view(np.float32))
    assert loaded(tmp_path, "x.npy")[1] == bits.tobytes()


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_file_is_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: str) -> None:
    """So that an interrupt need not wait for the whole file."""
    values = np.arange(100, dtype=f"{order}i2")
    np.save(tmp_path / "x.npy", values)
    monkeypatch.setattr("dmlgather.chunks.CHUNK", 7)
    out = np.zeros(100, np.int16)
    read_npy(tmp_path / "x.npy").write(out)
    assert out.tolist() == list(range(100))


def test_npy_of_format_2(tmp_path: Path) -> None:
    with (tmp_path / "x.npy").open("wb") as file:
        np.lib.format.write_array(file, np.arange(5, dtype=np.int16), version=(2, 0))
    assert loaded(tmp_path, "x.npy")[1] == np.arange(5, dtype="<i2").tobytes()


def test_npy_type_wins_with_a_warning(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(3, dtype=np.int32))
    found = of_file(tmp_path, "x.npy", initialValuesDataType="FLOAT32")
    assert found.resources["file"].data_type is DataType.INT32
    assert [(finding.code, finding.got) for finding in found.findings] == [("DML802", "FLOAT32")]


@pytest.mark.parametrize("name", ["x.dat", "x.bin", "x.raw"])
def test_raw_bytes(tmp_path: Path, name: str) -> None:
    raw = bytes(range(24))
    (tmp_path / name).write_bytes(raw)
    resource, got = loaded(tmp_path, name, "UINT16")
    assert (resource.values.count, got) == (12, raw)


def test_values_may_begin_at_any_byte(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(3, dtype=np.uint64))
    buffer = of_file(tmp_path, "x.npy", initialValuesOffsetInBytes=5, sizeInBytes=40).resources["file"].buffer()
    assert buffer.tobytes() == bytes(5) + np.arange(3, dtype="<u8").tobytes() + bytes(11)


def test_beside_the_model_first_then_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beside, current = tmp_path / "model", tmp_path / "current"
    for folder, value in ((beside, 1), (current, 2)):
        folder.mkdir()
        np.save(folder / "both.npy", np.array([value], np.uint8))
    np.save(current / "there.npy", np.array([3], np.uint8))
    monkeypatch.chdir(current)
    assert loaded(beside, "both.npy")[1] == b"\1"
    assert loaded(beside, "there.npy")[1] == b"\3"


def _header(text: str, version: bytes = b"\1\0") -> bytes:
    return b"\x93NUMPY" + version + len(text).to_bytes(2, "little") + text.encode("latin-1")


GOOD = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }"
BAD_NPY: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is empty"),
    "text": (b"1, 2, 3\n", "is no .npy file: it begins with b'1, 2, '"),
    "pickle": (pickle.dumps([1, 2, 3]), "is no .npy file"),
    "magic alone": (b"\x93NUMPY", "no readable .npy header"),
    "header cut": (_header(GOOD)[:20], "no readable .npy header"),
    "cut": (_header(GOOD) + bytes(7), "wrong size: its header announces 8 bytes (float32 of shape (2,)), but 7 follow"),
    "long": (_header(GOOD) + bytes(9), "wrong size"),
    "version 3": (_header(GOOD, b"\3\0"), "version 3.0"),
    "version 9": (_header(GOOD, b"\t\0"), "version 9.0"),
    "huge": (_header(GOOD.replace("(2,)", "(10**9,)")), "no readable .npy header"),
    "huge shape": (_header(GOOD.replace("(2,)", "(" + "9" * 300 + ",)")), "wrong size"),
    "negative": (_header(GOOD.replace("(2,)", "(-2, -3)")) + bytes(24), "negative size"),
    "no values": (_header(GOOD.replace("(2,)", "(0, 5)")), "no values (shape (0, 5))"),
    "objects": (_header(GOOD.replace("<f4", "|O")) + bytes(16), "pickled Python objects"),
    "records": (_header(GOOD.replace("'<f4'", "[('a', '<f4')]")) + bytes(8), "which DirectML does not have"),
    "complex": (_header(GOOD.replace("<f4", "<c8")) + bytes(16), "which DirectML does not have"),
    "text values": (_header(GOOD.replace("<f4", "<U4")) + bytes(32), "which DirectML does not have"),
    "dates": (_header(GOOD.replace("<f4", "<M8[s]")) + bytes(16), "which DirectML does not have"),
    "code": (_header("__import__('os').system('exit 3')"), "no readable .npy header"),
    "brackets": (_header("(" * 9000), "no readable .npy header"),
    "long header": (_header(GOOD + " " * 60000) + bytes(8), "no readable .npy header"),
}


@pytest.mark.parametrize("case", BAD_NPY)
def test_bad_npy(tmp_path: Path, case: str) -> None:
    content, says = BAD_NPY[case]
    file = tmp_path / "x.npy"
    file.write_bytes(content)
    with pytest.raises(FileError) as caught:
        read_npy(file)
    assert says in str(caught.value)
    (problem,) = of_file(tmp_path, "x.npy").problems
    assert problem.path == "resources.file.initialValues.sourcePath"
    assert problem.message.startswith("x.npy ")


def test_pickled_arrays_are_never_loaded(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([{"a": 1}, None], object), allow_pickle=True)
    with pytest.raises(FileError, match="pickled Python objects"):
        read_npy(tmp_path / "x.npy")


@pytest.mark.parametrize(
    ("content", "says"), [(b"", "is empty: expected at least one UINT32 element of 4 bytes"), (b"12345", "5 bytes")]
)
def test_bad_raw(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "x.bin").write_bytes(content)
    with pytest.raises(FileError, match=says):
        read_raw(tmp_path / "x.bin", DataType.UINT32)


def _loop(path: Path) -> None:
    path.symlink_to(path)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: None, "does not exist (looked in "),
        (lambda path: path.mkdir(), "is a folder"),
        (os.mkfifo, "is a pipe"),
        (_loop, "Too many levels of symbolic links"),
        (lambda path: path.symlink_to("/dev/zero"), "lies outside the model's folder"),
        (lambda path: path.symlink_to("gone"), "does not exist"),
    ],
)
@pytest.mark.parametrize("name", ["x.npy", "x.dat"])
def test_no_file(tmp_path: Path, make: Any, says: str, name: str) -> None:
    make(tmp_path / name)
    (problem,) = of_file(tmp_path, name, initialValuesDataType="UINT8").problems
    assert says in problem.message


@pytest.mark.parametrize("name", ["a\0b.npy", "x" * 5000 + ".npy", "", ".", "photo.PNG", "photo.jpeg"])
def test_impossible_names(tmp_path: Path, name: str) -> None:
    assert len(of_file(tmp_path, name, initialValuesDataType="UINT8").problems) == 1


def test_raw_bytes_need_a_type(tmp_path: Path) -> None:
    (tmp_path / "x.dat").write_bytes(b"1234")
    (problem,) = of_file(tmp_path, "x.dat").problems
    assert "'initialValuesDataType' has to state their type" in problem.message


def test_a_file_too_small_for_its_tensor_is_a_problem(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((2, 2), np.float32))
    found = of_file(tmp_path, "x.npy", resource="table")
    (problem,) = found.problems
    assert not found.findings
    assert f"{tmp_path}/x.npy has the wrong size: expected at least 24 bytes for InputTensor" in problem.message
    assert "got 16 bytes" in problem.message


def test_a_file_that_shrinks_after_the_check(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros(100, np.float32))
    resource = of_file(tmp_path, "x.npy").resources["file"]
    (tmp_path / "x.npy").write_bytes(b"short")
    with pytest.raises(FileError, match="became shorter"):
        resource.buffer()
