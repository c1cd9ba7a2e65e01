"""`dmlgather explain` on ONNX models. Judges: the models as written here, and NumPy."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmlgather as dg
from dmlgather.cli.schema import Schema
from tests.cli.command import ROOT, Command, process
from tests.diagram.parsed import Picture
from tests.dxdispatch.models import write
from tests.onnx_checking.modelling import saved

TABLE = np.arange(12, dtype=np.float32).reshape(3, 4) / 2
ROWS = np.array([2, 0, -1])


MODEL = f"""<ir_version: 9, opset_import: ["" : 18]> graph (float[N,4] n, int64[1] q, float[1,4,2,2] image) =>
    (float a, float b, float c, float d, float e, float f, float g)
    <float[3,4] x={{{",".join(map(str, TABLE.flat))}}}, int64[3] i={{2, 0, -1}}, int64[1] one={{1}}, int64[1] far={{99}}> {{
        [rows] a = Gather<axis = 0>(x, i)
        [cut] b = Slice(x, one, far)
        [open] c = Gather(n, i)
        [dynamic] d = Slice(x, q, far)
        [wrong] e = DepthToSpace<blocksize = 3>(image)
        [behind] g = Gather<axis = 1>(d, i)
        f = Relu(x)
    }}"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Nodes that are known, of unknown size, of unknown bounds, wrong, and outside the family."""
    return saved(tmp_path, MODEL)


def _explained(command: Command, folder: Path, text: str, *options: str) -> dict[str, Any]:
    """What is said of each node of a model, by its name."""
    return {entry["name"]: entry for entry in command.report(Schema.EXPLANATION, "explain", saved(folder, text), *options)}


def test_each_known_node_is_explained(model: Path, command: Command) -> None:
    """The plans are those of the eager functions; three nodes are not known, and one is wrong."""
    entries = {entry["name"]: entry for entry in command.report(Schema.EXPLANATION, "explain", model, code=1)}
    assert list(entries) == ["rows", "cut", "open", "dynamic", "wrong", "behind"]
    assert entries["rows"]["plan"] == str(dg.onnx.gather.plan(((3, 4), "float32"), ((3,), "int64"), axis=0))
    assert (entries["rows"]["operator"], entries["rows"]["lowest_level"]) == ("Gather-13", "1_0")
    assert entries["rows"]["bytes_moved"]["total"] == ROWS.nbytes + 2 * TABLE[ROWS].nbytes
    assert entries["cut"]["bytes_moved"]["total"] == 2 * TABLE[1:].nbytes
    for name, reason in {
        "open": "N must be known: for example, explain it with --size N=8$",
        "dynamic": "the model does not state starts: make 'q' a Constant",
        "behind": r"(\w+) must be known: \1 is a size that Slice 'dynamic' gives, which only a run shows; .* --size \1=8$",
        "wrong": ".*multiples of 9",
    }.items():
        assert re.match(reason, entries[name]["reason"])


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
    assert "'rows', 'cut', 'open', 'dynamic', 'wrong', 'behind'" in command.refused("explain", model, "--node", "nothing")


def test_a_picture_shows_one_node_with_its_constants(model: Path, tmp_path: Path, command: Command) -> None:
    target = tmp_path / "out.svg"
    assert "select one with --node" in command.refused("explain", model, "--picture", target)
    assert "open cannot be drawn: N must be known" in command.refused("explain", model, "--picture", target, "--node", "open")
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
    entries = _explained(command, tmp_path, text)
    assert entries["size"]["operator"] == "Gather-13"
    assert "the model does not state ends" in entries["open"]["reason"]


def test_a_node_that_no_run_reaches_is_not_explained(tmp_path: Path, command: Command) -> None:
    text = """agraph (float[4] X) => (float[2] Z) <bool always = {1}, int64[2] i = {0, 1}> {
        Z = If<then_branch = t () => (float[2] a) { [chosen] a = Gather(X, i) },
               else_branch = e () => (float[2] b) { [passed] b = Gather(X, i) }>(always) }"""
    entries = _explained(command, tmp_path, text)
    assert entries["If_0.then_branch/chosen"]["operator"] == "Gather-13"
    assert entries["If_0.else_branch/passed"]["reason"] == "no run of the model reaches it"


def test_a_bound_that_is_a_size_must_be_known(tmp_path: Path, command: Command) -> None:
    text = """agraph (float[8,4] X, int64[B,past] a, int64[B,seq] b) => (float[M,4] Y, float[K,4] Z)
        <int64[1] zero = {0}, int64[1] one = {1}> {
        s = Shape(a) t = Shape(b) p = Gather(s, one) q = Gather(t, one) n = Add(p, q)
        [head] Y = Slice(X, zero, q) [both] Z = Slice(X, zero, n) }"""
    entries = _explained(command, tmp_path, text)
    assert entries["head"]["reason"] == "seq must be known: for example, explain it with --size seq=8"
    known = "past + seq must be known: for example, explain it with --size past=8 --size seq=8"
    assert entries["both"]["reason"] == known


SIZES = """agraph (float[B,S] X, float[S] mask) => (float[A,C] Z, float[8] Y)
    <int64[1] zero = {0}, int64[1] one = {1}, int64[1] three = {3}, float[8] table = {1,2,3,4,5,6,7,8}> {
    nz = NonZero(mask) s = Shape(nz) n = Gather(s, one)
    [some] Z = Slice(X, zero, n, one) [first] Y = Slice(table, zero, n) }"""
"""Slices up to a number of elements that only a run shows."""


def test_sizes_are_given_with_the_options_in_the_advice(tmp_path: Path, command: Command) -> None:
    """Judge: the plans of the eager functions for these sizes."""
    entries = _explained(command, tmp_path, SIZES)
    some, first = entries["some"]["reason"], entries["first"]["reason"]
    (count,) = re.findall(r"(\w+) is the number", some)
    assert some == (
        f"B and S and {count} must be known: {count} is the number of elements that NonZero 'NonZero_0' finds, which only a run "
        f"shows; for example, explain it with --size B=8 --size S=8 --size {count}=8"
    )
    assert first.endswith(f"finds, which only a run shows; for example, explain it with --size {count}=8")
    advised = shlex.split(some.partition("explain it with ")[2])
    for options, sizes in ((advised, (8, 8, 8)), (["--size", "B=2", "--size", "S=5", "--size", f"{count}=3"], (2, 5, 3))):
        entries = _explained(command, tmp_path, SIZES, *options)
        rows, columns, end = sizes
        assert entries["some"]["plan"] == str(dg.onnx.slice.plan(((rows, columns), "float32"), [0], [end], [1]))
        assert entries["first"]["plan"] == str(dg.onnx.slice.plan(((8,), "float32"), [0], [end]))
    one = command("explain", tmp_path / "model.onnx", "--node", "first", "--size", f"{count}=3")
    assert (one.code, "\nSlice-13, lowest feature level 1_0\n" in one.out) == (0, True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["B"], "expected NAME=NUMBER of at most 18 digits, such as N=8, got 'B'"),
        ([f"B={'9' * 5000}"], "expected NAME=NUMBER of at most 18 digits, such as N=8, got 'B=999"),
        (["=3"], "expected NAME=NUMBER"),
        (["B=-1"], "expected NAME=NUMBER"),
        (["K=3"], "expected a size of the model ('S', 'B', "),
        (["B=3", "S=3", "B=4"], "expected one value of 'B', got 3 and 4"),
    ],
)
def test_a_wrong_size_is_refused(tmp_path: Path, command: Command, options: list[str], words: str) -> None:
    said = command.refused("explain", saved(tmp_path, SIZES), *(part for size in options for part in ("--size", size)))
    assert words.split("(", maxsplit=1)[0] in said


def test_sizes_are_for_onnx_models(tmp_path: Path, command: Command) -> None:
    assert "is for ONNX models" in command.refused("explain", write(tmp_path, {}), "--size", "N=3")


@pytest.mark.parametrize(
    ("size", "reason"),
    [
        ("N=0", r"EXP102 data\.shape\[0\]: expected at least 1, got 0 in \[0, 4\]"),
        ("N=99999999999", r"EXP107 data\.shape: .* got 399999999996 from the first to the last"),
        ("N=2", None),
    ],
)
def test_why_no_level_takes_a_node_of_these_sizes(tmp_path: Path, command: Command, size: str, reason: str | None) -> None:
    """Judge: DirectML's documents, whose sizes begin at 1 and whose tensors have less than 2^32 elements."""
    text = "g (float[N,4] x, int64[K] i) => (float[K,4] z) { [rows] z = Gather(x, i) }"
    options = ("--size", size, "--size", "K=1")
    title = command("explain", saved(tmp_path, text), *options).out.splitlines()[1]
    expected = "Gather-13, lowest feature level 1_0" if reason is None else f"Gather-13, which no feature level takes: {reason}"
    assert re.match(expected, title)
    entry = _explained(command, tmp_path, text, *options)["rows"]
    assert ("reason" in entry) is (reason is not None)
    assert entry.get("reason", "") in title


def test_sizes_that_break_a_rule(tmp_path: Path, command: Command) -> None:
    file = saved(tmp_path, "g (float[1,C,2,2] X) => (float[A,D,E,F] Z) { [b] Z = DepthToSpace<blocksize = 2>(X) }")
    assert command("explain", file, "--size", "C=8").out.count("\nplan ") == 1
    assert "it breaks a rule of its operator with C = 7" in command("explain", file, "--size", "C=7").out


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
    file = saved(tmp_path, WRONG[case])
    ended, checked = command("explain", file), command("check", file)
    assert (ended.code, checked.code) == (1, 1)
    (fix,) = set(re.findall(r"fix +(.*)", checked.out))
    assert fix.split(",")[0][:40] in ended.out + ended.err
    assert ("\nplan " in ended.out) is (case in ("an undefined name elsewhere", "two nodes of one name"))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [("damaged.onnx", b"\x00\x01", "damaged"), ("image.png", b"\x89PNG\r\n", "is not UTF-8 text: byte 0x89")],
)
def test_a_file_that_cannot_be_understood(tmp_path: Path, command: Command, name: str, content: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(content)
    assert words in command.refused("explain", tmp_path / name)


def test_a_model_without_nodes_has_nothing_to_explain(tmp_path: Path, command: Command) -> None:
    ended = command("explain", saved(tmp_path, "g (float[4] x) => (float[4] x) { }"))
    assert (ended.code, ended.out) == (0, "")
    assert "no indexing operators" in ended.err


def test_strings_are_not_explained(tmp_path: Path, command: Command) -> None:
    ended = command("explain", saved(tmp_path, "g (string[3] x, int64[2] i) => (string[2] y) { [words] y = Gather(x, i) }"))
    assert ended.code == 0
    assert "not explained: its data are strings" in ended.out


@pytest.mark.parametrize("sizes", [[2**60], [2**62], [2**63 - 1], [2**62, 2**62], [2**60 - 1]])
def test_a_tensor_that_no_memory_holds_is_not_explained(sizes: list[int], tmp_path: Path, command: Command) -> None:
    """The last one has 4 bytes less than the limit."""
    text = f"g (float[{','.join(map(str, sizes))}] x, int64[2] i) => (float y) {{ [large] y = Gather(x, i) }}"
    ended = command("explain", saved(tmp_path, text))
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
    assert "one of --json and --legend" in command.refused("explain", model, "--json", "--legend")
