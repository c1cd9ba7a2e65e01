"""`TorchFunction`: a function on tensors and arrays. Its methods return the plans, problems and descriptors of calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any, ParamSpec

import numpy as np

from dmlgather.backends import arrays, torch_tensors
from dmlgather.backends.addresses import address_of
from dmlgather.backends.footprints import check_output, logical, share_memory, signature_on
from dmlgather.backends.prepared_call import PreparedCall
from dmlgather.calls.arguments import CallOutput, Taken, policy_of, take, type_of
from dmlgather.calls.eager import EagerFunction, Ran, Request, written_by
from dmlgather.dialects.exporter import Descriptors
from dmlgather.dialects.planned import under
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.directml import FeatureLevel, Finding, OperatorDesc, Report
from dmlgather.plan import IndexPlan
from dmlgather.torch.problems import export
from dmlgather.torch.problems.windows import Rolling

P = ParamSpec("P")

Described = OperatorDesc | Descriptors | Report

ProblemOrRoll = Problem | Rolling
"""One result of a call. A roll is not one problem, so it is kept as a Rolling."""


@dataclass(frozen=True, slots=True)
class TorchRequest(Request):
    """The arguments of one call, and the function that makes its problem.

    `modulo`: True if the call first takes the indices modulo the size of dimension `dim`, as in take_along_dim.
    """

    modulo: bool = False


class TorchFunction(EagerFunction[P]):
    """A function on tensors. Its methods `plan`, `problem`, `to_directml` and `differences` need only shapes and types.

    A call with several results returns a tuple. For this call, `plan`, `problem` and `to_directml` also return a tuple with one
    entry per result.
    """

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Run the function on tensors or arrays. Return `out` if it is given, else a new array of the first input's type."""
        if torch_tensors.is_compiling():
            from dmlgather.torch.operators import in_graph  # imports PyTorch

            return in_graph(self, args, kwargs)
        return super().__call__(*args, **kwargs)

    def run_anew(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Run the function without the cache of prepared calls, and without tracing by torch.compile."""
        return self.run(self._request(*args, **kwargs)).result

    def run(self, request: Request) -> Ran:
        assert isinstance(request, TorchRequest)
        with _in_order(request):
            # Tensors of types that NumPy lacks are read as integers of the same width. The problem has the true type.
            taken = take({name: _bits(name, item) for name, item in request.arrays.items()}, request.runs)
            problem = request.problem_of(*(type_of(name, item) for name, item in request.arrays.items()))
            if request.modulo:
                size = problem.data.shape[problem.lookup_axes[0]]
                # For a size of 0, the remainders by 1 are 0, which is out of range.
                taken[-1] = replace(taken[-1], array=taken[-1].array % (size or 1))
            call = _TorchCall(request, taken)
            result = _map_results(call.run, problem)
        repeatable = request.keyed and not request.modulo and not isinstance(problem, Rolling)
        return Ran(result, taken, call.written if repeatable else (), isinstance(problem, tuple))

    def plan(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Return the plan of a call on contiguous tensors.

        Anything with `shape` and `dtype`, or a pair (shape, dtype), can replace a tensor. `device` and `out` have no effect.
        For roll, returns a tuple of plans. Each plan writes a part of the result. Raises ValueError for take_along_dim without
        out_of_bounds, because a plan cannot compute remainders.
        """
        request = _plannable(self._request(*args, **kwargs))

        def plan_of(problem: ProblemOrRoll) -> IndexPlan | tuple[IndexPlan, ...]:
            if isinstance(problem, Rolling):
                return tuple(part.plan() for part in problem.parts)
            return problem.plan(*policy_of(problem, request.out_of_bounds))

        return _map_results(plan_of, _problem_maker(request)())

    def problem(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Return the problem of a call. For roll, return a tuple of views: each view reads the output of the view before it.

        Takes the arguments of `plan`, and raises the same errors.

        >>> dg.torch.index_select.problem(((4, 10), "float32"), 1, ((3,), "int64")).output.shape
        (4, 3)
        """
        request = _plannable(self._request(*args, **kwargs))

        def with_policy(problem: ProblemOrRoll) -> Problem | tuple[Problem, ...]:
            if isinstance(problem, Rolling):
                return tuple(problem.problems())
            return under(problem, *policy_of(problem, request.out_of_bounds))

        return _map_results(with_policy, _problem_maker(request)())

    def inputs(self, *args: P.args, **kwargs: P.kwargs) -> tuple[Any, ...]:
        """Return the arrays that a call's plan and descriptors read: the data, then the indices if there are any.

        They differ from the arguments in three functions. take flattens its input. as_strided reads the storage. index
        broadcasts several index tensors and stacks them in a last dimension. Raises the errors of `plan`.

        >>> dg.torch.index.inputs(np.zeros((4, 5)), ([[0], [1]], [2, 3]))[1].tolist()
        [[[0, 2], [0, 3]], [[1, 2], [1, 3]]]
        """
        request = _plannable(self._request(*args, **kwargs))
        for name, item in request.arrays.items():
            if isinstance(item, tuple | TensorType):
                raise TypeError(f"{name} has no elements: pass arrays")
        return tuple(request.arrays.values())

    def to_directml(self, *args: Any, level: str | FeatureLevel = "6_4", **kwargs: Any) -> Described | tuple[Described, ...]:
        """Return the DirectML descriptor of a call, or a report of why it has none.

        Takes the arguments of the call, except `out`, `out_of_bounds` and `device`. Anything with `shape` and `dtype`, or a
        pair (shape, dtype), can replace a tensor. `level`: DirectML's feature level, such as "6_4".

        Returns one descriptor, or a tuple of descriptors in the order of execution. If the level cannot express the call,
        returns a Report: its findings name the limit of the level, or a broken rule of the operator. `docs/expressing.md`
        explains the findings, and how to bind tensors. Raises ValueError for an unknown level; TypeError for a tensor argument
        without shape and type.

        >>> desc = dg.torch.index_select.to_directml(((4, 10), "float32"), 1, ((3,), "int64"))
        >>> desc.operator.name, desc.axis, desc.output_tensor.sizes
        ('GATHER', 1, (4, 3))
        """
        feature_level = FeatureLevel.parse(level)
        request = self._describable_request(args, kwargs)
        make = _problem_maker(request)
        try:
            problem = make()
        except (IndexError, RuntimeError, AssertionError, TypeError, ValueError) as error:
            name: str = self.__name__  # type: ignore[attr-defined] # set by update_wrapper
            return export.EXPORTER.to_directml(partial(_raise, ValueError(str(error))), feature_level, "PyTorch", name)
        if request.modulo:
            return export.no_remainders(problem, feature_level)

        def descriptors_of(problem: ProblemOrRoll) -> Described:
            descs = export.express(problem, feature_level)
            return descs if isinstance(descs, Report) or len(descs) > 1 else descs[0]

        return _map_results(descriptors_of, problem)  # type: ignore[no-any-return]

    def differences(self, *args: Any, **kwargs: Any) -> tuple[Finding, ...]:
        """Return warnings about indices that raise an error in PyTorch, but read an element in DirectML.

        Takes the arguments of `to_directml`. EXP201: indices out of range. EXP202: negative indices, if PyTorch does not count
        them from the end. Views have no warnings. Raises the errors of the function and of `plan`.

        >>> [finding.expected for finding in dg.torch.take.differences(((5, 2), "float32"), ((3,), "int64"))]
        ['indices from -10 to 9']
        """
        problem = _problem_maker(_plannable(self._describable_request(args, kwargs)))()
        return () if isinstance(problem, tuple) else export.EXPORTER.differences(problem)

    def _describable_request(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TorchRequest:
        for name in ("out", "out_of_bounds", "device"):
            if kwargs.get(name) is not None:
                raise TypeError(f"{name} is given, but a descriptor has none: leave it out")
        request = self._request(*args, **kwargs)
        assert isinstance(request, TorchRequest)
        return request


def _plannable(request: Request) -> TorchRequest:
    """Return the request itself. Raise ValueError if a plan cannot express it."""
    assert isinstance(request, TorchRequest)
    if request.modulo:
        raise ValueError(
            "take_along_dim takes indices modulo the size along dim, but a plan cannot compute remainders: call gather with the "
            "remainders, or choose another rule for an index out of range with out_of_bounds="
        )
    return request


class _TorchCall:
    """A call while it runs. `written`: the prepared calls that ran; an equal call can reuse them."""

    def __init__(self, request: TorchRequest, taken: Sequence[Taken]) -> None:
        self._request, self._taken = request, taken
        self._first = next(iter(request.arrays.values()))
        self.written: list[PreparedCall] = []

    def run(self, problem: ProblemOrRoll) -> Any:
        """Compute one result of the call. Return `out` if it is given, else a new array."""
        first, out = self._taken[0], self._request.out
        if out is not None:
            self._check_out(out, problem.output)
        elif torch_tensors.is_torch(self._first):
            out = torch_tensors.empty(self._first, problem.output.shape)
        target = CallOutput(first, problem.output, None if out is None else _bits("out", out))
        inputs = [item.array for item in self._taken]
        if isinstance(problem, Rolling):
            self._roll(problem, inputs[0], target.array)
        else:
            self._write(problem, inputs, target.array)
        returned = target.returned()
        return returned if out is None else out

    def _roll(self, problem: Rolling, data: Any, target: Any) -> None:
        """Write the result of a roll, block by block. If roll has no dims, `data` and `target` are flattened first."""
        shape = problem.data.shape
        reshaped = target.reshape(shape)  # a copy if `target` is not contiguous and `shape` is flat
        for part in problem.parts:
            boxes = zip(part.start, part.problem.output.shape, strict=True)
            box = tuple(slice(first, first + count) for first, count in boxes)
            self._write(part.problem, [data.reshape(shape)], reshaped[box])
        if shape != target.shape and not target.flags.c_contiguous:
            arrays.fill_from(target, self._taken[0].memory, reshaped.reshape(target.shape))

    def _write(self, problem: Problem, inputs: list[Any], target: Any) -> None:
        try:
            policy = policy_of(problem, self._request.out_of_bounds)
            self.written.append(written_by(problem, policy, self._taken[0].runs, inputs, target))
        except IndexError as error:
            raise getattr(problem, "bad_index", IndexError)(str(error)) from None

    def _check_out(self, out: Any, output: TensorType) -> None:
        """Like PyTorch, resize `out` if it is empty, and raise RuntimeError if it cannot receive the result."""
        first = self._taken[0]
        if torch_tensors.is_torch(out):
            torch_tensors.check_written(out)
            if 0 in out.shape and tuple(out.shape) != output.shape and out.dtype == getattr(self._first, "dtype", None):
                out.resize_(output.shape)
        if (out_type := type_of("out", out)) != output:
            raise RuntimeError(f"out is {out_type}, expected {output}")
        target, home = arrays.adopt_output(_bits("out", out))
        if home != first.home:
            raise RuntimeError(f"out lies on {home} and {first.name} on {first.home}: expected one device")
        written = logical("out", signature_on(home, target))
        try:
            check_output(written)
        except ValueError as error:
            raise RuntimeError(str(error)) from None
        for item in self._taken:
            read = logical(item.name, item.signature)
            if item.memory == home and share_memory(read, _pointer(item.array), written, _pointer(target)):
                raise RuntimeError(f"out shares memory with {item.name}: pass another tensor")


def _bits(name: str, item: Any) -> Any:
    """Return a tensor in a form that NumPy and CuPy can read. Types that NumPy lacks become integers of the same width."""
    if not torch_tensors.is_torch(item):
        return item
    try:
        return torch_tensors.bits(torch_tensors.plain(item))
    except (TypeError, RuntimeError) as error:
        raise type(error)(f"{name}: {error}") from None


def _pointer(array: Any) -> int:
    return address_of(array) if isinstance(array, np.ndarray) else int(array.data.ptr)


def _in_order(request: TorchRequest) -> AbstractContextManager[Any]:
    """Return the context manager that runs the call on the stream of its arrays."""
    tensors = [item for item in request.arrays.values() if torch_tensors.is_torch(item)]
    devices = {item.device for item in tensors}
    if len(devices) > 1 and request.device is None:
        names = ", ".join(sorted(map(str, devices)))
        raise RuntimeError(f"tensors lie on different devices ({names}); move them to one, or pass device=")
    return arrays.in_order([*request.arrays.values(), request.out])


def _raise(error: Exception) -> Any:
    raise error


def _problem_maker(request: Request) -> Callable[[], Any]:
    """Return a function that makes the problems of a call. It raises if the call breaks a rule of the operator."""
    types = [type_of(name, item) for name, item in request.arrays.items()]
    return lambda: request.problem_of(*types)


def _map_results(function: Callable[[ProblemOrRoll], Any], problem: Any) -> Any:
    return tuple(map(function, problem)) if isinstance(problem, tuple) else function(problem)


def flattened(name: str, item: Any) -> Any:
    """Return an array as one dimension, as a view if possible. Return the flattened type of a pair (shape, dtype)."""
    if not isinstance(item, tuple) and hasattr(item, "reshape"):
        return item.reshape(-1)
    tensor = type_of(name, item)
    return TensorType((prod(tensor.shape),), tensor.dtype)


def contiguous(item: Any) -> Any:
    """Return a contiguous copy of an array that is not contiguous. Return other objects unchanged."""
    if hasattr(item, "contiguous"):
        return item.contiguous()
    if hasattr(item, "flags") and not item.flags.c_contiguous:
        return item.copy(order="C")
    return item
