"""The self-test: it runs trials on a device, up to a number or a time limit."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends.addresses import address_of
from dmlgather.backends.cpu import CpuProgram, engine
from dmlgather.backends.cpu.fallback import RECIPES
from dmlgather.backends.cuda import CudaProgram, DeviceError, require
from dmlgather.backends.cuda.driver import DeviceMemory, kernel, read_bytes
from dmlgather.backends.cuda.variants import VARIANTS
from dmlgather.backends.devices import Device
from dmlgather.selftest.selftest_report import FailedTrial, Machine, SelfTestReport, machine, versions
from dmlgather.selftest.trials import (
    BASE_ALIGNMENT,
    DeviceUnderTest,
    GuardedBytes,
    PreparedRun,
    Trial,
    TrialRunResult,
    draw_trial,
    find_fault,
    seeded_rng,
)

_FALLBACK = "NumPy"
"""Prefix of the names of NumPy's recipes. The engine's loops have an instruction set in its place."""
_BLOCK_UNITS = (0, 1, 24, 300)
"""Block sizes of the CPU engine to test, in rows or runs. 0 is its own choice. Small sizes give small plans many blocks."""
_SMALL_OUTPUT = 2**16
"""Plans of up to this many output bytes are also tested with small blocks."""
_THREADS = (1, 1, 2, 4)


class CpuUnderTest(DeviceUnderTest):
    """The CPU. Each trial runs in the compiled engine, once with every instruction set of this machine, and in NumPy."""

    name, kind = "cpu", "loop"

    def __init__(self) -> None:
        self._engine = engine.load()
        self._sets = () if self._engine is None else engine.instruction_sets(self._engine)
        self.parts = tuple(f"{_FALLBACK}: {recipe.name}" for recipe in RECIPES)

    def prepared_runs(self, trial: Trial, seed: int) -> Iterator[PreparedRun]:
        small = len(trial.buffers[2].content) <= _SMALL_OUTPUT
        for loops in (*self._sets, _FALLBACK):
            rng = seeded_rng(seed, trial.number, loops)
            threads, block_units = rng.choice(_THREADS), rng.choice(_BLOCK_UNITS) if small else 0
            if loops == _FALLBACK:
                program = CpuProgram(trial.plan, None, block_units=block_units)
            else:
                program = CpuProgram(trial.plan, self._engine, threads=threads, block_units=block_units, loops=loops)
            text = program.describe()
            yield PreparedRun((f"{loops}: {text.partition(':')[0]}",), f"{loops}: {text}", partial(_run_on_cpu, program, trial))


def _run_on_cpu(program: CpuProgram, trial: Trial) -> TrialRunResult:
    regions = [_aligned_copy(buffer) for buffer in trial.buffers]
    data, indices, out = (region[buffer.start : buffer.end] for region, buffer in zip(regions, trial.buffers, strict=True))
    element = np.dtype(f"V{trial.plan.element_bytes}")
    typed_indices = None if program.index_dtype is None else indices.view(program.index_dtype)
    first_bad = program.run(data.view(element), typed_indices, out.view(element))
    data_after, indices_after, out_after = (region.tobytes() for region in regions)
    return TrialRunResult(first_bad, (data_after, indices_after, out_after))


def _aligned_copy(buffer: GuardedBytes) -> NDArray[np.uint8]:
    memory = np.empty(len(buffer.region) + BASE_ALIGNMENT, np.uint8)
    start = -address_of(memory) % BASE_ALIGNMENT
    region = memory[start : start + len(buffer.region)]
    region[:] = np.frombuffer(buffer.region, np.uint8)
    return region


_STREAM = 0
"""The default stream waits for the copies to the GPU."""


class GpuUnderTest(DeviceUnderTest):
    """A GPU. Kernels are launched as in a user's call. Raises DeviceError if the GPU cannot run a kernel."""

    kind = "kernel"

    def __init__(self, device: Device) -> None:
        self.name, self._number = str(device), device.index
        self.parts = tuple(variant.name for variant in VARIANTS)
        require(self._number)
        kernel(VARIANTS[0], self._number)  # raises now if something needed to compile kernels is missing

    def prepared_runs(self, trial: Trial, seed: int) -> Iterator[PreparedRun]:
        rng = seeded_rng(seed, trial.number, "gpu")
        # Pretend that the GPU has 0 multiprocessors. Then small plans use kernels that are otherwise chosen for large plans only.
        multiprocessors = None if trial.kernel is None and rng.random() < 0.5 else 0
        yield self.prepare(trial, multiprocessors, bind=rng.random() < 0.5)

    def prepare(self, trial: Trial, multiprocessors: int | None, *, bind: bool = False) -> PreparedRun:
        """Return a trial, prepared for the GPU.

        `multiprocessors`: the number of multiprocessors to plan for; None for the GPU's number.
        `bind`: True to run a bound launch, False to launch on addresses.
        """
        with self._memory_errors():
            program = CudaProgram(trial.plan, self._number, trial.alignment, multiprocessors=multiprocessors)
        kernels = tuple(dict.fromkeys(launch.variant.name for launch in program.launches))
        return PreparedRun(kernels, program.describe(), partial(self._run, program, trial, bind))

    def is_fatal(self, error: Exception) -> bool:
        return isinstance(error, RuntimeError) and not isinstance(error, DeviceError)  # a failed kernel corrupts the context

    def _run(self, program: CudaProgram, trial: Trial, bind: bool) -> TrialRunResult:
        with self._memory_errors():
            regions = [DeviceMemory(buffer.region, self._number) for buffer in trial.buffers]
        data, indices, out = (region.pointer + buffer.start for region, buffer in zip(regions, trial.buffers, strict=True))
        if bind:
            program.bind(data, indices, out)(_STREAM)
        else:
            program.launch(data, indices, out, _STREAM)
        first_bad = program.first_bad(_STREAM)
        data_after, indices_after, out_after = (
            read_bytes(region.pointer, len(buffer.region), self._number, _STREAM)
            for region, buffer in zip(regions, trial.buffers, strict=True)
        )
        return TrialRunResult(first_bad, (data_after, indices_after, out_after))

    @contextmanager
    def _memory_errors(self) -> Iterator[None]:
        """In the body, raise MemoryError if an allocation fails, so that the kernels are not blamed."""
        try:
            yield
        except RuntimeError as error:
            if "cudaErrorMemoryAllocation" in str(error):
                raise MemoryError(
                    f"{self.name} has too little free memory for a plan of the self-test: end other processes that use it"
                ) from None
            raise


_MAX_LISTED = 100
Progress = Callable[[int, int, str], None]
"""Called with the work done, the total (both in trials or in seconds), and a label."""


def run_selftest(
    device: Device,
    seed: int,
    *,
    trials: int | None = None,
    seconds: float | None = None,
    only: int | None = None,
    begun: Callable[[], None] = lambda: None,
    progress: Progress | None = None,
) -> SelfTestReport:
    """Test the CPU or a GPU by random trials, and return a report.

    `trials`: the number of trials. `seconds`: the time after which no new trial begins; the first one always runs.
    `only`: the number of the only trial to run. Give at least one of the three.
    `begun`: function that is called before the first trial. `progress`: function that is called before each trial.

    Ctrl-C raises KeyboardInterrupt if no trial has failed yet. Otherwise it ends the test, and the report has the failed
    trials. Raises DeviceError if the GPU cannot be used, and SettingError if an environment variable of the CPU engine is
    wrong.
    """
    tested = GpuUnderTest(device) if device.on_gpu else CpuUnderTest()
    environment = _environment(device)  # before the trials: after a failed kernel, the GPU may not answer any more
    selftest = _SelfTest(tested, seed)
    begun()
    start = time.monotonic()
    numbers: Iterable[int] = (only,) if only is not None else itertools.count() if trials is None else range(trials)
    for done, number in enumerate(numbers):
        elapsed = time.monotonic() - start
        if selftest.ended_early is not None or (done and seconds is not None and elapsed >= seconds):
            break
        if progress is not None:
            by_time = trials is None and seconds is not None
            progress(*((int(elapsed), int(seconds or 0)) if by_time else (done, trials or 1)), f"{tested.name}, plan {number}")
        try:
            selftest.run(draw_trial(seed, number))
        except KeyboardInterrupt:
            if selftest.equal:
                raise
            selftest.ended_early = "interrupted"
    return selftest.report(environment, time.monotonic() - start)


class _SelfTest:
    def __init__(self, tested: DeviceUnderTest, seed: int) -> None:
        self._tested, self._seed = tested, seed
        self._trials = 0
        self._failed: list[int] = []
        self._parts, self._wrong = Counter[str](), Counter[str]()
        self._first: FailedTrial | None = None
        self.ended_early: str | None = None

    @property
    def equal(self) -> bool:
        return not self._failed

    def run(self, trial: Trial) -> None:
        """Run a trial in every way in which the device can run it, and record the faults."""
        self._trials += 1
        faults, parts, wrong = list[FailedTrial](), set[str](), set[str]()
        running: tuple[str, ...] = ()  # the parts of the current run; empty while a run is prepared
        how = ""
        try:
            for prepared in self._tested.prepared_runs(trial, self._seed):
                running, how = prepared.parts, prepared.how
                fault = find_fault(trial, prepared.run())
                parts.update(running)
                if fault is not None:
                    wrong.update(running)
                    faults.append(self._failed_trial(trial, fault, running, how))
                running, how = (), ""
        except MemoryError:
            raise
        except Exception as error:  # any exception of the device is a fault that the test looks for
            text = f"{type(error).__name__}: {' '.join(str(error).split())}"
            parts.update(running)
            wrong.update(running)
            faults.append(self._failed_trial(trial, text, running, how))
            self.ended_early = text if self._tested.is_fatal(error) else None
        finally:  # also after an interrupt
            self._parts.update(parts)
            if faults:
                self._failed.append(trial.number)
                self._wrong.update(wrong)
                self._first = self._first or faults[0]

    def _failed_trial(self, trial: Trial, fault: str, parts: tuple[str, ...], how: str) -> FailedTrial:
        command = f"dmlgather selftest --device {self._tested.name} --seed {self._seed} --trial {trial.number}"
        return FailedTrial(
            trial=trial.number,
            fault=fault,
            parts=parts,
            how=how,
            plan=str(trial.plan),
            alignment=trial.alignment,
            command=command,
        )

    def report(self, environment: _Environment, seconds: float) -> SelfTestReport:
        return SelfTestReport(
            device=self._tested.name,
            kind=self._tested.kind,
            engine=environment.engine,
            seed=self._seed,
            trials=self._trials,
            failed=len(self._failed),
            failed_trials=tuple(self._failed[:_MAX_LISTED]),
            first_failed=self._first,
            wrong_parts=dict(self._wrong),
            parts=dict(sorted(self._parts.items())),
            missed=tuple(part for part in self._tested.parts if part not in self._parts),
            ended_early=self.ended_early,
            seconds=round(seconds, 3),
            machine=environment.machine,
            versions=environment.versions,
        )


@dataclass(frozen=True, slots=True)
class _Environment:
    engine: str
    machine: Machine
    versions: Mapping[str, str]


def _environment(device: Device) -> _Environment:
    by_name = {**versions(()), "numpy": np.__version__}
    if not device.on_gpu:
        return _Environment(engine.status(), machine(), by_name)
    cupy = require(device.index)
    by_name |= {"cupy": cupy.__version__, "nvrtc": ".".join(map(str, cupy.cuda.nvrtc.getVersion()))}
    return _Environment(engine.status(), machine(cupy, device.index), by_name)
