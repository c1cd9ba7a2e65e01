"""Models with sizes that are not known: the conditions are those under which DirectML takes the node, whatever the sizes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from dmlgather.dialects.problem import TensorType
from dmlgather.directml import FeatureLevel
from dmlgather.onnx.problems.slice import Slice
from dmlgather.onnx_checking.checked_model import CheckedNode, Verdict
from tests.onnx_checking.modelling import checked, only

FILES = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])

bounds = st.integers(-9, 9) | st.sampled_from([2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 2**63 - 2, -(2**63) + 1])


def _slice(*bounds: Sequence[int]) -> onnx.ModelProto:
    """A slice of float[N,M] by starts, ends, axes and steps."""
    constants = {name: np.array(values, np.int64) for name, values in zip(BOUNDS_IN_ORDER, bounds, strict=True)}
    return _model("Slice", {"data": (TensorProto.FLOAT, ["N", "M"])}, constants)


@pytest.mark.parametrize("level", ["1_0", "2_0"])
@pytest.mark.parametrize(
    ("starts", "ends", "steps"),
    [((-1,), (-(2**63),), (-3,)), ((-1,), (2,), (-2,)), ((9,), (0,), (-8,)), ((-1, 0), (-(2**63), 9), (-12, 1))],
)
def test_steps_that_matter_from_the_second_element_on(
    tmp_path: Path, level: str, starts: tuple[int, ...], ends: tuple[int, ...], steps: tuple[int, ...]
) -> None:
    """The smallest sizes leave one element, which needs no step; more go backwards, which came with 2_1."""
    axes = tuple(range(len(starts)))
    found = checked(tmp_path, _slice(starts, ends, axes, steps), level)
    assert only(found).verdict is Verdict.REFUSED
    (finding,) = found.findings
    assert (finding.code, finding.path) == ("EXP106", "steps")
    told = dict(re.findall(r"(\w) = (\d+)", finding.got))
    windows = Slice(TensorType((int(told["N"]), int(told["M"])), np.dtype("float32")), starts, ends, axes, steps).windows
    assert windows[0].count > 1


def test_steps_that_no_tensor_has_room_for(tmp_path: Path) -> None:
    assert only(checked(tmp_path, _slice([-1], [-(2**63)], [0], [-(2**63)]), "1_0")).verdict is Verdict.TAKEN


SIZES = st.integers(1, 4) | st.sampled_from(["N", "M", None])


Inputs = Mapping[str, tuple[int, Sequence[int | str | None]]]
"""Data type and shape of each input."""

BOUNDS_IN_ORDER = ("starts", "ends", "axes", "steps")

Problem = tuple[str, Inputs, Mapping[str, Any]]
"""An operator, its inputs, and its constants and attributes."""


def _model(operator: str, inputs: Inputs, more: Mapping[str, Any]) -> onnx.ModelProto:
    """A model of one node, with those inputs, and its constants and attributes in `more`."""
    constants = {name: value for name, value in more.items() if isinstance(value, np.ndarray)}
    attributes = {name: value for name, value in more.items() if name not in constants}
    node = helper.make_node(operator, [*inputs, *constants], ["output"], **attributes)
    graph = helper.make_graph(
        [node],
        "graph",
        [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()],
        [helper.make_empty_tensor_value_info("output")],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """An operator, its inputs with sizes that need not be known, and its constants or attributes."""
    operator = draw(st.sampled_from(["Gather", "GatherElements", "GatherND", "Slice", "DepthToSpace", "SpaceToDepth"]))
    kind = draw(st.sampled_from([TensorProto.FLOAT, TensorProto.INT8, TensorProto.INT64, TensorProto.BOOL]))
    data = draw(st.lists(SIZES, min_size=1, max_size=6))
    more: dict[str, Any]
    inputs: dict[str, tuple[int, Sequence[int | str | None]]] = {"data": (int(kind), data)}
    if operator in ("DepthToSpace", "SpaceToDepth"):
        shape = draw(st.lists(SIZES, min_size=4, max_size=4))
        return operator, {"data": (int(kind), shape)}, {"blocksize": draw(st.integers(1, 3))}
    if operator == "Slice":
        axes = draw(st.lists(st.integers(0, len(data) - 1), unique=True, max_size=3))
        count = len(axes)
        several = {name: draw(st.lists(values, min_size=count, max_size=count)) for name, values in BOUNDS.items()}
        arrays = {"starts": several["starts"], "ends": several["ends"], "axes": axes, "steps": several["steps"]}
        return operator, inputs, {name: np.array(values, np.int64) for name, values in arrays.items()}
    if operator == "GatherElements":
        indices = draw(st.lists(SIZES, min_size=len(data), max_size=len(data)))
        more = {"axis": draw(st.integers(-len(data), len(data) - 1))}
    elif operator == "Gather":
        indices = draw(st.lists(SIZES, max_size=3))
        more = {"axis": draw(st.integers(-len(data), len(data) - 1))}
    else:
        batch = draw(st.integers(0, min(2, len(data) - 1)))
        indices = [*data[:batch], *draw(st.lists(SIZES, max_size=2)), draw(st.integers(1, len(data) - batch))]
        more = {"batch_dims": batch}
    return operator, {**inputs, "indices": (int(TensorProto.INT64), indices)}, more


BOUNDS = {"starts": bounds, "ends": bounds, "steps": st.sampled_from([1, 2, -1, -2, -3, -10, 10, 2**31, -(2**31) - 1])}


@pytest.mark.slow
@FILES
@given(problems(), st.sampled_from(["1_0", "2_1", "3_0", "6_4"]), st.data())
def test_verdicts_hold_for_every_size(tmp_path: Path, problem: Problem, level: str, data: st.DataObject) -> None:
    """Judge: the same node with all sizes stated, which needs neither conditions nor sizes of our choice."""
    operator, inputs, more = problem
    model = checked(tmp_path, _model(*problem), level)
    node = only(model)
    names = sorted({size for _, shape in inputs.values() for size in shape if isinstance(size, str)})
    sizes = {name: data.draw(st.integers(1, 24), label=name) for name in names}
    rest = data.draw(st.lists(st.integers(1, 24), min_size=12, max_size=12), label="sizes without a name")
    told = next((found[1] for finding in model.findings if (found := re.search(r"\(with (.*)\)$", finding.got))), None)
    if told:  # the sizes with which it is refused
        sizes |= {name: int(size) for name, size in (pair.split(" = ") for pair in told.split(", "))}
    concrete, values = {}, dict(sizes)
    for role, (kind, shape) in inputs.items():
        values |= {f"{role}[{axis}]": sizes.get(f"{role}[{axis}]", rest[axis]) for axis, size in enumerate(shape) if size is None}
        sized = [values[size or f"{role}[{axis}]"] if not isinstance(size, int) else size for axis, size in enumerate(shape)]
        concrete[role] = (kind, sized)
    known = checked(tmp_path, _model(operator, concrete, more), level)
    if "EXP101" in [finding.code for finding in known.findings] and node.verdict is Verdict.TAKEN:
        return  # sizes that the operator itself does not take
    if node.verdict is Verdict.REFUSED:
        assert only(known).verdict is Verdict.REFUSED
    else:
        held = all(_holds(condition, values) for condition in node.provided)
        assert (only(known).verdict is Verdict.TAKEN) is held
        assert not held or _lowest(only(known)) <= _lowest(node)
    if not values:
        assert node == only(known)


def _lowest(node: CheckedNode) -> FeatureLevel:
    assert node.lowest is not None
    return node.lowest.level


def _holds(condition: str, values: dict[str, int]) -> bool:
    """Whether a condition such as "1 <= N <= 7", "N >= 3" or "N = 3" holds."""
    parts = condition.split(" ")
    terms = [values[part] if part in values else int(part) for part in parts[::2]]
    compare = {"<=": int.__le__, ">=": int.__ge__, "=": int.__eq__}
    return all(compare[sign](one, two) for one, sign, two in zip(terms, parts[1::2], terms[1:], strict=False))
