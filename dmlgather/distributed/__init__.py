"""Gather and slice of tables that are larger than a device or a machine, with Dask.

Results have the same bits as on one device. All functions need the extra `dask`, except `plan_gather` of chunk sizes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlgather.package import lazy_names

if TYPE_CHECKING:
    from dmlgather.distributed.chunked_elements import gather_elements
    from dmlgather.distributed.chunked_gather import gather
    from dmlgather.distributed.chunked_slice import slice  # noqa: A004 - the operator's name
    from dmlgather.distributed.forecast import GatherForecast, plan_gather
    from dmlgather.distributed.memory_limits import MemoryLimitError
    from dmlgather.distributed.run_descriptor import run

__all__ = ["GatherForecast", "MemoryLimitError", "gather", "gather_elements", "plan_gather", "run", "slice"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "GatherForecast": "forecast",
        "MemoryLimitError": "memory_limits",
        "gather": "chunked_gather",
        "gather_elements": "chunked_elements",
        "plan_gather": "forecast",
        "run": "run_descriptor",
        "slice": "chunked_slice",
    },
    extras=dict.fromkeys(("gather", "gather_elements", "run", "slice"), "dask"),
)
