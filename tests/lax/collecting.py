"""`python -m tests.lax.collecting`: writes harnesses.json, the gathers and dynamic slices of JAX's tests of its own lowerings.

It needs the packages jax and absl-py; JAX's harnesses are a private module of it.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests.lax.specification import FIELDS

PATH = Path(__file__).with_name("harnesses.json")

MODES = {"CLIP": "clip", "FILL_OR_DROP": "fill", "PROMISE_IN_BOUNDS": "promise_in_bounds"}


def calls(jaxpr: Any) -> Iterator[dict[str, Any]]:
    """The gathers and dynamic slices of a jaxpr, and of those inside, as calls of lax.gather, in JSON."""
    from jax._src.core import jaxprs_in_params

    for eqn in jaxpr.eqns:
        if eqn.primitive.name in ("gather", "dynamic_slice"):
            yield call(eqn.primitive.name, eqn.params, *(atom.aval for atom in eqn.invars))
        for inner in jaxprs_in_params(eqn.params):
            yield from calls(inner)


def call(primitive: str, params: Any, operand: Any, *starts: Any) -> dict[str, Any]:
    """A dynamic slice is a gather of one index vector: its scalar starts, in mode "clip"."""
    if primitive == "gather":
        (found,) = starts
        indices, numbers, mode = [found.shape, str(found.dtype)], params["dimension_numbers"], MODES[params["mode"].name]
        dims = {name: getattr(numbers, name) for name in FIELDS}
    else:
        every = tuple(range(len(operand.shape)))
        indices, dims, mode = (
            [(len(starts),), str(starts[0].dtype)],
            dict(zip(FIELDS, (every, (), every, (), ()), strict=True)),
            "clip",
        )
    return {
        "primitive": primitive,
        "operand": [operand.shape, str(operand.dtype)],
        "start_indices": indices,
        "dimension_numbers": dims,
        "slice_sizes": params["slice_sizes"],
        "mode": mode,
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
                jaxpr = jax.make_jaxpr(harness.dyn_fun)(*harness.dyn_args_maker(np.random.RandomState(0)))
                found.update(map(json.dumps, calls(jaxpr.jaxpr)))
    rows = ",\n".join(json.dumps({"times": times, **json.loads(text)}) for text, times in found.items())
    PATH.write_text(f'{{"jax": "{jax.__version__}", "calls": [\n{rows}\n]}}\n')
    print(f"{found.total()} calls, {len(found)} of them different: {PATH.name}")


if __name__ == "__main__":
    main()
