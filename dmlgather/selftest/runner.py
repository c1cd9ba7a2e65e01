"""Runs a self-test: trials on a device until a number of them, or a time, is reached."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from dmlgather.backends.cpu import engine
from dmlgather.backends.cuda import require
from dmlgather.backends.devices import Device
from dmlgather.selftest.cpu_device import JudgedCpu
from dmlgather.selftest.gpu_device import JudgedGpu
from dmlgather.selftest.judging import JudgedDevice, fault
from dmlgather.selftest.machine import Machine, machine, versions
from dmlgather.selftest.selftest_report import FailedTrial, SelfTestReport
from dmlgather.selftest.trials import Trial, drawn

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
