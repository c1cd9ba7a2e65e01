"""Dask workers on this machine, and what a contender took of them."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from dmlgather.bench import clocks
from dmlgather.bench.clocks import Contender, Samples
from dmlgather.bench.errors import BenchError, CannotSayError
from dmlgather.bench.report import Cluster, Usage
from dmlgather.wording import counted

QUIET_S = 10.0
"""Seconds that the scheduler has, at most, to forget what the last contender did."""

BACK_S = 60.0
"""Seconds after which a lost worker is not expected back."""


class Workers:
    """A `distributed.LocalCluster` of that size with a client, which becomes dask's default. folder: for what workers spill.

    BenchError without dask.
    """

    def __init__(self, size: Cluster, folder: Path) -> None:
        try:
            dask, distributed = import_module("dask"), import_module("distributed")
        except ImportError as error:
            raise BenchError(f"a cluster needs dask, which cannot be imported ({error}): pip install 'dmlgather[dask]'") from None
        self.size, self.lost = size, 0
        self.losses: Counter[str] = Counter()
        self._killed: type[Exception] = distributed.KilledWorker
        with dask.config.set({"temporary-directory": str(folder)}):
            self._cluster = distributed.LocalCluster(
                n_workers=size.workers,
                threads_per_worker=size.threads,
                memory_limit=size.memory_bytes,
                processes=size.processes,
                dashboard_address=None,
                scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},  # it serves its state all the same
                silence_logs=logging.CRITICAL,  # a lost worker is counted and reported
            )
        self._client = distributed.Client(self._cluster)
        self._scheduler = self._cluster.scheduler
        self._scheduler.add_plugin(self._watcher(distributed.SchedulerPlugin), name="dmlgather-bench")

    def ready(self) -> None:
        """Wait until nothing of the last call is left and lost workers are back. BenchError where they stay away."""
        until = time.monotonic() + QUIET_S
        while self._scheduler.tasks and time.monotonic() < until:
            time.sleep(0.005)
        try:
            self._client.wait_for_workers(self.size.workers, timeout=BACK_S)
        except TimeoutError:
            count = counted(len(self._scheduler.workers), "worker")
            raise BenchError(
                f"{count} left, expected {self.size.workers}: lost ones were not restarted in {BACK_S:g} s"
            ) from None

    def begin(self) -> None:
        """Count what follows, from a ready cluster on."""
        self.ready()
        self._lost_before = self.lost
        self._sent_before = {name: sent for name, (sent, _) in self._counts(anew=True).items()}

    def end(self) -> Usage:
        """What was taken since `begin`."""
        counts = self._counts(anew=False)
        lost = self.lost - self._lost_before
        sent = sum(sent - self._sent_before.get(name, 0) for name, (sent, _) in counts.items())
        peaks = [peak for _, peak in counts.values() if peak is not None]
        return Usage(sent_bytes=None if lost else sent, peak_bytes=max(peaks, default=None), restarts=lost)

    def guarded(self, name: str, run: Callable[[], Any]) -> Callable[[], Any]:
        """`run`, but workers lost meanwhile are put down to `name`, and a task that dask gives up is a CannotSayError."""

        def call() -> Any:
            before = self.lost
            try:
                return run()
            except self._killed as error:
                lost = counted(self.lost - before, "worker")
                raise CannotSayError(f"dask gave up a task, {lost} having died, most likely for want of memory") from error
            finally:
                self.losses.update({name: self.lost - before})

        return call

    def close(self) -> None:
        """End all workers. Losing them is no failure from here on."""
        self._scheduler.remove_plugin(name="dmlgather-bench")
        self._client.close()
        self._cluster.close()

    def _counts(self, *, anew: bool) -> dict[str, tuple[int, int | None]]:
        """By worker; without one that is lost just now."""
        found: dict[str, tuple[int, int | None]] = self._client.run(_counts, anew=anew, on_error="ignore")
        return found

    def _watcher(self, plugin: type[Any]) -> Any:
        workers = self

        class Watcher(plugin):  # type: ignore[misc] # dask is imported on use
            """Counts workers that leave."""

            def remove_worker(self, *_: Any, **__: Any) -> None:
                """As said."""
                workers.lost += 1

        return Watcher()


class ClusterClock:
    """Wall-clock time until the result is in this process, and what was taken of the workers meanwhile."""

    flushed_bytes = 0

    def __init__(self, workers: Workers) -> None:
        self._workers = workers

    def current(self) -> AbstractContextManager[Any]:
        """Nothing: the client is dask's default."""
        return nullcontext()

    def kind(self, contender: Contender) -> Literal["wall", "events"]:  # noqa: ARG002 - one clock for all
        """Wall."""
        return "wall"

    def sample(self, contender: Contender, repeat: int, into: Samples) -> None:  # noqa: ARG002 - no call is that short
        """One call, with the table in the page cache as everybody left it."""
        time.sleep(clocks.SETTLE_S)
        self._workers.begin()
        into.warm.append(clocks.seconds(contender.run, 1))
        into.usage.append(self._workers.end())


def _counts(*, anew: bool, dask_worker: Any) -> tuple[int, int | None]:
    """In a worker: bytes that it sent since it began, and the most bytes it had resident since this was last asked anew."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        peak = next((1024 * int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")), None)
        if anew:
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the kernel's way to reset that one number
    except OSError:
        peak = None
    return dask_worker.transfer_outgoing_bytes_total, peak
