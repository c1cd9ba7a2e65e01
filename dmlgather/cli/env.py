"""The subcommand `env`: show installed versions, missing parts, and how to install them."""

from __future__ import annotations

import platform
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dmlgather.cli.common import AsJson, JsonFile, JsonOutput
from dmlgather.host import SettingError, cpus
from dmlgather.output import put
from dmlgather.package import installing

if TYPE_CHECKING:
    from dmlgather.backends.cuda.nvidia_driver import Driver
    from dmlgather.backends.cuda.wheels import Misfit

PACKAGES = ("numpy", "pydantic", "typer", "rich")
FOLDER = Path(__file__).parents[1]
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
"""For each optional package, the extra that installs it."""

JUDGE = "onnxruntime"
"""Runs ONNX models for `translate` and `compare`. No extra installs it."""


def env(as_json: AsJson = False, output: JsonFile = None) -> int:
    """Show versions, CPU engine, GPU, driver and NVRTC, and what is missing to run on a GPU. Include it in bug reports."""
    written = JsonOutput(as_json, output)
    details = environment()
    written.write(lambda: details)
    if as_json:
        return 0
    rows = _rows(details)
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        put(f"{name:{width}}  {value}\n")
    for missing in details["missing"]:
        put(f"\nmissing: {missing['what']}\n    {missing['remedy']}\n")
    return 0


def environment() -> dict[str, Any]:
    """Return what `dmlgather env --json` writes. `documents.Environment` describes the entries."""
    from dmlgather.backends.cuda import nvidia_driver, wheels
    from dmlgather.backends.devices import processor
    from dmlgather.package import __version__

    driver = nvidia_driver.ask()
    nvrtc, misfit = _loaded(driver)
    return {
        "dmlgather": __version__,
        "folder": str(FOLDER),
        "here": _here(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": {"name": processor(), "cpus": cpus()},
        "engine": _engine(),
        "packages": {name: _version(name) for name in (*PACKAGES, *OPTIONAL, JUDGE)},
        "cupy": _packages(*(wheel.package for wheel in wheels.WHEELS), wheels.SOURCES),
        "nvrtc": nvrtc or _packages(*(wheel.nvrtc for wheel in wheels.WHEELS)),
        "driver": {"cuda": driver.cuda, "error": driver.error},
        "gpu": {"usable": misfit is None, "devices": [asdict(gpu) for gpu in driver.gpus]},
        "missing": [] if misfit is None else [misfit._asdict()],
    }


def _here() -> str | None:
    """Return the folder of another dmlgather, if Python would import it when started in the current folder."""
    folder = Path(FOLDER.name)
    return str(folder.absolute()) if (folder / "__init__.py").exists() and not folder.samefile(FOLDER) else None


def _engine() -> str:
    from dmlgather.backends.cpu import engine

    try:
        return engine.status()
    except SettingError as error:
        return str(error)


def _loaded(driver: Driver) -> tuple[str | None, Misfit | None]:
    """Return the NVRTC library that CuPy loads, and the reason if no GPU can be used."""
    from dmlgather.backends.cuda import wheels
    from dmlgather.backends.cuda.driver import DeviceError, nvrtc, require

    misfit = wheels.misfit(driver)
    if misfit is not None:
        return None, misfit
    try:
        require(0)
        loaded = nvrtc()
    except DeviceError as error:
        return None, wheels.Misfit("a working CUDA backend", str(error))
    return str(loaded), wheels.misfit(driver, loaded.version)


def _packages(*names: str) -> str | None:
    return ", ".join(f"{name} {version}" for name in names if (version := _version(name))) or None


def _rows(details: dict[str, Any]) -> list[tuple[str, str]]:
    from dmlgather.backends.cpu.engine import LIBRARY
    from dmlgather.backends.cuda import nvidia_driver, wheels
    from dmlgather.wording import counted

    gpus = tuple(nvidia_driver.NvidiaGpu(**gpu) for gpu in details["gpu"]["devices"])
    extra = wheels.advised(nvidia_driver.Driver(details["driver"]["cuda"], gpus, None))
    rows: list[tuple[str, str]] = [(name, details[name]) for name in ("dmlgather", "python", "platform")]
    rows.append(("folder", details["folder"]))
    if details["here"] is not None:
        engine = "" if (Path(details["here"]) / LIBRARY.relative_to(FOLDER)).exists() else ", which has no compiled engine"
        rows.append(("here", f"Python started in this folder imports {details['here']} instead{engine}: start it elsewhere"))
    rows.append(("processor", f"{details['processor']['name']}, {counted(details['processor']['cpus'], 'CPU')}"))
    rows.append(("engine", details["engine"]))
    for name, version in details["packages"].items():
        command = installing(OPTIONAL[name]) if name in OPTIONAL else f"pip install {name}"
        rows.append((name, version or f"not installed: {command}"))
    no_package = "no package installed: the extras cuda12 and cuda13 have it, or a CUDA toolkit"
    rows.append(("cupy", details["cupy"] or f"not installed: {installing(extra)}"))
    rows.append(("nvrtc", details["nvrtc"] or (no_package if details["cupy"] else "not installed: it comes with CuPy")))
    cuda = details["driver"]["cuda"]
    rows.append(("driver", f"CUDA {cuda}" if cuda else "none"))
    for number, gpu in enumerate(details["gpu"]["devices"]):
        gigabytes = gpu["memory"] / 2**30
        rows.append((f"gpu {number}", f"{gpu['name']}, compute capability {gpu['compute_capability']}, {gigabytes:.1f} GiB"))
    return rows


def _version(name: str) -> str | None:
    from dmlgather.backends.cuda.wheels import version_of

    return version_of(name)
