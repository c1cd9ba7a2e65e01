"""The problem of a call describes the call: its plan gives the call's bytes in the reference, or raises in the same cases.

The plans read the unchanged arguments. A conversion inside the call would be lost when its problem is translated.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlgather as dg
from dmlgather.backends import reference
from dmlgather.calls.eager import EagerFunction
from dmlgather.plan import IndexPlan
from tests.stated_calls import ALL, LOOKING, WITHOUT, Looking, X, indices

BAD = "a bad index"
POLICIES = (None, "clamp", "raise", dg.Fill(-9))
MODULO = "take_along_dim takes indices modulo the size along dim, but a plan cannot compute remainders: call gather"


def planned(plan: IndexPlan, *arrays: Any) -> Any:
    """Return the reference's result of a plan over these arrays, packed."""
    data, *index = (np.ascontiguousarray(array).reshape(-1) for array in arrays)
    out = np.zeros(plan.out_extent, data.dtype)
    bad = reference.prepare(plan).run(data, index[0] if index else None, out)
    return BAD if bad is not None else out


def called(function: Any, *args: Any, **kwargs: Any) -> Any:
    try:
        return function(*args, **kwargs)
    except (IndexError, RuntimeError):
        return BAD


def same(found: Any, expected: Any) -> bool:
    if isinstance(found, str) or isinstance(expected, str):
        return found is expected
    return bool(found.tobytes() == expected.tobytes())


def test_every_eager_function_has_a_row() -> None:
    public = [getattr(face, name) for face in (dg.torch, dg.lax, dg.onnx, dg.openvino) for name in face.__all__]
    here = {id(row.function) for row in LOOKING} | {id(function) for function, _ in WITHOUT}
    assert [each for each in public if isinstance(each, EagerFunction) and id(each) not in here] == []


@pytest.mark.parametrize("row", LOOKING, ids=str)
def test_the_plan_of_a_call_with_indices_gives_its_result(row: Looking) -> None:
    for dtype in row.types:
        for i in indices(row.size, dtype):
            args = row.arguments(i)
            for policy in POLICIES:
                options = {**row.keywords, "out_of_bounds": policy}
                if row.function is dg.torch.take_along_dim and len(args) == 3 and policy is None:
                    continue
                problem = row.function.problem(*args, **options)
                expected, found = called(row.function, *args, **options), planned(problem.plan(), *row.read(i))
                assert same(found, expected), (i, policy, found, expected)
                assert isinstance(expected, str) or problem.output.shape == expected.shape
                assert row.function.plan(*args, **options) == problem.plan()


@pytest.mark.parametrize(("function", "arguments"), WITHOUT, ids=lambda value: getattr(value, "__name__", ""))
def test_the_plan_of_a_call_without_indices_gives_its_result(function: Any, arguments: tuple[Any, ...]) -> None:
    problem, data = function.problem(*arguments), arguments[0]
    expected = function(*arguments)
    if function is dg.torch.roll:  # each step reads the result of the step before
        for each in problem:
            data = planned(each.plan(), data)
        assert same(data, expected)
    elif isinstance(problem, tuple):
        assert all(same(planned(each.plan(), data), result) for each, result in zip(problem, expected, strict=True))
    else:
        assert same(planned(problem.plan(), data), expected)


@pytest.mark.parametrize("dtype", ALL)
def test_the_plan_of_an_index_expression_gives_its_result(dtype: str) -> None:
    for i in indices(4, dtype):
        for expression, read, numpys in (
            (dg.index[:, i], i, lambda i=i: X[:, i]),
            (dg.index[i % 3, i], np.stack([i % 3, i], -1), lambda i=i: X[i % 3, i]),
            (dg.index.take_along_axis(i[None], 1), i[None], lambda i=i: np.take_along_axis(X, i[None], 1)),
        ):
            given = read.astype(expression.problem(X).tensors[1].dtype)  # NumPy converts it to int64
            assert np.array_equal(expression.indices[0], given)
            for policy in POLICIES:
                plan = expression.plan(X, out_of_bounds=policy)
                expected = called(expression, X, out_of_bounds=policy)
                assert same(planned(plan, X, given), expected), (i, policy, str(expression))
                if policy is None:
                    assert same(expected, called(numpys)), (i, str(expression))


@pytest.mark.parametrize("method", ["problem", "plan", "inputs", "differences"])
def test_take_along_dim_with_a_dim_has_no_problem(method: str) -> None:
    with pytest.raises(ValueError, match=MODULO):
        getattr(dg.torch.take_along_dim, method)(X, np.array([[9]]), 1)
    report = dg.torch.take_along_dim.to_directml(X, ((3, 2), "int64"), 1)
    assert isinstance(report, dg.Report)
    assert [(each.code, each.path, each.got) for each in report.findings] == [
        ("EXP106", "indices", "indices that count modulo 4")
    ]
    assert report.subject == "PyTorch take_along_dim"
