"""The contents of pictures. Judges: the operators' documented references, and NumPy, on inputs that contain their addresses."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import dmlgather as dg
from dmlgather.diagram import ShownTensor, Subject, draw
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.lax.problems import gather as lax
from dmlgather.onnx.problems import gather as onnx
from dmlgather.openvino.problems import gather as openvino
from dmlgather.plan import OutOfBounds
from tests import strategies
from tests.diagram.parsed import SVG, Box, Cell, Join, Picture
from tests.directml.buffers import logical
from tests.directml.examples import EXAMPLES, Example

MOST_CELLS = 14 * 8 + 8 * 8 + 10 * 8


def tensor(data_type: str, *sizes: int, **fields: Any) -> dg.BufferTensorDesc:
    return dg.BufferTensorDesc(data_type=data_type, sizes=sizes, **fields)


def rows(table: tuple[int, ...], count: int, data_type: str = "FLOAT32", index_type: str = "INT64") -> dg.GatherOperatorDesc:
    """Return a lookup of `count` rows of a table."""
    return dg.GatherOperatorDesc(
        input_tensor=tensor(data_type, *table),
        indices_tensor=tensor(index_type, 1, count),
        output_tensor=tensor(data_type, count, table[1]),
        axis=0,
        index_dimensions=1,
    )


def addresses(of: dg.BufferTensorDesc) -> NDArray[np.int64]:
    """Return each element's address in its buffer, in elements, of shape Sizes."""
    found = np.zeros(of.sizes, np.int64)
    for axis, (size, stride) in enumerate(zip(of.sizes, of.element_strides, strict=True)):
        shape = [size if other == axis else 1 for other in range(of.rank)]
        found = found + (np.arange(size) * (stride if size > 1 else 0)).reshape(shape)
    return found


def check_against(picture: Picture, expected: NDArray[np.int64], data: NDArray[np.int64], names: tuple[str, str]) -> None:
    """Assert that output cells, input cells and joins show `expected` and `data`, both of addresses."""
    given, made = names
    for at, label in picture.texts.get(made, {}).items():
        assert label == str(expected[at])
    for at, label in picture.texts[given].items():
        assert label == str(data[at])
    assert picture.boxes[made].keys() == picture.texts.get(made, {}).keys()
    for join in picture.joins:
        for source, target in zip(join.sources, join.targets, strict=True):
            assert data[source] == expected[target]
        check_ends(join, picture.boxes[given], picture.boxes[made])


def check_ends(join: Join, read: dict[Cell, Box], written: dict[Cell, Box]) -> None:
    """Assert that a line meets the border of each cell that it joins, or their outermost one for neighbours at the edge."""
    ends = [point for stroke in join.strokes for point in (stroke[0], stroke[-1])]
    for cells, boxes, outermost in ((join.sources, read, max(join.sources)), (join.targets, written, min(join.targets))):
        met = {cell for cell in cells if any(boxes[cell].meets(end) for end in ends)}
        assert met == set(cells) or outermost in met


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1))
def test_a_diagram_of_a_descriptor_shows_the_documented_result(seed: int) -> None:
    problem = strategies.problem(seed)
    desc = problem.desc
    described = [desc.tensor(field) for field in desc.operator.inputs]
    data = addresses(described[0])
    indices = [logical(of, buffer) for of, buffer in zip(described[1:], problem.inputs[1:], strict=True)]
    picture = Picture(dg.compile(desc, level=problem.level).explain().picture(*indices))
    expected = desc.operator.reference(desc, data, *indices)
    check_against(picture, expected, data, ("InputTensor", "OutputTensor"))
    assert sum(map(len, picture.boxes.values())) <= MOST_CELLS
    assert 1 <= len(picture.joins) <= 24
    width, height = picture.size
    for box in (box for boxes in picture.boxes.values() for box in boxes.values()):
        assert 0 <= box.x <= box.x + box.width <= width
        assert 0 <= box.y <= box.y + box.height <= height


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1))
def test_a_diagram_without_indices_shows_invented_ones(seed: int) -> None:
    """The documented reference gives the values of the output cells for those of the index cells."""
    desc, level = strategies.described(seed)
    picture = Picture(dg.compile(desc, level=level).explain().picture())
    if "IndicesTensor" not in picture.texts:
        assert not isinstance(desc, dg.GatherOperatorDesc | dg.GatherElementsOperatorDesc | dg.GatherNDOperatorDesc)
        return
    described = desc.tensor("indices_tensor")
    flat = np.zeros(addresses(described).max() + 1, np.int64)
    for at, label in picture.texts["IndicesTensor"].items():
        flat[addresses(described)[at]] = int(label)
    data = addresses(desc.tensor("input_tensor"))
    values = flat[addresses(described)]
    if len(picture.texts["IndicesTensor"]) == values.size:
        check_against(picture, desc.operator.reference(desc, data, values), data, ("InputTensor", "OutputTensor"))
    assert "invented for this picture" in picture.words


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_a_diagram_shows_the_values_of_documented_examples(example: Example) -> None:
    """Each cell has the documented value. The address below it is that of the value in InputTensor."""
    data, *indices = example.arrays
    picture = Picture(dg.compile(example.desc).explain().picture(indices[0] if indices else None, data))
    for at, value in picture.texts["OutputTensor"].items():
        assert value == str(int(example.result[at]))
        address = int(picture.below["OutputTensor"][at].removeprefix("@"))
        assert data.reshape(-1)[address] == example.result[at]
    for at, value in picture.texts["InputTensor"].items():
        assert value == str(int(data[at]))
        assert picture.below["InputTensor"][at] == f"@{addresses(example.desc.tensor('input_tensor'))[at]}"


def test_long_values_are_shortened() -> None:
    desc = rows((4, 1), 4, "FLOAT64")
    values = np.array([[1 / 3], [-0.0], [np.nan], [1e300]])
    picture = Picture(dg.compile(desc).explain().picture([[0, 1, 2, 3]], data=values))
    assert [picture.texts["OutputTensor"][row, 0] for row in range(4)] == ["0.333…333", "-0", "nan", "1e+300"]
    hints = [title.text or "" for title in picture.root.iter(f"{SVG}title")]
    assert "OutputTensor[0,0] is read from element 0; its value is 0.3333333333333333" in hints
    with pytest.raises(ValueError, match=r"InputTensor values have shape \(3,\), expected \(4, 1\), or a one-dim"):
        dg.compile(desc).explain().picture(data=values[:3, 0])


def test_every_cell_of_a_small_tensor_is_drawn() -> None:
    picture = Picture(dg.compile(rows((4, 3), 5)).explain().picture())
    assert {name: len(boxes) for name, boxes in picture.boxes.items()} == {
        "IndicesTensor": 5,
        "InputTensor": 12,
        "OutputTensor": 15,
    }
    assert len(picture.joins) == 5
    for words in ("FLOAT32 {4,3}", "INT64 {1,5}", "FLOAT32 {5,3}", "Axis 0, IndexDimensions 1", "160 = 40 of indices + 60 read"):
        assert words in picture.words


def test_an_index_out_of_range_is_marked_and_explained() -> None:
    desc, indices = rows((4, 3), 3), np.array([[2, 4, -5]])
    outcomes = {"clamp": "clamped", "raise": "refused"}
    for policy, outcome in outcomes.items():
        picture = Picture(dg.compile(desc, out_of_bounds=policy).explain().picture(indices))
        assert [picture.boxes["IndicesTensor"][0, at].outcome for at in range(3)] == ["valid", outcome, outcome]
        assert {at[0]: box.outcome for at, box in picture.boxes["OutputTensor"].items()} == {0: "valid", 1: outcome, 2: outcome}
        assert "index out of range: " in picture.words
    clamped = Picture(dg.compile(desc).explain().picture(indices))
    assert [clamped.texts["OutputTensor"][row, 0] for row in range(3)] == ["6", "9", "0"]
    assert [join.outcome for join in clamped.joins] == ["valid", "clamped", "clamped"]
    refused = Picture(dg.compile(desc, out_of_bounds="raise").explain().picture(indices))
    assert [join.target for join in refused.joins] == [(0, 0)]
    filled = Picture(dg.compile(desc, out_of_bounds=dg.Fill(1)).explain().picture(indices))
    assert [filled.texts["OutputTensor"][row, 0] for row in range(3)] == ["6", "fill", "fill"]
    assert "0x0000803f" in filled.words  # 1.0 as FLOAT32
    assert "out of range" not in Picture(dg.compile(desc).explain().picture(np.array([[0, 1, -4]]))).words


def test_a_large_tensor_is_drawn_where_it_is_read() -> None:
    tokens = np.random.default_rng(7).integers(0, 30522, (1, 128))
    picture = Picture(dg.compile(rows((30522, 384), 128)).explain().picture(tokens))
    assert {row for row, _ in picture.boxes["InputTensor"]} == set(tokens[0, :8].tolist())
    assert {row for row, _ in picture.boxes["OutputTensor"]} == set(range(8))
    assert len(picture.joins) == 8
    assert "8 of 30522 rows, 2 of 384 columns" in picture.words
    assert picture.size < (1500, 900)


def test_high_ranks_are_folded_into_labelled_rows() -> None:
    desc = dg.SliceOperatorDesc(
        input_tensor=tensor("UINT8", 2, 2, 2, 3),
        output_tensor=tensor("UINT8", 2, 2, 1, 2),
        offsets=(0, 0, 1, 1),
        sizes=(2, 2, 1, 2),
        strides=(1, 1, 1, 1),
    )
    picture = Picture(dg.compile(desc).explain().picture())
    assert "rows: dimensions 0…2 folded" in picture.words
    assert [join.source for join in picture.joins] == [(0, 0, 1, 1), (0, 1, 1, 1), (1, 0, 1, 1), (1, 1, 1, 1)]


def test_padding_is_drawn_and_strides_are_stated() -> None:
    desc = rows((4, 3), 2)
    padded = desc.model_copy(update={"input_tensor": tensor("FLOAT32", 4, 3, strides=(4, 1))})
    picture = Picture(dg.compile(padded).explain().picture())
    assert "strides {4,1}" in picture.words
    assert picture.texts["InputTensor"][3, 2] == "14"
    plain = sum(1 for _ in Picture(dg.compile(desc).explain().picture()).root.iter(f"{SVG}rect"))
    assert sum(1 for _ in picture.root.iter(f"{SVG}rect")) == plain + 4  # one element after each of four rows


def test_the_tables_show_the_plans() -> None:
    """A row lookup as lowered, and canonical: rows of 384 elements of 4 bytes are 96 of 16."""
    table = Picture(dg.compile(rows((30522, 384), 128)).explain().picture()).table
    columns = ("size", "out", "in", "index")
    assert [table["Plan as lowered", "0", column] for column in columns] == ["128", "384", "0", "1"]
    assert [table["Plan as lowered", "1", column] for column in columns] == ["384", "1", "1", "0"]
    assert [table["Canonical plan", "0", column] for column in columns] == ["128", "96", "0", "1"]
    assert [table["Canonical plan", "1", column] for column in columns] == ["96", "1", "1", "0"]


DATA = np.arange(24).reshape(2, 4, 3)


def of(array: NDArray[Any], dtype: str) -> TensorType:
    return TensorType(array.shape, np.dtype(dtype))


def of_problem(problem: Problem) -> Subject:
    """Return the diagram of a dialect's call over packed arrays."""
    names = (*problem.arguments, "output")
    tensors = [ShownTensor(name, str(tensor.dtype), tensor.layout) for name, tensor in zip(names, problem.tensors, strict=True)]
    data, indices, output = tensors
    return Subject(problem.name, problem.plan(), data, output, indices, problem.lookup_axes)


def test_a_diagram_of_openvino_gather_shows_numpys_result() -> None:
    """Each batch has a row of indices. One index is out of range, which gives fill. Judge: NumPy, batch by batch."""
    indices = np.array([[0, 4], [2, -1]])
    problem = openvino.OpenVINOGather(of(DATA, "f4"), of(indices, "i8"), axis=1, batch_dims=1)
    picture = Picture(draw(of_problem(problem).with_values(indices)))
    filled = {at for at, box in picture.boxes["output"].items() if box.outcome == "filled"}
    assert filled == {(0, 1, 0), (0, 1, 1), (0, 1, 2)}
    for at in picture.boxes["output"].keys() - filled:
        batch, number, column = at
        assert picture.texts["output"][at] == str(DATA[batch, indices[batch, number], column])


def test_a_diagram_of_jax_gather_shows_numpys_result() -> None:
    """Windows of 2 by 2 have given starts. The second is moved inside. Judge: slicing."""
    operand, starts = np.arange(20).reshape(5, 4), np.array([[0, 1], [4, 3]])
    numbers = dg.lax.GatherDimensionNumbers(offset_dims=(1, 2), collapsed_slice_dims=(), start_index_map=(0, 1))
    problem = lax.LaxGather(of(operand, "f4"), of(starts, "i4"), numbers, (2, 2), OutOfBounds.CLAMP)
    picture = Picture(draw(of_problem(problem).with_values(starts)))
    expected = np.stack([operand[0:2, 1:3], operand[3:5, 2:4]])
    check_against(picture, expected, operand, ("operand", "output"))
    assert {box.outcome for at, box in picture.boxes["output"].items() if at[0] == 1} == {"clamped"}


def test_values_of_a_wrong_shape_or_type_are_refused() -> None:
    explanation = dg.compile(rows((4, 3), 2)).explain()
    with pytest.raises(ValueError, match=r"values have shape \(2, 1\), expected \(1, 2\), or a one-dim"):
        explanation.picture(np.zeros((2, 1), np.int32))
    with pytest.raises(TypeError, match="float64, expected integers"):
        explanation.picture([[0.0, 1.0]])


def test_a_notebook_shows_diagram_and_text() -> None:
    explanation = dg.compile(rows((4, 3), 2)).explain()
    shown = ElementTree.fromstring(explanation._repr_html_())
    assert [child.tag for child in shown] == [f"{SVG}svg", "pre"]
    assert shown[1].text == str(explanation)


def test_a_diagram_has_a_title_a_description_and_a_background() -> None:
    root = Picture(dg.compile(rows((4, 3), 2)).explain().picture()).root
    title, description, style, background = list(root)[:4]
    assert style.tag == f"{SVG}style"
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-labelledby"].split() == [title.attrib["id"], description.attrib["id"]]
    assert title.text == "GATHER, lowest feature level 3_0"
    assert "Bytes moved in one run: 64 = 16 of indices + 24 read + 24 written" in (description.text or "")
    assert (background.attrib["width"], background.attrib["height"]) == (root.attrib["width"], root.attrib["height"])
    assert background.attrib["fill"] == "#ffffff"


def test_a_diagram_fits_a_narrow_page() -> None:
    """Only the attributes state the size outside of a screen, because CairoSVG reads `height: auto` in `style` or a bare rule as
    0.
    """
    root = Picture(dg.compile(rows((4, 3), 2)).explain().picture()).root
    assert "style" not in root.attrib
    sheet = root.findtext(f"{SVG}style") or ""
    bare = re.sub(r"@media[^{]*\{([^{}]*\{[^{}]*\})*\}", "", sheet)
    assert bare == ""
    assert f"@media screen{{.{root.attrib['class']}{{max-width:100%;height:auto}}}}" in sheet
    assert int(root.attrib["width"]) > 0
    assert int(root.attrib["height"]) > 0


def test_names_with_markup_are_escaped() -> None:
    subject = of_problem(onnx.Gather(of(DATA, "f4"), of(np.zeros(2), "i8"), axis=0))
    evil = '<b a="1">&\x07\u202e\ufffe]]>'
    named = replace(subject, title=evil, data=replace(subject.data, name=evil), attributes={evil: evil})
    picture = Picture(draw(named))
    assert '<b a="1">&\\x07\\u202e\\ufffe]]>' in picture.words
    assert '<b a="1">&\\x07\\u202e\\ufffe]]>' in picture.boxes
