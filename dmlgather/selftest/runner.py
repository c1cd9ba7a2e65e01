"""Runs a self-test: trials on a device until a number of them, or a time, is reached."""

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
from dmlgather.selftest.trials import BASE, Aftermath, GuardedBytes, JudgedDevice, JudgedWay, Trial, drawn, fault, random_of

# The CPU under test: the compiled engine with every instruction set of the machine, and NumPy's recipes.

FALLBACK = "NumPy"
"""The parts of NumPy's recipes begin with it, those of the engine with an instruction set."""
BLOCK_UNITS = (0, 1, 24, 300)
"""Units of a block: as measured, and few, so that small plans have many blocks."""
SMALL = 2**16
"""Bytes of output up to which a plan may get blocks of few units."""
THREADS = (1, 1, 2, 4)


class JudgedCpu(JudgedDevice):
    """The CPU. SettingError as `engine.load`."""

    name, kind = "cpu", "loop"

    def __init__(self) -> None:
        self._engine = engine.load()
        self._sets = () if self._engine is None else engine.instruction_sets(self._engine)
        self.parts = tuple(f"{FALLBACK}: {recipe.name}" for recipe in RECIPES)

    def ways(self, trial: Trial, seed: int) -> Iterator[JudgedWay]:
        small = len(trial.rooms[2].content) <= SMALL
        for loops in (*self._sets, FALLBACK):
            rng = random_of(seed, trial.number, loops)
            threads, block_units = rng.choice(THREADS), rng.choice(BLOCK_UNITS) if small else 0
            if loops == FALLBACK:
                program = CpuProgram(trial.plan, None, block_units=block_units)
            else:
                program = CpuProgram(trial.plan, self._engine, threads=threads, block_units=block_units, loops=loops)
            text = program.describe()
            yield JudgedWay((f"{loops}: {text.partition(':')[0]}",), f"{loops}: {text}", partial(_run, program, trial))


def _run(program: CpuProgram, trial: Trial) -> Aftermath:
    rooms = [_placed(room) for room in trial.rooms]
    data, indices, out = (place[room.start : room.end] for place, room in zip(rooms, trial.rooms, strict=True))
    element = np.dtype(f"V{trial.plan.element_bytes}")
    looked_up = None if program.index_dtype is None else indices.view(program.index_dtype)
    bad = program.run(data.view(element), looked_up, out.view(element))
    left = [place.tobytes() for place in rooms]
    return Aftermath(bad, (left[0], left[1], left[2]))


def _placed(guarded: GuardedBytes) -> NDArray[np.uint8]:
    """A copy of the room at a multiple of `BASE` bytes."""
    memory = np.empty(len(guarded.room) + BASE, np.uint8)
    start = -address_of(memory) % BASE
    place = memory[start : start + len(guarded.room)]
    place[:] = np.frombuffer(guarded.room, np.uint8)
    return place


# A GPU under test: its kernels, launched as users' calls launch them.

STREAM = 0
"""The default stream, which waits for the copies to the device."""


class JudgedGpu(JudgedDevice):
    """A GPU. DeviceError where it cannot run a kernel."""

    kind = "kernel"

    def __init__(self, device: Device) -> None:
        self.name, self._number = str(device), device.index
        self.parts = tuple(variant.name for variant in VARIANTS)
        require(self._number)
        kernel(VARIANTS[0], self._number)  # tells now what is missing to compile one

    def ways(self, trial: Trial, seed: int) -> Iterator[JudgedWay]:
        rng = random_of(seed, trial.number, "gpu")
        # Planned for no multiprocessors, small plans use the kernels and forms of large ones.
        multiprocessors = None if trial.kernel is None and rng.random() < 0.5 else 0
        yield self.way(trial, multiprocessors, bind=rng.random() < 0.5)

    def way(self, trial: Trial, multiprocessors: int | None, *, bind: bool = False) -> JudgedWay:
        """One way. multiprocessors: as of `CudaProgram`. bind: whether the program is bound, and not launched on addresses."""
        with self._allocating():
            program = CudaProgram(trial.plan, self._number, trial.alignment, multiprocessors=multiprocessors)
        kernels = tuple(dict.fromkeys(launch.variant.name for launch in program.launches))
        return JudgedWay(kernels, program.describe(), partial(self._run, program, trial, bind))

    def is_fatal(self, error: Exception) -> bool:
        return isinstance(error, RuntimeError) and not isinstance(error, DeviceError)  # a kernel that failed spoils the context

    def _run(self, program: CudaProgram, trial: Trial, bind: bool) -> Aftermath:
        with self._allocating():
            memory = [DeviceMemory(room.room, self._number) for room in trial.rooms]
        data, indices, out = (held.pointer + room.start for held, room in zip(memory, trial.rooms, strict=True))
        if bind:
            program.bind(data, indices, out)(STREAM)
        else:
            program.launch(data, indices, out, STREAM)
        bad = program.first_bad(STREAM)
        left = [
            read_bytes(held.pointer, len(room.room), self._number, STREAM) for held, room in zip(memory, trial.rooms, strict=True)
        ]
        return Aftermath(bad, (left[0], left[1], left[2]))

    @contextmanager
    def _allocating(self) -> Iterator[None]:
        """MemoryError where others leave no memory on the device, which is no fault of the kernels."""
        try:
            yield
        except RuntimeError as error:
            if "cudaErrorMemoryAllocation" in str(error):
                raise MemoryError(f"{self.name} has too little free for a plan of the self-test: end what else uses it") from None
            raise


LISTED = 100
"""Failed trials whose numbers a report lists, at most."""
Progress = Callable[[int, int, str], None]
"""Takes what is done, all of it (trials, or seconds), and what to call it."""


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
    """Test "cpu" or a GPU. only: the number of the single trial to run; else `trials` of them, and none but the first that
    begins later than after `seconds`. One of the three must be given. An interrupt is a KeyboardInterrupt if nothing was wrong
    before it; otherwise the report says what was. begun: is called once the device is known to work.

    DeviceError where the GPU cannot be used, SettingError as `engine.load`.
    """
    judged = JudgedGpu(device) if device.on_gpu else JudgedCpu()
    facts = _facts(device)  # now: a kernel may leave the GPU so that it tells nothing more
    course = _Course(judged, seed)
    begun()
    start = time.monotonic()
    numbers: Iterable[int] = (only,) if only is not None else itertools.count() if trials is None else range(trials)
    for done, number in enumerate(numbers):
        past = time.monotonic() - start
        if course.ended_early is not None or (done and seconds is not None and past >= seconds):
            break
        if progress is not None:
            by_time = trials is None and seconds is not None
            progress(*((int(past), int(seconds or 0)) if by_time else (done, trials or 1)), f"{judged.name}, plan {number}")
        try:
            course.run(drawn(seed, number))
        except KeyboardInterrupt:
            if course.equal:
                raise
            course.ended_early = "interrupted"
    return course.report(facts, time.monotonic() - start)


class _Course:
    """What the trials so far have shown."""

    def __init__(self, judged: JudgedDevice, seed: int) -> None:
        self._judged, self._seed = judged, seed
        self._trials = 0
        self._failed: list[int] = []
        self._parts, self._wrong = Counter[str](), Counter[str]()
        self._first: FailedTrial | None = None
        self.ended_early: str | None = None

    @property
    def equal(self) -> bool:
        """Whether every trial so far was right."""
        return not self._failed

    def run(self, trial: Trial) -> None:
        """Run a trial every way."""
        self._trials += 1
        faults, parts, wrong = list[FailedTrial](), set[str](), set[str]()
        reached: tuple[str, ...] = ()
        how = ""
        try:
            for way in self._judged.ways(trial, self._seed):
                reached, how = way.parts, way.how
                found = fault(trial, way.run())
                parts.update(reached)
                if found is not None:
                    wrong.update(reached)
                    faults.append(self._named(trial, found, reached, how))
                reached, how = (), ""
        except MemoryError:
            raise
        except Exception as error:  # whatever the device or its preparation raises is what the test looks for
            text = f"{type(error).__name__}: {' '.join(str(error).split())}"
            parts.update(reached)
            wrong.update(reached)
            faults.append(self._named(trial, text, reached, how))
            self.ended_early = text if self._judged.is_fatal(error) else None
        finally:  # also after an interrupt
            self._parts.update(parts)
            if faults:
                self._failed.append(trial.number)
                self._wrong.update(wrong)
                self._first = self._first or faults[0]

    def _named(self, trial: Trial, text: str, parts: tuple[str, ...], how: str) -> FailedTrial:
        command = f"dmlgather selftest --device {self._judged.name} --seed {self._seed} --trial {trial.number}"
        return FailedTrial(
            trial=trial.number,
            fault=text,
            parts=parts,
            how=how,
            plan=str(trial.plan),
            alignment=trial.alignment,
            command=command,
        )

    def report(self, facts: _Facts, seconds: float) -> SelfTestReport:
        """All of it."""
        return SelfTestReport(
            device=self._judged.name,
            kind=self._judged.kind,
            engine=facts.engine,
            seed=self._seed,
            trials=self._trials,
            failed=len(self._failed),
            failed_trials=tuple(self._failed[:LISTED]),
            first_failed=self._first,
            wrong_parts=dict(self._wrong),
            parts=dict(sorted(self._parts.items())),
            missed=tuple(part for part in self._judged.parts if part not in self._parts),
            ended_early=self.ended_early,
            seconds=round(seconds, 3),
            machine=facts.machine,
            versions=facts.versions,
        )


@dataclass(frozen=True, slots=True)
class _Facts:
    """What a report says of the machine."""

    engine: str
    machine: Machine
    versions: Mapping[str, str]


def _facts(device: Device) -> _Facts:
    found = {**versions(()), "numpy": np.__version__}
    if not device.on_gpu:
        return _Facts(engine.status(), machine(), found)
    cupy = require(device.index)
    found |= {"cupy": cupy.__version__, "nvrtc": ".".join(map(str, cupy.cuda.nvrtc.getVersion()))}
    return _Facts(engine.status(), machine(cupy, device.index), found)
