"""Eager functions: a dialect's call becomes a problem and runs at once on its arrays."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, update_wrapper
from typing import Any, Generic, ParamSpec

import numpy as np

from dmlgather.backends import arrays
from dmlgather.backends.adapter import Again
from dmlgather.backends.devices import Device
from dmlgather.backends.footprints import signature_on
from dmlgather.backends.prepared_call import PreparedCall
from dmlgather.calls.arguments import CallOutput, Fill, Taken, policy_of, take, type_of
from dmlgather.calls.keys import read_call
from dmlgather.calls.prepared import known, prepared, repeats, write
from dmlgather.dialects.planned import under
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.plan import IndexPlan, OutOfBounds

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Request:
    """What one call asks for.

    problem_of: from the arrays' types, in order, to the problem. arrays: the array arguments by name. out_of_bounds: None for the
    dialect's own policy, else "clamp", "raise", "promise" or a Fill. device: None for where the arrays are. out: the array that
    takes the result; None for a new one. stream: of a GPU, as compiled operators take it. keyed: whether the types and strides of
    the arrays and the other arguments say all that the call does, and the same arguments are arrays in every call.
    """

    problem_of: Callable[..., Any]
    arrays: Mapping[str, Any]
    out_of_bounds: str | Fill | None
    device: str | None
    out: Any = None
    stream: Any = field(default=None, kw_only=True)
    keyed: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        if self.device is not None:
            Device.parse(self.device)  # which refuses an unknown one

    @property
    def runs(self) -> Device | None:
        """The device to run on."""
        return None if self.device is None else Device.parse(self.device)


@dataclass(frozen=True, slots=True)
class Ran:
    """A call that has run. written: what wrote its results, in order; nothing where more than that was done. several: whether the
    result is a tuple.
    """

    result: Any
    taken: Sequence[Taken]
    written: Sequence[PreparedCall]
    several: bool = False


class EagerFunction(Generic[P]):
    """A function on arrays. Its method `plan` gives the plan of a call and needs only the arrays' shapes and types."""

    def __init__(self, request: Callable[P, Request]) -> None:
        self._request = request
        self._slots: dict[int | str, int] = {}  # the number of each array argument, which the first request tells
        self._count = 0
        update_wrapper(self, request)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Run on arrays; the result is the same kind of array as the first, and `out` where that is given. On a GPU, on `stream`;
        left out, on PyTorch's current one if the first array is a tensor, else on CuPy's.
        """
        kept, given = self._known(args, kwargs)
        if kept and (result := kept[0](given)) is not None:
            return result
        request = self._request(*args, **kwargs)
        if request.keyed and not self._slots:
            self._count, self._slots = len(request.arrays) + 1, _slots(self._request, request.arrays)
            kept, given = self._known(args, kwargs)
        ran = self.run(request)
        # The key of an `out` that was resized is another one.
        if kept is not None and _reads_as_passed(ran, request, given) and self._known(args, kwargs)[0] is kept:
            kept[:] = _repeating(ran, given)
        return ran.result

    def run(self, request: Request) -> Ran:
        """A call of which nothing is known."""
        with arrays.in_order([*request.arrays.values(), request.out], request.stream, request.runs):
            taken = take(request.arrays, request.runs)
            problem = request.problem_of(*(item.type for item in taken))
            return _run(problem, taken, request.out_of_bounds, request.out, moves=request.device is not None)

    def plan(self, *args: P.args, **kwargs: P.kwargs) -> IndexPlan:
        """The plan of the same call over packed arrays. An array may be replaced by anything with `shape` and `dtype`, or by a
        pair (shape, dtype); `out`, `device` and `stream` change nothing.
        """
        return self.problem(*args, **kwargs).plan()

    def problem(self, *args: P.args, **kwargs: P.kwargs) -> Problem:
        """What the same call asks for, without arrays: `dg.translate` takes it. Arguments as for `plan`.

        >>> dg.onnx.gather.problem(((30522, 384), "float32"), ((1, 128), "int64")).output.shape
        (1, 128, 384)
        """
        request = self._request(*args, **kwargs)
        problem: Problem = request.problem_of(*(type_of(name, item) for name, item in request.arrays.items()))
        return under(problem, *policy_of(problem, request.out_of_bounds))

    @property
    def __signature__(self) -> inspect.Signature:
        """What `help` shows: the arguments, without the wrapped function's return type, since a call returns an array."""
        return inspect.signature(self._request).replace(return_annotation=inspect.Signature.empty)

    def __get__(self, instance: object, owner: type | None = None) -> EagerFunction[P]:
        """This function: nothing is bound. What has `__get__`, as functions do, is shown by `help` with its arguments."""
        return self

    def __reduce__(self) -> str:
        """Pickled by name, as functions are."""
        return self.__qualname__  # type: ignore[attr-defined, no-any-return] # set by update_wrapper

    def __repr__(self) -> str:
        return f"<function {self.__module__}.{self.__qualname__}>"  # type: ignore[attr-defined] # set by update_wrapper

    def _known(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Again] | None, list[Any]]:
        """What is kept for calls of the same key, None for a call without one; and its arrays, with `out` behind them."""
        slots = self._slots
        given: list[Any] = [None] * self._count
        key = read_call(args, kwargs, slots, given, arrays.signature) if slots else None
        return None if key is None else known(self, key), given


def execute(
    problem: Problem, inputs: Sequence[Any], *, out_of_bounds: str | Fill | None = None, device: str | None = None
) -> Any:
    """Run a problem on arrays of its tensors' shapes and types; the result is the same kind of array as the first.

    out_of_bounds, device: as for the eager functions. Raises TypeError for arrays of another type or on several devices,
    ValueError for another shape, IndexError for a bad index under RAISE (on every device), DeviceError for no usable GPU.
    """
    with arrays.in_order(inputs):
        taken = take(dict(zip(problem.arguments, inputs, strict=True)), None if device is None else Device.parse(device))
        for item, expected in zip(taken, problem.tensors, strict=False):
            if item.type != expected:
                error = TypeError if item.type.dtype != expected.dtype else ValueError
                raise error(f"{item.name} is {item.type}, but the problem was stated for {expected}")
        return _run(problem, taken, out_of_bounds).result


def written_by(
    problem: Problem, policy: tuple[OutOfBounds, bytes], runs: Device, inputs: Sequence[Any], out: Any
) -> PreparedCall:
    """What wrote `out`: a problem on views in the memory of the device that runs it. IndexError for a bad index under RAISE."""
    call = prepared(problem, policy, runs, *(signature_on(runs.memory, array) for array in (*inputs, out)))
    write(call, problem, inputs, out)
    return call


def _run(
    problem: Problem, taken: Sequence[Taken], out_of_bounds: str | Fill | None, out: Any = None, *, moves: bool = False
) -> Ran:
    """moves: whether arrays that lie elsewhere than the call runs are moved."""
    first, policy, shape = taken[0], policy_of(problem, out_of_bounds), problem.output.shape
    target = CallOutput(first, TensorType(shape, first.array.dtype), out)
    if out is not None:
        target.check_given(TensorType(shape, (first.given if first.array.dtype.hasobject else first.array).dtype), moves=moves)
    if policy[0] is OutOfBounds.FILL and first.array.dtype.hasobject:
        target.array[...] = _run_on_positions(problem, taken)
        return Ran(target.returned(), taken, ())
    ready = written_by(problem, policy, first.runs, [item.array for item in taken], target.array)
    return Ran(target.returned(), taken, [ready] if target.in_place else ())


def _run_on_positions(problem: Problem, taken: Sequence[Taken]) -> Any:
    """Strings under the dialect's own FILL, whose fill is the empty string. A plan fills with bytes, which no reference is made
    of, so it moves the positions of strings, counted from 1.
    """
    first = taken[0]
    positions = np.arange(1, first.array.size + 1, dtype=np.intp).reshape(first.array.shape)
    found = _run(problem, [replace(first, given=positions, array=positions), *taken[1:]], None).result
    return np.array(["", *first.array.flat], object)[found]


# Calls of a known key: what is kept of one that has run.


def _slots(request: Callable[..., Any], names: Mapping[str, Any]) -> dict[int | str, int]:
    """The number of each array argument, by its name and its place, and behind them of `out`."""
    places = [*inspect.signature(request).parameters]
    slots: dict[int | str, int] = {name: slot for slot, name in enumerate((*names, "out")) if name in places}
    return slots | {places.index(str(name)): slot for name, slot in slots.items()}


def _reads_as_passed(ran: Ran, request: Request, given: Sequence[Any]) -> bool:
    """Whether calls of the same key need nothing but what wrote the results: where all arrays were read as they were passed, on
    CuPy's or PyTorch's own stream.

    given: the arguments that are arrays, then `out`.
    """
    return bool(
        ran.written
        and request.stream is None
        and all(item.home == item.memory for item in ran.taken)
        and all(map(_as_passed, request.arrays.values(), given))
        and all(item.array is item.given for item in ran.taken if isinstance(item.given, np.ndarray))
    )


def _repeating(ran: Ran, given: Sequence[Any]) -> list[Again]:
    """What runs such calls again; nothing where each has to be looked at."""
    calls = [repeats(call, given) for call in ran.written]
    if not ran.several or not all(calls):
        return calls[0] if all(calls) else []
    return [partial(_all_again, [call for (call,) in calls])]


def _as_passed(read: Any, argument: Any) -> bool:
    """Whether an array that is read is an argument, or all of its memory as one dimension."""
    if read is argument:
        return True
    adapter = arrays.adapter_of(argument)
    packed = all(map(adapter.is_packed, (read, argument)))
    return packed and math.prod(read.shape) == math.prod(argument.shape) and adapter.pointer(read) == adapter.pointer(argument)


def _all_again(calls: Sequence[Again], given: Sequence[Any]) -> tuple[Any, ...] | None:
    results = tuple(call(given) for call in calls)
    return None if any(result is None for result in results) else results
