"""Arguments of public functions as users write them: arrays, their types, bounds of slices, what an index out of bounds does."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dmlgather.backends import arrays
from dmlgather.backends.adapter import Adapter
from dmlgather.backends.devices import Device
from dmlgather.backends.footprints import Signature, check_output, logical, signature_on
from dmlgather.dialects.element_types import STRING_KINDS
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.plan import OutOfBounds


@dataclass(frozen=True, slots=True)
class Fill:
    """The policy that writes `value`, one number, wherever an index is out of bounds.

    An integer type must hold it exactly; for a floating type it is rounded.

    >>> dg.onnx.gather(np.array([10, 20]), np.array([1, 5]), out_of_bounds=dg.Fill(-1))
    array([20, -1])
    """

    value: Any = 0


def resolve_policy(choice: str | Fill | None, default: OutOfBounds, dtype: np.dtype[Any]) -> tuple[OutOfBounds, bytes]:
    """The policy and its fill bytes for elements of `dtype`.

    choice: None for `default`, "clamp", "raise", "promise", or a Fill. ValueError for any other name and for a fill value
    that the type cannot hold: integers exactly, floats rounded but finite where the value is.
    """
    if choice is None:
        return default, b""
    if isinstance(choice, Fill):
        return OutOfBounds.FILL, _fill_bytes(choice.value, dtype)
    names = [policy.value for policy in OutOfBounds if policy is not OutOfBounds.FILL]
    if choice not in names:
        raise ValueError(f"out_of_bounds is {choice!r}, expected one of {names} or dmlgather.Fill(value)")
    return OutOfBounds(choice), b""


def policy_of(problem: Problem, choice: str | Fill | None) -> tuple[OutOfBounds, bytes]:
    """The policy of a call and its fill bytes: the caller's choice, or the dialect's."""
    own = problem.out_of_bounds
    return (own, problem.fill) if choice is None else resolve_policy(choice, own, problem.output.dtype)


def _fill_bytes(value: Any, dtype: np.dtype[Any]) -> bytes:
    if dtype.hasobject:
        raise ValueError(f"out_of_bounds is Fill({value!r}), but strings cannot be filled: use 'raise' or 'clamp'")
    given = np.asarray(value)
    real = given.dtype.kind in "biuf" or (given.dtype.kind == "c" and dtype.kind == "c")
    if given.shape or not real:
        raise ValueError(f"Fill value {value!r} is not one number of a type that {dtype} can hold")
    with np.errstate(all="ignore"):
        stored = given.astype(dtype)
    # As Python numbers, because NumPy would compare a float with a large integer as floats.
    exact = dtype.kind == "b" or dtype.name.startswith(("int", "uint"))  # int4 has NumPy's kind of unknown types
    lost = stored.item() != given.item() if exact else np.isfinite(given) and not np.isfinite(stored)
    if lost:
        raise ValueError(f"Fill value {value!r} cannot be stored as {dtype}: it would become {stored.item()!r}")
    return stored.tobytes()


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
            return taken(name, item, None).type
        raise TypeError(f"{name} has shape {shape!r} and type {dtype!r}: {error}") from None
    if any(size < 0 for size in found.shape):
        raise ValueError(f"{name} has shape {found.shape}, expected sizes of 0 or more")
    return found


def check_type(what: str, found: TensorType, expected: TensorType) -> None:
    """TypeError for another data type, ValueError for another shape."""
    if found != expected:
        error = TypeError if found.dtype != expected.dtype else ValueError
        raise error(f"{what} is {found}, expected {expected}")


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

    @property
    def has_signature(self) -> bool:
        """Whether it was given as it is read, but for its library."""
        return arrays.signature(self.given) is not None and (self.array is self.given or not self.array.dtype.hasobject)

    @property
    def signature(self) -> Signature:
        """Of the array where it runs."""
        return signature_on(self.memory, self.array)


def taken(name: str, given: Any, target: Device | None) -> Taken:
    """One array, called `name`, where it is to run: on `target`, None for where it lies."""
    try:
        array, home = arrays.adopt(given)
    except TypeError as error:
        raise TypeError(f"{name}: {error}") from None
    runs = target or home
    if runs.on_gpu and array.dtype.kind in STRING_KINDS:
        raise TypeError(f"{name} has type {array.dtype}: strings run on the CPU alone, and the device is {runs}")
    return Taken(name, given, arrays.move(array, home, runs.memory), home, runs.memory, runs)


def take(given: Mapping[str, Any], device: Device | None) -> list[Taken]:
    """The array arguments, by name, where they are to run: on `device`, None for where they lie, which has to be one place.
    Strings become objects.
    """
    found = [taken(name, array, device) for name, array in given.items()]
    if len({item.memory for item in found}) > 1:
        places = ", ".join(f"{item.name} on {item.memory}" for item in found)
        raise TypeError(f"arrays lie on different devices ({places}); move them to one, or say device=")
    return [replace(item, array=item.array.astype(object)) if item.array.dtype.kind in STRING_KINDS else item for item in found]


class CallOutput:
    """What a call writes: `out`, or a new array of the kind that its first argument is.

    array: NumPy's or CuPy's, in the memory where the call runs. home: where `out` lies.
    """

    def __init__(self, first: Taken, tensor: TensorType, out: Any = None) -> None:
        """tensor: shape and type of a new array. ValueError and TypeError for an `out` that cannot be written."""
        self._first, self._memory, self._out = first, first.memory, out
        self._made_by: Adapter | None = None
        if out is None and first.home == first.memory and tensor.dtype == first.array.dtype and first.has_signature:
            arrays.check_size(tensor.shape, tensor.dtype)
            self._made_by = arrays.adapter_of(first.given)
            out = self._out = self._made_by.empty(first.given, tensor.shape)
        if out is None:
            self._adopted, self.home = arrays.allocate(self._memory, tensor.shape, tensor.dtype, like=first.given), self._memory
        else:
            try:
                self._adopted, self.home = arrays.adopt_output(out)
            except TypeError as error:
                raise TypeError(f"out: {error}") from None
        self.array = arrays.move(self._adopted, self.home, self._memory)  # all of it: a buffer keeps what lies between elements
        if self.array.dtype.kind in STRING_KINDS:
            self.array = self.array.astype(object, copy=False)
        if self.array is not self._adopted:
            check_output(logical("out", signature_on(self.home, self._adopted)))

    @property
    def signature(self) -> Signature:
        """Of the array."""
        return signature_on(self._memory, self.array)

    @property
    def in_place(self) -> bool:
        """Whether the call writes `out` itself, or the new array."""
        return self.home == self._memory and self.array is self._adopted

    def check_given(self, expected: TensorType, *, moves: bool) -> None:
        """TypeError for an `out` of another data type, ValueError for one of another shape; TypeError for one that lies elsewhere
        than the first argument, unless arrays are moved.
        """
        check_type("out", TensorType(tuple(self._adopted.shape), self._adopted.dtype), expected)
        if not moves and self.home != self._first.home:
            places = f"{self._first.name} on {self._first.home}, out on {self.home}"
            raise TypeError(f"arrays lie on different devices ({places}); move them to one, or say device=")

    def returned(self) -> Any:
        """What the caller gets, once the array is written."""
        if self._out is not None:
            if self.array is not self._adopted:
                arrays.fill_from(self._adopted, self.home, arrays.move(self.array, self._memory, self.home))
            return self._out if self._made_by is None else self._made_by.finished(self._out, self._first.given)
        return handed_back(self.array, self._first)


def handed_back(result: Any, first: Taken) -> Any:
    """An array in the memory where a call ran, as the kind of array that its first argument is, where that lies."""
    found = arrays.move(result, first.memory, first.home)
    return found.astype(first.given.dtype) if found.dtype.hasobject else arrays.hand_back(found, first.given)
