"""A GPU under test: its kernels, launched as users' calls launch them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from dmlgather.backends.cuda import CudaProgram, DeviceError, require
from dmlgather.backends.cuda.driver import DeviceMemory, kernel, read_bytes
from dmlgather.backends.cuda.variants import VARIANTS
from dmlgather.backends.devices import Device
from dmlgather.selftest.judging import Aftermath, JudgedDevice, JudgedWay
from dmlgather.selftest.trials import Trial, random_of

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
