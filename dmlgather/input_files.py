"""The files that an input consists of: itself, and those that it takes weights and values from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from dmlgather.files import STREAMS, FileError, read_text


@dataclass(frozen=True)
class InputFiles:
    """The files that a command reads, or would read, for inputs that a user names. They are looked up when they are asked for.

    inputs: models and descriptors. An ONNX model comes with its external data, a DxDispatch model with
    the files of its initial values, also where these are missing or are not read. alone: files that come with no others.
    """

    inputs: tuple[Path, ...]
    alone: tuple[Path, ...] = ()

    def __iter__(self) -> Iterator[Path]:
        return iter(self._found)

    @cached_property
    def _found(self) -> tuple[Path, ...]:
        return (*self.alone, *(file for path in self.inputs for file in (path, *parts(path))))


def parts(path: Path) -> tuple[Path, ...]:
    """The other files that an input consists of; none where it cannot be read, or has none."""
    try:
        return tuple(_PARTS.get(path.suffix.lower(), _values)(path))
    except (FileError, OSError, ValueError, RecursionError):  # a message about it is due where it is read
        return ()


def _external_data(path: Path) -> Iterator[Path]:
    from dmlgather.onnx_checking.reading.file import external_files

    return (path.parent / name for name in external_files(path))


def _values(path: Path) -> Iterator[Path]:
    """The files of initial values, which lie beside the model or in the current folder."""
    from dmlgather.directml.dxdispatch.jsonc import Document

    for name in _sources(Document(read_text(path)).value):
        yield from (path.parent / name, Path(name))


def _sources(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        named = value.get("sourcePath")
        if isinstance(named, str):
            yield named
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _sources(part)


_PARTS: Mapping[str, Callable[[Path], Iterator[Path]]] = {
    ".onnx": _external_data,
    **dict.fromkeys(STREAMS, lambda _: iter(())),
}
"""By suffix; any other file is JSON."""
