"""`dmlgather explain` on ONNX models. Judges: the models as written here, and NumPy."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path

import jsonschema
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from dmlgather.cli.schema import Schema, schema_of
from tests.cli.command import ROOT, Command, process
from tests.diagram.parsed import Picture
from tests.onnx_checking.modelling import parsed

TABLE = np.arange(12, dtype=np.float32).reshape(3, 4) / 2
ROWS = np.array([2, 0, -1])


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Nodes that are known, of unknown size, of unknown bounds, wrong, and outside the family."""
    nodes = [
        helper.make_node("Gather", ["x", "i"], ["a"], name="rows", axis=0),
        helper.make_node("Slice", ["x", "one", "far"], ["b"], name="cut"),
        helper.make_node("Gather", ["n", "i"], ["c"], name="open"),
        helper.make_node("Slice", ["x", "q", "far"], ["d"], name="dynamic"),
        helper.make_node("DepthToSpace", ["image"], ["e"], name="wrong", blocksize=3),
        helper.make_node("Gather", ["d", "i"], ["g"], name="behind", axis=1),
        helper.make_node("Relu", ["x"], ["f"]),
    ]
    inputs = [
        helper.make_tensor_value_info("n", TensorProto.FLOAT, ["N", 4]),
        helper.make_tensor_value_info("q", TensorProto.INT64, [1]),
        helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 4, 2, 2]),
    ]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "abcdefg"]
    constants = {"x": TABLE, "i": ROWS, "one": np.array([1]), "far": np.array([2**60])}
    initializers = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "graph", inputs, outputs, initializers)
    file = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), file)
    return file


def test_each_known_node_is_explained(model: Path, command: Command) -> None:
    """The plans are those of the eager functions; three nodes are not known, and one is wrong."""
    import dmlgather as dg

    ended = command("explain", model, "--json")
    entries = {entry["name"]: entry for entry in json.loads(ended.out)}
    assert (ended.code, ended.err) == (1, "")
    assert list(entries) == ["rows", "cut", "open", "dynamic", "wrong", "behind"]
    assert entries["rows"]["plan"] == str(dg.onnx.gather.plan(((3, 4), "float32"), ((3,), "int64"), axis=0))
    assert (entries["rows"]["operator"], entries["rows"]["lowest_level"]) == ("Gather-13", "1_0")
    assert entries["rows"]["bytes_moved"]["total"] == ROWS.nbytes + 2 * TABLE[ROWS].nbytes
    assert entries["cut"]["bytes_moved"]["total"] == 2 * TABLE[1:].nbytes
    assert entries["open"]["reason"] == "N must be known: for example, explain it with --size N=8"
    assert entries["dynamic"]["reason"].startswith("the model does not state starts: make 'q' a Constant")
    assert re.search(
        r"(\w+) must be known: \1 is a size that Slice 'dynamic' gives, which only a run shows; .* --size \1=8$",
        entries["behind"]["reason"],
    )
    assert "multiples of 9" in entries["wrong"]["reason"]


def test_a_node_is_selected_by_name(model: Path, command: Command) -> None:
    ended = command("explain", model, "--node", "rows", "--legend")
    assert (ended.code, ended.err) == (0, "")
    first, second = ended.out.splitlines()[:2]
    assert first.startswith("rows: Gather-13(data float[3,4], indices int64[3], axis 0) -> float[3,4]: taken: GATHER")
    assert second == "Gather-13, lowest feature level 1_0"
    assert "\nlegend\n" in ended.out
    assert "cut: " not in ended.out
    assert command("explain", model, "--only", "rows", "--legend").out == ended.out
    assert command("explain", model, "--node", "open").code == 0
    unknown = command("explain", model, "--node", "nothing")
    assert (unknown.code, unknown.out) == (2, "")
    assert "'rows', 'cut', 'open', 'dynamic', 'wrong', 'behind'" in " ".join(unknown.err.replace("│", " ").split())


def test_a_picture_shows_one_node_with_its_constants(model: Path, tmp_path: Path, command: Command) -> None:
    target = tmp_path / "out.svg"
    several = command("explain", model, "--picture", target)
    assert (several.code, several.out) == (2, "")
    assert "select one with --node" in " ".join(several.err.replace("│", " ").split())
    unknown = command("explain", model, "--picture", target, "--node", "open")
    assert (unknown.code, unknown.out) == (2, "")
    assert "open cannot be drawn: N must be known" in unknown.err
    assert not target.exists()
    assert command("explain", model, "--picture", target, "--node", "rows").code == 0
    picture = Picture(target.read_text(encoding="utf-8"))
    assert [picture.texts["indices"][(at,)] for at in range(3)] == ["2", "0", "-1"]
    shown = {at: float(value) for at, value in picture.texts["output"].items()}
    assert shown == {at: float(TABLE[ROWS][at]) for at in shown}
    assert len(shown) == 12
    assert "the constant 'i'" in picture.words
    assert "rows: Gather-13, lowest feature level 1_0" in picture.words


def test_the_hosts_arithmetic_is_explained(tmp_path: Path, command: Command) -> None:
    """As any other node, or why it cannot be."""
    text = """agraph (float[N] X, int64[1] e) => (float[M] Z) <int64[1] first = {0}>
        { s = Shape(X) [size] a = Gather(s, first) [open] b = Slice(a, first, e) Z = Reshape(X, b) }"""
    onnx.save(parsed(text), tmp_path / "model.onnx")
    out = command("explain", tmp_path / "model.onnx").out
    assert "size: Gather-13" in out
    assert "the model does not state ends" in out


def test_a_node_that_no_run_reaches_is_not_explained(tmp_path: Path, command: Command) -> None:
    text = """agraph (float[4] X) => (float[2] Z) <bool always = {1}, int64[2] i = {0, 1}> {
        Z = If<then_branch = t () => (float[2] a) { [chosen] a = Gather(X, i) },
               else_branch = e () => (float[2] b) { [passed] b = Gather(X, i) }>(always) }"""
    onnx.save(parsed(text), tmp_path / "model.onnx")
    ended = command("explain", tmp_path / "model.onnx", "--json")
    entries = {entry["name"]: entry for entry in json.loads(ended.out)}
    assert ended.code == 0
    assert entries["If_0.then_branch/chosen"]["operator"] == "Gather-13"
    assert entries["If_0.else_branch/passed"]["reason"] == "no run of the model reaches it"


def test_a_bound_that_is_a_size_must_be_known(tmp_path: Path, command: Command) -> None:
    text = """agraph (float[8,4] X, int64[B,past] a, int64[B,seq] b) => (float[M,4] Y, float[K,4] Z)
        <int64[1] zero = {0}, int64[1] one = {1}> {
        s = Shape(a) t = Shape(b) p = Gather(s, one) q = Gather(t, one) n = Add(p, q)
        [head] Y = Slice(X, zero, q) [both] Z = Slice(X, zero, n) }"""
    onnx.save(parsed(text), tmp_path / "model.onnx")
    ended = command("explain", tmp_path / "model.onnx", "--json")
    reasons = {entry["name"]: entry["reason"] for entry in json.loads(ended.out) if "reason" in entry}
    assert ended.code == 0
    assert reasons["head"] == "seq must be known: for example, explain it with --size seq=8"
    assert reasons["both"] == "past + seq must be known: for example, explain it with --size past=8 --size seq=8"


SIZES = """agraph (float[B,S] X, float[S] mask) => (float[A,C] Z, float[8] Y)
    <int64[1] zero = {0}, int64[1] one = {1}, int64[1] three = {3}, float[8] table = {1,2,3,4,5,6,7,8}> {
    nz = NonZero(mask) s = Shape(nz) n = Gather(s, one)
    [some] Z = Slice(X, zero, n, one) [first] Y = Slice(table, zero, n) }"""
"""Slices up to a number of elements that only a run shows."""


def test_sizes_are_given_with_the_options_in_the_advice(tmp_path: Path, command: Command) -> None:
    """Judge: the plans of the eager functions for these sizes."""
    import dmlgather as dg

    onnx.save(parsed(SIZES), tmp_path / "model.onnx")
    ended = command("explain", tmp_path / "model.onnx", "--json")
    reasons = {entry["name"]: entry["reason"] for entry in json.loads(ended.out) if "reason" in entry}
    (count,) = re.findall(r"(\w+) is the number", reasons["some"])
    assert reasons["some"] == (
        f"B and S and {count} must be known: {count} is the number of elements that NonZero 'NonZero_0' finds, which only a run "
        f"shows; for example, explain it with --size B=8 --size S=8 --size {count}=8"
    )
    assert reasons["first"].endswith(f"finds, which only a run shows; for example, explain it with --size {count}=8")
    advised = shlex.split(reasons["some"].partition("explain it with ")[2])
    for options, sizes in ((advised, (8, 8, 8)), (["--size", "B=2", "--size", "S=5", "--size", f"{count}=3"], (2, 5, 3))):
        ended = command("explain", tmp_path / "model.onnx", "--json", *options)
        plans = {entry["name"]: entry.get("plan") for entry in json.loads(ended.out)}
        rows, columns, end = sizes
        assert plans["some"] == str(dg.onnx.slice.plan(((rows, columns), "float32"), [0], [end], [1]))
        assert plans["first"] == str(dg.onnx.slice.plan(((8,), "float32"), [0], [end]))
    one = command("explain", tmp_path / "model.onnx", "--node", "first", "--size", f"{count}=3")
    assert (one.code, "\nSlice-13, lowest feature level 1_0\n" in one.out) == (0, True)


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("B", "expected NAME=NUMBER of at most 18 digits, such as N=8, got 'B'"),
        (f"B={'9' * 5000}", "expected NAME=NUMBER of at most 18 digits, such as N=8, got 'B=999"),
        ("=3", "expected NAME=NUMBER"),
        ("B=-1", "expected NAME=NUMBER"),
        ("K=3", "expected a size of the model ('S', 'B', "),
    ],
)
def test_a_wrong_size_is_refused(tmp_path: Path, command: Command, option: str, words: str) -> None:
    onnx.save(parsed(SIZES), tmp_path / "model.onnx")
    ended = command("explain", tmp_path / "model.onnx", "--size", option)
    assert (ended.code, ended.out) == (2, "")
    assert words.split("(", maxsplit=1)[0] in " ".join(ended.err.replace("│", " ").split())
    descriptor = tmp_path / "one.json"
    descriptor.write_text("{}")
    assert "is for ONNX models" in " ".join(command("explain", descriptor, "--size", "N=3").err.split())


@pytest.mark.parametrize(
    ("sizes", "reason"),
    [
        (["N=0", "K=1"], r"EXP102 data\.shape\[0\]: expected at least 1, got 0 in \[0, 4\]"),
        (["N=99999999999", "K=1"], r"EXP107 data\.shape: .* got 399999999996 from the first to the last"),
        (["N=2", "K=1"], None),
    ],
)
def test_why_no_level_takes_a_node_of_these_sizes(tmp_path: Path, command: Command, sizes: list[str], reason: str | None) -> None:
    """Judge: DirectML's documents, whose sizes begin at 1 and whose tensors have less than 2^32 elements."""
    onnx.save(parsed("g (float[N,4] x, int64[K] i) => (float[K,4] z) { [rows] z = Gather(x, i) }"), tmp_path / "m.onnx")
    options = [part for size in sizes for part in ("--size", size)]
    title = command("explain", tmp_path / "m.onnx", *options).out.splitlines()[1]
    expected = "Gather-13, lowest feature level 1_0" if reason is None else f"Gather-13, which no feature level takes: {reason}"
    assert re.match(expected, title)
    (entry,) = json.loads(command("explain", tmp_path / "m.onnx", *options, "--json").out)
    jsonschema.validate([entry], schema_of(Schema.EXPLANATION))
    assert ("reason" in entry) is (reason is not None)
    assert entry.get("reason", "") in title


def test_a_size_has_one_value(tmp_path: Path, command: Command) -> None:
    onnx.save(parsed(SIZES), tmp_path / "model.onnx")
    ended = command("explain", tmp_path / "model.onnx", "--size", "B=3", "--size", "S=3", "--size", "B=4")
    assert (ended.code, ended.out) == (2, "")
    assert "expected one value of 'B', got 3 and 4" in " ".join(ended.err.split())


def test_sizes_that_break_a_rule(tmp_path: Path, command: Command) -> None:
    onnx.save(
        parsed("g (float[1,C,2,2] X) => (float[A,D,E,F] Z) { [b] Z = DepthToSpace<blocksize = 2>(X) }"), tmp_path / "m.onnx"
    )
    assert command("explain", tmp_path / "m.onnx", "--size", "C=8").out.count("\nplan ") == 1
    assert "it breaks a rule of its operator with C = 7" in command("explain", tmp_path / "m.onnx", "--size", "C=7").out


_TYPES = "g (float[5,4] x, int64[2] i) => (float[2,4] z)"
WRONG = {
    "an index out of range": "g (float[5,4] x) => (float[2,4] z) <int64[2] i = {0, 5}> { [a] z = Gather(x, i) }",
    "a wrong type": f"{_TYPES.replace('(float[2,4] z)', '(int64[2,4] z)')} {{ [a] z = Gather(x, i) }}",
    "a name that is defined nowhere": f"{_TYPES} {{ [a] z = Gather(x, k) }}",
    "an axis that data lacks": f"{_TYPES} {{ [a] z = Gather<axis = 9>(x, i) }}",
    "an undefined name elsewhere": f"{_TYPES} {{ [a] z = Gather(x, i) y = Relu(w) }}",
    "two nodes of one name": f"{_TYPES} {{ [a] z = Gather(x, i) [b] y = Relu(x) [b] w = Relu(y) }}",
}


@pytest.mark.parametrize("case", WRONG)
def test_errors_are_told_as_check_tells_them(tmp_path: Path, command: Command, case: str) -> None:
    """Exit code 1, as of check; a plan of a wrong node is not shown."""
    onnx.save(parsed(WRONG[case]), tmp_path / "model.onnx")
    ended, checked = command("explain", tmp_path / "model.onnx"), command("check", tmp_path / "model.onnx")
    assert (ended.code, checked.code) == (1, 1)
    (fix,) = set(re.findall(r"fix +(.*)", checked.out))
    assert fix.split(",")[0][:40] in ended.out + ended.err
    assert ("\nplan " in ended.out) is (case in ("an undefined name elsewhere", "two nodes of one name"))


def test_what_cannot_be_understood_is_named(tmp_path: Path, command: Command) -> None:
    damaged = tmp_path / "damaged.onnx"
    damaged.write_bytes(b"\x00\x01")
    image = tmp_path / "image.png"
    image.write_bytes(b"\x89PNG\r\n")
    for file, words in ((damaged, "damaged"), (image, "is not UTF-8 text: byte 0x89")):
        ended = command("explain", file)
        assert (ended.code, ended.out) == (2, "")
        assert words in ended.err
    empty = tmp_path / "empty.onnx"
    graph = helper.make_graph([], "graph", [], [])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), empty)
    nothing = command("explain", empty)
    assert (nothing.code, nothing.out) == (0, "")
    assert "no indexing operators" in nothing.err


def test_strings_are_not_explained(tmp_path: Path, command: Command) -> None:
    graph = helper.make_graph(
        [helper.make_node("Gather", ["x", "i"], ["y"], name="words")],
        "graph",
        [
            helper.make_tensor_value_info("x", TensorProto.STRING, [3]),
            helper.make_tensor_value_info("i", TensorProto.INT64, [2]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.STRING, [2])],
    )
    file = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), file)
    ended = command("explain", file)
    assert ended.code == 0
    assert "not explained: its data are strings" in ended.out


@pytest.mark.parametrize("sizes", [[2**60], [2**62], [2**63 - 1], [2**62, 2**62], [2**60 - 1]])
def test_a_tensor_that_no_memory_holds_is_not_explained(sizes: list[int], tmp_path: Path, command: Command) -> None:
    """The last one has 4 bytes less than the limit."""
    rank = len(sizes)
    graph = helper.make_graph(
        [helper.make_node("Gather", ["x", "i"], ["y"], name="large")],
        "graph",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, sizes),
            helper.make_tensor_value_info("i", TensorProto.INT64, [2]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * rank)],
    )
    file = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), file)
    ended = command("explain", file)
    assert (ended.code, ended.err) == (0, "")
    assert ("which no memory holds" in ended.out) == (np.prod(sizes, dtype=object) * 4 >= 2**62)


@pytest.mark.slow
def test_without_the_extra_the_message_is_that_of_check(model: Path, tmp_path: Path) -> None:
    """A module that cannot be imported stands for the package that is missing."""
    (tmp_path / "onnx.py").write_text("raise ImportError('No module named onnx')")
    ended = {
        name: process(name, model, cwd=tmp_path, PYTHONPATH=os.pathsep.join(map(str, (tmp_path, ROOT))))
        for name in ("explain", "check")
    }
    for each in ended.values():
        assert each.code == 2
        assert "(dmlgather's extra onnx)" in each.err
    assert ended["explain"].err.splitlines()[0] in ended["check"].err.splitlines()


def test_the_legend_is_text(model: Path, command: Command) -> None:
    ended = command("explain", model, "--json", "--legend")
    assert (ended.code, ended.out) == (2, "")
    assert "one of --json and --legend" in " ".join(ended.err.replace("│", " ").split())
