"""The suite of chains on small sizes: each is one plan, all libraries give the same result, and the report is complete."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from benchmarks import CHAINS, BenchReport, MismatchError, Workload, run
from benchmarks.chains import Chain
from benchmarks.clocks import Contender
from benchmarks.kinds import fitted
from benchmarks.suites import Case, SuitePart
from benchmarks.tables import lines, table_of
from tests import seeds
from tests.benchmarks.small import TINY


def small(workload: Workload) -> Chain:
    kind = fitted(workload.kind, workload.shrink, 4, TINY.output_bytes, TINY.source_bytes)
    assert isinstance(kind, Chain)
    return kind


@pytest.mark.parametrize("workload", CHAINS, ids=lambda workload: workload.name)
def test_a_chain_is_one_plan_of_several_passes(workload: Workload) -> None:
    kind = small(workload)
    fused = kind.expression.fused((kind.shape, "float32"))
    assert len(fused.launches) == 1
    assert fused.bytes_saved > 0
    x, ids = np.arange(np.prod(kind.shape), dtype=np.float32).reshape(kind.shape), kind.indices(seeds.numpy_rng())
    expected = kind.applied(kind.steps, x, ids)
    assert expected.shape == kind.out_shape
    assert (fused(x, *([] if ids is None else [ids])) == expected).all()


def test_sizes_are_halved_if_the_steps_allow_it() -> None:
    by_name = {workload.name: workload for workload in CHAINS}
    heads, rows = small(by_name["attention-heads"]), small(by_name["embedding-transpose"])
    assert (heads.shape, heads.out_shape) == ((1, 1024, 1024), (1, 16, 256, 64))
    assert (rows.shape, rows.count, rows.out_shape) == ((1, 768), 512, (1, 768, 512))
    assert small(by_name["kv-reorder-crop"]).out_shape == (16, 1, 1024, 128)


@pytest.fixture(scope="module")
def chains(quick: pytest.MonkeyPatch) -> Iterator[BenchReport]:
    with pytest.MonkeyPatch.context() as patch:
        part = SuitePart(
            "cpu", TINY, tuple(each for each in CHAINS if each.name in ("flip-crop", "embedding-transpose")), own=True
        )
        patch.setitem(run.__globals__["SUITES"], "chains", (part,))
        yield run("chains", ("numpy", "jax", "openvino"), rounds=1, seed=seeds.seed(32), budget=TINY)


def test_the_report_has_fused_and_unfused_chains_and_peers(chains: BenchReport) -> None:
    assert [case.name for case in chains.cases] == ["flip-crop uint8", "embedding-transpose float16"]
    for case in chains.cases:
        assert case.operator == "chain"
        assert [item.role for item in case.measured[:2]] == ["ours", "unfused"]
        assert case.gain is not None
        assert case.gain > 0
        assert case.peers == ("numpy", "jax")
        assert case.cannot == {"openvino": "one operation is measured, and this is several"}
    assert chains.cases[1].ours.spelling == "dg.index[i].reshape(-1, 512, 768).transpose(0, 2, 1).fused(x)(x, i, out=out)"
    assert BenchReport.model_validate_json(chains.to_json()) == chains


def test_the_table_shows_the_gain_of_fusing(chains: BenchReport) -> None:
    table = table_of(chains)
    place = table.heading.index("unfused")
    gains = [case.gain for case in chains.cases]
    assert [float(row[place].split()[0]) for row in table.rows[:2]] == [round(gain, 2) for gain in gains if gain is not None]
    text = "\n".join(lines(chains))
    assert "an index out of range, dmlgather: raises; a negative one counts from the end, as in NumPy" in text
    assert "unfused: the time of dmlgather for the steps one by one, divided by that of the fused chain; goal: 1.5" in text


def test_unfused_steps_with_another_result_are_an_error(quick: pytest.MonkeyPatch, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks import contenders
    from benchmarks.rigs import DeviceRig

    honest = contenders.chain

    def lying(*arguments: object) -> tuple[object, ...]:
        plan, whole, apart = honest(*arguments)  # type: ignore[arg-type] # as they came
        return plan, whole, Contender(apart.name, apart.role, apart.spelling, lambda: apart.run() + 1)

    monkeypatch.setattr(contenders, "chain", lying)
    workload = next(each for each in CHAINS if each.name == "flip-crop")
    with pytest.raises(MismatchError, match="flip-crop uint8: not dmlgather's bits"):
        DeviceRig("cpu", (), 1).prepare(Case("flip-crop uint8", workload, "cpu", "uint8", small(workload)))


@pytest.mark.torch
@pytest.mark.parametrize("workload", CHAINS, ids=lambda workload: workload.name)
def test_the_steps_in_torch_give_numpys_result(workload: Workload) -> None:
    import torch

    kind = small(workload)
    x, ids = np.arange(np.prod(kind.shape), dtype=np.float32).reshape(kind.shape), kind.indices(seeds.numpy_rng())
    found = kind.applied(kind.in_torch or kind.steps, torch.from_numpy(x), None if ids is None else torch.from_numpy(ids))
    assert (found.numpy() == kind.applied(kind.steps, x, ids)).all()
