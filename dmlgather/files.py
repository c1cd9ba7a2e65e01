"""Files that a user or a model names: only regular files are opened, and only files that fit into memory are read."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

from dmlgather.host import available_memory

BYTES_PER_CHARACTER = 16
"""Memory that reading a JSON text takes, per byte of the file: the text, its values and their positions."""

SURELY_FITS = 2**20
"""Bytes of a text that is read without looking up how much memory is free."""

_BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}


_PACKAGE = Path(__file__).parent


class Position(NamedTuple):
    """A place in a text file: line and column, in characters, counted from 1."""

    line: int
    column: int


class FileError(Exception):
    """A file cannot be used. The message does not name the file; callers do. position: the place in a text, if known."""

    def __init__(self, message: str, position: Position | None = None) -> None:
        super().__init__(message)
        self.position = position


class EncodingError(FileError):
    """A file is not UTF-8 text. guess: its text in the encoding that it seems to have, from which callers tell what it is."""

    def __init__(self, message: str, guess: str, position: Position | None = None) -> None:
        super().__init__(message, position)
        self.guess = guess


def shipped(name: str) -> Path:
    """A file or folder that dmlgather comes with: inside the package in an installed wheel, beside it in a checkout.

    FileNotFoundError where it is in neither.
    """
    wheel, checkout = _PACKAGE / name, _PACKAGE.parent / name
    for path in (wheel, checkout):
        if path.exists():
            return path
    raise FileNotFoundError(f"{name} is neither at {wheel} (wheel) nor at {checkout} (checkout); install dmlgather again")


@contextmanager
def open_regular(path: Path, buffer: int = io.DEFAULT_BUFFER_SIZE) -> Iterator[tuple[io.BufferedReader, int]]:
    """The opened file and its size in bytes. FileError when it is missing, unreadable or no regular file. buffer: the fewest
    bytes that are read at once.
    """
    with described():
        size = check_regular(path)
        opened: io.BufferedReader = io.BufferedReader(io.FileIO(path), buffer)
        with opened as file:
            yield file, size


def check_regular(path: Path) -> int:
    """The size of a regular file in bytes. FileError for anything else: opening a pipe or a device may block forever."""
    info = path.stat()
    if not stat.S_ISREG(info.st_mode):
        raise FileError(f"is {_KINDS.get(stat.S_IFMT(info.st_mode), 'no regular file')}, not a regular file")
    return info.st_size


@contextmanager
def described() -> Iterator[None]:
    """Turn errors of the operating system about a path into a FileError."""
    try:
        yield
    except FileNotFoundError:
        raise FileError("does not exist") from None
    except PermissionError:
        raise FileError("may not be read or written: permission denied") from None
    except OSError as error:
        raise FileError(f"cannot be used: {error.strerror or error}") from None
    except ValueError as error:  # a path with a zero character, which no file system takes
        raise FileError(f"is no possible path: {error}") from None


def leads_outside(path: Path, folders: Iterable[Path]) -> bool:
    """Whether a path, links followed, lies in none of these folders. False for no possible path, as reading it will say."""
    try:
        place = Path(os.path.realpath(path))
        return not any(place.is_relative_to(os.path.realpath(folder)) for folder in folders)
    except (OSError, ValueError):
        return False


def read_text(path: Path, remedy: str = "move its values to .npy files") -> str:
    """The text of a UTF-8 file, without byte order mark. FileError for anything else. remedy: for a text that is too long."""
    with described():
        size = check_regular(path)
        room = available_memory() if size > SURELY_FITS else None  # looking it up takes longer than reading a small file
        if room is not None and size * BYTES_PER_CHARACTER > room:
            raise FileError(f"holds {size} bytes of text, too many to read with {room} bytes of memory free: {remedy}")
        raw = _content(path, size)
    return decoded(raw)


def read_stream(stream: BinaryIO) -> bytes:
    """All that is left in a stream of unknown length. FileError where it is too long for the memory that is free."""
    room = available_memory()
    longest = None if room is None else room // BYTES_PER_CHARACTER
    raw = stream.read() if longest is None else stream.read(longest + 1)
    if longest is not None and len(raw) > longest:
        raise FileError(f"holds more than {longest} bytes of text, too many to read with {room} bytes of memory free")
    return raw


def decoded(raw: bytes) -> str:
    """UTF-8 text without byte order mark. EncodingError for anything else."""
    if raw.startswith(_UTF16_BOMS) or (len(raw) > 1 and 0 in raw[:2] and raw[:2] != b"\0\0"):
        encoding = "utf-16" if raw.startswith(_UTF16_BOMS) else "utf-16-be" if raw[0] == 0 else "utf-16-le"
        raise EncodingError("is UTF-16 text; save it as UTF-8", raw.decode(encoding, "replace"))
    try:
        return raw.removeprefix(_BOM).decode("utf-8")
    except UnicodeDecodeError as error:
        before = error.object[: error.start]
        line_start = before.rfind(b"\n") + 1
        column = len(before[line_start:].decode("utf-8")) + 1
        raise EncodingError(
            f"is not UTF-8 text: byte 0x{error.object[error.start]:02x} at offset {error.start}",
            raw.decode("latin-1"),
            Position(before.count(b"\n") + 1, column),
        ) from None


def _content(path: Path, size: int) -> bytes:
    """All of a regular file of about `size` bytes. System calls take most of the time for small files, so there are few."""
    file = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0))
    try:
        raw = os.read(file, size + 1)
        if len(raw) == size:
            return raw
        parts = [raw]
        while parts[-1]:
            parts.append(os.read(file, 2**20))
        return b"".join(parts)
    finally:
        os.close(file)
