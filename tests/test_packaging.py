"""Installed packages: imports load few modules, and wheels and checkouts contain the kernels. Judge: fresh interpreters."""

from __future__ import annotations

import email
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import dmlgather
from hatch_build import LIBRARIES, digest
from tests import built, processes

ROOT = Path(__file__).parents[1]
HEAVY = (
    *("cupy", "onnx", "jax", "openvino", "dask", "matplotlib", "typer", "rich"),
    *("svg", "junitparser", "pathspec", "pydantic_sarif"),
)
PACKED = ("dmlgather", "cpu_kernels", "cuda_kernels", "docs")
"""Folders in a wheel."""
FIND_KERNELS = "from dmlgather.backends.cuda.driver import kernel_folder; print(kernel_folder().resolve())"


def python(code: str, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return processes.run([sys.executable, *options, "-c", code], cwd="/", env=environment, check=True, timeout=120)


def test_importing_dmlgather_loads_no_heavy_package() -> None:
    done = python("import dmlgather", "-X", "importtime", PYTHONPATH=str(ROOT))
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "dmlgather" in loaded
    assert not loaded & {"numpy", "pydantic", *HEAVY}


MOST = 80
"""Limit for the modules of this package that a comparison of descriptors loads."""


def test_comparing_a_descriptor_loads_few_modules() -> None:
    done = python(
        "import sys, numpy as np, dmlgather as dg\n"
        "desc = dg.GatherOperatorDesc.of(((5, 3), 'float32'), ((2,), 'int64'))\n"
        "assert dg.compare(desc, np.ones((5, 3), 'f4'), np.array([4, -1]), devices=['cpu', 'reference']).equal\n"
        "print(*(name for name in sys.modules if name.partition('.')[0] == 'dmlgather'))",
        PYTHONPATH=str(ROOT),
    )
    loaded = done.stdout.split()
    assert len(loaded) <= MOST, loaded
    rooms = ("directml.dxdispatch", "model_runner", "backends.cuda.program", "report", "cli")
    assert not [name for name in loaded if name.removeprefix("dmlgather.").startswith(rooms)]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout that is not installed for editing."""
    shutil.copytree(ROOT / "dmlgather", tmp_path / "dmlgather", ignore=shutil.ignore_patterns("__pycache__", *LIBRARIES))
    shutil.copy(ROOT / "hatch_build.py", tmp_path)
    return tmp_path


WITHOUT_ENGINE = "from dmlgather.backends.cpu import engine; print(engine.status())"


def test_a_missing_engine_names_the_imported_checkout(checkout: Path) -> None:
    lacking = f"the dmlgather that Python has imported, {checkout / 'dmlgather'}, has no compiled engine ("
    done = python(WITHOUT_ENGINE, PYTHONPATH=str(checkout))
    assert done.stdout.startswith(lacking)
    remedy = f"or build an engine there: pip install --editable {checkout}\n"
    assert done.stdout.endswith(f"start Python outside of {checkout}, {remedy}")
    (checkout / "hatch_build.py").unlink()  # like an unpacked pure wheel
    done = python(WITHOUT_ENGINE, PYTHONPATH=str(checkout))
    assert done.stdout.startswith(lacking)
    assert done.stdout.endswith("): install dmlgather anew, without DMLGATHER_PURE=1\n")


def test_env_names_a_checkout_that_python_imports_instead(checkout: Path) -> None:
    def env(folder: Path, *options: str) -> str:
        command = [sys.executable, "-P", "-m", "dmlgather.cli", "env", *options]
        environment = {"PYTHONPATH": str(ROOT), "COLUMNS": "200"}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=True, timeout=120)
        return done.stdout.decode()

    shown = env(checkout)
    assert f"folder       {ROOT / 'dmlgather'}\n" in shown
    other = f"{checkout / 'dmlgather'} instead, which has no compiled engine: start it elsewhere"
    assert f"here         Python started in this folder imports {other}\n" in shown
    for folder, here in ((checkout, str(checkout / "dmlgather")), (ROOT, None), (checkout / "dmlgather", None)):
        found = json.loads(env(folder, "--json"))
        assert (found["folder"], found["here"]) == (str(ROOT / "dmlgather"), here)


@pytest.fixture(scope="module")
def wheel() -> Path:
    """Return a wheel of this checkout, built once for all test processes."""
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]

    def build(folder: Path) -> None:
        built.run([sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", str(folder), str(ROOT)])
        next(folder.glob("*.whl")).rename(folder / "dmlgather.whl")

    found = [*ROOT.glob("*"), *(path for part in PACKED for path in (ROOT / part).rglob("*"))]
    content = sorted(path for path in found if path.is_file() and path.suffix != ".pyc")
    return built.once("wheels", (sys.version, options), content, "dmlgather.whl", build)


@pytest.mark.slow
def test_a_wheel_carries_its_kernels(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    found = Path(python(FIND_KERNELS, PYTHONPATH=str(tmp_path)).stdout.strip())
    assert found == (tmp_path / "dmlgather" / "cuda_kernels").resolve()
    sources = {path.name: path.read_bytes() for path in (ROOT / "cuda_kernels").iterdir()}
    assert sources
    assert {path.name: path.read_bytes() for path in found.iterdir()} == sources
    assert (tmp_path / "dmlgather" / "py.typed").exists()
    header = "dmlgather/include/dmlgather_dump.h"
    assert (tmp_path / header).read_bytes() == (ROOT / header).read_bytes()
    metadata = email.message_from_bytes(next(tmp_path.glob("*.dist-info/METADATA")).read_bytes())
    assert metadata["Version"] == dmlgather.__version__
    assert {"cuda12", "cuda13", "plot", "examples", "test", "dev"} <= set(metadata.get_all("Provides-Extra", []))
    assert not (tmp_path / "tests").exists()


@pytest.mark.slow
def test_a_wheel_carries_the_engine_of_its_platform(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(LIBRARIES))
        library = archive.extract(name, tmp_path)
        tags = email.message_from_bytes(archive.read(next(name for name in archive.namelist() if name.endswith("/WHEEL"))))
    assert name.startswith("dmlgather/backends/cpu/")
    show = "import ctypes; f = ctypes.CDLL({!r}).dmlgather_sources; f.restype = ctypes.c_char_p; print(f().decode())"
    assert python(show.format(library)).stdout.strip() == digest(ROOT / "cpu_kernels")
    assert tags["Tag"].startswith("py3-none-")
    assert tags["Tag"] != "py3-none-any"
    assert tags["Root-Is-Purelib"] == "false"


@pytest.mark.slow
def test_a_wheel_carries_the_pages_that_explain_codes(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    names = ["expressing.md", "findings.md", "onnxruntime-findings.md"]
    assert sorted(path.name for path in (tmp_path / "dmlgather" / "docs").iterdir()) == names
    show = "from dmlgather.cli.app import run; run(['rule', {!r}])"
    for code in ("DML302", "EXP104", "ORT106"):
        shown, expected = (python(show.format(code), PYTHONPATH=str(path)).stdout for path in (tmp_path, ROOT))
        assert shown == expected
        assert shown.startswith(f"# {code} error: ")


def test_an_editable_install_uses_the_checkouts_kernels() -> None:
    # These tests run in such an environment: ci/setup installs for editing.
    assert Path(python(FIND_KERNELS).stdout.strip()) == ROOT / "cuda_kernels"
