"""PyTorch's functions on NumPy arrays, without PyTorch: what they give, as what they are described, and what errors say."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

import dmlgather as dg
from dmlgather.plan import canonicalise
from tests.dialects.binding import codes, listed
from tests.dialects.refusals import Refusals, check_refused, each_of

X = np.arange(24.0).reshape(2, 3, 4)
IDS = np.array([2, 0])
TABLE, ROWS = ((4, 10), "float32"), ((3,), "int64")


def test_a_column_gather_in_any_spelling_is_a_gather_of_axis_1() -> None:
    spelled: list[Any] = [
        dg.torch.index_select.to_directml(TABLE, 1, ROWS),
        dg.torch.index.to_directml(TABLE, (slice(None), ROWS)),
        dg.torch.index.to_directml(TABLE, np.s_[:, [2, 0, 1]]),
        dg.torch.index.to_directml(TABLE, np.s_[..., [2, 0, 1]]),
    ]
    for desc in spelled:
        assert desc == spelled[0]
        assert (desc.operator.name, desc.axis, desc.output_tensor.sizes) == ("GATHER", 1, (4, 3))


@pytest.mark.parametrize(
    ("function", "arguments", "operators"),
    [
        ("index_select", (TABLE, 0, ROWS), ["GATHER"]),
        ("gather", (TABLE, 1, ((4, 3), "int64")), ["GATHER_ELEMENTS"]),
        ("take_along_dim", (TABLE, ROWS), ["GATHER_ELEMENTS"]),
        ("take", (TABLE, ROWS), ["GATHER"]),
        ("embedding", (((2, 3), "int32"), TABLE), ["GATHER"]),
        ("index", (TABLE, (ROWS, ROWS)), ["GATHER_ND1"]),
        ("index", (TABLE, np.s_[1:, ::2]), ["SLICE1"]),
        ("select", (TABLE, 1, -1), ["SLICE1"]),
        ("narrow", (TABLE, 1, 2, 3), ["SLICE1"]),
        ("slice", (TABLE, 1, 2, None, 3), ["SLICE1"]),
        ("flip", (TABLE, (0, 1)), ["SLICE1"]),
        ("permute", (TABLE, (1, 0)), ["SLICE1"]),
        ("transpose", (TABLE, 0, 1), ["SLICE1"]),
        ("expand", (TABLE, (3, -1, -1)), ["SLICE1"]),
        ("diagonal", (TABLE, 2), ["SLICE1"]),
        ("unfold", (TABLE, 1, 2, 2), ["SLICE1"]),
        ("unfold", (TABLE, 1, 3, 1), ["SLICE1", "SLICE1"]),
        ("roll", (TABLE, 3, 1), ["SLICE1", "SLICE1"]),
        ("pixel_shuffle", (((1, 8, 2, 3), "float32"), 2), ["DEPTH_TO_SPACE1"]),
        ("pixel_unshuffle", (((1, 2, 4, 6), "float32"), 2), ["SPACE_TO_DEPTH1"]),
    ],
)
def test_each_function_becomes_these_operators(function: str, arguments: tuple[Any, ...], operators: list[str]) -> None:
    described = getattr(dg.torch, function).to_directml(*arguments)
    assert [desc.operator.name for desc in listed(described)] == operators


def test_several_results_have_an_entry_each() -> None:
    cases: list[tuple[Any, Any]] = [(dg.torch.chunk, 2), (dg.torch.split, [3, 7]), (dg.torch.tensor_split, 2)]
    for function, more in cases:
        results, plans = function(X[0], 2, 1), function.plan(TABLE, more, 1)
        assert [plan.shape[0] for plan in plans] == [4, 4]
        assert len(results) == len(plans) == len(function.to_directml(TABLE, more, 1)) == 2
        assert function.differences(TABLE, more, 1) == ()
        assert [desc.operator.name for desc in function.to_directml(TABLE, more, 1)] == ["SLICE1", "SLICE1"]


def test_calls_of_one_meaning_have_one_plan() -> None:
    assert canonicalise(dg.torch.index_select.plan(TABLE, 1, ROWS)) == canonicalise(
        dg.lax.gather.plan(
            TABLE, ((3, 1), "int64"), dg.lax.GatherDimensionNumbers((0,), (1,), (1,)), (4, 1), out_of_bounds="raise"
        )
    )
    assert canonicalise(dg.torch.index.plan(TABLE, (slice(None), ROWS))) == canonicalise(dg.onnx.gather.plan(TABLE, ROWS, 1))
    assert canonicalise(dg.torch.flip.plan(TABLE, (1,))) == canonicalise(dg.onnx.slice.plan(TABLE, [-1], [-11], [1], [-1]))
    shuffled = (((2, 8, 2, 3), "float32"), 2)
    assert canonicalise(dg.torch.pixel_shuffle.plan(*shuffled)) == canonicalise(dg.onnx.depth_to_space.plan(*shuffled, "CRD"))


def test_arrays_of_numpy_give_what_numpy_gives() -> None:
    assert (dg.torch.index_select(X, 1, IDS) == X[:, IDS]).all()
    assert (dg.torch.gather(X, 2, X.astype(np.int64) % 4) == np.take_along_axis(X, X.astype(np.int64) % 4, 2)).all()
    assert (dg.torch.index(X, np.s_[:, IDS, ::2]) == X[:, IDS, ::2]).all()
    assert (dg.torch.roll(X, (1, -2), (0, 2)) == np.roll(X, (1, -2), (0, 2))).all()
    assert (dg.torch.roll(X[:, ::2], 5) == np.roll(X[:, ::2], 5)).all()
    assert (dg.torch.diagonal(X.T, -1) == np.diagonal(X.T, -1)).all()
    assert (dg.torch.unfold(X, 2, 3, 1) == np.lib.stride_tricks.sliding_window_view(X, 3, 2)).all()


REFUSALS: Refusals = {
    IndexError: {
        "dim is 3, but input has 3 dimensions: expected -3 … 2": lambda: dg.torch.index_select(X, 3, IDS),
        "index[0] = 2 is out of range for axis 0 of size 2: valid indices are 0 … 1": lambda: dg.torch.index_select(X, 0, IDS),
    },
    RuntimeError: {
        "sections is 9223372036854775807, expected 1 … 2147483647": lambda: dg.torch.tensor_split(X, 2**63 - 1),
        "index[1] = -1 is out of range for axis 1 of size 3": lambda: dg.torch.index_select(X, 1, IDS - 1),
        "index has 1 dimension and input has 3, but gather takes equal ranks": lambda: dg.torch.gather(X, 0, IDS),
        "index has type int32, but torch.take takes int64": lambda: dg.torch.take(X, IDS.astype(np.int32)),
        "weight is float64 [2, 3, 4], but embedding takes two dimensions": lambda: dg.torch.embedding(IDS, X),
        "...expected a length of at most 2": lambda: dg.torch.narrow(X, 1, 1, 3),
        "size is 4, but dimension 1 has size 3: expected at most 3": lambda: dg.torch.unfold(X, 1, 4, 1),
        "...need element 24, but the storage has 24 elements": lambda: dg.torch.as_strided(X, (2,), (23,), 1),
        "size[0] is 5, but dimension 0 of input has size 2": lambda: dg.torch.expand(X, (5, 3, 4)),
        "input has size 2 in dimension -3": lambda: dg.torch.pixel_shuffle(X, 2),
    },
    ValueError: {
        "max_norm is 1, which would change rows of weight": lambda: dg.torch.embedding(IDS, X[0], max_norm=1),
        "entry 0 has step -1, expected 1 or more": lambda: dg.torch.index(X, np.s_[::-1]),
    },
    AssertionError: {
        "padding_idx is 3, but weight has 3 rows: expected -3 … 2": lambda: dg.torch.embedding(IDS, X[0], 3),
    },
    TypeError: {
        "index is 1.5 of type float, expected an integer": lambda: dg.torch.select(X, 1, cast("Any", 1.5)),
        "input has type": lambda: dg.torch.index_select(np.array(["a"]), 0, IDS),
        "input: expected an array": lambda: dg.torch.index_select([1, 2], 0, IDS),
        "input has no elements: pass arrays": lambda: dg.torch.index.inputs(TABLE, (0, ROWS)),
        "...a descriptor has none": lambda: dg.torch.take.to_directml(TABLE, ROWS, out_of_bounds="clamp"),
    },
}


@each_of(REFUSALS)
def test_errors_say_the_rule_and_both_values(call: Callable[..., Any], error: type[Exception], message: str) -> None:
    check_refused(call, error, message)


def test_a_broken_call_has_a_report() -> None:
    report = dg.torch.gather.to_directml(TABLE, 5, ROWS)
    assert codes(report) == ["EXP101"]
    assert "dim is 5, but input has 2 dimensions" in str(report)
    rolled = dg.torch.roll.to_directml(((0, 3), "float32"), 1, 1)
    assert isinstance(rolled, dg.Report)
    assert rolled.subject == "PyTorch roll"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: dg.torch.index_select.differences(TABLE, 1, ROWS), ["EXP201 indices from 0 to 9", "EXP202 indices from 0 on"]),
        (lambda: dg.torch.take.differences(TABLE, ROWS), ["EXP201 indices from -40 to 39"]),
        (
            lambda: dg.torch.take_along_dim.differences(TABLE, ROWS),
            ["EXP201 indices from 0 to 39", "EXP202 indices from 0 on"],
        ),
        (
            lambda: dg.torch.index.differences(TABLE, (ROWS, ROWS)),
            ["EXP201 indices from -4 to 3 or -10 to 9, by the dimension that they index"],
        ),
        (lambda: dg.torch.index.differences(TABLE, np.s_[1:]), []),
        (lambda: dg.torch.flip.differences(TABLE, (0,)), []),
    ],
)
def test_differences_state_which_indices_pytorch_takes(call: Any, said: list[str]) -> None:
    assert [f"{finding.code} {finding.expected}" for finding in call()] == said


def test_functions_are_pickled_and_shown_as_functions() -> None:
    assert pickle.loads(pickle.dumps(dg.torch.gather)) is dg.torch.gather
    assert str(inspect.signature(dg.torch.take)).startswith("(input: 'Any', index: 'Any', *, out")


def test_no_call_loads_pytorch() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\nimport numpy as np, dmlgather as dg\n"
        "assert dg.torch.index_select(np.arange(3), 0, np.array([2])).tolist() == [2]"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
