"""The reference, the CPU, and the CUDA kernels' PTX in the interpreter give the same bits for descriptors.

Judges: the documented examples, and each operator's documented pseudocode, which is independent of plans.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.typing import NDArray

from dmlgather import GatherElementsOperatorDesc, GatherND1OperatorDesc, GatherNDOperatorDesc, GatherOperatorDesc
from dmlgather.backends import cpu, reference
from dmlgather.directml import OPERATORS, OperatorDesc, lower, validate
from dmlgather.plan import IndexPlan, OutOfBounds
from tests import seeds
from tests.directml.buffers import documented, elements, logical
from tests.directml.examples import EXAMPLES, Example
from tests.kernels.ptx import runs
from tests.strategies import Problem, problems

Run = Callable[[IndexPlan, NDArray[Any], NDArray[Any] | None, NDArray[Any]], int | None]

EXECUTIONS: dict[str, Run] = {
    "reference": reference.run,
    "cpu": lambda plan, data, indices, out: cpu.prepare(plan).run(data, indices, out),
    "kernels": runs.run,
    "general kernels": lambda plan, data, indices, out: runs.run(plan, data, indices, out, specialise=False),
}


EDGES = {sign * 2**power + step for power in (7, 8, 16, 31, 32, 63, 64) for sign in (1, -1) for step in (-1, 0, 1, 2)}
"""Indices near the limits of every width, of both signs."""


def executed(execution: str, plan: IndexPlan, data: NDArray[Any], indices: NDArray[Any] | None) -> bytes:
    """Return the bytes that a backend writes over poison for a plan of packed arrays."""
    width = f"V{data.itemsize}"
    out = np.full(plan.out_extent * data.itemsize, 0xA5, np.uint8)
    given = None if indices is None else np.ascontiguousarray(indices).reshape(-1)
    assert EXECUTIONS[execution](plan, np.ascontiguousarray(data).reshape(-1).view(width), given, out.view(width)) is None
    return out.tobytes()


def execute(run: Run, desc: OperatorDesc, inputs: tuple[NDArray[np.uint8], ...], poison: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the output buffer of one execution over byte buffers."""
    out = poison.copy()
    width = f"V{desc.tensor('output_tensor').data_type.bytes}"
    data, *indices = (elements(desc.tensor(name), buffer) for name, buffer in zip(desc.operator.inputs, inputs, strict=True))
    target = elements(desc.tensor("output_tensor"), out).view(width)
    assert run(lower(desc), data.view(width), indices[0] if indices else None, target) is None
    return out


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_documented_examples_give_their_documented_result(example: Example, execution: str) -> None:
    inputs = tuple(array.reshape(-1).view(np.uint8) for array in example.arrays)
    poison = np.full(example.desc.tensor("output_tensor").total_bytes, 0xA5, np.uint8)
    out = execute(EXECUTIONS[execution], example.desc, inputs, poison)
    found = logical(example.desc.tensor("output_tensor"), out)
    assert found.tobytes() == example.result.tobytes()


@pytest.mark.slow
@settings(max_examples=1300, deadline=None)
@given(problems())
def test_random_descriptors_give_the_same_bits_on_all_backends(problem: Problem) -> None:
    desc = problem.desc
    poison = np.random.default_rng(problem.seed).integers(0, 256, desc.tensor("output_tensor").total_bytes, dtype=np.uint8)
    expected = execute(reference.run, desc, problem.inputs, poison)
    assert logical(desc.tensor("output_tensor"), expected).tobytes() == documented(desc, problem.inputs).tobytes()
    for name in ("cpu", "kernels"):
        assert execute(EXECUTIONS[name], desc, problem.inputs, poison).tobytes() == expected.tobytes(), name


SIZE = 6
CASES: dict[str, Callable[[NDArray[Any], NDArray[Any]], OperatorDesc]] = {
    "GATHER": lambda data, indices: GatherOperatorDesc.of(data[:, None], indices, 0),
    "GATHER_ELEMENTS": lambda data, indices: GatherElementsOperatorDesc.of(data[:, None], indices[:, None]),
    "GATHER_ND": lambda data, indices: GatherNDOperatorDesc.of(data, indices[:, None]),
    "GATHER_ND1": lambda data, indices: GatherND1OperatorDesc.of(data, indices[:, None]),
}
"""Operators with one index per element of the output."""


def extreme_case(operator: str, index_type: str, values: list[int]) -> tuple[OperatorDesc, NDArray[Any], NDArray[Any]]:
    data, indices = seeds.numpy_rng().random(SIZE), np.array(values, index_type.lower())
    desc = CASES[operator](data, indices)
    assert validate(desc).ok, str(validate(desc))
    return desc, data, indices


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("index_type", ["INT32", "INT64", "UINT32", "UINT64"])
@pytest.mark.parametrize("operator", CASES)
def test_extreme_indices_clamp_to_the_axis(operator: str, index_type: str, execution: str) -> None:
    info = np.iinfo(index_type.lower())
    wanted = [-(2**63), 2**63 - 1, 2**64 - 1, -SIZE - 1, -SIZE, SIZE, 2**32 + 1, -1, 0, SIZE - 1, 2**31, 2**32 - 1]
    values = [value for value in wanted if info.min <= value <= info.max]
    desc, data, indices = extreme_case(operator, index_type, values)
    # The decided rule: wrap signed indices once, then clamp to the nearest valid position. Python's integers do not overflow.
    positions = [min(max(value + SIZE if value < 0 else value, 0), SIZE - 1) for value in values]
    poison = np.full(8 * len(values), 0xA5, np.uint8)
    out = execute(EXECUTIONS[execution], desc, (data.view(np.uint8), indices.view(np.uint8)), poison)
    assert out.tobytes() == data[positions].tobytes()


@pytest.mark.parametrize("policy", [OutOfBounds.FILL, OutOfBounds.RAISE])
@pytest.mark.parametrize("index_type", ["INT32", "INT64", "UINT32", "UINT64"])
@pytest.mark.parametrize("operator", CASES)
def test_all_executions_agree_which_indices_are_out_of_range(operator: str, index_type: str, policy: OutOfBounds) -> None:
    info = np.iinfo(index_type.lower())
    values = [value for value in (0, SIZE - 1, -1, -SIZE, SIZE, 2**32 + 1, 2**64 - 1, -(2**63)) if info.min <= value <= info.max]
    desc, data, indices = extreme_case(operator, index_type, values)
    lowest = -SIZE if info.min < 0 else 0
    good = [lowest <= value < SIZE for value in values]
    fill = b"\xee" * 8 if policy is OutOfBounds.FILL else b""
    plan = lower(desc, out_of_bounds=policy, fill=fill)
    for name, run in EXECUTIONS.items():
        out = np.full(len(values), np.nan)
        bad = run(plan, data.view("V8"), indices, out.view("V8"))
        if policy is OutOfBounds.RAISE:
            assert bad == good.index(False), name
        else:
            expected = [data[value].tobytes() if ok else fill for value, ok in zip(values, good, strict=True)]
            assert out.tobytes() == b"".join(expected), name


def test_every_operator_with_indices_has_a_case() -> None:
    assert set(CASES) == {operator.name for operator in OPERATORS.values() if "indices_tensor" in operator.inputs}
