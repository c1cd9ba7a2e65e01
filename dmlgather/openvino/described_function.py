"""Functions that also describe their calls for DirectML."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, ParamSpec

from dmlgather.dialects.exporter import Descriptors
from dmlgather.dialects.problem import Problem
from dmlgather.directml import FeatureLevel, Finding, OperatorDesc, Report
from dmlgather.eager import EagerFunction, Request, type_of
from dmlgather.openvino.problems import export
from dmlgather.openvino.problems.operation_versions import VERSIONS, OpenVINOProblem

P = ParamSpec("P")


class DescribedFunction(EagerFunction[P], Generic[P]):
    """A function on arrays. Like `plan`, its methods `to_directml` and `differences` need only the arrays' shapes and types."""

    def __init__(self, problem: type[OpenVINOProblem], request: Callable[P, Request]) -> None:
        super().__init__(request)
        self._operation = problem.name

    def to_directml(self, *args: Any, level: str | FeatureLevel = "6_4", **kwargs: Any) -> OperatorDesc | Descriptors | Report:
        """The DirectML descriptor for a call, or a report of why there is none.

        Arguments as for the call, without `out_of_bounds` and `device`. An array may be replaced by anything with `shape` and
        `dtype`, or by a pair (shape, dtype). level: the feature level to write for.

        Returns one descriptor; a tuple, in the order in which they run, where one cannot do it; or a Report whose findings say
        which rule of the operation the call breaks, or what the level does not take (`docs/expressing.md`, which also says how to
        bind arrays). Raises ValueError for an unknown level, TypeError for what has no shape and type, and for an axis or bounds
        on a GPU.

        >>> desc = dg.openvino.gather_nd.to_directml(((5, 4), "float32"), ((3, 2), "int64"), level="3_0")
        >>> desc.operator.name, desc.output_tensor.sizes
        ('GATHER_ND1', (1, 3))
        """
        at = FeatureLevel.parse(level)
        version = kwargs.get("version", max(VERSIONS[self._operation]))
        return export.EXPORTER.to_directml(self._call(args, kwargs), at, "OpenVINO", f"{self._operation}-{version}")

    def differences(self, *args: Any, **kwargs: Any) -> tuple[Finding, ...]:
        """The indices for which the descriptors of `to_directml` give other elements than OpenVINO, and how to mask them.

        Arguments as for `to_directml`. Returns findings of severity warning, EXP201 and EXP202 of Gather. The other operations
        have none: an index out of range is an error there, and slices have no indices. Raises TypeError and ValueError as the
        function itself.

        >>> [finding.expected for finding in dg.openvino.gather.differences(((5, 2), "float32"), ((3,), "uint8"), axis=0)]
        ['indices from 0 to 4']
        """
        problem = self._call(args, kwargs)()
        sizes = [problem.data.shape[axis] for axis in problem.lookup_axes]
        return tuple(export.differences(problem, *sizes[:1]))

    def _call(self, args: Any, kwargs: Any) -> Callable[[], Problem]:
        """What makes the problem. Arguments of the wrong kind raise here; those that break the operation's rules raise there."""
        request = self._request(*args, **kwargs)
        for name in ("out_of_bounds", "device"):
            if getattr(request, name) is not None:
                raise TypeError(f"{name} is {getattr(request, name)!r}, but a descriptor has none: leave it out")
        types = [type_of(name, item) for name, item in request.arrays.items()]
        return lambda: request.problem_of(*types)


def described(problem: type[OpenVINOProblem]) -> Callable[[Callable[P, Request]], DescribedFunction[P]]:
    """Decorator that makes a `DescribedFunction` of what turns the arguments of a call into a request for such a problem."""
    return lambda request: DescribedFunction(problem, request)
