"""Changed ONNX files are noticed, and a model that is wrong for one boundary alone; a checker with a mistake does not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import dmlgather as dg
from dmlgather.dialects.problem import Problem
from dmlgather.differential import agreement, check_agreement
from dmlgather.differential.boundaries import Bounds
from dmlgather.differential.judges import _clamps_wrongly
from dmlgather.differential.positions import Positions
from dmlgather.differential.trials import Trials
from tests import seeds
from tests.differential.changing import OPERATORS, changed


def noticed(first: int, count: int, folder: Path, wanted: Iterable[str] = ()) -> Counter[str]:
    """So many changed files from a seed on, and more until some are made of all that is wanted: of each, the check says that it
    is different, or that its inputs are. Returns what they are made of.
    """
    found, seed = Counter[str](), first
    while found["files"] < count or not found.keys() >= {*wanted}:
        case = changed(seed, folder)
        if case is not None:
            verdict = check_agreement(case.source.graph, case.model, initial=case.source.initial)
            other_types = verdict.verdict == "not checked" and " in the program and " in str(verdict)
            assert other_types or verdict.verdict == "different", (seed, case.what, str(verdict))
            found.update(["files", *case.traits])
        seed += 1
    return found


def test_changed_files_are_noticed(tmp_path: Path) -> None:
    noticed(0, 25, tmp_path)


@pytest.mark.heavy
def test_200_changed_files_are_noticed(tmp_path: Path) -> None:
    signed = [f"int{bits}" for bits in (8, 16, 32, 64)]
    wanted = [*OPERATORS, "CLAMP", "FILL", "RAISE", *signed, *(f"u{name}" for name in signed)]
    print(f"\n{noticed(seeds.seed(60), 200, tmp_path, wanted)}")


def with_one_wrong_index(problem: Problem, index: int) -> onnx.ModelProto:
    """The model of a problem, changed to read element 2 in the place of one index."""
    model: onnx.ModelProto = dg.translate(problem).form
    helper, kind, long = onnx.helper, problem.tensors[1].dtype, onnx.TensorProto.INT64
    for name, value in (("wrong", index), ("other", 2)):
        held = np.array([value]).astype(np.int64) if value < 2**63 else np.array([value], np.uint64).view(np.int64)
        model.graph.initializer.append(onnx.numpy_helper.from_array(held, name))
    for node in model.graph.node:
        node.input[:] = ["taken" if name == "indices" else name for name in node.input]
    nodes = [
        helper.make_node("Cast", ["indices"], ["wide"], to=long),
        helper.make_node("Equal", ["wide", "wrong"], ["there"]),
        helper.make_node("Where", ["there", "other", "wide"], ["selected"]),
        helper.make_node("Cast", ["selected"], ["taken"], to=helper.np_dtype_to_tensor_dtype(kind)),
    ]
    rest = [*model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend([*nodes, *rest])
    return model


def rows(kind: str, policy: Any, shape: tuple[int, ...] = (5, 4)) -> Problem:
    return dg.openvino.gather.problem((shape, "float32"), ((3,), kind), 0, out_of_bounds=policy)


@pytest.mark.parametrize(
    ("kind", "policy"), [("int64", "clamp"), ("uint64", dg.Fill(7)), ("int32", "raise"), ("int8", "clamp"), ("uint32", "clamp")]
)
def test_a_model_that_is_wrong_for_one_boundary_is_different(kind: str, policy: Any) -> None:
    limits, problem = np.iinfo(kind), rows(kind, policy)
    assert dg.compare(problem, with_one_wrong_index(problem, 2))
    powers = [*(2**bits for bits in (7, 8, 15, 16, 31, 32, 63)), *(1 - 2**bits for bits in (8, 16, 32))]
    wide = 2**31 - 1 if _clamps_wrongly(onnxruntime.__version__) else 2**64
    for index in (0, 1, 4, 5, 6, -1, -5, -6, int(limits.min), int(limits.max), *powers):
        if limits.min <= index <= limits.max and abs(index) <= wide:
            found = dg.compare(problem, with_one_wrong_index(problem, index))
            assert found.verdict == "different", index


# A checker with a mistake takes a wrong model for an equal one, so that the tests above would fail.


def _skips_a_boundary(patch: pytest.MonkeyPatch) -> None:
    whole = Bounds.edges
    patch.setattr(Bounds, "edges", lambda self, dtype: [edge for edge in whole(self, dtype) if edge != self.limit])


def _compares_values(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        agreement, "_different_bits", lambda one, other: ~((one == other) | (np.isnan(one) & np.isnan(other))).reshape(-1)
    )


def _swallows_errors(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(agreement._Check, "_error", lambda *_: None)


def _reads_one_digit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Positions, "elements", lambda self, _, whole=Positions.elements: whole(self, 0))
    patch.setattr(Trials, "_random_data", lambda self: self.positions.elements(0))


def _parsed(text: str) -> onnx.ModelProto:
    model: onnx.ModelProto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 13]> g {text}')
    return model


def _adding_zero() -> onnx.ModelProto:
    signature = "(float[5,4] data, int64[3] indices) => (float[3,4] output) <float zero = {0}>"
    return _parsed(signature + "{ sum = Add(data, zero) output = Gather(sum, indices) }")


def _far_off() -> onnx.ModelProto:
    return _parsed(
        "(int8[600] data) => (int8[300] output) <int64[1] a = {256}, int64[1] b = {556}> { output = Slice(data, a, b) }"
    )


MISTAKES: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], Problem, Callable[[], Any]]] = {
    "skips a boundary": (_skips_a_boundary, rows("int64", "clamp"), lambda: with_one_wrong_index(rows("int64", "clamp"), 5)),
    "compares values": (_compares_values, rows("int64", "raise"), _adding_zero),
    "swallows errors": (_swallows_errors, rows("int64", "raise"), lambda: dg.translate(rows("int64", "clamp")).form),
    "reads one digit": (_reads_one_digit, dg.onnx.slice.problem(((600,), "int8"), [0], [300]), _far_off),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_the_checker_changes_a_verdict(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, problem, model = MISTAKES[name]
    wrong = model()
    assert dg.compare(problem, wrong).verdict == "different"
    plant(monkeypatch)
    assert dg.compare(problem, wrong).verdict == "equal"
