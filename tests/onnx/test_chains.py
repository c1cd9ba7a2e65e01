"""Random chains of ONNX nodes: fused, step by step and by onnxruntime to the same bits. `ci/heavy chains` runs thousands."""

from __future__ import annotations

from tests.chain_count import each_seed
from tests.onnx.chain_runs import check_chain, check_tuples


def test_fused_chains_give_what_onnxruntime_gives() -> None:
    each_seed(check_chain, 30)


def test_fused_lookups_of_constant_tuples_give_what_onnxruntime_gives() -> None:
    each_seed(check_tuples, 25)


def test_most_chains_take_fewer_launches() -> None:
    found = [fused for fused in map(check_chain, range(20)) if fused is not None]
    before = sum(len([step for step in fused.source.steps if hasattr(step.work, "plan")]) for fused in found)
    assert sum(len(fused.launches) for fused in found) < 0.6 * before
