"""Problems that are ready to run: with the route for arrays of known signatures."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from dmlgather.backends import torch_tensors
from dmlgather.backends.devices import Device
from dmlgather.backends.footprints import Signature, logical
from dmlgather.backends.routes import ROUTES_KEPT, Executor, Route
from dmlgather.dialects.problem import Problem
from dmlgather.plan import OutOfBounds

PROBLEMS_KEPT = 256
"""Problems of eager functions whose prepared programs are kept (least recently used leave first)."""


class Ready:
    """A problem on arrays for which a route was found."""

    def __init__(self, problem: Problem, route: Route) -> None:
        self._problem, self._route, self._shape = problem, route, problem.output.shape

    def write(self, inputs: Sequence[Any], out: Any) -> None:
        """Run into `out`. IndexError for a bad index under RAISE."""
        outcome = self._route.run(inputs, out)
        if outcome is not None:
            problem = self._problem
            outcome.raise_for_bad_index(problem.arguments[-1], problem.lookup_axes, problem.lookup_windows)

    def again(self, given: Sequence[Any]) -> Any:
        """The result of a call on NumPy's arrays, or on tensors in host memory that have a key. None where not all of it was
        written: the call as a whole does it, or says what is wrong.

        given: the inputs, then `out`, or None for a new array.
        """
        *inputs, out = given
        first = inputs[0]
        if type(first) is not np.ndarray:
            if out is None:
                out = torch_tensors.empty(first, self._shape)
                if type(out) is not type(first):  # one without elements, while PyTorch traces
                    return None
            return out if self._route.run_at([tensor.data_ptr() for tensor in inputs], out.data_ptr()) else None
        if out is None:
            out = np.empty(self._shape, first.dtype)
        elif not out.flags.writeable:
            return None
        try:
            return out if self._route.run(inputs, out) is None else None
        except ValueError:  # `out` overlaps an input
            return None


class Prepared:
    """A problem, whose programs are prepared once for each device and layouts of arrays, and kept; so are routes."""

    def __init__(self, problem: Problem, out_of_bounds: OutOfBounds | None = None, fill: bytes = b"") -> None:
        """out_of_bounds, fill: as `Problem.lower` takes them."""
        lower = partial(problem.lower, out_of_bounds=out_of_bounds, fill=fill)
        # A program on a GPU reports bad indices by stream, and threads may share one.
        executor = lru_cache(ROUTES_KEPT)(lambda _thread: Executor(lower))

        def ready(device: Device, thread: int, *signatures: Signature) -> Ready:
            *inputs, out = map(logical, (*problem.arguments, "the result"), signatures)
            return Ready(problem, executor(thread).route(device, inputs, out, signatures))

        self._ready = lru_cache(ROUTES_KEPT)(ready)

    def ready(self, device: Device, *signatures: Signature) -> Ready:
        """The problem on arrays of these signatures, inputs first, in the memory of the device that runs it.

        ValueError where no plan can say how it walks over their strides, and for arrays that cannot be read or written there.
        """
        return self._ready(device, threading.get_ident() if device.on_gpu else 0, *signatures)


prepared = lru_cache(maxsize=PROBLEMS_KEPT)(Prepared)
"""As `Prepared`, one for equal arguments."""
