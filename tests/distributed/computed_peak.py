"""The most memory that a gather takes of the process that computes it, and its forecast, in a process of its own.

`python -m tests.distributed.computed_peak JSON`, with the fields of `Gathered` but for its table, prints both as JSON.
"""

from __future__ import annotations

import dataclasses
import gc
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Gathered:
    """A gather of `count` rows of a float32 table. kind: "npy", a file; "zarr", a store; "made", chunks that tasks make. columns:
    of one chunk; 0 for all. options: of `gather`.
    """

    kind: str
    rows: int
    width: int
    chunk: int
    count: int
    seed: int
    threads: int = 2
    columns: int = 0
    ascending: bool = False
    options: dict[str, Any] = field(default_factory=dict)

    def seeded(self, seed: int) -> Gathered:
        return dataclasses.replace(self, seed=seed)

    def measured(self) -> tuple[int, int]:
        """Return the peak and its forecast, in bytes, of a process of its own."""
        command = [sys.executable, "-m", "tests.distributed.computed_peak", json.dumps(dataclasses.asdict(self))]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr
        peak, forecast = json.loads(done.stdout)
        return peak, forecast

    def table(self, folder: Path) -> Any:
        """Return the table, whose file lies in a folder. Each element is 2."""
        import dask
        import dask.array as da

        shape, chunks = (self.rows, self.width), (self.chunk, self.columns or self.width)
        if self.kind == "npy":
            np.save(folder / "table.npy", np.full(shape, 2, np.float32))
            dask.config.set({"array.chunk-size": f"{self.chunk * self.width * 4}B"})
            return folder / "table.npy"
        if self.kind == "zarr":
            import zarr

            zarr.create_array(folder / "table.zarr", shape=shape, chunks=chunks, dtype="f4")[:] = 2
            return folder / "table.zarr"
        zeros = da.zeros(shape, chunks=chunks, dtype="f4")
        return zeros.map_blocks(lambda block: np.full(block.shape, 2, np.float32), dtype="f4")

    def run(self) -> tuple[int, int]:
        """Return the peak beside what the process held before, and its forecast, in bytes."""
        from dmlgather.distributed import gather, plan_gather

        indices = np.random.default_rng(self.seed).integers(0, self.rows, self.count)
        if self.ascending:
            indices.sort()
        with tempfile.TemporaryDirectory() as folder:
            table = self.table(Path(folder))
            gather(table, indices[:2]).compute()  # what is loaded once
            forecast = plan_gather(table, indices, workers=1, threads=self.threads, **self.options)
            gc.collect()
            Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
            before = _status("VmRSS")
            result = gather(table, indices, **self.options).compute(scheduler="threads", num_workers=self.threads)
            peak = _status("VmHWM") - before
        assert result.shape == (self.count, self.width)
        assert (result == 2).all()
        return peak, forecast.compute.total_bytes


def _status(name: str) -> int:
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines[name].split()[0]) * 1024


if __name__ == "__main__":
    print(json.dumps(Gathered(**json.loads(sys.argv[1])).run()))
