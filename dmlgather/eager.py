"""Eager functions: a dialect's call becomes a problem and runs at once on its arrays."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, update_wrapper
from typing import Any, Generic, ParamSpec

import numpy as np

from dmlgather import ready
from dmlgather.backends import arrays, torch_tensors
from dmlgather.backends.devices import Device
from dmlgather.backends.footprints import signature_on
from dmlgather.dialects.call_keys import read_call
from dmlgather.dialects.element_types import STRING_KINDS
from dmlgather.dialects.planned import under
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.plan import IndexPlan, OutOfBounds
from dmlgather.policy import Fill, resolve_policy

P = ParamSpec("P")

CALLS_KEPT = 256
"""Keys of calls whose routes are kept (least recently used leave first)."""


@dataclass(frozen=True, slots=True)
class Request:
    """What one call asks for.

    problem_of: from the arrays' types, in order, to the problem. arrays: the array arguments by name. out_of_bounds: None for the
    dialect's own policy, else "clamp", "raise", "promise" or a Fill. device: None for where the arrays are. stream: of a GPU, as
    compiled operators take it.
    """

    problem_of: Callable[..., Problem]
    arrays: Mapping[str, Any]
    out_of_bounds: str | Fill | None
    device: str | None
    stream: Any = field(default=None, kw_only=True)


class EagerFunction(Generic[P]):
    """A function on arrays. Its method `plan` gives the plan of a call and needs only the arrays' shapes and types."""

    def __init__(self, request: Callable[P, Request], *, keyed: bool = True) -> None:
        """keyed: whether the same arguments are arrays in every call, so that calls have keys."""
        self._request, self._keyed = request, keyed
        self._slots: dict[int | str, int] = {}  # the number of each array argument, which the first request tells
        update_wrapper(self, request)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Run on arrays; the result is the same kind of array as the first. On a GPU, on `stream`; left out, on PyTorch's current
        one if the first array is a tensor, else on CuPy's.
        """
        slots = self._slots
        inputs: list[Any] = [None] * (len(slots) // 2)
        key = read_call(args, kwargs, slots, inputs, torch_tensors.key) if slots else None
        kept = kept_for(self, key) if key is not None else []
        if kept and (result := kept[0](inputs)) is not None:
            return result
        request = self._request(*args, **kwargs)
        target = None if request.device is None else Device.parse(request.device)
        with arrays.in_order([*request.arrays.values()], request.stream, target):
            taken = take(request.arrays, request.device)
            problem = request.problem_of(*(item.type for item in taken))
            if not slots and self._keyed:
                places = [*inspect.signature(self._request).parameters]
                self._slots = {place: slot for slot, name in enumerate(request.arrays) for place in (name, places.index(name))}
            return _run(problem, taken, request.out_of_bounds, kept)

    def plan(self, *args: P.args, **kwargs: P.kwargs) -> IndexPlan:
        """The plan of the same call over packed arrays. An array may be replaced by anything with `shape` and `dtype`, or by a
        pair (shape, dtype); `device` and `stream` change nothing.
        """
        return self.problem(*args, **kwargs).plan()

    def problem(self, *args: P.args, **kwargs: P.kwargs) -> Problem:
        """What the same call asks for, without arrays: `dg.translate` takes it. Arguments as for `plan`.

        >>> dg.onnx.gather.problem(((30522, 384), "float32"), ((1, 128), "int64")).output.shape
        (1, 128, 384)
        """
        request = self._request(*args, **kwargs)
        if request.device is not None:
            Device.parse(request.device)
        problem = request.problem_of(*(type_of(name, item) for name, item in request.arrays.items()))
        return under(problem, *_policy(problem, request.out_of_bounds))

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


def forget() -> None:
    """Drop what was prepared for earlier calls: for tests."""
    kept_for.cache_clear()
    ready.forget()


def execute(
    problem: Problem, inputs: Sequence[Any], *, out_of_bounds: str | Fill | None = None, device: str | None = None
) -> Any:
    """Run a problem on arrays of its tensors' shapes and types; the result is the same kind of array as the first.

    out_of_bounds, device: as for the eager functions. Raises TypeError for arrays of another type or on several devices,
    ValueError for another shape, IndexError for a bad index under RAISE (on every device), DeviceError for no usable GPU.
    """
    with arrays.in_order(inputs):
        taken = take(dict(zip(problem.arguments, inputs, strict=True)), device)
        for item, expected in zip(taken, problem.tensors, strict=False):
            if item.type != expected:
                error = TypeError if item.type.dtype != expected.dtype else ValueError
                raise error(f"{item.name} is {item.type}, but the problem was stated for {expected}")
        return _run(problem, taken, out_of_bounds)


def type_of(name: str, item: Any) -> TensorType:
    """Shape and type of an array, of anything with `shape` and `dtype`, or of a pair (shape, dtype)."""
    if isinstance(item, TensorType):
        return item
    if isinstance(item, tuple) and len(item) == 2 and not hasattr(item, "shape"):
        shape, dtype = item
    elif hasattr(item, "shape") and hasattr(item, "dtype"):
        shape, dtype = item.shape, item.dtype
    else:
        raise TypeError(f"{name} is of type {type(item).__name__}, expected an array or a pair (shape, dtype)")
    try:
        found = TensorType.stated(shape, dtype)
    except TypeError as error:
        if hasattr(item, "__dlpack__"):  # a library with types of its own, such as torch
            return _taken(name, item, None).type
        raise TypeError(f"{name} has shape {shape!r} and type {dtype!r}: {error}") from None
    if any(size < 0 for size in found.shape):
        raise ValueError(f"{name} has shape {found.shape}, expected sizes of 0 or more")
    return found


def host_values(name: str, values: Any) -> Any:
    """An argument whose values decide the result's shape: an array as NumPy's, anything else as it is.

    TypeError for an array on a GPU: fetching it would make the call wait.
    """
    if isinstance(values, np.generic) or not hasattr(values, "__dlpack__"):
        return values
    array, device = arrays.adopt(values)
    if device.on_gpu:
        raise TypeError(f"{name} lies on {device}, but its values decide the result's shape: copy it to the host first (.get())")
    return array


def slice_bounds(starts: Any, ends: Any, axes: Any, steps: Any) -> dict[str, Any]:
    """`host_bounds` of ONNX's names for them. axes and steps may be None."""
    return host_bounds(("axes", "steps"), starts=starts, ends=ends, axes=axes, steps=steps)


def host_bounds(optional: Collection[str], /, **bounds: Any) -> dict[str, Any]:
    """The bounds of a slice by name: tuples for sequences of integers, NumPy's arrays for arrays in host memory, None for those
    in `optional` that are None. TypeError for anything else.
    """
    for name, values in bounds.items():
        if isinstance(values, Sequence) and not isinstance(values, str | bytes):
            bounds[name] = tuple(values)
        elif values is not None or name not in optional:
            bounds[name] = host_values(name, values)
            if not hasattr(bounds[name], "dtype"):
                raise TypeError(f"{name} is {values!r}, expected a list of integers or an array of one dimension")
    return bounds


@dataclass(frozen=True, slots=True)
class Taken:
    """An array argument. given: as passed, from the device `home`. array: NumPy's or CuPy's array on the device `memory`, for a
    run on the device `runs`.
    """

    name: str
    given: Any
    array: Any
    home: Device
    memory: Device
    runs: Device

    @property
    def type(self) -> TensorType:
        """Shape and type, of strings NumPy's object type."""
        return TensorType(tuple(self.array.shape), self.array.dtype)


def take(given: Mapping[str, Any], device: str | None) -> list[Taken]:
    """The array arguments, by name, where they are to run: on `device`, None for where they lie, which has to be one place."""
    target = None if device is None else Device.parse(device)
    taken = [_taken(name, array, target) for name, array in given.items()]
    if len({item.memory for item in taken}) > 1:
        places = ", ".join(f"{item.name} on {item.memory}" for item in taken)
        raise TypeError(f"arrays lie on different devices ({places}); move them to one, or say device=")
    return taken


def _taken(name: str, given: Any, target: Device | None) -> Taken:
    try:
        array, home = arrays.adopt(given)
    except TypeError as error:
        raise TypeError(f"{name}: {error}") from None
    runs = target or home
    if array.dtype.kind in STRING_KINDS:
        if runs.on_gpu:
            raise TypeError(f"{name} has type {array.dtype}: strings run on the CPU alone, and the device is {runs}")
        array = array.astype(object)
    return Taken(name, given, arrays.move(array, home, runs.memory), home, runs.memory, runs)


@lru_cache(maxsize=CALLS_KEPT)
def kept_for(_function: EagerFunction[Any], _key: Hashable) -> list[Callable[..., Any]]:
    """What runs calls of a key: nothing until one has run on NumPy's arrays, or on tensors in host memory, as they were given."""
    return []


def _run(
    problem: Problem, taken: Sequence[Taken], out_of_bounds: str | Fill | None, kept: list[Callable[..., Any]] | None = None
) -> Any:
    first = taken[0]
    policy, fill = _policy(problem, out_of_bounds)
    if policy is OutOfBounds.FILL and first.array.dtype.hasobject:
        return _run_on_positions(problem, taken)
    tensor = arrays.new_tensor(first.memory, problem.output.shape, first.array.dtype, first.given)
    if tensor is None:
        result = arrays.allocate(first.memory, problem.output.shape, first.array.dtype, like=first.given)
    else:
        result, _ = arrays.adopt(tensor)
    inputs = [item.array for item in taken]
    found = ready.prepare(problem, policy, fill, first.runs, [signature_on(first.memory, array) for array in (*inputs, result)])
    if kept is not None and not first.runs.on_gpu:
        if all(item.array is item.given for item in taken):
            kept[:] = [found.result]
        elif all(torch_tensors.is_torch(item.given) for item in taken):
            kept[:] = [found.tensor]
    found.write(inputs, result)
    if tensor is not None:
        return tensor
    returned = arrays.move(result, first.memory, first.home)
    if result.dtype.hasobject:
        return returned.astype(first.given.dtype)
    return arrays.hand_back(returned, first.given)


def _run_on_positions(problem: Problem, taken: Sequence[Taken]) -> Any:
    """Strings under the dialect's own FILL, whose fill is the empty string. A plan fills with bytes, which no reference is made
    of, so it moves the positions of strings, counted from 1.
    """
    first = taken[0]
    positions = np.arange(1, first.array.size + 1, dtype=np.intp).reshape(first.array.shape)
    found = _run(problem, [replace(first, given=positions, array=positions), *taken[1:]], None)
    result = np.empty(found.shape, object)
    result[...] = np.array(["", *first.array.flat], object)[found]
    return result.astype(first.given.dtype)


def _policy(problem: Problem, choice: str | Fill | None) -> tuple[OutOfBounds, bytes]:
    own = problem.out_of_bounds
    return (own, problem.fill) if choice is None else resolve_policy(choice, own, problem.output.dtype)
