"""The tests' stand-ins for CuPy have only what CuPy has: names, constants, parameters. Judged from outside; `checked.py` judges
what is asked of them while tests run.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from dmlgather.backends.cuda.driver import OPTIONS, kernel_source
from dmlgather.backends.cuda.variants import VARIANTS
from tests.benchmarks.stand_in import BenchArray, BenchDriver
from tests.gpu_page import PageDriver
from tests.kernels.host_driver import HostDriver
from tests.real_cupy import checked
from tests.real_cupy.signatures import complaint, exists, find
from tests.test_model_devices import ModelDriver as EventDriver
from tests.test_operator_devices import ArrayDriver, DeviceArray

pytestmark = pytest.mark.cupy

DRIVERS = (HostDriver, ArrayDriver, EventDriver, BenchDriver, PageDriver)

NAMESPACES = ("cupy.cuda.runtime", "cupy.cuda.driver", "cupy")
"""What a stand-in is at once."""

CODE = kernel_source(VARIANTS[0])

OWN = {"use"}
"""Methods that are the stand-ins' own: what tests ask them."""


def faces(driver: type[HostDriver]) -> Iterator[tuple[str, Any]]:
    """The paths of the names that a stand-in offers to dmlgather, and the objects."""
    stand_in = driver()
    for name in dir(driver):
        if not name.startswith("_") and name not in OWN:
            yield (
                next((f"{space}.{name}" for space in NAMESPACES if exists(f"{space}.{name}")), f"cupy.{name}"),
                getattr(stand_in, name),
            )
    yield from inner("cupy.cuda", stand_in.cuda)


def inner(path: str, space: SimpleNamespace) -> Iterator[tuple[str, Any]]:
    for name, value in vars(space).items():
        yield f"{path}.{name}", value
        if isinstance(value, SimpleNamespace):
            yield from inner(f"{path}.{name}", value)


@pytest.mark.parametrize("driver", DRIVERS)
def test_every_name_and_constant_is_one_of_cupys(driver: type[HostDriver]) -> None:
    offered = dict(faces(driver))
    assert len(offered) > 15
    assert [path for path in offered if not exists(path)] == []
    constants = {path: value for path, value in offered.items() if isinstance(value, int)}
    assert constants == {path: find(path) for path in constants}


@pytest.mark.parametrize("driver", DRIVERS)
def test_every_call_that_a_stand_in_takes_is_one_that_cupy_takes(driver: type[HostDriver]) -> None:
    problems = (complaint(path, [...] * count, named) for path, value in faces(driver) for count, named in accepted(value))
    assert [problem for problem in problems if problem is not None] == []


@pytest.mark.parametrize("stand_in", [DeviceArray, BenchArray])
def test_arrays_have_only_what_cupys_have(cupy: Any, stand_in: type[DeviceArray]) -> None:
    class Empty:
        pass

    assert {name for name in dir(stand_in) if not hasattr(cupy.ndarray, name)} <= {*dir(Empty)}


def accepted(value: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    """The least and the most arguments by position, with every argument by name, that a stand-in's function takes."""
    if not inspect.isroutine(value):
        return
    stated = inspect.signature(value).parameters.values()
    if any(each.kind is each.VAR_POSITIONAL for each in stated):
        return  # `checked` sees what is passed
    places = [each for each in stated if each.kind is each.POSITIONAL_OR_KEYWORD]
    named = {each.name: ... for each in stated if each.kind is each.KEYWORD_ONLY}
    for count in {len(places), sum(each.default is each.empty for each in places)}:
        yield count, named


class TestDrift:
    """A stand-in that differs from CuPy is noticed while tests run."""

    def test_a_name_that_cupy_lacks(self) -> None:
        class Drifted(HostDriver):
            def memsetLater(self) -> None:  # noqa: N802
                pass

        with pytest.raises(AssertionError, match=r"has no cupy\.cuda\.runtime\.memsetLater"):
            checked.Checked(Drifted(), "cupy").cuda.runtime.memsetLater()

    def test_a_name_in_another_namespace(self) -> None:
        with pytest.raises(AssertionError, match=r"has no cupy\.cuda\.runtime\.launchKernel"):
            _ = checked.Checked(HostDriver(), "cupy").cuda.runtime.launchKernel

    def test_another_constant(self) -> None:
        class Drifted(HostDriver):
            memcpyDeviceToHost = 3  # noqa: N815

        with pytest.raises(AssertionError, match=r"memcpyDeviceToHost is 3, and 2 in CuPy"):
            _ = checked.Checked(Drifted(), "cupy").cuda.runtime.memcpyDeviceToHost

    def test_an_attribute_that_cannot_be_set(self) -> None:
        kernel = checked.Checked(HostDriver(), "cupy").RawModule(code=CODE, options=OPTIONS).get_function(VARIANTS[0].name)
        kernel.max_dynamic_shared_size_bytes = 99 * 1024
        assert kernel.max_dynamic_shared_size_bytes == 99 * 1024
        with pytest.raises(AssertionError, match=r"has no cupy\.RawKernel\.most_shared_bytes that can be set"):
            kernel.most_shared_bytes = 99 * 1024

    def test_arguments_that_cupy_refuses(self) -> None:
        runtime = checked.Checked(HostDriver(), "cupy").cuda.runtime
        for arguments in ((), ("0",), (0, 1)):
            with pytest.raises(AssertionError, match=r"cupy\.cuda\.runtime\.setDevice"):
                runtime.setDevice(*arguments)
