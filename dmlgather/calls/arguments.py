"""Arguments of public functions: arrays, their types, bounds of slices, policies."""

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
    """The policy that writes `value` instead of an element if an index is out of bounds.

    An integer type must hold the value exactly; for a floating type it is rounded.

    >>> dg.onnx.gather(np.array([10, 20]), np.array([1, 5]), out_of_bounds=dg.Fill(-1))
    array([20, -1])
    """

    value: Any = 0


def resolve_policy(choice: str | Fill | None, default: OutOfBounds, dtype: np.dtype[Any]) -> tuple[OutOfBounds, bytes]:
    """Return the policy that `choice` names, and its fill value as bytes.

    `default`: the policy if `choice` is None. `dtype`: the data type of the fill value. Raises ValueError if `choice` names no
    policy, or if `dtype` cannot hold the fill value.
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
    """Return the policy and fill value that `choice` names. For None, return the policy and fill value of the problem."""
    own = problem.out_of_bounds
    return (own, problem.fill) if choice is None else resolve_policy(choice, own, problem.output.dtype)


def _fill_bytes(value: Any, dtype: np.dtype[Any]) -> bytes:
    if dtype.hasobject:
        raise ValueError(f"out_of_bounds is Fill({value!r}), but strings cannot be filled: use 'raise' or 'clamp'")
    scalar = np.asarray(value)
    real = scalar.dtype.kind in "biuf" or (scalar.dtype.kind == "c" and dtype.kind == "c")
    if scalar.shape or not real:
        raise ValueError(f"Fill value {value!r} is not one number of a type that {dtype} can hold")
    with np.errstate(all="ignore"):
        stored = scalar.astype(dtype)
    # Compare Python numbers, because NumPy would compare a float with a large integer as floats.
    exact = dtype.kind == "b" or dtype.name.startswith(("int", "uint"))  # int4 of ml_dtypes has kind "V", so use names
    lost = stored.item() != scalar.item() if exact else np.isfinite(scalar) and not np.isfinite(stored)
    if lost:
        raise ValueError(f"Fill value {value!r} cannot be stored as {dtype}: it would become {stored.item()!r}")
    return stored.tobytes()


def type_of(name: str, item: Any) -> TensorType:
    """Return the shape and data type that `item` states.

    `item`: an array, an object with `shape` and `dtype`, or a pair (shape, dtype). `name`: the argument's name in messages.
    """
    if isinstance(item, TensorType):
        return item
    if isinstance(item, tuple) and len(item) == 2 and not hasattr(item, "shape"):
        shape, dtype = item
    elif hasattr(item, "shape") and hasattr(item, "dtype"):
        shape, dtype = item.shape, item.dtype
    else:
        raise TypeError(f"{name} is of type {type(item).__name__}, expected an array or a pair (shape, dtype)")
    try:
        tensor = TensorType.stated(shape, dtype)
    except TypeError as error:
        if hasattr(item, "__dlpack__"):  # an array of a library with data types of its own: torch, …
            return taken(name, item, None).type
        raise TypeError(f"{name} has shape {shape!r} and type {dtype!r}: {error}") from None
    if any(size < 0 for size in tensor.shape):
        raise ValueError(f"{name} has shape {tensor.shape}, expected sizes of 0 or more")
    return tensor


def check_type(what: str, actual: TensorType, expected: TensorType) -> None:
    """Raise TypeError if the data types differ, ValueError if the shapes differ."""
    if actual != expected:
        error = TypeError if actual.dtype != expected.dtype else ValueError
        raise error(f"{what} is {actual}, expected {expected}")


def host_values(name: str, values: Any) -> Any:
    """Return an argument whose values can be read on the host: Python values, or an array in host memory.

    Raises TypeError for an array on a GPU, because the call would have to wait for its values.
    """
    if isinstance(values, np.generic) or not hasattr(values, "__dlpack__"):
        return values
    array, device = arrays.adopt(values)
    if device.on_gpu:
        raise TypeError(f"{name} lies on {device}, but its values decide the result's shape: copy it to the host first (.get())")
    return array


def slice_bounds(starts: Any, ends: Any, axes: Any, steps: Any) -> dict[str, Any]:
    """Return the arguments of ONNX's Slice by name, as `host_bounds` does. `axes` and `steps` may be None."""
    return host_bounds(("axes", "steps"), starts=starts, ends=ends, axes=axes, steps=steps)


def host_bounds(optional: Collection[str], /, **bounds: Any) -> dict[str, Any]:
    """Return the bounds of a slice by name, as tuples or NumPy arrays.

    `optional`: the names of the bounds that may be None. Raises TypeError if a bound is neither a sequence nor an array in host
    memory.
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
    """An array argument of a call, moved to the device where the call reads it.

    `given`: the caller's array. `home`: the device where it lies. `array`: the array that the call reads.
    `memory`: the device where that array lies. `runs`: the device that executes the call.
    """

    name: str
    given: Any
    array: Any
    home: Device
    memory: Device
    runs: Device

    @property
    def type(self) -> TensorType:
        """The shape and data type. For strings, the data type is NumPy's object type."""
        return TensorType(tuple(self.array.shape), self.array.dtype)

    @property
    def has_signature(self) -> bool:
        """True if the caller's array has a signature and the call reads it without a conversion of strings."""
        return arrays.signature(self.given) is not None and (self.array is self.given or not self.array.dtype.hasobject)

    @property
    def signature(self) -> Signature:
        """The signature of `array`."""
        return signature_on(self.memory, self.array)


def taken(name: str, given: Any, target: Device | None) -> Taken:
    """Return an array argument, moved to the device `target`, or left where it is if `target` is None.

    Raises TypeError if a call cannot use the array there.
    """
    try:
        array, home = arrays.adopt(given)
    except TypeError as error:
        raise TypeError(f"{name}: {error}") from None
    runs = target or home
    if runs.on_gpu and array.dtype.kind in STRING_KINDS:
        raise TypeError(f"{name} has type {array.dtype}: strings run on the CPU alone, and the device is {runs}")
    return Taken(name, given, arrays.move(array, home, runs.memory), home, runs.memory, runs)


def take(args: Mapping[str, Any], device: Device | None) -> list[Taken]:
    """Return all array arguments of a call, moved to `device`, or left where they are if `device` is None.

    Arrays of strings become arrays of Python objects. Raises TypeError if a call cannot use an array, or if `device` is None
    and the arrays lie on several devices.
    """
    items = [taken(name, array, device) for name, array in args.items()]
    if len({item.memory for item in items}) > 1:
        places = ", ".join(f"{item.name} on {item.memory}" for item in items)
        raise TypeError(f"arrays lie on different devices ({places}); move them to one, or say device=")
    return [replace(item, array=item.array.astype(object)) if item.array.dtype.kind in STRING_KINDS else item for item in items]


class CallOutput:
    """The output of a call: the caller's `out`, or a new array.

    `array`: the array that the call writes. `home`: the device of `out` or of the new array.
    """

    def __init__(self, first: Taken, tensor: TensorType, out: Any = None) -> None:
        """Use `out`, or make a new array of the library of `first`, an input of the call.

        `tensor`: the type of a new array. Raises ValueError or TypeError if `out` cannot be written.
        """
        self._first, self._memory, self._out = first, first.memory, out
        self._allocator: Adapter | None = None
        if out is None and first.home == first.memory and tensor.dtype == first.array.dtype and first.has_signature:
            arrays.check_size(tensor.shape, tensor.dtype)
            self._allocator = arrays.adapter_of(first.given)
            out = self._out = self._allocator.empty(first.given, tensor.shape)
        if out is None:
            self._adopted, self.home = arrays.allocate(self._memory, tensor.shape, tensor.dtype, like=first.given), self._memory
        else:
            try:
                self._adopted, self.home = arrays.adopt_output(out)
            except TypeError as error:
                raise TypeError(f"out: {error}") from None
        self.array = arrays.move(self._adopted, self.home, self._memory)  # a copied `out` keeps the bytes between its elements
        if self.array.dtype.kind in STRING_KINDS:
            self.array = self.array.astype(object, copy=False)
        if self.array is not self._adopted:
            check_output(logical("out", signature_on(self.home, self._adopted)))

    @property
    def signature(self) -> Signature:
        """The signature of `array`."""
        return signature_on(self._memory, self.array)

    @property
    def in_place(self) -> bool:
        """True if the call writes directly to `out` or to the new array, and not to a temporary copy."""
        return self.home == self._memory and self.array is self._adopted

    def check_given(self, expected: TensorType, *, moves: bool) -> None:
        """Check `out`.

        Raises TypeError or ValueError if its data type or shape is not the expected one. Raises TypeError if it lies on another
        device than the first input, unless `moves` is True.
        """
        check_type("out", TensorType(tuple(self._adopted.shape), self._adopted.dtype), expected)
        if not moves and self.home != self._first.home:
            places = f"{self._first.name} on {self._first.home}, out on {self.home}"
            raise TypeError(f"arrays lie on different devices ({places}); move them to one, or say device=")

    def returned(self) -> Any:
        """Return `out`, or the new array in the library of the first input. The call must have written `array` before."""
        if self._out is not None:
            if self.array is not self._adopted:
                arrays.fill_from(self._adopted, self.home, arrays.move(self.array, self._memory, self.home))
            return self._out if self._allocator is None else self._allocator.converted(self._out, self._first.given)
        moved, given = arrays.move(self.array, self._memory, self._first.home), self._first.given
        return moved.astype(given.dtype) if moved.dtype.hasobject else arrays.hand_back(moved, given)
