"""Objects that can be pickled and copied, and the errors of those that cannot."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx.parser import parse_model

import dmlgather as dg

ROOT = Path(__file__).parents[1]

DATA = np.array([[1, -0.0, np.nan], [2, np.inf, 4]], np.float32)
INDICES = np.array([[2, 1, 0, -1]] * 2)
DESC = dg.GatherElementsOperatorDesc.of(DATA, INDICES, axis=1)

COPIES: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "the oldest protocol": lambda value: pickle.loads(pickle.dumps(value, 0)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


def expected_bits(indices: NDArray[np.int64]) -> bytes:
    """Return the bits that NumPy takes. NumPy has DirectML's negative indices."""
    return np.take_along_axis(DATA, indices, axis=1).tobytes()


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("device", [None, "cpu", "reference"])
@pytest.mark.parametrize("policy", [None, "clamp", "raise", dg.Fill(7)], ids=str)
def test_a_copied_operator_keeps_its_descriptor_and_options(way: str, device: str | None, policy: Any) -> None:
    operator = dg.compile(DESC, device, out_of_bounds=policy)
    operator(DATA, INDICES)  # prepared calls are not pickled
    again = COPIES[way](operator)
    assert (again.desc, repr(again), again.plan) == (operator.desc, repr(operator), operator.plan)
    assert again(DATA, INDICES).tobytes() == expected_bits(INDICES)
    beyond = INDICES + 1
    if policy == "raise":
        with pytest.raises(IndexError, match=r"IndicesTensor\[0, 0\] = 3 is out of range"):
            again(DATA, beyond)
    elif isinstance(policy, dg.Fill):
        expected = np.where(beyond == 3, np.float32(7), np.take_along_axis(DATA, beyond % 3, axis=1))
        assert again(DATA, beyond).tobytes() == expected.tobytes()
    else:
        assert again(DATA, beyond).tobytes() == expected_bits(np.minimum(beyond, 2))


def test_a_pickled_operator_runs_in_another_process() -> None:
    script = "import pickle, sys; run, *arrays = pickle.load(sys.stdin.buffer); sys.stdout.buffer.write(run(*arrays).tobytes())"
    ended = subprocess.run(
        [sys.executable, "-c", script],
        input=pickle.dumps((dg.compile(DESC, "cpu"), DATA, INDICES)),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        timeout=120,
        check=True,
    )
    assert ended.stdout == expected_bits(INDICES)


MODEL = parse_model("""<ir_version: 8, opset_import: ["" : 17]>
g (float[2,3] x, int64[2,4] i) => (float[2,4] y) { y = GatherElements <axis = 1> (x, i) }""")
PROBLEM = dg.onnx.gather_elements.problem(((2, 3), "float32"), ((2, 4), "int64"), axis=1)


@pytest.mark.parametrize("way", COPIES)
def test_models_and_fused_programs_can_be_pickled(way: str) -> None:
    model = dg.onnx.Backend.prepare(MODEL)
    model.run([DATA, INDICES])
    (found,) = COPIES[way](model).run([DATA, INDICES])
    assert found.tobytes() == expected_bits(INDICES)
    assert COPIES[way](dg.fuse(PROBLEM))(DATA, INDICES).tobytes() == expected_bits(INDICES)
    assert COPIES[way](dg.index[::-1, 1:])(DATA).tobytes() == DATA[::-1, 1:].tobytes()
    assert COPIES[way](PROBLEM) == PROBLEM


@pytest.mark.parametrize("way", COPIES)
def test_a_bound_operator_refuses_to_be_pickled(way: str) -> None:
    bound = dg.compile(DESC).bind(DATA, INDICES, out=np.empty((2, 4), np.float32))
    says = "a bound operator holds the addresses of its arrays: pickle or copy the operator, and bind it again"
    with pytest.raises(TypeError, match=says):
        COPIES[way](bound)
