"""Tables that are larger than a device or a machine: gather and slice on Dask, by the same rules and with the same bits.

Importing this package, and `plan_gather`, need no Dask; everything else does: `pip install 'dmlgather[dask]'`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dmlgather.distributed.chunked_elements import gather_elements
    from dmlgather.distributed.chunked_gather import gather
    from dmlgather.distributed.chunked_slice import slice  # noqa: A004 - the operator's name
    from dmlgather.distributed.forecast import GatherForecast
    from dmlgather.distributed.forecasting import plan_gather
    from dmlgather.distributed.run_descriptor import run
    from dmlgather.distributed.worker_memory import MemoryLimitError

__all__ = ["GatherForecast", "MemoryLimitError", "gather", "gather_elements", "plan_gather", "run", "slice"]

_HOMES = {
    "GatherForecast": "forecast",
    "MemoryLimitError": "worker_memory",
    "gather": "chunked_gather",
    "gather_elements": "chunked_elements",
    "plan_gather": "forecasting",
    "run": "run_descriptor",
    "slice": "chunked_slice",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = importlib.import_module(f"dmlgather.distributed.{_HOMES[name]}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "dask":
            raise
        raise ModuleNotFoundError(
            f"{name} builds Dask's graphs, and the package dask is missing ({error}): pip install 'dmlgather[dask]'",
            name=error.name,
        ) from None
    found = globals()[name] = getattr(module, name)
    return found
