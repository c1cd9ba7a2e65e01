"""Layers of every operation of the family in IR files: open sizes are judged as numbers are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dmlgather.dialects.checked_model import CheckedModel, CheckedNode, Verdict
from tests.openvino.ir import checked, only, parameter, save
from tests.openvino.runtime import openvino

opset = openvino.opset13

ENDS = st.integers(-7, 7) | st.sampled_from([2**31 - 1, -(2**31)])
STEPS = st.sampled_from([1, 1, 1, 2, 3, -1, -2])


def _constant(values: Any) -> Any:
    return opset.constant(np.array(values, np.int64))


def _size(draw: st.DrawFn, data: Any) -> Any:
    """An unknown size of data, or a number computed from it."""
    size = opset.gather(opset.shape_of(data, "i64"), _constant([draw(st.integers(0, 2))]), _constant(0))
    kind = draw(st.sampled_from(["size", "less", "half", "negative"]))
    if kind == "less":
        return opset.subtract(size, _constant([draw(st.integers(1, 4))]))
    if kind == "half":
        return opset.divide(size, _constant([2]))
    return opset.negative(size) if kind == "negative" else size


def _bound(draw: st.DrawFn, data: Any, count: int) -> Any:
    parts = [_size(draw, data) if draw(st.integers(0, 3)) == 0 else _constant([draw(ENDS)]) for _ in range(count)]
    return opset.concat(parts, 0) if parts else _constant(np.zeros(0, np.int64))


def _mask(draw: st.DrawFn, count: int) -> list[int]:
    return draw(st.lists(st.sampled_from([0, 0, 0, 1]), min_size=count, max_size=count))


@st.composite
def _slices(draw: st.DrawFn) -> tuple[Any, list[Any]]:
    data = parameter("data", [-1, -1, -1], np.float32)
    count = draw(st.integers(1, 3))
    steps = draw(st.lists(STEPS, min_size=count, max_size=count))
    axes = draw(st.permutations(range(3)))[:count]
    bounds = (_bound(draw, data, count), _bound(draw, data, count), _constant(steps), _constant(axes))
    return opset.slice(data, *bounds), [data]


@st.composite
def _strided(draw: st.DrawFn) -> tuple[Any, list[Any]]:
    data = parameter("data", [-1, -1, -1], np.float32)
    count = draw(st.integers(1, 3))
    steps = draw(st.lists(STEPS, min_size=count, max_size=count))
    masks = [_mask(draw, count) for _ in range(4)]
    ellipsis = [0] * count
    if draw(st.booleans()):
        ellipsis[draw(st.integers(0, count - 1))] = 1
    begin = _bound(draw, data, count)
    return opset.strided_slice(data, begin, _bound(draw, data, count), _constant(steps), *masks, ellipsis), [data]


@st.composite
def _gathers(draw: st.DrawFn) -> tuple[Any, list[Any]]:
    data = parameter("data", [-1, 3, -1], np.float32)
    kind = draw(st.sampled_from(["elements", "nd", "gather"]))
    if kind == "elements":
        indices = parameter("indices", [-1, 3, -1], np.int64)
        return opset.gather_elements(data, indices, draw(st.integers(-3, 2))), [data, indices]
    if kind == "nd":
        batch = draw(st.integers(0, 1))
        indices = parameter("indices", [-1, -1, draw(st.integers(1, 2))], np.int64)
        return opset.gather_nd(data, indices, batch), [data, indices]
    batch = draw(st.integers(0, 1))
    indices = parameter("indices", [-1, -1], np.int64)
    return opset.gather(data, indices, _constant(draw(st.integers(batch, 2))), batch), [data, indices]


def _holds(condition: str, sizes: dict[str, list[int]]) -> bool:
    """Whether a condition such as "2*data[0] >= data[1] + 3" holds."""
    text = condition.replace(" = ", " == ").replace("floor(", "int(0.0 + ")
    return bool(eval(text, {"min": min, "max": max, "int": int, "mod": lambda a, b: a % b}, dict(sizes)))


def _family(found: CheckedModel) -> CheckedNode:
    """The layer of the test, among Gathers that compute its bounds."""
    return next(node for node in found.nodes if any(each.name == "data" for each in node.inputs))


@pytest.mark.slow
@pytest.mark.parametrize("models", [_slices(), _strided(), _gathers()], ids=["Slice", "StridedSlice", "gathers"])
def test_sizes_that_are_open_are_judged_as_numbers_are(models: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    @settings(max_examples=25)
    @given(model=models, numbers=st.lists(st.lists(st.integers(1, 9), min_size=6, max_size=6), min_size=4, max_size=4))
    def run(model: tuple[Any, list[Any]], numbers: list[list[int]]) -> None:
        layer, parameters = model
        folder = tmp_path_factory.mktemp("ir")
        path = save(folder, [layer], parameters)
        open_sizes = _family(checked(path))
        for some in numbers:
            shapes: dict[str, list[int]] = {}
            for parameter_of, own in zip(parameters, (some[:3], some[3:]), strict=False):
                dims = parameter_of.get_output_partial_shape(0)
                shapes[parameter_of.get_friendly_name()] = [
                    int(dim.get_length()) if dim.is_static else own[axis] for axis, dim in enumerate(dims)
                ]
            fixed = openvino.Core().read_model(str(path))
            try:
                fixed.reshape(shapes)
            except RuntimeError:  # batches differ, or an element that is taken does not exist
                continue
            openvino.save_model(fixed, str(folder / "fixed.xml"), compress_to_fp16=False)
            node = _family(checked(folder / "fixed.xml"))
            assert (node.outputs[0].shape or ()) == tuple(fixed.outputs[0].shape), "a scalar looks like an unknown rank"
            if open_sizes.verdict is Verdict.TAKEN and all(_holds(each, shapes) for each in open_sizes.provided):
                assert node.verdict is Verdict.TAKEN, (shapes, open_sizes.provided, node)
                assert node.lowest is not None
                assert open_sizes.lowest is not None
                assert node.lowest.level <= open_sizes.lowest.level, (shapes, open_sizes, node)

    run()


def test_constant_indices_in_range_need_no_mask(tmp_path: Path) -> None:
    data = parameter("data", [5, 2], np.float32)
    for indices, codes in (([0, 4, -5], []), ([0, 5], ["EXP201"])):
        found = checked(save(tmp_path, [opset.gather(data, _constant(indices), _constant(0))], [data]))
        assert [each.code for each in found.findings] == codes
    assert "indices[1] is 5" in found.findings[0].got


def test_constant_indices_that_openvino_has_no_element_for(tmp_path: Path) -> None:
    data = parameter("data", [5, 2], np.float32)
    found = checked(save(tmp_path, [opset.gather_nd(data, _constant([[4, 1], [0, 2]]))], [data]))
    (finding,) = found.findings
    assert (found.nodes[0].verdict, finding.code, finding.path) == (Verdict.REFUSED, "EXP111", "indices[1,1]")
    assert (finding.got, finding.expected) == ("2", "-2 … 1, as data has size 2 in dimension 1")


def test_masks_are_in_the_report(tmp_path: Path) -> None:
    data = parameter("data", [5, 2], np.float32)
    layer = opset.strided_slice(data, _constant([1, 0]), _constant([3, 0]), _constant([1, 1]), [0, 0], [0, 1], [], [1, 0], [])
    node = only(save(tmp_path, [layer], [data]))
    assert node.attributes["shrink_axis_mask"] == (1, 0)
    assert (node.operator, node.version, node.outputs[0].shape) == ("StridedSlice", 1, (2,))


def test_constants_without_elements_as_openvino_writes_them(tmp_path: Path) -> None:
    """It states one byte for them."""
    data, none = parameter("data", [3, 4], np.float32), opset.constant(np.zeros(0, np.int64))
    sliced = opset.slice(data, none, none, none, none)
    path = save(tmp_path, [sliced], [data])
    assert 'shape="0"' in path.read_text()
    assert 'size="1"' in path.read_text()
    assert only(path).verdict is Verdict.TAKEN
