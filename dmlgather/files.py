"""Files that a user or a model names. Only regular files are opened, and only files that fit into memory are read.

Files that a command writes are first written beside their places, and never over one that they are made from.
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import BinaryIO, NamedTuple

from dmlgather.host import available_memory

BYTES_PER_CHARACTER = 16
"""Memory that reading a JSON text takes, per byte of the file: the text, its values and their positions."""

STDIN = "<stdin>"
"""The name that reports give to standard input."""

STREAMS = (".jsonl", ".ndjson")
"""The suffixes of files that hold a stream of descriptors, one on each line."""

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
    """A file is not UTF-8 text."""


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


def check_not_utf16(raw: bytes) -> None:
    """Raise EncodingError if the beginning of a text is UTF-16."""
    if raw.startswith(_UTF16_BOMS) or (len(raw) > 1 and 0 in raw[:2] and raw[:2] != b"\0\0"):
        raise EncodingError("is UTF-16 text; save it as UTF-8 (in PowerShell: … | Set-Content -Encoding utf8 FILE)")


def decoded(raw: bytes) -> str:
    """UTF-8 text without byte order mark. EncodingError for anything else."""
    check_not_utf16(raw)
    try:
        return raw.removeprefix(_BOM).decode("utf-8")
    except UnicodeDecodeError as error:
        before = error.object[: error.start]
        line_start = before.rfind(b"\n") + 1
        column = len(before[line_start:].decode("utf-8")) + 1
        raise EncodingError(
            f"is not UTF-8 text: byte 0x{error.object[error.start]:02x} at offset {error.start}",
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


BESIDE = ".dmlgather-"
"""How the names of files and folders begin that have not moved to their places yet."""


def check_spared(targets: Iterable[Path], made_from: Iterable[Path]) -> None:
    """FileError when writing `targets` would replace one of the files that they are `made_from`, or two of them are one file.

    Every command that writes asks here. Files are told apart as the file system does: also through links, symbolic and hard ones,
    other spellings of a path, and names in other cases. made_from is looked through only where a target exists.
    """
    present, absent = dict[tuple[int, int], Path](), dict[str, Path]()
    for target in targets:
        place = os.path.realpath(target)  # also through folders that are not there yet
        known = _identity(place)
        other = absent.setdefault(place, target) if known is None else present.setdefault(known, target)
        if other is not target:
            raise FileError(f"{other} and {target} are one file, and two outputs would be written to it: choose another name")
    for source in made_from if present else ():
        known = _identity(source)
        if known in present:
            named = "" if present[known] == source else f", which is {source},"
            raise FileError(f"{present[known]}{named} is an input, and would be overwritten: choose another name")


def _identity(path: str | Path) -> tuple[int, int] | None:
    """What the file system knows a file by; None where there is none."""
    try:
        info = os.stat(path)  # noqa: PTH116 # of text as well
    except (OSError, ValueError):
        return None
    return info.st_dev, info.st_ino


@contextmanager
def writing(path: Path, made_from: Iterable[Path]) -> Iterator[BinaryIO]:
    """A new file that takes the place of `path` when the block ends: after an error, an interrupt or a crash, an older file is
    there as it was. Its folder is created if needed. A symbolic link stays one, and the file that it leads to is replaced.

    FileError, with the path, when that is impossible, or when a file of `made_from` would be overwritten.
    """
    check_spared([path], made_from)
    import secrets

    with _naming(path), described():
        place = Path(os.path.realpath(path))
        place.parent.mkdir(parents=True, exist_ok=True)
        mode = _mode(place)
        made = place.with_name(f"{BESIDE}{secrets.token_hex(8)}")
        file = made.open("xb")
    try:
        with file:
            yield file
        if mode is not None:
            made.chmod(mode)
        made.replace(place)
    except OSError as error:
        raise FileError(f"{path} cannot be written: {error.strerror or error}") from None
    finally:
        with suppress(OSError):
            made.unlink(missing_ok=True)


@contextmanager
def writing_inside(folder: Path, name: str, made_from: Iterable[Path]) -> Iterator[BinaryIO]:
    """A new file called `name` inside `folder`. FileError as `writing` and `check_place_inside`."""
    check_place_inside(folder, name)
    with writing(folder / name, made_from) as file:
        yield file


def check_place_inside(folder: Path, name: str) -> None:
    """FileError unless a file called `name`, a relative path, may be written inside `folder`, as far as that can be told before.

    No part of `name` may be a symbolic link, which could lead outside; `folder` itself may be one. Folders need not exist yet.
    """
    place = folder
    for part in PurePath(name).parts:
        if part == ".." or PurePath(part).is_absolute():
            raise FileError(f"{folder / name} is not inside {folder}: name a file below it")
        if place.exists() and not place.is_dir():
            raise FileError(f"{folder / name} cannot be written: {place} is not a folder; name another folder")
        place = place / part
        if place.is_symlink():
            raise FileError(f"{place} is a symbolic link, and files below {folder} are not written through links: remove it")
    _check_replaceable(place)


@contextmanager
def staged(folder: Path, made_from: Iterable[Path]) -> Iterator[Path]:
    """A temporary folder to write files into. When the block ends, they move to `folder`, .json last, and replace files there:
    all of them, or none where one cannot be moved. A folder in it moves as a whole, and replaces nothing.

    After an exception no file is moved. FileError, with the path, when that is impossible, or when a file of `made_from` would be
    overwritten.
    """
    import shutil
    import tempfile

    with _naming(folder), described():
        folder.mkdir(parents=True, exist_ok=True)
        stage = Path(tempfile.mkdtemp(prefix=BESIDE, dir=folder))
    try:
        yield stage
        files = sorted(stage.iterdir(), key=lambda file: (file.suffix.lower() == ".json", file.name))
        targets = [folder / file.name for file in files]
        check_spared(targets, made_from)
        for target in targets:
            _check_replaceable(target)
        with described():
            _move(files, targets, stage / "replaced")
    except FileError as error:
        raise FileError(str(error).replace(str(stage), str(folder))) from None
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _move(files: Sequence[Path], targets: Sequence[Path], replaced: Path) -> None:
    """Move files to their places. Where one cannot be moved, the older ones, which are kept in `replaced`, get theirs back."""
    replaced.mkdir()
    moved = dict[Path, int | None]()
    try:
        for file, target in zip(files, targets, strict=True):
            mode = _mode(target)
            if mode is not None:
                file.chmod(mode)
                with suppress(OSError):  # on a file system without hard links
                    (replaced / target.name).hardlink_to(target)
            file.replace(target)
            moved[target] = mode
    except BaseException:
        for target, mode in moved.items():
            with suppress(OSError):
                if mode is None:
                    target.unlink()
                else:
                    (replaced / target.name).replace(target)
        raise


def _check_replaceable(path: Path) -> None:
    with _naming(path), described():
        if path.is_symlink():
            raise FileError("is a symbolic link, and files are not written through links: remove it")
        _mode(path)


def _mode(path: Path) -> int | None:
    """The permissions of a file that may be replaced; None where there is none. FileError for what is no regular file."""
    if not path.exists():
        return None
    check_regular(path)
    if not os.access(path, os.W_OK):
        raise PermissionError
    return stat.S_IMODE(path.stat().st_mode)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """The path before the message of a FileError."""
    try:
        yield
    except FileError as error:
        raise FileError(f"{path} {error}") from None
