"""The provider's rules: onnxruntime's own tests that are skipped for it, or not, and reports of its users, with their known
outcome; and which rule finds what.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dmlgather.onnx_checking.checked_model import Certainty, ProviderVerdict
from dmlgather.onnx_checking.provider import rules
from dmlgather.onnx_checking.provider.case import NUMBER
from dmlgather.onnx_checking.provider.rules import RULES
from tests.onnx_checking.modelling import parsed
from tests.onnx_checking.provider.asking import asked, codes, only
from tests.onnx_checking.provider.test_findings_page import MODELS
from tests.onnx_checking.sessions import loads

V = ProviderVerdict


def _slice(size: int | str, start: int, end: int, step: int | None = None, kind: str = "int64") -> str:
    bounds = f"{kind}[1] s = {{{start}}}, {kind}[1] e = {{{end}}}"
    if step is None:
        return f"g (float[{size}] x) => (float[A] z) <{bounds}> {{ z = Slice(x, s, e) }}"
    bounds = f"{bounds}, {kind}[1] a = {{0}}, {kind}[1] t = {{{step}}}"
    return f"g (float[{size}] x) => (float[A] z) <{bounds}> {{ z = Slice(x, s, e, a, t) }}"


SKIPPED = {
    "GatherElements with fewer rows of indices": (
        "g (float[2,3] x, int32[1,2] i) => (float[1,2] z) { z = GatherElements<axis = 1>(x, i) }",
        V.FAILS,
        "ORT106",
    ),
    "Slice, reversed to INT32_MAX": (_slice(4, -1, 2**31 - 1, -1, "int32"), V.DIFFERS, "ORT203"),
    "Slice, reversed to INT64_MAX": (_slice(4, -1, 2**63 - 1, -1), V.DIFFERS, "ORT203"),
    "Slice, reversed to INT64_MIN": (_slice(4, -1, -(2**63), -1), V.UNCLEAR, "ORT301"),
    "Slice, two of three axes reversed to INT64_MIN": (
        "g (float[2,3,4] x) => (float[A,B,C] z) <int64[2] s = {-1, -1}, int64[2] e = {-9223372036854775808, "
        "-9223372036854775808}, int64[2] a = {0, 2}, int64[2] t = {-1, -1}> { z = Slice(x, s, e, a, t) }",
        V.UNCLEAR,
        "ORT301",
    ),
    "Slice, steps without axes": (
        "g (float[4] x) => (float[A] z) <int64[1] s = {0}, int64[1] e = {4}, int64[1] t = {2}> { z = Slice(x, s, e, , t) }",
        V.FAILS,
        "ORT105",
    ),
}
"""Tests that onnxruntime skips for the provider, with what the comment there says."""

NOT_SKIPPED = {
    "GatherElements with as many rows": "g (float[2,3] x, int32[2,7] i) => (float[2,7] z) { z = GatherElements<axis = 1>(x, i) }",
    "Slice, reversed to INT32_MIN": _slice(4, -1, -(2**31), -1),
    "Slice, reversed to -5": _slice(4, -1, -5, -1),
    "Slice to INT64_MAX": _slice(4, 1, 2**63 - 1),
    "Slice by a large step": _slice(4, 0, 4, 2**63 - 1),
    "Gather by negative indices": "g (float[4] x) => (float[2] z) <int32[2] i = {-1, -4}> { z = Gather(x, i) }",
    "Gather by a scalar": "g (float[4] x, int32 i) => (float z) { z = Gather(x, i) }",
    "DepthToSpace": "g (float[1,4,2,2] x) => (float[1,1,4,4] z) { z = DepthToSpace<blocksize = 2>(x) }",
    "SpaceToDepth": "g (float[1,1,4,4] x) => (float[1,4,2,2] z) { z = SpaceToDepth<blocksize = 2>(x) }",
}
"""Tests that it runs with the provider."""

REPORTS = {
    "6075: a number in the place of a length": (
        "g (float[N,8] x, int32[1] i) => (float[8,1] z) { z = Gather<axis = 1>(x, i) }",
        V.FAILS,
        {"ORT102"},
    ),
    "25251: an index out of range": (
        "g (float[4] x) => (float[1] z) <int32[1] i = {4}> { z = Gather(x, i) }",
        V.DIFFERS,
        {"ORT201"},
    ),
    "11107: a reversal to INT_MAX": (_slice(4, -1, 2**31 - 1, -1), V.DIFFERS, {"ORT203"}),
    "16863: nodes of shapes": ("g (float[N] x) => (int64 z) <int64 i = {0}> { s = Shape(x) z = Gather(s, i) }", V.SHAPE, set()),
    "21013: a size for Unsqueeze": (
        "g (float[N,3] x) => (int64[1] z) <int64 i = {0}, int64[1] a = {0}> "
        "{ s = Shape(x) n = Gather(s, i) z = Unsqueeze(n, a) }",
        V.SHAPE,
        set(),
    ),
    "14550: a dynamic axis": ("g (float[N,3] x, int32[1] i) => (float[1,3] z) { z = Gather(x, i) }", V.SINGLE, set()),
}
"""Reports of users, by their number at microsoft/onnxruntime."""


@pytest.mark.parametrize("case", SKIPPED)
def test_a_test_that_onnxruntime_skips_breaks_a_rule(tmp_path: Path, case: str) -> None:
    model, verdict, code = SKIPPED[case]
    found = asked(tmp_path, model)
    assert codes(found) == {code}
    node = only(found)
    assert (node.verdict, node.codes) == (verdict, (code,))
    assert (NUMBER in node.text) is (verdict is V.FAILS)
    assert (node.certainty is Certainty.UNKNOWN) is (verdict is V.UNCLEAR)


@pytest.mark.parametrize("case", NOT_SKIPPED)
def test_a_test_that_it_runs_breaks_none(tmp_path: Path, case: str) -> None:
    found = asked(tmp_path, NOT_SKIPPED[case])
    assert not codes(found)
    assert only(found).verdict is V.FUSED


@pytest.mark.parametrize("case", REPORTS)
def test_reports(tmp_path: Path, case: str) -> None:
    model, verdict, expected = REPORTS[case]
    found = asked(tmp_path, model)
    assert codes(found) == expected
    assert only(found).verdict is verdict


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.code}-{rule.verdict}")
def test_a_rule_that_finds_nothing_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: rules.ProviderRule) -> None:
    """Each rule is broken once, and the model that is to fail does not any more."""
    failing = OPEN.get((rule.code, rule.verdict, rule.sometimes), MODELS[rule.code][0][1])
    assert rule.code in codes(asked(tmp_path, failing))
    blind = [each._replace(check=lambda _: iter(())) if each is rule else each for each in RULES]
    monkeypatch.setattr(rules, "RULES", tuple(blind))
    assert rule.code not in codes(asked(tmp_path, failing))


_EARLY = "g (float[N] x) => (float[A] z) <int64[1] s = {-9223372036854775807}, int64[1] e = {-1}> { z = Slice(x, s, e) }"
OPEN = {
    ("ORT204", V.DIFFERS, True): _EARLY,
    ("ORT204", V.FAILS, True): _EARLY.replace("[A]", "[3]"),
    ("ORT204", V.DIFFERS, False): _slice("N", -9223372036854775807, -9223372036854775808, -1),
}
"""Models that break a rule where its size is not known before."""


def test_a_start_before_the_axis_where_no_size_is_known(tmp_path: Path) -> None:
    found = asked(tmp_path, _EARLY)
    assert codes(found) == {"ORT204"}
    assert (only(found).verdict, only(found).certainty) == (V.DIFFERS, Certainty.INFERRED)


def test_when_it_fails(tmp_path: Path) -> None:
    """With the session where all is known before; else with the run."""
    text = "g (float[2,{}] x, int32[1,2] i) => (float[1,2] z) {{ z = GatherElements<axis = 1>(x, i) }}"
    assert only(asked(tmp_path, text.format(3))).text == f"the session cannot be created: {NUMBER} (ORT106)"
    assert only(asked(tmp_path, text.format("N"))).text == f"the run fails: {NUMBER} (ORT106)"


ILL_FORMED = {
    "an axis behind the last": "g (float[4] x, int32[2] i) => (float[2] z) { z = Gather<axis = 3>(x, i) }",
    "more batches than dimensions": "g (float[4] x, int64[2,1] i) => (float[2] z) { z = GatherND<batch_dims = 2>(x, i) }",
    "an end too many": "g (float[4] x) => (float[A] z) <int64[1] s = {0}, int64[2] e = {1, 2}> { z = Slice(x, s, e) }",
    "bounds of an axis behind the last": (
        "g (float[4] x) => (float[A] z) <int64[1] s = {0}, int64[1] e = {2}, int64[1] a = {1}> { z = Slice(x, s, e, a) }"
    ),
    "blocks of three dimensions": "g (float[4,2,2] x) => (float[A,B,C] z) { z = DepthToSpace<blocksize = 2>(x) }",
}


@pytest.mark.parametrize("text", ILL_FORMED.values(), ids=ILL_FORMED)
def test_a_node_that_onnx_refuses_breaks_no_rule_of_the_provider(tmp_path: Path, text: str) -> None:
    """onnxruntime is the judge that ONNX refuses it."""
    assert not loads(parsed(text))
    found = asked(tmp_path, text)
    assert (only(found).verdict, only(found).codes) == (V.FAILS, ("EXP101",))
    assert not codes(found)
