"""Rules of the provider for sizes that have names: the stated conditions are those of the same model with numbers."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from dmlgather.onnx_checking.checked_model import ProviderVerdict
from dmlgather.onnx_checking.provider.sizes import window
from tests.onnx_checking.following import ran
from tests.onnx_checking.modelling import parsed
from tests.onnx_checking.provider.asking import asked, codes, only, summary
from tests.onnx_checking.sessions import loads
from tests.seeds import rng

SIZES = range(1, 9)
FAR = (-(2**63), -(2**31), -(2**31) + 1, 2**31 - 1)


def _slice(size: object, start: int, end: int, step: int) -> str:
    bounds = f"int64[1] s = {{{start}}}, int64[1] e = {{{end}}}, int64[1] a = {{0}}, int64[1] t = {{{step}}}"
    return f"g (float[{size}] x) => (float[A] z) <{bounds}> {{ z = Slice(x, s, e, a, t) }}"


NOTED = [(-3, -5, -1), (-3, -99, -1), (-(2**63), -1, 1), (-(2**31), -3, 2), (-(2**63), -(2**63), -1), (-4, -6, -2), (2, -5, -1)]


@pytest.mark.parametrize("bounds", NOTED, ids=str)
def test_a_start_before_the_axis(tmp_path: Path, bounds: tuple[int, int, int]) -> None:
    _check_conditions(tmp_path, *bounds)


def test_random_slices(tmp_path: Path) -> None:
    drawing, bounds = rng(), [*range(-7, 8), *FAR]
    for _ in range(15):
        _check_conditions(tmp_path, drawing.choice(bounds), drawing.choice(bounds), drawing.choice((-3, -1, 1, 2)))


def _check_conditions(tmp_path: Path, start: int, end: int, step: int) -> None:
    """Check the conditions on N. onnxruntime counts the elements by ONNX's rule; the provider's source counts its own."""
    bounds = (start, end, step)
    found = asked(tmp_path, _slice("N", *bounds))
    findings = [finding for finding in found.findings if finding.code == "ORT204"]
    (said,) = [re.sub(".*unlike ONNX(, for )?", "", finding.got) for finding in findings] or ["N = 0"]
    condition, _, failure = said.partition("; ")  # where onnxruntime's graph has the number of elements, the run fails
    for size in SIZES:
        result = ran(parsed(_slice(size, *bounds)), {"x": np.zeros(size, np.float32)})
        assert result is not None
        theirs = window(size, start, end, step).size
        # The CPU takes these ends for the front of the axis, which ORT203 is about.
        count = 0 if step < 0 and end == 2**31 - 1 else len(result["z"])
        assert _holds(condition, size) is (theirs != count), (bounds, size, condition)
        assert theirs in (0, count)
    if findings and "ORT301" not in codes(found):
        assert (only(found).verdict, only(found).sometimes) == (
            ProviderVerdict.FAILS if failure else ProviderVerdict.DIFFERS,
            bool(condition),
        )


def _holds(condition: str, size: int) -> bool:
    """Return True if a condition such as "1 <= N <= 2" holds for N = `size`. An empty one always holds."""
    numbers = [size if part == "N" else int(part) for part in re.split(" [<>]?= ", condition)] if condition else []
    pairs = zip(numbers, numbers[1:], re.findall(" ([<>]?=) ", condition), strict=False)
    return all(one >= two if sign == ">=" else one <= two if sign == "<=" else one == two for one, two, sign in pairs)


def test_a_start_before_the_axis_where_the_model_states_the_size(tmp_path: Path) -> None:
    """The comparison of sizes fails for the sizes in the condition."""
    found = asked(tmp_path, _slice("N", -3, -5, -1).replace("[A]", "[1]"))
    node = only(found)
    assert (node.verdict, node.codes[0], node.sometimes) == (ProviderVerdict.FAILS, "ORT204", True)
    (finding,) = (each for each in found.findings if each.code == "ORT204")
    assert finding.got.endswith("for 1 <= N <= 2; the run fails: 0x80070057")
    assert finding.remedy == "compute the start, Max(-3, -N), which means the same in ONNX"
    assert summary(found).text == "0 nodes on DirectML, 0 on the CPU, 1 fails in some runs"


def test_the_remedy_for_a_start_before_the_axis(tmp_path: Path) -> None:
    """The computed start gives the same elements in onnxruntime, and is never before the axis."""
    computed = parsed("""g (float[N] x) => (float[A] z)
        <int64[1] s = {-3}, int64[1] e = {-5}, int64[1] a = {0}, int64[1] t = {-1}> {
        n = Shape(x) m = Neg(n) f = Max(s, m) z = Slice(x, f, e, a, t) }""")
    assert not codes(asked(tmp_path, computed))
    for size in SIZES:
        feeds = {"x": np.arange(size, dtype=np.float32)}
        one, two = ran(computed, feeds), ran(parsed(_slice(size, -3, -5, -1)), feeds)
        assert one is not None
        assert two is not None
        assert one["z"].tolist() == two["z"].tolist()
        assert window(size, max(-3, -size), -5, -1).size == len(one["z"])


ELEMENTS = "g (float[{},{}] x, int32[{},{}] i) => (float[A,B] z) {{ z = GatherElements<axis = {}>(x, i) }}"


@pytest.mark.parametrize(
    ("sizes", "axis", "condition"),
    [
        (("N", "M", "K", "L"), 1, "K = N"),
        (("N", "M", "K", "L"), -2, "L = M"),
        (("N", 3, "K", 5), 1, "K = N"),
        ((5, 3, "K", 2), 1, "K = 5"),
        (("N", 3, 2, 2), 1, "N = 2"),
        (("N", "M", "N", "L"), 1, None),
        (("N", "M", "K", "M"), 0, None),
    ],
)
def test_gather_elements(tmp_path: Path, sizes: tuple[object, ...], axis: int, condition: str | None) -> None:
    """The provider needs equal sizes except along the axis; onnxruntime's CPU runs smaller indices, too."""
    found = asked(tmp_path, ELEMENTS.format(*sizes, axis))
    assert codes(found) == (set() if condition is None else {"ORT110"})
    if condition is not None:
        (finding,) = (each for each in found.findings if each.code == "ORT110")
        assert finding.got.endswith(f"the run fails: 0x80070057, unless {condition}")
        assert (only(found).verdict, only(found).sometimes) == (ProviderVerdict.FAILS, True)
        assert summary(found).text == "0 nodes on DirectML, 0 on the CPU, 1 fails in some runs"
    numbers = {"N": 4, "M": 4, "K": 2, "L": 2}
    smaller = ELEMENTS.format(*(numbers.get(str(size), size) for size in sizes), axis)
    model = parsed(smaller)
    assert loads(model)
    assert codes(asked(tmp_path, model)) == (set() if condition is None else {"ORT106"})


def test_sizes_that_always_differ_are_an_error(tmp_path: Path) -> None:
    text = """g (float[N,3] x, int32[N,2] i, float[M,3] w) => (float[A,B] z) {
        y = Concat<axis = 0>(x, x, w) z = GatherElements<axis = 1>(y, i) }"""
    found = asked(tmp_path, text.replace("[M,3]", "[1,3]"))
    assert codes(found) == {"ORT106"}
    assert codes(asked(tmp_path, text)) == {"ORT110"}


def test_a_number_stated_behind_a_slice_holds_in_some_runs(tmp_path: Path) -> None:
    """onnxruntime's CPU counts the elements; the number must be right under the condition, and wrong elsewhere."""
    text = "g (float[{}] x) => (float[{}] z) <int64[1] s = {{1}}, int64[1] e = {{99}}> {{ z = Slice(x, s, e) }}"
    found = asked(tmp_path, text.format("N", 4))
    assert (only(found).verdict, only(found).sometimes) == (ProviderVerdict.FAILS, True)
    (finding,) = (each for each in found.findings if each.code == "ORT102")
    condition = "max(0, min(98, N - 1)) = 4"
    assert finding.got.endswith(f"the run fails: 0x80070057, unless {condition}")
    for size in SIZES:
        result = ran(parsed(text.format(size, "A")), {"x": np.zeros(size, np.float32)})
        assert result is not None
        assert (len(result["z"]) == 4) is (max(0, min(98, size - 1)) == 4)
