"""Functions on PyTorch's tensors, and on any other arrays, that plan and describe their calls as well."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
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

Work = Problem | Rolling
"""What makes one result. A request's `problem_of` gives a tuple of them where the call has several results."""


@dataclass(frozen=True, slots=True)
class TorchRequest(Request):
    """What one call asks for. modulo: whether the indices count modulo the size of their dimension, which no problem says."""

    modulo: bool = False

    @property
    def stated(self) -> TorchRequest:
        """This request, where its problem says all that it does. ValueError for indices that count modulo a size."""
        if self.modulo:
            raise ValueError(
                "take_along_dim takes indices modulo the size along dim, which no problem or plan says: "
                "call gather with the remainders, or say with out_of_bounds= what an index out of range does"
            )
        return self


class TorchFunction(EagerFunction[P]):
    """A function on tensors. Like `plan`, `to_directml` and `differences` need only shapes and types.

    A call with several results gives a tuple, and so do the methods, with an entry for each.
    """

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Run on tensors; the result is the same kind of array as the first, and `out` where that is given."""
        if torch_tensors.is_compiling():
            from dmlgather.torch.operators import in_graph  # which imports PyTorch

            return in_graph(self, args, kwargs)
        return super().__call__(*args, **kwargs)

    def run_anew(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The result of a call of which nothing is known, also while a graph is made."""
        return self.run(self._request(*args, **kwargs)).result

    def run(self, request: Request) -> Ran:
        assert isinstance(request, TorchRequest)
        with _in_order(request):
            # Plans move bits: a type that NumPy lacks is one of integers, and only the problem knows it.
            taken = take({name: _bits(name, item) for name, item in request.arrays.items()}, request.runs)
            work = request.problem_of(*(type_of(name, item) for name, item in request.arrays.items()))
            if request.modulo:
                taken[-1] = replace(taken[-1], array=taken[-1].array % _modulus(work))
            call = _TorchCall(request, taken)
            result = _of_each(work, call.run)
        repeats = request.keyed and not request.modulo and not isinstance(work, Rolling)
        return Ran(result, taken, call.written if repeats else (), isinstance(work, tuple))

    def plan(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """The plan of the same call over packed tensors. A tensor may be replaced by anything with `shape` and `dtype`, or by a
        pair (shape, dtype); `device` and `out` change nothing. Of roll, a tuple: each plan writes its part of the result.
        ValueError for take_along_dim by PyTorch's own rule: no plan takes remainders.
        """
        request = self._stated(args, kwargs)

        def planned(work: Work) -> IndexPlan | tuple[IndexPlan, ...]:
            if isinstance(work, Rolling):
                return tuple(part.plan() for part in work.parts)
            return work.plan(*policy_of(work, request.out_of_bounds))

        return _of_each(_work(request)(), planned)

    def problem(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """What the same call asks for, without tensors. Arguments and errors as for `plan`. Of roll, a tuple of views, of which
        each reads what the one before it writes.

        >>> dg.torch.index_select.problem(((4, 10), "float32"), 1, ((3,), "int64")).output.shape
        (4, 3)
        """
        request = self._stated(args, kwargs)

        def stated(work: Work) -> Problem | tuple[Problem, ...]:
            if isinstance(work, Rolling):
                return tuple(work.problems())
            return under(work, *policy_of(work, request.out_of_bounds))

        return _of_each(_work(request)(), stated)

    def inputs(self, *args: P.args, **kwargs: P.kwargs) -> tuple[Any, ...]:
        """The arrays that plans and descriptors of a call read, in order: the data, and the indices where there are any.

        These are the arguments, but for what a call does before it runs: take flattens its input, as_strided reads the storage,
        `index` broadcasts several index tensors to one shape and stacks them behind it. Errors as for `plan`.

        >>> dg.torch.index.inputs(np.zeros((4, 5)), ([[0], [1]], [2, 3]))[1].tolist()
        [[[0, 2], [0, 3]], [[1, 2], [1, 3]]]
        """
        request = self._stated(args, kwargs)
        for name, item in request.arrays.items():
            if isinstance(item, tuple | TensorType):
                raise TypeError(f"{name} has no elements: pass arrays")
        return tuple(request.arrays.values())

    def to_directml(self, *args: Any, level: str | FeatureLevel = "6_4", **kwargs: Any) -> Described | tuple[Described, ...]:
        """The DirectML descriptor for a call, or a report of why there is none.

        Arguments as for the call, without `out`, `out_of_bounds` and `device`. A tensor may be replaced by anything with `shape`
        and `dtype`, or by a pair (shape, dtype). level: the feature level to write for.

        Returns one descriptor; a tuple, in the order in which they run, where one cannot do it; or a Report whose findings say
        which rule of the operator the call breaks, or what the level does not take (`docs/expressing.md`, which also says how to
        bind tensors). Raises ValueError for an unknown level, TypeError for what has no shape and type.

        >>> desc = dg.torch.index_select.to_directml(((4, 10), "float32"), 1, ((3,), "int64"))
        >>> desc.operator.name, desc.axis, desc.output_tensor.sizes
        ('GATHER', 1, (4, 3))
        """
        at = FeatureLevel.parse(level)
        request = self._asked(args, kwargs)
        make = _work(request)
        try:
            work = make()
        except (IndexError, RuntimeError, AssertionError, TypeError, ValueError) as error:
            broken = ValueError(str(error))
            return export.EXPORTER.to_directml(lambda: _raise(broken), at, "PyTorch", self.__name__)  # type: ignore[attr-defined]
        if request.modulo:
            return export.with_remainders(work, at)

        def described(each: Work) -> Described:
            descs = export.express(each, at)
            return descs if isinstance(descs, Report) or len(descs) > 1 else descs[0]

        return _of_each(work, described)  # type: ignore[no-any-return]

    def differences(self, *args: Any, **kwargs: Any) -> tuple[Finding, ...]:
        """The indices for which the descriptors of `to_directml` give elements where PyTorch gives an error, or other elements.

        Arguments as for `to_directml`. Returns findings of severity warning: EXP201 for indices out of range, EXP202 for negative
        ones where PyTorch does not count them from the end. Views have none. Raises as the function itself, and as `plan`.

        >>> [finding.expected for finding in dg.torch.take.differences(((5, 2), "float32"), ((3,), "int64"))]
        ['indices from -10 to 9']
        """
        work = _work(self._asked(args, kwargs).stated)()
        return () if isinstance(work, tuple) else export.EXPORTER.differences(work)

    def _stated(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TorchRequest:
        request = self._request(*args, **kwargs)
        assert isinstance(request, TorchRequest)
        return request.stated

    def _asked(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TorchRequest:
        for name in ("out", "out_of_bounds", "device"):
            if kwargs.get(name) is not None:
                raise TypeError(f"{name} is given, but a descriptor has none: leave it out")
        request = self._request(*args, **kwargs)
        assert isinstance(request, TorchRequest)
        return request


class _TorchCall:
    """A call with its arrays. written: what wrote its results."""

    def __init__(self, request: TorchRequest, taken: Sequence[Taken]) -> None:
        self._request, self._taken = request, taken
        self._first = next(iter(request.arrays.values()))
        self.written: list[PreparedCall] = []

    def run(self, work: Work) -> Any:
        """One result: `out`, or a new array."""
        first, out = self._taken[0], self._request.out
        if out is not None:
            self._fit(out, work.output)
        elif torch_tensors.is_torch(self._first):
            out = torch_tensors.empty(self._first, work.output.shape)
        target = CallOutput(first, work.output, None if out is None else _bits("out", out))
        inputs = [item.array for item in self._taken]
        if isinstance(work, Rolling):
            self._roll(work, inputs[0], target.array)
        else:
            self._write(work, inputs, target.array)
        returned = target.returned()
        return returned if out is None else out

    def _roll(self, work: Rolling, data: Any, target: Any) -> None:
        """Write each part to its place, of the flattened tensor where that is rolled."""
        shape = work.data.shape
        flat = target.reshape(shape)  # a copy where its elements lie apart
        for part in work.parts:
            places = zip(part.start, part.problem.output.shape, strict=True)
            self._write(part.problem, [data.reshape(shape)], flat[tuple(slice(first, first + n) for first, n in places)])
        if shape != target.shape and not target.flags.c_contiguous:
            arrays.fill_from(target, self._taken[0].memory, flat.reshape(target.shape))

    def _write(self, problem: Problem, inputs: list[Any], target: Any) -> None:
        try:
            policy = policy_of(problem, self._request.out_of_bounds)
            self.written.append(written_by(problem, policy, self._taken[0].runs, inputs, target))
        except IndexError as error:
            raise getattr(problem, "bad_index", IndexError)(str(error)) from None

    def _fit(self, out: Any, output: TensorType) -> None:
        """As in PyTorch, an `out` without elements is resized, and RuntimeError says what does not fit."""
        first = self._taken[0]
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
        for item in self._taken:
            read = logical(item.name, item.signature)
            if item.memory == home and share_memory(read, _pointer(item.array), written, _pointer(target)):
                raise RuntimeError(f"out shares memory with {item.name}: pass another tensor")


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


def _in_order(request: TorchRequest) -> AbstractContextManager[Any]:
    """`arrays.in_order`. RuntimeError, as PyTorch, for tensors on several devices."""
    tensors = [item for item in request.arrays.values() if torch_tensors.is_torch(item)]
    devices = {item.device for item in tensors}
    if len(devices) > 1 and request.device is None:
        places = ", ".join(sorted(map(str, devices)))
        raise RuntimeError(f"tensors lie on different devices ({places}); move them to one, or say device=")
    return arrays.in_order([*request.arrays.values(), request.out])


def _modulus(problem: Problem) -> int:
    """The size that indices count modulo: of the dimension that they index. Where that is 0, every index stays out of range."""
    return problem.data.shape[problem.lookup_axes[0]] or 1


def _raise(error: Exception) -> Any:
    raise error


def _work(request: Request) -> Callable[[], Any]:
    """What makes the problems of a call from its arrays' types. What has no type raises here."""
    types = [type_of(name, item) for name, item in request.arrays.items()]
    return lambda: request.problem_of(*types)


def _of_each(work: Any, function: Callable[[Work], Any]) -> Any:
    return tuple(map(function, work)) if isinstance(work, tuple) else function(work)


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
