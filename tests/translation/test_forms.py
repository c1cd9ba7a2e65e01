"""The form of a translation: the natural operator; clamps, masks and conversions where libraries differ; or a reason."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

import dmlgather as dg
from dmlgather import GatherOperatorDesc
from dmlgather.dialects.planned import Planned
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.dialects.views import ExpandView, ReshapeView, StridedView, TransposeView
from dmlgather.translation.gathering import Fitter
from tests.translation.judging import judge

TABLE, IDS, NARROW = ((5, 4), "float32"), ((3,), "int64"), ((3,), "int8")
ROWS = dg.lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))


def lax_rows(mode: str, ids: Any = ((3, 1), "int64")) -> Problem:
    return dg.lax.gather.problem(TABLE, ids, ROWS, (1, 4), mode=mode)


def strided(shape: tuple[int, ...], strides: tuple[int, ...], data: tuple[int, ...] = (5, 5)) -> Problem:
    return StridedView(TensorType(data, np.dtype(np.float32)), shape, strides)


def planned(problem: Problem) -> Problem:
    """The same, without an operator's name."""
    return Planned(problem.data, None, problem.output, problem.plan())


FORMS: dict[str, tuple[Problem, str, list[str]]] = {
    "a gather stays one": (dg.onnx.gather.problem(TABLE, IDS, axis=1), "openvino", ["Gather-8 (axis 1, batch_dims 0)"]),
    "elements stay elements": (
        dg.openvino.gather_elements.problem(TABLE, ((5, 2), "int32"), 1),
        "onnx",
        ["GatherElements-13 (axis 1)"],
    ),
    "tuples stay tuples": (dg.onnx.gather_nd.problem(TABLE, ((3, 2), "int64")), "openvino", ["GatherND-8 (batch_dims 0)"]),
    "an operator keeps its name": (
        dg.onnx.depth_to_space.problem(((1, 8, 2, 3), "int32"), 2),
        "onnx",
        ["DepthToSpace-13 (blocksize 2, mode DCR)"],
    ),
    "blocks are found by their plan": (
        planned(dg.onnx.depth_to_space.problem(((1, 8, 2, 3), "float32"), 2)),
        "onnx",
        ["DepthToSpace-13 (blocksize 2, mode DCR)"],
    ),
    "DirectML's clamp, signed": (
        dg.onnx.gather.problem(TABLE, IDS, out_of_bounds="clamp"),
        "onnx",
        ["clamp to -5 … 4", "Gather-13 (axis 0)"],
    ),
    "JAX's clamp, which counts nothing from the end": (
        lax_rows("clip"),
        "onnx",
        ["reshape to [3]", "clamp to 0 … 4", "Gather-13 (axis 0)"],
    ),
    "zeros are OpenVINO's own": (
        dg.openvino.gather.problem(TABLE, NARROW, 0),
        "openvino",
        ["Gather-8 (axis 0, batch_dims 0)"],
    ),
    "another fill is selected": (
        dg.openvino.gather.problem(TABLE, IDS, 0, out_of_bounds=dg.Fill(7)),
        "openvino",
        ["clamp to -5 … 4", "equal", "Gather-8 (axis 0, batch_dims 0)", "reshape to [3, 1]", "select, else 7.0"],
    ),
    "zeros for negative indices": (
        dg.openvino.gather.problem(TABLE, IDS, 0, version=7),
        "openvino",
        ["less with 0", "where with 5", "Gather-8 (axis 0, batch_dims 0)"],
    ),
    "JAX counts nothing from the end": (
        dg.openvino.gather.problem(TABLE, ((3,), "int32"), 0),
        "jax",
        ["reshape to [3, 1]", "add with 5", "less with 0", "where", "gather (mode 'fill')"],
    ),
    "JAX's own fill, of indices that JAX makes 32-bit ones": (
        lax_rows("fill"),
        "jax",
        ["clamp to -1 … 5", "gather (mode 'fill')"],
    ),
    "JAX's own fill, of narrow indices": (lax_rows("fill", ((3, 1), "int32")), "jax", ["gather (mode 'fill')"]),
    "8-bit indices cannot hold a size of 300": (
        dg.openvino.gather.problem(((300,), "float32"), NARROW, 0),
        "jax",
        ["reshape to [3, 1]", "convert to int32", "add with 300", "less with 0", "where", "gather (mode 'fill')"],
    ),
    "a diagonal is a slice of the flattened data": (
        strided((5,), (6,)),
        "onnx",
        ["reshape to [25]", "Slice-13 [0:25:6]"],
    ),
    "overlapping windows, by positions": (
        strided((3, 3), (1, 1), (5,)),
        "onnx",
        ["Gather-13 (axis 0)"],
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_the_natural_form(name: str) -> None:
    problem, to, steps = FORMS[name]
    made = dg.translate(problem, to)
    assert list(made.steps) == steps, made.reason


@pytest.mark.parametrize(
    ("problem", "to", "version", "words"),
    [
        (
            dg.openvino.gather.problem(((4,), "float8_e4m3fn"), IDS, 0),
            "onnx",
            {},
            "data has type float8e4m3fn, but Gather-13 takes",
        ),
        (dg.onnx.gather_nd.problem(TABLE, ((3, 2), "int64")), "openvino", {"version": 1}, "opset1 has no GatherND"),
        (
            dg.onnx.gather.problem(TABLE, IDS, out_of_bounds="clamp"),
            "onnx",
            {"opset": 11},
            "Clip-11, which opset 11 has, takes no int64",
        ),
        (dg.onnx.gather.problem(((0, 4), "float32"), ((0,), "int64")), "onnx", {"opset": 17}, ""),
        (dg.onnx.gather.problem(((0, 4), "float32"), IDS), "jax", {}, "every index is an error"),
        (dg.onnx.gather.problem(((5,), "object"), IDS), "directml", {}, "EXP103 data: expected numbers or bool, got strings"),
        (dg.onnx.slice.problem(TABLE, [-1], [-9], [0], [-1]), "directml", {"level": "1_0"}, "EXP106 steps"),
        (
            dg.onnx.gather.problem(TABLE, IDS),
            "directml",
            {"level": "2_0"},
            "negative indices count from the end, and level 2_0 takes UINT32 indices: use level 3_0 or newer",
        ),
        (dg.openvino.gather.problem(TABLE, ((3,), "uint32"), 0, out_of_bounds="clamp"), "directml", {"level": "2_0"}, ""),
        (dg.onnx.slice.problem(TABLE, [0], [5], [0]), "directml", {}, ""),
        (ReshapeView(TensorType((5, 4), np.dtype(np.float32)), (20,)), "directml", {}, "nothing is moved"),
    ],
)
def test_the_reason_why_not(problem: Problem, to: str, version: dict[str, Any], words: str) -> None:
    made = dg.translate(problem, to, **version)
    assert made.ok is not bool(words)
    assert words in made.reason
    assert (made.form is None) is (made.proof is None) is bool(words)


@pytest.mark.parametrize("level", ["1_0", "2_0", "2_1", "3_0", "6_4"])
@pytest.mark.parametrize(
    "source",
    [
        GatherOperatorDesc.of(((2,), "FLOAT32"), ((1,), "INT64"), axis=0),
        GatherOperatorDesc.of(((3, 4), "FLOAT16"), ((2, 2), "INT32"), axis=1),
        dg.onnx.gather.problem(TABLE, IDS, out_of_bounds="clamp"),
        dg.openvino.gather.problem(TABLE, ((3,), "int32"), 1, out_of_bounds="clamp"),
    ],
)
def test_wrapped_indices_need_a_level_with_signed_ones(source: Any, level: str) -> None:
    """Before 3_0 they are UINT32: -1 is the last element of the source, and out of range there."""
    made = dg.translate(source, "directml", level=level)
    assert made.ok is (made.form is not None) is (level in ("3_0", "6_4"))
    if not made.ok:
        assert (
            f"negative indices count from the end, and level {level} takes UINT32 indices: use level 3_0 or newer" in made.reason
        )


def clamped(low: int, kind: str) -> Any:
    """A program that clamps its indices to `low` … 4 before it gathers."""
    onnx = import_module("onnx")
    text = f'<ir_version: 8, opset_import: ["" : 13]> g (float[5,4] x, {kind}[3] i) => (float[3,4] y) '
    return onnx.parser.parse_model(text + f"<{kind} a = {{{low}}}, {kind} b = {{4}}> {{ c = Clip(i, a, b) y = Gather(x, c) }}")


@pytest.mark.parametrize("kind", ["int32", "int64"])
@pytest.mark.parametrize("level", ["1_0", "2_1", "3_0", "6_4"])
@pytest.mark.parametrize("low", [-5, 0, 1])
def test_a_translation_that_is_not_proven_is_not_ok(low: int, level: str, kind: str) -> None:
    """Signed indices of DirectML count from the end: what is clamped to 0 … 4 before cannot be said."""
    made = dg.translate(clamped(low, kind), "directml", level=level)
    assert made.ok is (low == -5 and level in ("3_0", "6_4"))
    assert made.ok is (made.proof is not None and made.proof.verdict == "proven")


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (("tensorflow", {}), ValueError, "to is 'tensorflow', expected 'onnx', 'openvino', 'jax' or 'directml'"),
        (("jax", {"opset": 13}), TypeError, "opset is 13, and belongs to 'onnx'; 'jax' has no versions"),
        (("onnx", {"level": "6_4"}), TypeError, "level is '6_4', and belongs to 'directml'; 'onnx' has opset"),
        (("onnx", {"opset": 99}), ValueError, "opset is 99, expected 1 … 28"),
        (("openvino", {"version": 0}), ValueError, "version is 0, expected 1 … 16"),
        (("directml", {"level": "9_9"}), ValueError, "9_9"),
        (("onnx", {"opset": "13"}), TypeError, "opset is '13' of type str, expected an integer"),
        ((["onnx"], {}), ValueError, r"to is \['onnx'\], expected 'onnx', "),
    ],
)
def test_no_such_target(arguments: tuple[Any, dict[str, Any]], error: type[Exception], words: str) -> None:
    to, version = arguments
    with pytest.raises(error, match=words):
        dg.translate(dg.onnx.gather.problem(TABLE, IDS), to, **version)


def test_an_opset_that_the_installed_onnx_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    import onnx

    monkeypatch.setattr(onnx, "__version__", "1.19.0")
    monkeypatch.setattr(onnx.defs, "onnx_opset_version", lambda: 24)
    problem = dg.onnx.gather.problem(TABLE, IDS)
    assert dg.translate(problem, "onnx", opset=24).ok
    with pytest.raises(ValueError, match=r"opset is 25, but onnx 1.19.0, which is installed, knows opsets up to 24: use one of"):
        dg.translate(problem, "onnx", opset=25)


def test_constant_indices_are_computed_at_once() -> None:
    """A constant that DirectML would clamp is a constant in range."""
    import onnx

    ids = onnx.numpy_helper.from_array(np.array([7, -1]), "ids")
    node = onnx.helper.make_node("Gather", ["x", "ids"], ["y"], axis=0)
    value = [onnx.helper.make_tensor_value_info(name, 1, shape) for name, shape in (("x", [3, 2]), ("y", [2, 2]))]
    model = onnx.helper.make_model(
        onnx.helper.make_graph([node], "g", value[:1], value[1:], [ids]), opset_imports=[onnx.helper.make_opsetid("", 13)]
    )
    made = dg.translate(model, "jax")
    assert list(made.steps) == ["gather (mode 'clip')"]
    assert made.graph is not None
    assert [array.reshape(-1).tolist() for array in made.graph.constants.values()] == [[7, 2]]  # 7 is an error in ONNX


def test_jax_names_the_input_that_does_not_fit() -> None:
    function = dg.translate(lax_rows("clip"), "jax").form
    with pytest.raises(TypeError, match=r"the translated function takes 2 arrays \(data, indices\), got 1"):
        function(np.zeros((5, 4), np.float32))
    with pytest.raises(ValueError, match=r"data has shape \[4, 4\], but the function was made for float32 \[5, 4\]"):
        function(np.zeros((4, 4), np.float32), np.zeros((3, 1), np.int32))
    with pytest.raises(TypeError, match=r"made for int64 \[3, 1\]; enable it: jax\.config\.update\('jax_enable_x64', True\)"):
        function(np.zeros((5, 4), np.float32), np.zeros((3, 1), np.int64))


@pytest.mark.parametrize("shape", [(5, 3), (3, 3), (7, 1), (2, 3)])
@pytest.mark.parametrize("dtype", ["uint8", "float16", "bool", "int8"])
def test_buffers_with_strides_end_at_multiples_of_4_bytes(shape: tuple[int, int], dtype: str) -> None:
    """Their last elements are in no array of the source."""
    kind = TensorType(shape, np.dtype(dtype))
    for problem in (TransposeView(kind, (1, 0)), ExpandView(kind, (2, *shape))):
        made = dg.translate(planned(problem), "directml")
        assert made, str(made)
        assert made.proof is not None
        assert made.proof.verdict == "proven", str(made.proof)


def test_a_wrong_clamp_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge, and the proof, see a clamp that is off by one."""
    wrong = Fitter._clamped
    monkeypatch.setattr(
        Fitter, "_clamped", lambda self, value, lowest, last, signed: wrong(self, value, lowest, last - 1, signed)
    )
    made = dg.translate(dg.onnx.gather.problem(TABLE, IDS, out_of_bounds="clamp"), "onnx")
    assert made.proof is not None
    assert made.proof.verdict == "different"
    with pytest.raises(AssertionError):
        judge(range(40), ["onnx"])


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dmlgather.translation.translating.find_spec", lambda _: None)
    with pytest.raises(ModuleNotFoundError, match="translating to 'openvino' needs the package openvino, which is not installed"):
        dg.translate(dg.onnx.gather.problem(TABLE, IDS), "openvino")
