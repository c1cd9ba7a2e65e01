"""Types of onnxruntime's own operators. Judge: what onnxruntime gives when it runs, and its own shape inference."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import helper

from dmlgather.onnx.problems.subgraphs import operator_name
from dmlgather.onnx_checking.checked_model import Verdict
from dmlgather.onnx_checking.following.operators import OPERATORS
from tests import seeds
from tests.onnx_checking.following import contents_of, differences, known_values, with_outputs
from tests.onnx_checking.modelling import checked, only, parsed
from tests.onnx_checking.optimising import at_sizes, optimised
from tests.onnx_checking.runtime_models import NODES, PATTERNS, SIZES, UNRUN, Case
from tests.onnx_checking.sessions import OFF, REFUSALS, run, session

ROWS = {name: row for name, row in OPERATORS.items() if row.types is not None}
"""onnxruntime's own operators."""

LEVELS = ("extended", "all")


def own_values(model: onnx.ModelProto) -> list[str]:
    """The values that onnxruntime's own operators give."""
    return [name for node in model.graph.node if operator_name(node) in ROWS for name in node.output if name]


def judge(model: onnx.ModelProto, case: Case, folder: Path) -> None:
    """Compare what is known of all values of a model with what they are, with names for its sizes and with numbers."""
    rng = seeds.numpy_rng()
    shown = with_outputs(model)
    known, sizes = known_values(model, folder)
    own = own_values(model)
    for name in own:
        assert known[name].type.dtype is not None, name
        assert known[name].type.shape is not None, name
    for number in range(2):
        feeds = case.feeds(number, rng)
        got = run(shown, feeds, OFF)
        assert not list(differences(known, sizes, got, {name: each[number] for name, each in SIZES.items()}))
        stated, _ = known_values(at_sizes(model, feeds), folder)
        for name in own:
            assert (stated[name].type.shape, stated[name].type.dtype) == (got[name].shape, got[name].dtype), name


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_types_follow_after_optimisations(pattern: str, level: str, tmp_path: Path) -> None:
    case = PATTERNS[pattern]
    model = optimised(case.model(seeds.numpy_rng()), level)
    assert own_values(model) or level != "all"
    judge(model, case, tmp_path)


@pytest.mark.parametrize("node", NODES)
def test_types_follow_for_a_node(node: str, tmp_path: Path) -> None:
    judge(NODES[node].model(seeds.numpy_rng()), NODES[node], tmp_path)


NAMED: Mapping[str, tuple[str, tuple[int | str, ...]]] = {
    "gelu": ("Z", ("N", "S", 8)),
    "product of scaled and transposed": ("Z", ("N", "S", "T")),
    "product of two transposed": ("Z", ("N", 4, "S", "T")),
    "product of transposed batches": ("Z", ("N", 3, "S", "T")),
    "quantized concat": ("Z_q", ("N", "S + T", 8)),
    "quantized mean of all pixels": ("Z_q", ("N", 4, 1, 1)),
    "attention with other values, and a past": ("p", (2, "N", 2, "P + S", 8)),
    "attention to keys": ("v", ("N", 2, "T", 6)),
    "embeddings": ("m", ("N",)),
    "quantized lstm": ("Z", ("S", 2, "N", 6)),
    "rows of 4 bits": ("Z", ("N", "S", 32)),
}
"""A value of a pattern or node, and its sizes."""


@pytest.mark.parametrize("name", NAMED)
def test_sizes_with_names_follow(name: str, tmp_path: Path) -> None:
    case, (value, shape) = {**PATTERNS, **NODES}[name], NAMED[name]
    model = case.model(seeds.numpy_rng())
    known, _ = known_values(optimised(model, "extended") if name in PATTERNS else model, tmp_path)
    assert known[value].type.shape == shape


@pytest.mark.parametrize("node", UNRUN)
def test_shapes_follow_as_onnxruntime_infers_them(node: str, tmp_path: Path) -> None:
    case, shape = UNRUN[node]
    model = case.model(seeds.numpy_rng())
    known, _ = known_values(model, tmp_path)
    assert known["Z"].type.shape == shape
    element = known["Z"].type.dtype
    assert "ShapeInferenceError" not in refusal(model, shape, element)
    assert "ShapeInferenceError" in refusal(model, (*shape[:-1], shape[-1] + 1), element)


HEAD = '<ir_version: 9, opset_import: ["" : 17, "com.microsoft" : 1, "com.microsoft.nchwc" : 1]>'


def test_a_function_of_the_model_hides_an_operator(tmp_path: Path) -> None:
    function = (
        '<domain: "com.microsoft", opset_import: ["" : 17]> Gelu (x) => (y) { y = Transpose(x) }'  # which gives another shape
    )
    model = parsed(
        f"{HEAD} m (float[N,8] X, int64[3] i) => (float[a,b] Z) {{ g = com.microsoft.Gelu(X) Z = Gather(g, i) }} {function}"
    )
    assert only(checked(tmp_path, model)).inputs[0].shape == (8, "N")


@pytest.mark.parametrize("body", ["then_branch", "else_branch"])
def test_types_follow_inside_a_branch(tmp_path: Path, body: str) -> None:
    other = "else_branch" if body == "then_branch" else "then_branch"
    inner = "{ q = com.microsoft.QuickGelu(X) r = Gather(q, i) }"
    model = parsed(
        f"{HEAD} m (float[N,8] X, int64[3] i, bool c) => (float[3,8] Z) {{ Z = If(c) "
        f"<{body} = a () => (float[3,8] r) {inner}, {other} = b () => (float[3,8] s) {{ s = Gather(X, i) }}> }}"
    )
    assert {node.inputs[0].shape for node in checked(tmp_path, model).nodes} == {("N", 8)}


ILL_FORMED = {
    "weights without dimensions": "Y = com.microsoft.FusedConv(X, s)",
    "no factor": "Y = com.microsoft.FusedMatMul(X)",
    "no input": "Y = com.microsoft.Gelu()",
    "no number of heads": "Y = com.microsoft.Attention(X, X, i)",
    "0 heads": "Y = com.microsoft.MultiHeadAttention<num_heads = 0>(X, X, X)",
    "a number of columns below 0": "Y = com.microsoft.MatMulNBits<N = -3, K = 8>(X, X, X)",
    "a text for a number": 'Y = com.microsoft.nchwc.ReorderOutput<channels = "x">(X)',
    "too few hidden sizes": "Y = com.microsoft.Attention<num_heads = 2, qkv_hidden_sizes = [4]>(X, X, i)",
    "elements of 0 bits": "Y = com.microsoft.GatherBlockQuantized<bits = 0>(B, i, X)",
    "scales of another rank": "Y = com.microsoft.nchwc.Upsample<scales = [2]>(X)",
    "no dimension": "Y = com.microsoft.nchwc.ReorderInput(s)",
    "no part": "Y = com.microsoft.QLinearConcat(s, s)",
}


@pytest.mark.parametrize("node", ILL_FORMED.values(), ids=ILL_FORMED)
def test_nothing_follows_for_an_ill_formed_node(tmp_path: Path, node: str) -> None:
    model = parsed(f"{HEAD} m (float[4,8] X, int64[3] i, uint8[4,8] B, float s) => (float[a,b] Z) {{ {node} Z = Gather(Y, i) }}")
    (found,) = contents_of(model, tmp_path).nodes
    assert all(not isinstance(size, int) or size >= 0 for size in found.inputs[0].type.shape or ())


def test_a_gather_behind_an_optimised_convolution_is_decided(tmp_path: Path) -> None:
    model = parsed(
        f"{HEAD} m (float[1,4,9,9] X, float[6,4,3,3] W, int64[2] i) => (float[a,b,c,d] Z) "
        "{ c = Conv(X, W) r = Relu(c) Z = Gather<axis = 1>(r, i) }"
    )
    changed = optimised(model, "extended")
    assert [node.op_type for node in changed.graph.node] == ["FusedConv", "Gather"]
    found = only(checked(tmp_path, changed))
    assert (found.verdict, found.inputs[0].shape) == (Verdict.TAKEN, (1, 6, 7, 7))


def refusal(model: onnx.ModelProto, shape: tuple[int, ...], element: Any) -> str:
    """Why onnxruntime does not take a model whose output is declared to have a shape and a type; empty where it does."""
    declared = onnx.ModelProto.FromString(model.SerializeToString())
    declared.graph.output[0].CopyFrom(helper.make_tensor_value_info("Z", helper.np_dtype_to_tensor_dtype(element), shape))
    try:
        session(declared, strict=True)
    except REFUSALS as error:
        return str(error)
    return ""


def test_each_row_is_judged() -> None:
    judged = {operator_name(node) for case, _ in UNRUN.values() for node in case.model(seeds.numpy_rng()).graph.node}
    judged |= {operator_name(node) for case in NODES.values() for node in case.model(seeds.numpy_rng()).graph.node}
    for case in PATTERNS.values():
        for level in LEVELS:
            judged |= {operator_name(node) for node in optimised(case.model(seeds.numpy_rng()), level).graph.node}
    assert ROWS.keys() <= judged


def test_the_page_names_each_operator() -> None:
    page = (Path(__file__).parents[2] / "docs" / "onnx-known.md").read_text(encoding="utf-8")
    section = page.partition("## onnxruntime's own operators")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (?:`([\w.]+)`|ONNX's own).*? \| (.*) \|$", section, re.MULTILINE)
    names = [f"{domain}.{name.partition(' ')[0]}".lstrip(".") for domain, names in rows for name in names.split(", ")]
    assert sorted(names) == sorted(ROWS)
