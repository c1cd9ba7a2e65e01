"""Dask workers on this machine, and their use by a contender."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks import clocks
from benchmarks.bench_report import Cluster, Usage
from benchmarks.clocks import Clock, Contender, Samples
from benchmarks.errors import BenchError, UnsupportedWorkloadError
from dmlgather.package import missing_extra
from dmlgather.wording import counted

QUIET_S = 10.0
"""Longest wait for the tasks of the last contender, in seconds."""

BACK_S = 60.0
"""Longest wait for restarts of lost workers, in seconds."""


class Workers:
    """A `distributed.LocalCluster`. Its client becomes dask's default client. `folder`: for data that workers spill."""

    def __init__(self, size: Cluster, folder: Path) -> None:
        try:
            dask, distributed = import_module("dask"), import_module("distributed")
        except ImportError as error:
            raise missing_extra("a cluster", "dask", error) from None
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
                scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},  # it always starts a server: on any free port
                silence_logs=logging.CRITICAL,  # lost workers are counted and reported
            )
        self._client = distributed.Client(self._cluster)
        self._scheduler = self._cluster.scheduler
        self._scheduler.add_plugin(self._watcher(distributed.SchedulerPlugin), name="dmlgather-bench")

    def ready(self) -> None:
        """Wait for the last call's tasks and for restarts of lost workers. Raises BenchError if they do not restart."""
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
        """Wait until the cluster is ready, and start counting."""
        self.ready()
        self._lost_before = self.lost
        self._sent_before = {name: sent for name, (sent, _) in self._counts(reset=True).items()}

    def end(self) -> Usage:
        counts = self._counts(reset=False)
        lost = self.lost - self._lost_before
        sent = sum(sent - self._sent_before.get(name, 0) for name, (sent, _) in counts.items())
        peaks = [peak for _, peak in counts.values() if peak is not None]
        return Usage(sent_bytes=None if lost else sent, peak_bytes=max(peaks, default=None), restarts=lost)

    def guarded(self, name: str, run: Callable[[], Any]) -> Callable[[], Any]:
        """Wrap `run`: lost workers count for `name`. Raises UnsupportedWorkloadError if dask gives up a task."""

        def call() -> Any:
            before = self.lost
            try:
                return run()
            except self._killed as error:
                lost = counted(self.lost - before, "worker")
                raise UnsupportedWorkloadError(f"dask gave up a task after {lost} died, probably for lack of memory") from error
            finally:
                self.losses.update({name: self.lost - before})

        return call

    def close(self) -> None:
        self._scheduler.remove_plugin(name="dmlgather-bench")
        self._client.close()
        self._cluster.close()

    def _counts(self, *, reset: bool) -> dict[str, tuple[int, int | None]]:
        """Return bytes sent and peak memory by worker. Workers that are just being lost are left out."""
        counts: dict[str, tuple[int, int | None]] = self._client.run(_counts, reset=reset, on_error="ignore")
        return counts

    def _watcher(self, plugin: type[Any]) -> Any:
        workers = self

        class Watcher(plugin):  # type: ignore[misc] # dask is imported on use
            def remove_worker(self, *_: Any, **__: Any) -> None:
                workers.lost += 1

        return Watcher()


class ClusterClock(Clock):
    """A clock of wall time until the result is in this process. It also measures the use of the workers."""

    flushed_bytes = 0

    def __init__(self, workers: Workers) -> None:
        self._workers = workers

    def sample(self, contender: Contender, repeat: int, into: Samples) -> None:  # noqa: ARG002 - calls are long
        """Add a sample of one warm call. The table stays in the page cache."""
        time.sleep(clocks.SETTLE_S)
        self._workers.begin()
        into.warm.append(clocks.seconds(contender.run, 1))
        into.usage.append(self._workers.end())


def _counts(*, reset: bool, dask_worker: Any) -> tuple[int, int | None]:
    """Return, in a worker, the bytes sent since its start, and the peak of resident memory since the last reset."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        peak = next((1024 * int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")), None)
        if reset:
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # resets the peak
    except OSError:
        peak = None
    return dask_worker.transfer_outgoing_bytes_total, peak
