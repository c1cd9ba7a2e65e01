"""Tables that are larger than a device or a machine: gather and slice on Dask, by the same rules and with the same bits.

Importing this package, and `plan_gather`, need no Dask; everything else does: `pip install 'dmlgather[dask]'`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlgather.lazy import lazy_names

if TYPE_CHECKING:
    from dmlgather.distributed.descriptors import run
    from dmlgather.distributed.elements import gather_elements
    from dmlgather.distributed.gathering import gather
    from dmlgather.distributed.planning import GatherPlan, MemoryLimitError, plan_gather
    from dmlgather.distributed.slicing import slice  # noqa: A004 - the operator's name

__all__ = ["GatherPlan", "MemoryLimitError", "gather", "gather_elements", "plan_gather", "run", "slice"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "GatherPlan": "planning",
        "MemoryLimitError": "planning",
        "gather": "gathering",
        "gather_elements": "elements",
        "plan_gather": "planning",
        "run": "descriptors",
        "slice": "slicing",
    },
    extras={"dask": "dask"},
)
