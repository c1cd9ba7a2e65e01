"""Problems that are ready to run: with the route for arrays of known signatures."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from dmlgather.backends import torch_tensors
from dmlgather.backends.devices import Device
from dmlgather.backends.executor import ROUTES_KEPT, Executor
from dmlgather.backends.footprints import Signature, logical
from dmlgather.backends.routes import Route
from dmlgather.dialects.problem import Problem
from dmlgather.plan import OutOfBounds

EXECUTORS_KEPT = 256
"""Problems whose prepared programs are kept (least recently used leave first)."""


class Ready:
    """A problem on arrays for which a route was found."""

    def __init__(self, problem: Problem, route: Route) -> None:
        self._problem, self._route, self._shape = problem, route, problem.output.shape

    def result(self, inputs: Sequence[Any]) -> Any:
        """A new array, from NumPy's arrays."""
        out = np.empty(self._shape, inputs[0].dtype)
        self.write(inputs, out)
        return out

    def write(self, inputs: Sequence[Any], out: Any) -> None:
        """Run into `out`. IndexError for a bad index under RAISE."""
        outcome = self._route.run(inputs, out)
        if outcome is not None:
            problem = self._problem
            outcome.raise_for_bad_index(problem.arguments[-1], problem.lookup_axes, problem.lookup_windows)

    def tensor(self, inputs: Sequence[Any], out: Any = None) -> Any:
        """`out`, or a new tensor, from tensors that have a key. None where not all of it was written: `write` does so on arrays,
        or says what is wrong.
        """
        if out is None:
            out = torch_tensors.empty(inputs[0], self._shape)
            if type(out) is not type(inputs[0]):  # one without elements, while PyTorch traces
                return None
        return out if self._route.run_at([tensor.data_ptr() for tensor in inputs], out.data_ptr()) else None


def prepare(problem: Problem, policy: OutOfBounds, fill: bytes, device: Device, signatures: Sequence[Signature]) -> Ready:
    """A problem on arrays of these signatures, inputs first, in the memory of the device that runs it. The program is kept."""
    # A program on a GPU reports bad indices by stream, and threads may share one.
    thread = threading.get_ident() if device.on_gpu else 0
    return Ready(problem, _executor(problem, policy, fill, thread)(device, *signatures))


def forget() -> None:
    """Drop all programs that were prepared: for tests."""
    _executor.cache_clear()


@lru_cache(maxsize=EXECUTORS_KEPT)
def _executor(problem: Problem, out_of_bounds: OutOfBounds, fill: bytes, _thread: int) -> Callable[..., Route]:
    """From the device that runs and the signatures of the arrays, inputs first, to the route there."""
    executor = Executor(partial(problem.lower, out_of_bounds=out_of_bounds, fill=fill))
    names = (*problem.arguments, "the result")

    def route(device: Device, *signatures: Signature) -> Route:
        *inputs, out = map(logical, names, signatures)
        return executor.route(device, inputs, out)

    return lru_cache(ROUTES_KEPT)(route)
