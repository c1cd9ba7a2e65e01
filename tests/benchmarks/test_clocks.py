"""Turns and samples, with a clock whose time a test sets."""

from __future__ import annotations

import time

import pytest

from benchmarks.clocks import Clock, Contender, HostClock, Samples, interleave


class TableClock(Clock):
    """A clock that reports times of a table, and records who was sampled, and how often in a row."""

    flushed_bytes = 0

    def __init__(self, seconds: dict[str, float]) -> None:
        self.seconds, self.seen = seconds, list[tuple[str, int]]()

    def sample(self, contender: Contender, repeat: int, into: Samples) -> None:
        self.seen.append((contender.name, repeat))
        into.warm.append(self.seconds[contender.name])
        into.cold.append(2 * self.seconds[contender.name])


def contenders(names: str) -> list[Contender]:
    return [Contender(name, "peer", name, lambda: None) for name in names]


def test_contenders_take_turns_with_changing_order() -> None:
    table_clock = TableClock(dict.fromkeys("abc", 1.0))
    samples = interleave(contenders("abc"), table_clock, 4, budget_s=0)
    assert "".join(name for name, _ in table_clock.seen) == "abc" + "abc" + "bca" + "cab" + "abc"
    assert [(len(item.warm), len(item.cold)) for item in samples] == [(4, 4)] * 3
    assert samples[1].cold == [2.0] * 4


def test_short_calls_are_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.clocks.LEAST_S", 0.001)  # other tests lower it for all
    table_clock = TableClock({"a": 1e-5, "b": 0.0004, "c": 1.0})
    interleave(contenders("abc"), table_clock, 1, budget_s=0)
    assert table_clock.seen[3:] == [("a", 100), ("b", 2), ("c", 1)]


def test_close_contenders_get_more_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(1000))
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(ticks)))  # each trial costs one second
    table_clock = TableClock({"a": 1.0, "b": 1.9, "c": 2.0, "d": 3.0, "e": 11.0})

    def counts(budget_s: float) -> list[int]:
        return [len(item.warm) for item in interleave(contenders("abcde"), table_clock, None, budget_s)]

    assert counts(5 + 5 + 5 + 3 + 2 * 4) == [9, 9, 5, 3, 1]
    assert counts(10**6) == [25, 25, 5, 3, 1]
    assert counts(0) == [5, 5, 5, 3, 1]


def test_a_sample_has_untimed_warm_and_cold_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, events = HostClock(64), []
    monkeypatch.setattr("benchmarks.clocks.SETTLE_S", 0.01)  # other tests lower it for all
    monkeypatch.setattr(time, "sleep", lambda seconds: events.append(f"pause {seconds}"))

    def run() -> None:
        events.append(f"call {clock._lines[0]}")

    samples = Samples()
    clock.sample(Contender("a", "ours", "a", run), 3, samples)
    assert events == ["pause 0.01", "call 0", "call 0", "call 0", "call 0", "call 1"]
    assert clock.flushed_bytes == clock._lines.nbytes == 128
    assert (len(samples.warm), len(samples.cold), samples.host) == (1, 1, [])
    assert min(samples.warm + samples.cold) > 0
