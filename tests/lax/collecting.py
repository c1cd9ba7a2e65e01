"""`python -m tests.lax.collecting`: writes harnesses.json, the gathers and dynamic slices of JAX's tests of its own lowerings.

It needs the packages jax and absl-py; JAX's harnesses are a private module of it.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import dmlgather as dg
from dmlgather.lax.problems.slice import DynamicSlice

PATH = Path(__file__).with_name("harnesses.json")


def call(entry: Any) -> dict[str, Any]:
    """An entry of a trace as a call of lax.gather, in JSON."""
    gather = entry.problem.gather if isinstance(entry.problem, DynamicSlice) else entry.problem
    return {
        "primitive": entry.primitive,
        "operand": [entry.operand.shape, entry.operand.dtype],
        "start_indices": [entry.indices.shape, entry.indices.dtype],
        "dimension_numbers": vars(gather.numbers),
        "slice_sizes": gather.slice_sizes,
        "mode": entry.mode,
    }


def main() -> None:
    """Collect them and write the file."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import jax

    try:
        from jax._src.internal_test_util.test_harnesses import all_harnesses
    except ModuleNotFoundError as error:
        sys.exit(f"{error}: pip install absl-py")
    found: Counter[str] = Counter()
    with jax.enable_x64(True):  # as JAX runs them
        for harness in all_harnesses:
            if harness.group_name in ("gather", "dynamic_slice"):
                trace = dg.lax.trace(harness.dyn_fun, *harness.dyn_args_maker(np.random.RandomState(0)))
                found.update(json.dumps(call(entry)) for entry in trace if entry.indices is not None)
    calls = ",\n".join(json.dumps({"times": times, **json.loads(text)}) for text, times in found.items())
    PATH.write_text(f'{{"jax": "{jax.__version__}", "calls": [\n{calls}\n]}}\n')
    print(f"{found.total()} calls, {len(found)} of them different: {PATH.name}")


if __name__ == "__main__":
    main()
