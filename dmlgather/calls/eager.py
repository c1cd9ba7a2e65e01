"""Eager functions such as `dg.onnx.gather`: each call becomes a problem, which runs on the call's arrays."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, update_wrapper
from typing import Any, Generic, ParamSpec

import numpy as np

from dmlgather.backends import arrays
from dmlgather.backends.adapter import Repeater
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
    """The arguments of one call of an eager function, such as `dg.onnx.gather`, before any array is read.

    `problem_of`: function that takes the type of each array and returns the problem.
    `keyed`: True if later calls with an equal key may repeat this call. A key has the types and strides of the arrays, and the
    other arguments. Set True only if the key determines which arguments are arrays, and the prepared call.
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
            Device.parse(self.device)  # raises for an unknown name

    @property
    def runs(self) -> Device | None:
        """The device that runs the call, or None for the device of the arrays."""
        return None if self.device is None else Device.parse(self.device)


@dataclass(frozen=True, slots=True)
class Ran:
    """The result of one call, and how to repeat the call.

    `result`: the value that the call returns. `taken`: the array arguments. `several`: True if the result is a tuple.
    `written`: the prepared calls that wrote the result. It is empty if they cannot repeat the call.
    """

    result: Any
    taken: Sequence[Taken]
    written: Sequence[PreparedCall]
    several: bool = False


class EagerFunction(Generic[P]):
    """A function that runs an operator on arrays.

    Its methods `plan` and `problem` take the same arguments, but need only the arrays' shapes and data types.
    """

    def __init__(self, request: Callable[P, Request]) -> None:
        self._request = request
        self._slots: dict[int | str, int] = {}  # set by the first request: see the function `_slots`
        self._count = 0
        update_wrapper(self, request)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Run on arrays. The result is an array of the first argument's library, or `out` if `out` is given.

        On a GPU, the call runs on `stream`. Without `stream`, it runs on PyTorch's current stream if the first array is a
        tensor, else on CuPy's.
        """
        repeaters, args_and_out = self._known(args, kwargs)
        if repeaters and (result := repeaters[0](args_and_out)) is not None:
            return result
        request = self._request(*args, **kwargs)
        if request.keyed and not self._slots:
            self._count, self._slots = len(request.arrays) + 1, _slots(self._request, request.arrays)
            repeaters, args_and_out = self._known(args, kwargs)
        ran = self.run(request)
        # The key is computed again, because the call may have resized `out`.
        if repeaters is not None and _reads_as_passed(ran, request, args_and_out) and self._known(args, kwargs)[0] is repeaters:
            repeaters[:] = _repeaters(ran, args_and_out)
        return ran.result

    def run(self, request: Request) -> Ran:
        """Run a call with all checks, without the caches of earlier calls."""
        with arrays.in_order([*request.arrays.values(), request.out], request.stream, request.runs):
            taken = take(request.arrays, request.runs)
            problem = request.problem_of(*(item.type for item in taken))
            return _run(problem, taken, request.out_of_bounds, request.out, moves=request.device is not None)

    def plan(self, *args: P.args, **kwargs: P.kwargs) -> IndexPlan:
        """Return the IndexPlan that a call with these arguments executes if all arrays are packed.

        Each array may be replaced by an object with `shape` and `dtype`, or by a pair (shape, dtype). `out`, `device` and
        `stream` have no effect.
        """
        return self.problem(*args, **kwargs).plan()

    def problem(self, *args: P.args, **kwargs: P.kwargs) -> Problem:
        """Return the problem (operator, types and attributes) of a call with these arguments. `dg.translate` accepts it.

        The arguments are the same as in `plan`.

        >>> dg.onnx.gather.problem(((30522, 384), "float32"), ((1, 128), "int64")).output.shape
        (1, 128, 384)
        """
        request = self._request(*args, **kwargs)
        problem: Problem = request.problem_of(*(type_of(name, item) for name, item in request.arrays.items()))
        return under(problem, *policy_of(problem, request.out_of_bounds))

    @property
    def __signature__(self) -> inspect.Signature:
        """The signature for `help`. It lacks the return type of the wrapped function, `Request`: calls return an array."""
        return inspect.signature(self._request).replace(return_annotation=inspect.Signature.empty)

    def __get__(self, instance: object, owner: type | None = None) -> EagerFunction[P]:
        """Return the function itself. Without `__get__`, `help` would not show the arguments."""
        return self

    def __reduce__(self) -> str:
        return self.__qualname__  # type: ignore[attr-defined, no-any-return] # set by update_wrapper

    def __repr__(self) -> str:
        return f"<function {self.__module__}.{self.__qualname__}>"  # type: ignore[attr-defined] # set by update_wrapper

    def _known(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Repeater] | None, list[Any]]:
        slots = self._slots
        args_and_out: list[Any] = [None] * self._count
        key = read_call(args, kwargs, slots, args_and_out, arrays.signature) if slots else None
        return None if key is None else known(self, key), args_and_out


def execute(
    problem: Problem, inputs: Sequence[Any], *, out_of_bounds: str | Fill | None = None, device: str | None = None
) -> Any:
    """Run a problem on arrays. The result is an array of the first array's library.

    `out_of_bounds`: "clamp", "raise", "promise" or a Fill; None for the problem's own policy.
    `device`: the device that runs the problem; None for the device of the arrays.

    Raises TypeError for a wrong data type and for several devices, ValueError for a wrong shape, IndexError for a bad index
    under RAISE (on every device), and DeviceError if there is no usable GPU.
    """
    with arrays.in_order(inputs):
        taken = take(dict(zip(problem.arguments, inputs, strict=True)), None if device is None else Device.parse(device))
        for item, expected in zip(taken, problem.tensors, strict=False):
            if item.type != expected:
                error = TypeError if item.type.dtype != expected.dtype else ValueError
                raise error(f"{item.name} is {item.type}, but the problem was made for {expected}")
        return _run(problem, taken, out_of_bounds).result


def written_by(
    problem: Problem, policy: tuple[OutOfBounds, bytes], runs: Device, inputs: Sequence[Any], out: Any
) -> PreparedCall:
    """Run a problem, so that it writes `out`, and return the prepared call.

    `policy`: the policy and its fill value. `runs`: the device that runs the problem. All arrays are in its memory. Raises
    IndexError for a bad index under RAISE.
    """
    call = prepared(problem, policy, runs, *(signature_on(runs.memory, array) for array in (*inputs, out)))
    write(call, problem, inputs, out)
    return call


def _run(
    problem: Problem, taken: Sequence[Taken], out_of_bounds: str | Fill | None, out: Any = None, *, moves: bool = False
) -> Ran:
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
    """Run a FILL problem on strings. The dialect fills with the empty string.

    A plan cannot fill with a Python object. So the plan moves the positions of the strings, counted from 1, and fills with 0,
    the position of the empty string.
    """
    first = taken[0]
    positions = np.arange(1, first.array.size + 1, dtype=np.intp).reshape(first.array.shape)
    moved = _run(problem, [replace(first, given=positions, array=positions), *taken[1:]], None).result
    return np.array(["", *first.array.flat], object)[moved]


# Repeaters run calls with the key of an earlier call.


def _slots(request: Callable[..., Any], names: Mapping[str, Any]) -> dict[int | str, int]:
    """Return a number for each array argument of a function, by name and by position. `out` has the last number."""
    places = [*inspect.signature(request).parameters]
    slots: dict[int | str, int] = {name: slot for slot, name in enumerate((*names, "out")) if name in places}
    return slots | {places.index(str(name)): slot for name, slot in slots.items()}


def _reads_as_passed(ran: Ran, request: Request, args: Sequence[Any]) -> bool:
    """Return True if a call can be repeated by the prepared calls in `ran.written` and nothing else.

    It can if it has no `stream`, and these calls read the arrays as the caller passed them, without a conversion or a move.
    """
    return bool(
        ran.written
        and request.stream is None
        and all(item.home == item.memory for item in ran.taken)
        and all(map(_as_passed, request.arrays.values(), args))
        and all(item.array is item.given for item in ran.taken if isinstance(item.given, np.ndarray))
    )


def _repeaters(ran: Ran, args: Sequence[Any]) -> list[Repeater]:
    repeaters = [repeater for call in ran.written for repeater in repeats(call, args)]
    if len(repeaters) < len(ran.written):
        return []
    return [partial(_repeat_all, repeaters)] if ran.several else repeaters


def _as_passed(read: Any, argument: Any) -> bool:
    """Return True if `read` is the argument itself, or the same packed memory in another shape."""
    if read is argument:
        return True
    adapter = arrays.adapter_of(argument)
    packed = all(map(adapter.is_packed, (read, argument)))
    return packed and math.prod(read.shape) == math.prod(argument.shape) and adapter.pointer(read) == adapter.pointer(argument)


def _repeat_all(repeaters: Sequence[Repeater], args: Sequence[Any]) -> tuple[Any, ...] | None:
    results = tuple(repeater(args) for repeater in repeaters)
    return None if any(result is None for result in results) else results
