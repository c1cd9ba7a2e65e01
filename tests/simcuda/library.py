"""The simulated GPU as a library, built once, and the environment in which a process finds it."""

from __future__ import annotations

import functools
import os
import sysconfig
from pathlib import Path

from tests import built

HERE = Path(__file__).parent
FLAGS = ("-std=c++20", "-O2", "-fPIC", "-ffp-contract=off", "-fno-strict-aliasing")


@functools.cache
def library() -> Path:
    """The folder's `libcuda.so.1`, built by the first to ask."""
    sources = sorted(HERE.glob("*.[ch]pp"))
    compiler = os.environ.get("CXX", "g++")
    include = [*Path(sysconfig.get_path("purelib"), "nvidia").glob("*/include"), Path("/usr/local/cuda/include")]
    found = [f"-idirafter{folder}" for folder in include if folder.is_dir()]

    def build(folder: Path) -> None:
        units = [str(path) for path in sources if path.suffix == ".cpp"]
        target = folder / "libcuda.so.1"
        built.run([compiler, *FLAGS, *found, "-shared", "-Wl,-soname,libcuda.so.1", *units, "-o", str(target), "-ldl"])

    return built.once("simcuda", (compiler, FLAGS), sources, "libcuda.so.1", build)


def environment(*, late: int = 0, devices: int = 2, **settings: object) -> dict[str, str]:
    """The variables with which a process has simulated GPUs.

    late: 0 runs work at once, 1 as late as CUDA allows, more in a random order with this seed. settings: others, in small letters
    and without their SIMCUDA_: `sms`, `cc`, `version`, `memory_gb`, `sticky`, `null`, `trace`, ….
    """
    path = library()
    return {
        **os.environ,
        "LD_LIBRARY_PATH": os.pathsep.join(filter(None, (str(path.parent), os.environ.get("LD_LIBRARY_PATH")))),
        "LD_PRELOAD": os.pathsep.join(filter(None, (str(path), os.environ.get("LD_PRELOAD")))),
        "CUPY_COMPILE_WITH_PTX": "1",  # of machine code, the device can do nothing
        "CUPY_ACCELERATORS": "",  # CUB is machine code
        "SIMCUDA_LATE": str(late),
        "SIMCUDA_DEVICES": str(devices),
        **{f"SIMCUDA_{name.upper()}": str(value) for name, value in settings.items()},
    }
