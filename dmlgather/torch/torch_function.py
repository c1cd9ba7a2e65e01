"""Functions on PyTorch's tensors, and on any other arrays, that plan and describe their calls as well."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, ParamSpec

from dmlgather.backends import torch_tensors
from dmlgather.backends.devices import Device
from dmlgather.dialects.call_keys import read_call
from dmlgather.dialects.exporter import Descriptors
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.directml import FeatureLevel, Finding, OperatorDesc, Report
from dmlgather.eager import EagerFunction, Request, kept_for, type_of
from dmlgather.plan import IndexPlan
from dmlgather.policy import resolve_policy
from dmlgather.torch.problems import export
from dmlgather.torch.problems.rolling import Rolling
from dmlgather.torch.torch_run import TorchRequest, TorchRun, Work, in_order, modulus

P = ParamSpec("P")

Described = OperatorDesc | Descriptors | Report


class TorchFunction(EagerFunction[P]):
    """A function on tensors. Like `plan`, `to_directml` and `differences` need only shapes and types.

    A call with several results gives a tuple, and so do the methods, with an entry for each.
    """

    def __init__(self, request: Callable[P, TorchRequest]) -> None:
        super().__init__(request, keyed=False)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Run on tensors; the result is the same kind of array as the first, and `out` where that is given."""
        if torch_tensors.is_compiling():
            return self._in_graph(args, kwargs)
        slots = self._slots
        inputs: list[Any] = [None] * (len(slots) // 2 + 1)
        key = read_call(args, kwargs, slots, inputs, _key) if slots else None
        kept = kept_for(self, key) if key is not None else []
        if kept and (result := kept[0](inputs)) is not None:
            return result
        result, call, request = self.run(args, kwargs)
        if not slots:
            self._slots = self._slots_of(request)
        elif key is not None and read_call(args, kwargs, slots, inputs, _key) == key:  # which `out` has not where it was resized
            kept[:] = call.known(inputs)
        return result

    def run(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, TorchRun, TorchRequest]:
        """A call that nothing is known of, also while a graph is made: its result, and what it did."""
        request = self._request(*args, **kwargs)
        assert isinstance(request, TorchRequest)
        with in_order(request):
            call = TorchRun(request)
            return _of_each(call.work, call.run), call, request

    def plan(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """The plan of the same call over packed tensors. A tensor may be replaced by anything with `shape` and `dtype`, or by a
        pair (shape, dtype); `device` and `out` change nothing. Of roll, a tuple: each plan writes its part of the result.
        """
        request = self._request(*args, **kwargs)
        if request.device is not None:
            Device.parse(request.device)

        def planned(work: Work) -> IndexPlan | tuple[IndexPlan, ...]:
            if isinstance(work, Rolling):
                return tuple(part.plan() for part in work.parts)
            return work.plan(*resolve_policy(request.out_of_bounds, work.out_of_bounds, work.data.dtype))

        return _of_each(_work(request)(), planned)

    def problem(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """What the same call asks for, without tensors. Arguments as for `plan`. Of roll, a tuple of views, of which each reads
        what the one before it writes.

        >>> dg.torch.index_select.problem(((4, 10), "float32"), 1, ((3,), "int64")).output.shape
        (4, 3)
        """

        def stated(work: Work) -> Problem | tuple[Problem, ...]:
            return tuple(work.chain()) if isinstance(work, Rolling) else work

        return _of_each(_work(self._request(*args, **kwargs))(), stated)

    def inputs(self, *args: P.args, **kwargs: P.kwargs) -> tuple[Any, ...]:
        """The arrays that plans and descriptors of a call read, in order: the data, and the indices where there are any.

        These are the arguments, but for what a call does before it runs: take flattens its input, as_strided reads the storage,
        `index` broadcasts several index tensors to one shape and stacks them behind it, take_along_dim takes remainders.

        >>> dg.torch.index.inputs(np.zeros((4, 5)), ([[0], [1]], [2, 3]))[1].tolist()
        [[[0, 2], [0, 3]], [[1, 2], [1, 3]]]
        """
        request = self._request(*args, **kwargs)
        assert isinstance(request, TorchRequest)
        given = tuple(request.arrays.values())
        for name, item in request.arrays.items():
            if isinstance(item, tuple | TensorType):
                raise TypeError(f"{name} has no elements: pass arrays")
        return (*given[:-1], given[-1] % modulus(_work(request)())) if request.modulo else given

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
        make = _work(self._asked(args, kwargs))
        try:
            work = make()
        except (IndexError, RuntimeError, AssertionError, TypeError, ValueError) as error:
            broken = ValueError(str(error))
            return export.EXPORTER.to_directml(lambda: _raise(broken), at, "PyTorch", self.__name__)  # type: ignore[attr-defined]

        def described(each: Work) -> Described:
            descs = export.express(each, at)
            return descs if isinstance(descs, Report) or len(descs) > 1 else descs[0]

        return _of_each(work, described)  # type: ignore[no-any-return]

    def differences(self, *args: Any, **kwargs: Any) -> tuple[Finding, ...]:
        """The indices for which the descriptors of `to_directml` give elements where PyTorch gives an error, or other elements.

        Arguments as for `to_directml`. Returns findings of severity warning: EXP201 for indices out of range, EXP202 for negative
        ones where PyTorch does not count them from the end. Views have none. Raises as the function itself.

        >>> [finding.expected for finding in dg.torch.take.differences(((5, 2), "float32"), ((3,), "int64"))]
        ['indices from -10 to 9']
        """
        work = _work(self._asked(args, kwargs))()
        return () if isinstance(work, tuple) else tuple(export.differences(work))

    def _in_graph(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        from dmlgather.torch.operators import in_graph  # which imports PyTorch

        return in_graph(self, args, kwargs)

    def _slots_of(self, request: TorchRequest) -> dict[int | str, int]:
        """The number of each array argument, and behind them of `out`. Empty where calls have no keys."""
        slots: dict[int | str, int] = {}
        if not request.keyed:
            return slots
        places = [*inspect.signature(self._request).parameters]
        for slot, name in enumerate(request.arrays):
            slots |= {name: slot, places.index(name): slot}
        return slots | {"out": len(request.arrays)}

    def _asked(self, args: Any, kwargs: Mapping[str, Any]) -> Request:
        for name in ("out", "out_of_bounds", "device"):
            if kwargs.get(name) is not None:
                raise TypeError(f"{name} is given, but a descriptor has none: leave it out")
        return self._request(*args, **kwargs)


def _key(array: Any) -> tuple[Hashable, ...] | None:
    return (None,) if array is None else torch_tensors.key(array)


def _raise(error: Exception) -> Any:
    raise error


def _work(request: Request) -> Callable[[], Any]:
    """What makes the problems of a call from its arrays' types. What has no type raises here."""
    types = [type_of(name, item) for name, item in request.arrays.items()]
    return lambda: request.problem_of(*types)


def _of_each(work: Any, function: Callable[[Work], Any]) -> Any:
    return tuple(map(function, work)) if isinstance(work, tuple) else function(work)
