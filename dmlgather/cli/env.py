"""`dmlgather env`: what is installed, what is missing, and how to get it."""

from __future__ import annotations

import platform
from dataclasses import asdict
from importlib import metadata
from typing import TYPE_CHECKING, Any

from dmlgather.cli.common import AsJson, JsonFile, JsonOutput, missing_gpu
from dmlgather.host import SettingError, cpus
from dmlgather.output import put
from dmlgather.package import installing

if TYPE_CHECKING:
    from dmlgather.backends.cuda.nvidia_driver import Driver

PACKAGES = ("numpy", "pydantic", "typer", "rich")
OPTIONAL = {
    "onnx": "onnx",
    "sympy": "onnx",
    "lxml": "openvino",
    "ml_dtypes": "openvino",
    "jax": "jax",
    "torch": "torch",
    "dask": "dask",
    "zarr": "dask",
}
"""Packages that only some models, types and functions need, and the extra that installs each."""
CUPY = ("cupy-cuda13x", "cupy-cuda12x", "cupy")
NVRTC = ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12")


def env(as_json: AsJson = False, output: JsonFile = None) -> int:
    """Show versions, CPU engine, GPU, driver and NVRTC, and what is missing to run on a GPU. Put it into every bug report."""
    written = JsonOutput(as_json, output)
    found = environment()
    written.write(lambda: found)
    if as_json:
        return 0
    rows = _rows(found)
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        put(f"{name:{width}}  {value}\n")
    for missing in found["missing"]:
        put(f"\nmissing: {missing['what']}\n    {missing['remedy']}\n")
    return 0


def environment() -> dict[str, Any]:
    """Everything as plain data. gpu.usable: whether the CUDA backend can run here; missing: why it cannot."""
    from dmlgather.backends.cuda import nvidia_driver
    from dmlgather.backends.devices import processor
    from dmlgather.package import __version__

    driver = nvidia_driver.ask()
    cupy = next((f"{name} {found}" for name in CUPY if (found := _version(name))), None)
    nvrtc = next((f"{name} {found}" for name in NVRTC if (found := _version(name))), None)
    missing = _missing(driver, cupy)
    return {
        "dmlgather": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": {"name": processor(), "cpus": cpus()},
        "engine": _engine(),
        "packages": {name: _version(name) for name in (*PACKAGES, *OPTIONAL)},
        "cupy": cupy,
        "nvrtc": nvrtc,
        "driver": {"cuda": driver.cuda, "error": driver.error},
        "gpu": {"usable": not missing, "devices": [asdict(gpu) for gpu in driver.gpus]},
        "missing": missing,
    }


def _engine() -> str:
    from dmlgather.backends.cpu import engine

    try:
        return engine.status()
    except SettingError as error:
        return str(error)


def _missing(driver: Driver, wheel: str | None) -> list[dict[str, str]]:
    """Without a driver nothing else helps, so that nothing else is named."""
    from dmlgather.backends.cuda.nvidia_driver import REMEDY

    if driver.error is not None:
        what, remedy = driver.error, REMEDY
    elif wheel is None:
        what, remedy = "CuPy", installing(driver.extra)
    elif wheel.startswith("cupy-cuda13x") and driver.extra == "cuda12":
        what = f"a CuPy for the driver: {wheel} is for CUDA 13, and the driver has CUDA {driver.cuda}"
        remedy = f"pip uninstall cupy-cuda13x, and {installing('cuda12')}; or install driver 580 or newer"
    elif (reason := missing_gpu()) is not None:
        what, remedy = "a working CUDA backend", reason
    else:
        return []
    return [{"what": what, "remedy": remedy}]


def _rows(found: dict[str, Any]) -> list[tuple[str, str]]:
    from dmlgather.backends.cuda import nvidia_driver
    from dmlgather.wording import counted

    extra = nvidia_driver.Driver(found["driver"]["cuda"], (), None).extra
    rows: list[tuple[str, str]] = [(name, found[name]) for name in ("dmlgather", "python", "platform")]
    rows.append(("processor", f"{found['processor']['name']}, {counted(found['processor']['cpus'], 'CPU')}"))
    rows.append(("engine", found["engine"]))
    for name, version in found["packages"].items():
        rows.append((name, version or f"not installed: {installing(OPTIONAL[name])}"))
    without = "no package installed: the extras cuda12 and cuda13 have it, or a CUDA toolkit"
    rows.append(("cupy", found["cupy"] or f"not installed: {installing(extra)}"))
    rows.append(("nvrtc", found["nvrtc"] or (without if found["cupy"] else "not installed: it comes with CuPy")))
    cuda = found["driver"]["cuda"]
    rows.append(("driver", f"CUDA {cuda}" if cuda else "none"))
    for number, gpu in enumerate(found["gpu"]["devices"]):
        gigabytes = gpu["memory"] / 2**30
        rows.append((f"gpu {number}", f"{gpu['name']}, compute capability {gpu['compute_capability']}, {gigabytes:.1f} GiB"))
    return rows


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
