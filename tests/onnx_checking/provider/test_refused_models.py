"""Models that no session loads, or whose nodes the provider does not run: onnxruntime's CPU provider says which load."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dmlgather.onnx_checking.check import check_model
from dmlgather.onnx_checking.checked_model import ProviderVerdict
from tests.onnx_checking.modelling import checked, findings_of, parsed
from tests.onnx_checking.provider.asking import asked, codes, nodes_of, only
from tests.onnx_checking.sessions import loads, run, session

OPSET_10 = '<ir_version: 9, opset_import: ["" : 10]>'


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("g (float[2,3] x, int32[2] i) => (int64[2,3] z) { z = Gather(x, i) }", "EXP307"),
        ("g (float[2,3] x, int32[2] i) => (float[2,3] z) <int32[2,3] y> { y = Relu(x) z = Gather(y, i) }", "EXP307"),
        (f"{OPSET_10} g (float[2,2] x, int64[2,2] i) => (float[2,2] z) {{ z = GatherElements(x, i) }}", "EXP101"),
        (f"{OPSET_10} g (float[2,2] x, int64[2,1] i) => (float[2,2] z) {{ z = GatherND(x, i) }}", "EXP101"),
    ],
)
def test_no_node_of_a_model_that_does_not_load_runs(tmp_path: Path, text: str, code: str) -> None:
    assert not loads(parsed(text))
    found = asked(tmp_path, text)
    assert (only(found).verdict, only(found).codes) == (ProviderVerdict.FAILS, (code,))
    assert not {each for each in codes(found) if each.startswith("ORT")}
    assert f"({code})" in only(found).text


@pytest.mark.parametrize("size", [5_000_000_000, 2**62, 2**63 - 1])
def test_a_size_that_no_descriptor_can_state(tmp_path: Path, size: int) -> None:
    """onnxruntime loads it; the rest of the file is reported."""
    model = parsed(
        f"g (uint8[{size}] x, int32[2] i, uint8[9] y) => (uint8[2] z, uint8[2] w) {{ z = Gather(x, i) w = Gather(y, i) }}"
    )
    assert loads(model)
    huge, small = nodes_of(asked(tmp_path, model)).values()
    assert (huge.verdict, huge.codes) == (ProviderVerdict.FAILS, ("ORT107",))
    assert small.verdict is ProviderVerdict.FUSED


@pytest.mark.parametrize(("start", "end"), [(0, 2), (1, 3)])
def test_an_index_that_no_size_admits_differs_from_the_cpu(tmp_path: Path, start: int, end: int) -> None:
    model = parsed(f"""g (float[N,3] x) => (float[1,3] z) <int64[1] s = {{{start}}}, int64[1] e = {{{end}}}, int32[1] i = {{7}}>
        {{ y = Slice(x, s, e) z = Gather(y, i) }}""")
    gather = [*nodes_of(asked(tmp_path, model)).values()][1]
    assert (gather.verdict, gather.codes) == (ProviderVerdict.DIFFERS, ("ORT201",))
    for rows in (1, 3, 50):
        with pytest.raises(Exception, match="idx=7 must be within"):
            run(model, {"x": np.zeros((rows, 3), np.float32)})


def test_the_result_of_a_node_with_graphs_is_not_compared(tmp_path: Path) -> None:
    """Its kernel is onnxruntime's own."""
    model = parsed("""g (float[N,3] x, bool c) => (float[1,3] z) {
        z = If(c) <then_branch = t () => (float[a,b] u) { u = Relu(x) }, else_branch = e () => (float[a2,b2] v) { v = Neg(x) }>
    }""")
    found = asked(tmp_path, model)
    assert [finding.code for finding in found.findings] == ["EXP308"]


def test_a_node_that_the_cpu_runs_is_not_said_to_fail(tmp_path: Path) -> None:
    model = parsed("g (string[N,3] x, int64[2] i) => (string[1,2] z) { [pick] z = Gather<axis = 1>(x, i) }")
    found = asked(tmp_path, model)
    (finding,) = (each for each in findings_of(found, "pick") if each.code == "EXP308")
    assert only(found).verdict is ProviderVerdict.TYPE
    assert "0x80070057 if it runs the node" in finding.got


def test_sizes_before_the_first_that_differs_are_filled(tmp_path: Path) -> None:
    """onnxruntime's merge goes from left to right, and its inference goes on with what it has filled."""
    model = parsed("g (float[1,8] x) => (float[?,5] a, float[9,?] b) { a = Relu(x) b = Concat<axis = 0>(a, a) }")
    kept = [[size if isinstance(size, int) else None for size in output.shape] for output in session(model).get_outputs()]
    assert kept == [[1, None], [None, None]]
    got = [finding.got for finding in checked(tmp_path, model).findings]
    assert ["goes on with float[1,?]" in got[0], "goes on with float[?,?]" in got[1]] == [True, True]


def test_a_stale_size_of_top_k_is_found(tmp_path: Path) -> None:
    """A stale size of its result is found, and what is true behind it is not blamed."""
    model = parsed("""g (float[3,4,N] x, int32[2] i) => (float[3,2,1] z) <float[5,4,1] t, int64[1] k = {1}> {
        t, at = TopK<axis = 2>(x, k) z = Gather<axis = 1>(t, i) }""")
    (finding,) = checked(tmp_path, model).findings
    assert (finding.code, finding.expected) == ("EXP306", "'t' of type float[3,4,1], which follows from the inputs of its node")
    ran = run(model, {"x": np.zeros((3, 4, 6), np.float32), "i": np.zeros(2, np.int32)})
    assert ran["z"].shape == (3, 2, 1)


def test_a_damaged_model_is_not_said_to_be_one(tmp_path: Path) -> None:
    model = parsed("g (float[2,3] x, int32[2] i) => (float[2,3] z) { z = Gather(x, i) }").SerializeToString()
    damaged = 0
    for at in range(len(model)):
        path = tmp_path / "model.onnx"
        path.write_bytes(model[:at] + bytes([model[at] ^ 0xFF]) + model[at + 1 :])
        for problem in check_model(path).problems:
            damaged += 1
            assert "is an ONNX model" not in problem.message
    assert damaged > 10
