"""ONNX's published node tests of the family and around it, run by ONNX's own runner on the CPU and on CUDA."""

from __future__ import annotations

import unittest
import warnings
from types import SimpleNamespace
from typing import Any

import pytest
from onnx.backend.base import Backend as AnyBackend
from onnx.backend.test import BackendTest

from dmlgather.backends.cuda import DeviceError, require
from dmlgather.onnx import Backend
from tests.kernels.host_driver import installed
from tests.onnx.model_driver import ModelDriver

OLD_SHAPES = pytest.mark.filterwarnings("ignore:Setting the shape on a NumPy array:DeprecationWarning")
"""onnx's own loader of its tests does what NumPy 2.5 warns of."""

PUBLISHED = (
    "gather_0",
    "gather_1",
    "gather_2d_indices",
    "gather_negative_indices",
    "gather_elements_0",
    "gather_elements_1",
    "gather_elements_negative_indices",
    "gathernd_example_int32",
    "gathernd_example_float32",
    "gathernd_example_int32_batch_dim1",
    "slice",
    "slice_neg",
    "slice_start_out_of_bounds",
    "slice_end_out_of_bounds",
    "slice_default_axes",
    "slice_default_steps",
    "slice_neg_steps",
    "slice_negative_axes",
    "depthtospace_example",
    "depthtospace_crd_mode_example",
    "spacetodepth_example",
    "spacetodepth",
    "concat_3d_axis_1",
    "constantofshape_float_ones",
    "expand_dim_changed",
    "flatten_axis2",
    "range_int32_type_negative_delta",
    "size",
    "split_variable_parts_2d_opset18",
    "tile",
)

ARITHMETIC = ("add_int16", "clip_default_int8_min", "equal", "max_int32", "where_example", "xor3d")
"""Tests on the CPU alone: the driver that is not one has no functions of CuPy."""


class Outcome(unittest.TestResult):
    """Remembers which tests ran to their end and passed; the runner skips whatever was not included."""

    def __init__(self) -> None:
        super().__init__()
        self.passed: list[str] = []

    def addSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802 - unittest's name
        self.passed.append(test.id().rpartition(".")[2])


def outcome(backend: type[AnyBackend]) -> Outcome:
    with warnings.catch_warnings():  # building the cases, those of other operators divide by zero and overflow
        warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"onnx\.backend\.test\.case\.node\.")
        tests = BackendTest(backend, __name__)
    tests.include(rf"^test_(({'|'.join(PUBLISHED)})_(cpu|cuda)|({'|'.join(ARITHMETIC)})_cpu)$")
    found = Outcome()
    tests.test_suite.run(found)
    return found


def names(*devices: str) -> list[str]:
    found = [f"test_{name}_{device}" for name in PUBLISHED for device in devices]
    return sorted([*found, *(f"test_{name}_cpu" for name in ARITHMETIC)])


@pytest.mark.slow
@OLD_SHAPES
def test_the_published_tests_run_and_pass() -> None:
    """CUDA is a driver that is not one (tests/kernels/host_driver.py): the kernels are interpreted."""
    with installed(ModelDriver()) as driver:
        found = outcome(Backend)
        assert driver.compiled
    assert found.errors == found.failures == []
    assert sorted(found.passed) == names("cpu", "cuda")


@OLD_SHAPES
def test_a_backend_that_is_wrong_would_fail() -> None:
    class Wrong(Backend):
        @classmethod
        def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> Any:
            return SimpleNamespace(run=lambda inputs: inputs[:1])

        @classmethod
        def supports_device(cls, device: str) -> bool:
            return device == "CPU"

    found = outcome(Wrong)
    assert found.passed == []
    assert len(found.failures) == len(PUBLISHED) + len(ARITHMETIC)


@pytest.mark.gpu
@OLD_SHAPES
def test_the_published_tests_run_and_pass_on_a_gpu() -> None:
    try:
        require(0)
    except DeviceError as error:
        pytest.skip(str(error))
    found = outcome(Backend)
    assert found.errors == found.failures == []
    assert sorted(found.passed) == names("cpu", "cuda")
