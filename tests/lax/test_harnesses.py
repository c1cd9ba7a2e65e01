"""The gathers and dynamic slices that JAX tests its own lowerings with: how many DirectML takes, and that it gives JAX's bytes.

harnesses.json holds them; `python -m tests.lax.collecting` writes it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax import lax

import dmlgather as dg
from dmlgather.directml import FeatureLevel
from tests import seeds
from tests.dialects import binding

ROOT = Path(__file__).parents[2]
RECORD = json.loads((ROOT / "tests/lax/harnesses.json").read_text())
CALLS = RECORD["calls"]
LEVEL = FeatureLevel.parse("6_4")


def described(call: Any) -> dg.OperatorDesc | tuple[dg.OperatorDesc, ...] | dg.Report:
    numbers = dg.lax.GatherDimensionNumbers(**call["dimension_numbers"])
    operand, starts = (tuple(call[name]) for name in ("operand", "start_indices"))
    return dg.lax.to_directml(operand, starts, numbers, call["slice_sizes"], LEVEL, mode=call["mode"])


def partial(call: Any) -> bool:
    """Whether a window that is neither one element nor whole starts at an index."""
    shape, axes = call["operand"][0], call["dimension_numbers"]["start_index_map"]
    return any(1 < call["slice_sizes"][axis] < shape[axis] for axis in axes)


def test_directml_takes_as_many_as_the_page_says() -> None:
    counts: Counter[str] = Counter()
    for call in CALLS:
        found = described(call)
        refused = isinstance(found, dg.Report)
        if isinstance(found, dg.Report):
            assert {finding.code for finding in found.findings} == {"EXP102"}, found
        facts = {"all": True, "refused": refused}
        counts.update({fact: call["times"] for fact, holds in facts.items() if holds})
    page = re.sub(r"\s+", " ", (ROOT / "docs/lax.md").read_text(encoding="utf-8"))
    stated = re.search(
        r"DirectML takes (\d+) of the (\d+) gathers and dynamic slices in JAX (\S+)'s own tests of its lowerings\.", page
    )
    assert stated is not None
    assert stated.groups() == (str(counts["all"] - counts["refused"]), str(counts["all"]), RECORD["jax"])


@pytest.mark.slow
@pytest.mark.parametrize("partly", [True, False])
def test_descriptors_give_jaxs_bytes(partly: bool) -> None:
    rng = seeds.numpy_rng()
    judged = 0
    for call in CALLS:
        found = described(call)
        if isinstance(found, dg.Report) or partial(call) is not partly:
            continue
        (shape, kind), (index_shape, index_kind) = call["operand"], call["start_indices"]
        operand = rng.integers(0, 2, shape).astype(kind) if kind == "bool" else rng.integers(0, 100, shape).astype(kind)
        axes = call["dimension_numbers"]["start_index_map"]
        limits = [shape[axis] - call["slice_sizes"][axis] + 1 for axis in axes]
        starts = rng.integers(0, np.array(limits, np.int64).reshape(-1), index_shape).astype(index_kind)
        numbers = {name: tuple(dims) for name, dims in call["dimension_numbers"].items()}
        with jax.enable_x64(True):
            gather = lax.GatherDimensionNumbers(**numbers)
            expected = np.asarray(lax.gather(operand, starts, gather, tuple(call["slice_sizes"]), mode=call["mode"]))
        binding.check(found, LEVEL, expected, data=operand, indices=starts, sizes=np.array(0))
        judged += 1
    assert judged
