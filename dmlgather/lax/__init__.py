"""jax.lax.gather on arrays of any library, with JAX's signature and semantics. JAX is not required."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlgather.package import lazy_names

if TYPE_CHECKING:
    from dmlgather.lax.functions import differences, gather, to_directml
    from dmlgather.lax.problems.gather import GatherDimensionNumbers

__all__ = ["GatherDimensionNumbers", "differences", "gather", "to_directml"]

__getattr__, __dir__ = lazy_names(__name__, {**dict.fromkeys(__all__, "functions"), "GatherDimensionNumbers": "problems.gather"})
