"""ONNX's published node tests of the family, run by ONNX's own runner on the CPU and on CUDA."""

from __future__ import annotations

import unittest
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import pytest
from onnx.backend.base import Backend as AnyBackend
from onnx.backend.test import BackendTest
from onnx.backend.test.case.node import collect_testcases

from dmlgather.onnx import Backend
from dmlgather.onnx.problems.node_reading import in_family

OLD_SHAPES = pytest.mark.filterwarnings("ignore:Setting the shape on a NumPy array:DeprecationWarning")
"""onnx's own loader of its tests does what NumPy 2.5 warns of."""


@contextmanager
def quiet() -> Iterator[None]:
    """Where the cases are built: those of other operators divide by zero and overflow."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"onnx\.backend\.test\.case\.node\.")
        yield


@cache
def published() -> set[str]:
    """The tests whose models are made of the family's nodes: those that are called after an operator of the family."""
    with quiet():
        cases = [(case.name, case.model) for case in collect_testcases(None) if case.model is not None]
    found = {name for name, model in cases if all(map(in_family, model.graph.node))}
    called = [name for name, _ in cases if name.startswith(("test_gather", "test_slice", "test_depthto", "test_spaceto"))]
    assert found == {name for name in called if not name.endswith("_expanded")}
    assert len(found) >= 22
    return {name.removeprefix("test_") for name in found}


class Outcome(unittest.TestResult):
    """Remembers which tests ran to their end and passed; the runner skips whatever was not included."""

    def __init__(self) -> None:
        super().__init__()
        self.passed: list[str] = []

    def addSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802 - unittest's name
        self.passed.append(test.id().rpartition(".")[2])


def outcome(backend: type[AnyBackend]) -> Outcome:
    with quiet():
        tests = BackendTest(backend, __name__)
    tests.include(rf"^test_({'|'.join(published())})_(cpu|cuda)$")
    found = Outcome()
    tests.test_suite.run(found)
    return found


def names(*devices: str) -> list[str]:
    return sorted(f"test_{name}_{device}" for name in published() for device in devices)


@pytest.mark.slow
@OLD_SHAPES
def test_the_published_tests_run_and_pass() -> None:
    found = outcome(Backend)
    assert found.errors == found.failures == []
    assert sorted(found.passed) == names("cpu")


@pytest.mark.gpu
@OLD_SHAPES
def test_the_published_tests_run_and_pass_on_a_gpu() -> None:
    found = outcome(Backend)
    assert found.errors == found.failures == []
    assert sorted(found.passed) == names("cpu", "cuda")
