"""Builds the engine and its driver, each object once per content for all test processes."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from hatch_build import FLAGS, LOOPS
from tests import built
from tests.cpu_kernels import building

ENGINE = building.KERNELS
DRIVER = Path(__file__).with_name("engine_driver.c")

COMMON = ("-std=gnu11", "-g1", "-pthread", '-DDMLGATHER_SOURCES=""')
ADDRESS = ("-O1", *building.ADDRESS)
THREAD = ("-O1", *building.THREAD)
FAST = (*FLAGS, "-Werror")
"""Flags of an engine for use."""
QUICK = ("-O1", "-DNDEBUG")
"""Flags for broken engines: the fastest compilation, without assertions."""

Unit = tuple[Path, tuple[str, ...]]
"""A source file and its own flags."""


@dataclass(frozen=True, slots=True)
class Driver:
    """A binary. flags: of the compiler and the linker. engine: the folder of the sources. compiler: its command."""

    flags: tuple[str, ...]
    engine: Path = ENGINE
    compiler: tuple[str, ...] = field(default_factory=lambda: (building.compiler(),))
    processor: str = platform.machine()
    broken: str = ""
    """The only instruction set whose loops come from `engine`; the others are the correct ones. Empty: all loops come from it."""

    def path(self) -> Path:
        """Return the program. The first process that asks for this content builds it."""
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            objects = list(pool.map(self._compiled, self.units()))

        def link(folder: Path) -> None:
            built.run([*self.compiler, *self.flags, "-pthread", *map(str, objects), "-o", str(folder / "driver")])

        return built.once("engine", (self.compiler, self.flags), objects, "driver", link)

    def units(self) -> Iterator[Unit]:
        """The compiled units."""
        yield DRIVER, ()
        for source in sorted(self.engine.glob("*.c")):
            if source.stem.endswith("_loops"):
                for name, flags in LOOPS[self.processor].items():
                    folder = self.engine if self.broken in ("", name) else ENGINE
                    yield folder / source.name, (f"-DISA={name}", *flags)
            else:
                yield source, ()

    def command(self, unit: Unit) -> tuple[str, ...]:
        """Return the command that compiles a unit, without its file and the folder of headers."""
        return (*self.compiler, *COMMON, *self.flags, *unit[1])

    def _compiled(self, unit: Unit) -> Path:
        source = unit[0]
        return building.compiled(self.command(unit), source, self.engine if source == DRIVER else source.parent)
