"""The self-test of the CPU: its coverage, and its detection of a wrong engine and a wrong recipe."""

from __future__ import annotations

import sys
from collections.abc import Callable
from math import gcd
from typing import Any

import pytest
from numpy.typing import NDArray

from dmlgather.backends.cpu import engine
from dmlgather.backends.cpu.fallback import NumpyProgram
from dmlgather.backends.devices import CPU
from dmlgather.plan import ELEMENT_BYTES, IndexType, OutOfBounds
from dmlgather.selftest import runner
from dmlgather.selftest.runner import run_selftest
from dmlgather.selftest.selftest_report import SelfTestReport
from dmlgather.selftest.trials import LARGE_PERIOD, MAX_BUFFER_BYTES, MIN_LARGE_BYTES, TRIALS_PER_ROUND, draw_trial
from tests import processes, seeds
from tests.backends.ways import ENGINE_EXPECTED

engine_only = pytest.mark.skipif(not ENGINE_EXPECTED, reason="DMLGATHER_PURE is 1")


def run(seed: int | None = None, **more: Any) -> SelfTestReport:
    return run_selftest(CPU, seeds.seed(32) if seed is None else seed, **more)


NOTICING = 1
"""A seed whose first trials reach the code that the tests below break."""


@pytest.mark.slow
def test_all_plans_agree_with_the_reference() -> None:
    report = run(trials=120)
    assert report.equal, "\n".join(report.lines())


@pytest.mark.slow
def test_every_recipe_and_instruction_set_is_reached() -> None:
    report = run_selftest(CPU, 1, trials=250)  # a fixed seed, because only one plan in a hundred reaches some loops
    assert report.equal, "\n".join(report.lines())
    assert report.missed == ()
    loaded = engine.load()
    sets = () if loaded is None else engine.instruction_sets(loaded)
    reached = {part.partition(":")[0] for part in report.parts}
    assert reached == {*sets, "NumPy"}
    for name in sets:
        assert {f"{name}: {work}" for work in ("run", "strided", "transposed", "looked-up units", "looked-up runs")} <= {
            *report.parts
        }


Bound = Callable[[], int | None]


def spoilt(bind: Callable[..., Bound]) -> Callable[..., Bound]:
    """Return `bind` with a result that changes a byte of the output after each call."""

    def wrong(self: Any, data: NDArray[Any], indices: NDArray[Any] | None, out: NDArray[Any]) -> Bound:
        execute = bind(self, data, indices, out)

        def spoils() -> int | None:
            bad = execute()
            if out.size:
                out.view("u1")[-1] ^= 0x55
            return bad

        return spoils

    return wrong


def test_a_wrong_recipe_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NumpyProgram, "bind", spoilt(NumpyProgram.bind))
    report = run(NOTICING, trials=10)
    assert report.failed > 0
    assert {part.partition(":")[0] for part in report.wrong_parts} == {"NumPy"}
    assert report.first_failed is not None
    assert "of the output buffer differ from the reference's" in report.first_failed.fault


@engine_only
def test_a_wrong_engine_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine.EngineProgram, "bind", spoilt(engine.EngineProgram.bind))
    report = run(NOTICING, trials=10)
    assert report.failed > 0
    assert "NumPy" not in {part.partition(":")[0] for part in report.wrong_parts}


@engine_only
def test_an_engine_that_refuses_a_plan_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = engine.Engine.prepare

    def refuses(self: engine.Engine, plan: Any, *rest: Any, **more: Any) -> Any:
        if plan.lookups:
            raise ValueError("the compiled engine refuses this plan")
        return honest(self, plan, *rest, **more)

    monkeypatch.setattr(engine.Engine, "prepare", refuses)
    report = run(NOTICING, trials=10)
    assert (report.trials, report.failed > 0, report.ended_early) == (10, True, None)
    assert report.first_failed is not None
    assert report.first_failed.fault == "ValueError: the compiled engine refuses this plan"


def test_without_the_engine_numpy_alone_is_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DMLGATHER_PURE", "1")
    report = run(trials=20)
    assert report.equal
    assert {part.partition(":")[0] for part in report.parts} == {"NumPy"}
    assert ", DMLGATHER_PURE is 1; " in report.line


def test_a_trial_follows_from_its_seed_and_number() -> None:
    seed = seeds.seed(32)
    for number in (0, 1, 6, 7):
        again, other = draw_trial(seed, number), draw_trial(seed + 1, number)
        trial = draw_trial(seed, number)
        assert (trial.plan, trial.alignment, trial.expected) == (again.plan, again.alignment, again.expected)
        assert [buffer.region for buffer in trial.buffers] == [buffer.region for buffer in again.buffers]
        assert trial.buffers[0].region != other.buffers[0].region


def test_trials_cover_the_kinds_of_plans_and_addresses() -> None:
    seed = seeds.seed(32)
    trials = [draw_trial(seed, number) for number in range(TRIALS_PER_ROUND) if number % LARGE_PERIOD != LARGE_PERIOD - 1]
    plans = [trial.plan for trial in trials]
    looked_up = [plan for plan in plans if plan.lookups]
    assert {plan.element_bytes for plan in plans} == set(ELEMENT_BYTES)
    assert {plan.index_type for plan in looked_up} == set(IndexType)
    assert {plan.out_of_bounds for plan in looked_up} == set(OutOfBounds)
    assert {len(plan.lookups) for plan in plans} >= {0, 1, 2, 3}
    assert {trial.alignment for trial in trials} == {1, 2, 4, 8, 16}
    assert len({trial.buffers[0].start % 16 for trial in trials}) > 6
    for strides in ("in_strides", "out_strides"):
        assert any(step < 0 for plan in plans for step in getattr(plan, strides))
    assert any(step < 0 for plan in looked_up for lookup in plan.lookups for step in lookup.index_strides)
    assert any(not step and size > 1 for plan in plans for step, size in zip(plan.in_strides, plan.shape, strict=True))
    bad = [trial.first_bad is not None for trial in trials if trial.plan.out_of_bounds is OutOfBounds.RAISE]
    assert {True, False} == set(bad)
    for trial in trials:
        size = trial.plan.element_bytes
        assert len(trial.buffers[2].content) == size * trial.plan.out_extent
        assert trial.alignment == gcd(16, trial.buffers[0].start, trial.buffers[2].start)


def test_one_of_many_trials_is_large() -> None:
    trial = draw_trial(seeds.seed(32), LARGE_PERIOD - 1)
    assert min(MIN_LARGE_BYTES) <= len(trial.buffers[2].content) <= MAX_BUFFER_BYTES


def test_a_time_limit_ends_the_selftest() -> None:
    progress: list[tuple[int, int, str]] = []
    report = run(seconds=0.3, progress=lambda *step: progress.append(step))
    assert report.trials == len(progress) > 0
    assert progress[0] == (0, 0, "cpu, plan 0")
    assert run(trials=3, seconds=1e-9).trials == 1


@pytest.mark.parametrize("first", [None, "a byte differs"])
def test_an_interrupt_keeps_the_faults_found_before(first: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = iter([first])

    def interrupted(*_: Any) -> str | None:
        for outcome in outcomes:
            return outcome
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "find_fault", interrupted)
    if first is None:
        with pytest.raises(KeyboardInterrupt):
            run(trials=5)
        return
    report = run(trials=5)
    assert (report.failed, report.failed_trials, report.exit_code) == (1, (0,), 1)
    assert "cpu ran nothing more: interrupted" in list(report.lines())


def test_the_selftest_imports_no_test_package() -> None:
    script = "import sys, dmlgather.selftest.runner; print({'pytest', 'hypothesis', 'tests', 'cupy'} & set(sys.modules))"
    assert processes.run([sys.executable, "-c", script], check=True).stdout == "set()\n"
