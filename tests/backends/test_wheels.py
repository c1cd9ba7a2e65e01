"""The wheel of CuPy that is advised, and conflicts. Judge: a table of the versions on NVIDIA's and CuPy's pages."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest

from dmlgather.backends.cuda import driver, nvidia_driver, wheels
from dmlgather.backends.cuda.nvidia_driver import Driver, NvidiaGpu
from dmlgather.cli.env import environment
from dmlgather.package import installing

ROOT = Path(__file__).parents[2]
TO_12, TO_13 = installing("cuda12"), installing("cuda13")
NEWER = "; or install driver 580 or newer"


def machine(cuda: str, *capabilities: str) -> Driver:
    """Return the driver of a machine with such GPUs."""
    return Driver(cuda, tuple(NvidiaGpu(f"GPU {number}", each, 2**34) for number, each in enumerate(capabilities)), None)


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Install packages: the test's parameter, separated by blanks."""
    names = request.param.split()
    monkeypatch.setattr(wheels, "version_of", lambda name: "14.2.0" if name in names else None)
    monkeypatch.setattr(wheels, "has_files", lambda: True)


def test_an_extra_installs_its_wheel_with_ctk() -> None:
    stated = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for wheel in wheels.WHEELS:
        assert re.match(rf"{wheel.package}\[ctk\]>=", stated[wheel.extra][0])


@pytest.mark.parametrize(
    ("packages", "driver", "extra"),
    [
        ("", machine("13.0", "9.0"), "cuda13"),
        ("", machine("12.9", "9.0"), "cuda12"),
        ("", machine("13.0", "7.0"), "cuda12"),  # Volta: NVRTC of CUDA 13 supports Turing and later
        ("", machine("13.0", "7.5"), "cuda13"),
        ("", machine("13.0", "9.0", "6.1"), "cuda12"),
        ("", Driver(None, (), "there is no NVIDIA driver"), "cuda13"),
        ("cupy-cuda12x", machine("13.0", "9.0"), "cuda12"),  # the installed CuPy works; a second one would overwrite it
        ("cupy-cuda13x", machine("13.0", "9.0"), "cuda13"),
        ("cupy-cuda13x", machine("12.4", "9.0"), "cuda12"),
        ("cupy-cuda13x", machine("13.0", "7.0"), "cuda12"),
        ("cupy", machine("13.0", "9.0"), "cuda13"),
    ],
    indirect=["packages"],
)
@pytest.mark.usefixtures("packages")
def test_the_advised_extra_fits_the_driver_and_cupy(driver: Driver, extra: str) -> None:
    assert wheels.advised(driver) == extra


@pytest.mark.parametrize(
    ("packages", "driver", "command"),
    [
        ("", machine("13.0", "9.0"), TO_13),
        ("cupy-cuda12x", machine("13.0", "9.0"), TO_12),
        ("cupy", machine("13.0", "9.0"), f"pip uninstall cupy, and {TO_13}"),
        ("cupy-cuda13x", machine("13.0", "7.0"), f"pip uninstall cupy-cuda13x, and {TO_12}"),
    ],
    indirect=["packages"],
)
@pytest.mark.usefixtures("packages")
def test_no_advice_leads_to_two_cupys(driver: Driver, command: str) -> None:
    assert wheels.advice(driver) == command


CASES = [
    ("cupy-cuda13x", machine("13.0", "7.5"), (13, 3), None, ""),
    ("cupy-cuda12x", machine("13.0", "7.0"), (12, 9), None, ""),
    ("cupy-cuda12x", machine("12.0", "5.0"), (12, 9), None, ""),
    ("cupy-cuda12x", machine("13.0", "9.0"), (13, 3), None, ""),
    ("cupy", machine("13.0", "9.0"), (13, 3), None, ""),
    ("", machine("13.0", "9.0"), None, "CuPy", TO_13),
    ("", machine("13.0", "7.0"), None, "CuPy", TO_12),
    (
        *("cupy-cuda13x", machine("12.4", "9.0"), None),
        *("a CuPy for the driver: cupy-cuda13x 14.2.0 is for CUDA 13, and the driver has CUDA 12.4",
          f"pip uninstall cupy-cuda13x, and {TO_12}{NEWER}"),
    ),
    (  # pip would keep the NVRTC that CuPy of CUDA 12 loads; and no driver lets CUDA 13 support that GPU
        *("cupy-cuda13x nvidia-cuda-nvrtc", machine("12.4", "7.0"), None),
        *("a CuPy for the driver: cupy-cuda13x 14.2.0 is for CUDA 13, and the driver has CUDA 12.4",
          f"pip uninstall cupy-cuda13x nvidia-cuda-nvrtc, and {TO_12}"),
    ),
    (
        *("cupy-cuda12x cupy-cuda13x", machine("13.0", "9.0"), None),
        *("one CuPy: cupy-cuda12x 14.2.0 and cupy-cuda13x 14.2.0 are installed over each other",
          f"pip uninstall cupy-cuda12x cupy-cuda13x, and {TO_13}"),
    ),
    (
        *("cupy-cuda12x cupy", machine("12.4", "9.0"), None),
        *("one CuPy: cupy-cuda12x 14.2.0 and cupy 14.2.0 are installed over each other",
          f"pip uninstall cupy-cuda12x cupy, and {TO_12}"),
    ),
    (
        *("cupy", machine("12.4", "9.0"), (13, 3)),
        *("an NVRTC for the driver: CuPy has loaded NVRTC 13.3, and the driver has CUDA 12.4",
          f"pip uninstall nvidia-cuda-nvrtc cupy, and {TO_12}"),
    ),
    (
        *("cupy-cuda13x", machine("13.0", "9.0", "7.0"), None),
        *("a CuPy for the GPU: cuda:1 (GPU 1) has compute capability 7.0, and cupy-cuda13x 14.2.0 needs 7.5",
          f"pip uninstall cupy-cuda13x, and {TO_12}"),
    ),
    (
        *("cupy-cuda12x", machine("12.4", "3.7"), None),
        *("a newer GPU: cuda:0 (GPU 0) has compute capability 3.7, and CuPy needs 5.0", "run on the CPU, or on another GPU"),
    ),
    (
        *("cupy-cuda12x", machine("12.4", "9.0"), (13, 3)),
        *("an NVRTC for the driver: CuPy has loaded NVRTC 13.3, and the driver has CUDA 12.4",
          f"pip uninstall nvidia-cuda-nvrtc, and {TO_12}"),
    ),
    (
        *("cupy-cuda12x", machine("13.0", "7.0"), (13, 3)),
        *("an NVRTC for the GPU: cuda:0 (GPU 0) has compute capability 7.0, and CuPy has loaded NVRTC 13.3, which needs 7.5",
          f"pip uninstall nvidia-cuda-nvrtc, and {TO_12}"),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("packages", "driver", "nvrtc", "what", "remedy"), CASES, indirect=["packages"])
@pytest.mark.usefixtures("packages")
def test_a_misfit_is_named_with_its_remedy(driver: Driver, nvrtc: wheels.Version | None, what: str | None, remedy: str) -> None:
    found = wheels.misfit(driver, nvrtc)
    assert found == (None if what is None else (what, remedy))


@pytest.mark.parametrize("packages", ["cupy-cuda13x"], indirect=True)
@pytest.mark.usefixtures("packages")
def test_each_gpu_is_judged_alone() -> None:
    both = machine("13.0", "9.0", "7.0")
    assert wheels.misfit(both, number=0) is None
    assert wheels.misfit(both, number=1) == wheels.misfit(both)
    assert (wheels.advised(both, 0), wheels.advised(both, 1)) == ("cuda13", "cuda12")


LISTED = "Metadata-Version: 2.1\nName: cupy-cuda13x\nVersion: 14.2.0\n"


@pytest.mark.parametrize("left", [(), ("cupy/_core/some.so",)])
def test_a_cupy_without_its_files_is_installed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: tuple[str, ...]
) -> None:
    """pip uninstalled the first of two CuPys, which leaves the second one's entry and the files that only it had."""
    for name in (*left, "cupy_cuda13x-14.2.0.dist-info/METADATA"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(LISTED)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *(each for each in sys.path if not (Path(each) / "cupy").exists())])
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    monkeypatch.setattr(nvidia_driver, "ask", lambda: machine("13.0", "9.0"))
    driver.require.cache_clear()
    again = "pip install --force-reinstall --no-deps cupy-cuda13x==14.2.0"
    assert wheels.misfit(machine("13.0", "9.0")) == (
        "CuPy's files: pip lists cupy-cuda13x 14.2.0, but they are gone, as after another CuPy over it was uninstalled",
        again,
    )
    with pytest.raises(driver.DeviceError, match=f"^CuPy cannot be imported .*; for this driver .*: {again}$"):
        driver.require(0)
    assert environment()["missing"][0]["remedy"] == again
    assert "cupy" not in sys.modules
    other = wheels.misfit(machine("12.4", "9.0"))
    assert other is not None
    assert other.remedy.startswith("pip uninstall cupy-cuda13x")


def test_the_page_on_gpus_has_the_same_table() -> None:
    page = (ROOT / "docs" / "gpu.md").read_text()
    rows = re.findall(r"^\| .*CUDA (\d+)\).*\| (\d+)\.(\d+) .*`pip install '\.\[(\w+)\]'` \|$", page, re.MULTILINE)
    found = {(extra, int(cuda), (int(major), int(minor))) for cuda, major, minor, extra in rows}
    assert found == {(wheel.extra, wheel.cuda, wheel.least) for wheel in wheels.WHEELS}
