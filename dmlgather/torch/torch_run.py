"""A call of a function on tensors: what it asks for, how it runs, and what is kept of it for calls like it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from dmlgather.backends import arrays, torch_tensors
from dmlgather.backends.addresses import address_of
from dmlgather.backends.devices import Device
from dmlgather.backends.footprints import check_output, logical, share_memory, signature_on
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.eager import Request, take, type_of
from dmlgather.policy import resolve_policy
from dmlgather.ready import Ready, prepare
from dmlgather.torch.problems.rolling import Rolling

Work = Problem | Rolling
"""What makes one result."""


@dataclass(frozen=True, slots=True)
class TorchRequest(Request):
    """What one call asks for.

    problem_of: gives a tuple where the call has several results. out: the array that takes the result; None for a new one.
    modulo: whether the indices count modulo the size of their dimension. keyed: whether the types and strides of the arrays and
    the other arguments say all that the call does.
    """

    problem_of: Callable[..., Work | tuple[Work, ...]]  # type: ignore[assignment] # which is more than a Problem
    out: Any = None
    modulo: bool = False
    keyed: bool = True


class TorchRun:
    """A call with its arrays, and what it does with them."""

    def __init__(self, request: TorchRequest) -> None:
        given = request.arrays
        # Plans move bits: a type that NumPy lacks is one of integers, and only the problem knows it.
        self.taken = take({name: _bits(name, item) for name, item in given.items()}, request.device)
        self.work = request.problem_of(*(type_of(name, item) for name, item in given.items()))
        self._first = next(iter(given.values()))
        if request.modulo:
            assert isinstance(self.work, Problem)
            self.taken[-1] = replace(self.taken[-1], array=self.taken[-1].array % modulus(self.work))
        self._out, self._policy = request.out, request.out_of_bounds
        self._given = () if request.modulo or not request.keyed else (*given.values(),)
        self._written = list[Ready]()

    def run(self, work: Work) -> Any:
        """One result: `out`, or a new array."""
        output = work.output
        given = self._new(output) if self._out is None else self._fitting(output)
        target, home = arrays.adopt_output(_bits("out", given))
        inputs = [item.array for item in self.taken]
        if isinstance(work, Rolling):
            self._roll(work, inputs[0], target, home)
        else:
            self._write(work, inputs, target, home)
        return given if self._out is not None or torch_tensors.is_torch(given) else arrays.hand_back(given, self._first)

    def known(self, arguments: Sequence[Any]) -> list[KeyedCall]:
        """What runs a call of the same key, behind `run`; nothing where that is more than to write into new arrays or `out`.

        arguments: the arrays as the caller gave them, then `out` or None.
        """
        kinds = {type(array) for array in arguments if array is not None}
        works = self.work if isinstance(self.work, tuple) else (self.work,)
        if (
            len(kinds) > 1
            or len(self._given) != len(arguments) - 1
            or self.taken[0].runs.on_gpu
            or any(isinstance(work, Rolling) for work in works)
            or not all(map(_as_passed, self._given, arguments))
            or any(isinstance(item.given, np.ndarray) and item.array is not item.given for item in self.taken)
        ):
            return []
        return [KeyedCall(tuple(self._written), self.work is works)]

    def _roll(self, work: Rolling, data: Any, target: Any, home: Device) -> None:
        """Write each part to its place, of the flattened tensor where that is rolled."""
        shape = work.data.shape
        flat = target.reshape(shape)  # a copy where its elements lie apart
        for part in work.parts:
            places = zip(part.start, part.problem.output.shape, strict=True)
            self._write(part.problem, [data.reshape(shape)], flat[tuple(slice(first, first + n) for first, n in places)], home)
        if shape != target.shape and not target.flags.c_contiguous:
            arrays.fill_from(target, home, flat.reshape(target.shape))

    def _new(self, output: TensorType) -> Any:
        if torch_tensors.is_torch(self._first):
            return torch_tensors.empty(self._first, output.shape)
        return arrays.allocate(self.taken[0].home, output.shape, output.dtype, like=self._first)

    def _fitting(self, output: TensorType) -> Any:
        """`out`. As in PyTorch, a tensor without elements is resized, and RuntimeError says what does not fit."""
        out, first = self._out, self.taken[0]
        if torch_tensors.is_torch(out):
            torch_tensors.check_written(out)
            if 0 in out.shape and tuple(out.shape) != output.shape and out.dtype == getattr(self._first, "dtype", None):
                out.resize_(output.shape)
        if (found := type_of("out", out)) != output:
            raise RuntimeError(f"out is {found}, expected {output}")
        target, home = arrays.adopt_output(_bits("out", out))
        if home != first.home:
            raise RuntimeError(f"out lies on {home} and {first.name} on {first.home}: expected one device")
        written = logical("out", signature_on(home, target))
        try:
            check_output(written)
        except ValueError as error:
            raise RuntimeError(str(error)) from None
        for item in self.taken:
            read = logical(item.name, signature_on(item.memory, item.array))
            if item.memory == home and share_memory(read, _pointer(item.array), written, _pointer(target)):
                raise RuntimeError(f"out shares memory with {item.name}: pass another tensor")
        return out

    def _write(self, problem: Problem, inputs: list[Any], target: Any, home: Device) -> None:
        """Run into `target`, which lies on the device `home`."""
        memory, runs = self.taken[0].memory, self.taken[0].runs
        result = target if memory == home else arrays.allocate(memory, target.shape, target.dtype)
        policy, fill = resolve_policy(self._policy, problem.out_of_bounds, problem.data.dtype)
        ready = prepare(problem, policy, fill, runs, [signature_on(memory, array) for array in (*inputs, result)])
        self._written.append(ready)
        try:
            ready.write(inputs, result)
        except IndexError as error:
            raise getattr(problem, "bad_index", IndexError)(str(error)) from None
        if result is not target:
            arrays.fill_from(target, home, arrays.move(result, memory, home))


def _bits(name: str, item: Any) -> Any:
    """A tensor with its elements in memory, as integers where NumPy lacks its type; anything else as it is."""
    if not torch_tensors.is_torch(item):
        return item
    try:
        return torch_tensors.bits(torch_tensors.plain(item))
    except (TypeError, RuntimeError) as error:
        raise type(error)(f"{name}: {error}") from None


def _pointer(array: Any) -> int:
    """Where the first element of NumPy's or CuPy's array lies."""
    return address_of(array) if isinstance(array, np.ndarray) else int(array.data.ptr)


class KeyedCall:
    """What runs a call of a known key, on arrays of NumPy or on tensors in host memory."""

    def __init__(self, readies: tuple[Ready, ...], several: bool) -> None:
        """several: whether a tuple is returned."""
        self._readies, self._several = readies, several

    def __call__(self, arguments: Sequence[Any]) -> Any:
        """The result; None for a bad index and an `out` that cannot be written, of which the call as a whole says what is wrong.

        arguments: the arrays, then `out` or None.
        """
        *inputs, out = arguments
        if self._several:
            results = tuple(_result(ready, inputs, None) for ready in self._readies)
            return None if any(result is None for result in results) else results
        return _result(self._readies[0], inputs, out)


def _result(ready: Ready, inputs: Sequence[Any], out: Any) -> Any:
    if type(inputs[0]) is not np.ndarray:
        return ready.tensor(inputs, out)
    try:
        if out is None:
            return ready.result(inputs)
        if not out.flags.writeable:
            return None
        ready.write(inputs, out)
    except (IndexError, ValueError):
        return None
    return out


def _as_passed(given: Any, argument: Any) -> bool:
    """Whether an array that is read is an argument, or all of its memory as one dimension."""
    if given is argument:
        return True
    if isinstance(given, np.ndarray):
        packed = argument.flags.c_contiguous and given.flags.c_contiguous
        return packed and given.size == argument.size and address_of(given) == address_of(argument)
    packed = argument.is_contiguous() and given.is_contiguous()
    return bool(packed and given.numel() == argument.numel() and given.data_ptr() == argument.data_ptr())


def in_order(request: TorchRequest) -> AbstractContextManager[Any]:
    """`arrays.in_order`. RuntimeError, as PyTorch, for tensors on several devices."""
    tensors = [item for item in request.arrays.values() if torch_tensors.is_torch(item)]
    devices = {item.device for item in tensors}
    if len(devices) > 1 and request.device is None:
        places = ", ".join(sorted(map(str, devices)))
        raise RuntimeError(f"tensors lie on different devices ({places}); move them to one, or say device=")
    return arrays.in_order([*request.arrays.values(), request.out])


def modulus(problem: Problem) -> int:
    """The size that indices count modulo: of the dimension that they index. Where that is 0, every index stays out of range."""
    return problem.data.shape[problem.lookup_axes[0]] or 1


def flattened(name: str, item: Any) -> Any:
    """An array with one dimension, over the same memory where that is possible; of what is no array, its type so."""
    if not isinstance(item, tuple) and hasattr(item, "reshape"):
        return item.reshape(-1)
    found = type_of(name, item)
    return TensorType((prod(found.shape),), found.dtype)


def contiguous(item: Any) -> Any:
    """An array, or its copy where it is not contiguous; what is no array as it is."""
    if hasattr(item, "contiguous"):
        return item.contiguous()
    if hasattr(item, "flags") and not item.flags.c_contiguous:
        return item.copy(order="C")
    return item
