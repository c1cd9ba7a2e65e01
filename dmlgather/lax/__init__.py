"""jax.lax.gather on any array, with JAX's signature and its exact meaning; JAX itself is not needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlgather.lazy import lazy_names

if TYPE_CHECKING:
    from dmlgather.lax.expressing import differences, to_directml
    from dmlgather.lax.functions import gather
    from dmlgather.lax.problems.dimension_numbers import GatherDimensionNumbers
    from dmlgather.lax.tracing.trace import trace

__all__ = ["GatherDimensionNumbers", "differences", "gather", "to_directml", "trace"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "GatherDimensionNumbers": "problems.dimension_numbers",
        "differences": "expressing",
        "gather": "functions",
        "to_directml": "expressing",
        "trace": "tracing.trace",
    },
)
