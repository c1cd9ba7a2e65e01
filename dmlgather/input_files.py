"""All files that an input consists of: the named file, and the files that it refers to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from dmlgather.files import STREAMS, FileError, read_text


@dataclass(frozen=True)
class InputFiles:
    """All files that a command reads.

    `inputs`: files that may refer to other files, which the command also reads. `alone`: files that refer to no others.
    """

    inputs: tuple[Path, ...]
    alone: tuple[Path, ...] = ()

    def __iter__(self) -> Iterator[Path]:
        return iter(self._files)

    @cached_property
    def _files(self) -> tuple[Path, ...]:
        return (*self.alone, *(file for path in self.inputs for file in (path, *parts(path))))


def parts(path: Path) -> tuple[Path, ...]:
    """Return the files that an input refers to. Return none if it cannot be read."""
    try:
        return tuple(_PARTS.get(path.suffix.lower(), _initial_values)(path))
    except (FileError, OSError, ValueError, RecursionError):  # the command reports the error when it reads the input
        return ()


def _external_data(path: Path) -> Iterator[Path]:
    from dmlgather.onnx_checking.reading.file import external_files

    return (path.parent / name for name in external_files(path))


def _initial_values(path: Path) -> Iterator[Path]:
    """Yield the paths of initial values: each name relative to the model's folder, then relative to the current folder."""
    from dmlgather.directml.dxdispatch.jsonc import Document

    for name in _source_paths(Document(read_text(path)).value):
        yield from (path.parent / name, Path(name))


def _source_paths(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        source = value.get("sourcePath")
        if isinstance(source, str):
            yield source
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _source_paths(part)


_PARTS: Mapping[str, Callable[[Path], Iterator[Path]]] = {
    ".onnx": _external_data,
    **dict.fromkeys(STREAMS, lambda _: iter(())),
}
"""How to list the files that an input refers to, by suffix. All other suffixes are JSON."""
