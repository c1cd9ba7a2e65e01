"""Reading and writing of files that a user or a model names.

An output is written to a temporary file, which then replaces it. A command never replaces its inputs.
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
"""Memory for each byte of a JSON file: for text, values and positions."""

STDIN = "<stdin>"

STREAMS = (".jsonl", ".ndjson")
"""Suffixes of files with one descriptor on each line."""

SURELY_FITS = 2**20
"""In bytes."""

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
    """A position in a text file. Lines and columns count from 1, columns in characters."""

    line: int
    column: int


class FileError(Exception):
    """A file cannot be used. The message does not name it: the caller adds the name."""

    def __init__(self, message: str, position: Position | None = None) -> None:
        super().__init__(message)
        self.position = position


class EncodingError(FileError):
    """A file is not UTF-8 text."""


def shipped(name: str) -> Path:
    """Return the path of a file of dmlgather: inside the package (wheel) or beside it (checkout)."""
    wheel, checkout = _PACKAGE / name, _PACKAGE.parent / name
    for path in (wheel, checkout):
        if path.exists():
            return path
    raise FileNotFoundError(f"{name} is neither at {wheel} (wheel) nor at {checkout} (checkout); install dmlgather again")


@contextmanager
def open_regular(path: Path, buffer: int = io.DEFAULT_BUFFER_SIZE) -> Iterator[tuple[io.BufferedReader, int]]:
    """Open a file, and yield it with its size in bytes. Raise FileError if that is not possible."""
    with described():
        size = check_regular(path)
        opened: io.BufferedReader = io.BufferedReader(io.FileIO(path), buffer)
        with opened as file:
            yield file, size


def check_regular(path: Path) -> int:
    """Return a file's size in bytes. Raise FileError for a pipe or a device: opening it may block forever."""
    info = path.stat()
    if not stat.S_ISREG(info.st_mode):
        raise FileError(f"is {_KINDS.get(stat.S_IFMT(info.st_mode), 'no regular file')}, not a regular file")
    return info.st_size


@contextmanager
def described() -> Iterator[None]:
    """Turn the operating system's errors inside the block into FileError, without the path."""
    try:
        yield
    except FileNotFoundError:
        raise FileError("does not exist") from None
    except PermissionError:
        raise FileError("may not be read or written: permission denied") from None
    except OSError as error:
        raise FileError(f"cannot be used: {error.strerror or error}") from None
    except ValueError as error:  # a path with a null character
        raise FileError(f"is not a valid path: {error}") from None


def leads_outside(path: Path, folders: Iterable[Path]) -> bool:
    """Return True if a path, with links resolved, lies in none of the folders."""
    try:
        resolved = Path(os.path.realpath(path))
        return not any(resolved.is_relative_to(os.path.realpath(folder)) for folder in folders)
    except (OSError, ValueError):  # not a valid path: reading it raises a better error
        return False


def read_text(path: Path, remedy: str = "move its values to .npy files") -> str:
    """Read a UTF-8 file without its byte order mark. Raise FileError if that is not possible."""
    with described():
        size = check_regular(path)
        free = available_memory() if size > SURELY_FITS else None  # reading a small file is faster than asking
        if free is not None and size * BYTES_PER_CHARACTER > free:
            raise FileError(f"holds {size} bytes of text, too many to read with {free} bytes of memory free: {remedy}")
        raw = _content(path, size)
    return decoded(raw)


def read_stream(stream: BinaryIO) -> bytes:
    """Read a stream to its end. Raise FileError if it does not fit into the free memory."""
    free = available_memory()
    longest = None if free is None else free // BYTES_PER_CHARACTER
    raw = stream.read() if longest is None else stream.read(longest + 1)
    if longest is not None and len(raw) > longest:
        raise FileError(f"holds more than {longest} bytes of text, too many to read with {free} bytes of memory free")
    return raw


def check_not_utf16(raw: bytes) -> None:
    """Raise EncodingError if the first bytes of a file look like UTF-16."""
    if raw.startswith(_UTF16_BOMS) or (len(raw) > 1 and 0 in raw[:2] and raw[:2] != b"\0\0"):
        raise EncodingError("is UTF-16 text; save it as UTF-8 (in PowerShell: … | Set-Content -Encoding utf8 FILE)")


def decoded(raw: bytes) -> str:
    """Decode UTF-8 without a byte order mark. Raise EncodingError if it is not UTF-8."""
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
    """Read a file with few system calls, which take most of the time for small files."""
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


TEMPORARY_PREFIX = ".dmlgather-"


def check_spared(targets: Iterable[Path], made_from: Iterable[Path]) -> None:
    """Raise FileError if an output would overwrite an input, or if two outputs are the same file.

    Every command that writes files calls this first.
    """
    existing, missing = dict[tuple[int, int], Path](), dict[str, Path]()
    for target in targets:
        resolved = os.path.realpath(target)
        inode = _inode(resolved)
        other = missing.setdefault(resolved, target) if inode is None else existing.setdefault(inode, target)
        if other is not target:
            raise FileError(f"{other} and {target} are the same file, and each is an output: choose another name for one of them")
    for source in made_from if existing else ():
        inode = _inode(source)
        if inode in existing:
            alias = "" if existing[inode] == source else f", which is {source},"
            raise FileError(f"{existing[inode]}{alias} is an input, and would be overwritten: choose another name")


def _inode(path: str | Path) -> tuple[int, int] | None:
    try:
        info = os.stat(path)  # noqa: PTH116 # `path` may be text
    except (OSError, ValueError):
        return None
    return info.st_dev, info.st_ino


@contextmanager
def writing(path: Path, made_from: Iterable[Path]) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces `path` when the block ends without an exception.

    Raise FileError, with the path, if this fails or `path` is one of `made_from`, the inputs.
    """
    check_spared([path], made_from)
    import secrets

    with _path_in_errors(path), described():
        target = Path(os.path.realpath(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = _mode(target)
        temporary = target.with_name(f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}")
        file = temporary.open("xb")
    try:
        with file:
            yield file
        if mode is not None:
            temporary.chmod(mode)
        temporary.replace(target)
    except OSError as error:
        raise FileError(f"{path} cannot be written: {error.strerror or error}") from None
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextmanager
def writing_inside(folder: Path, name: str, made_from: Iterable[Path]) -> Iterator[BinaryIO]:
    """Open the file `name` below `folder` like `writing`, after `check_place_inside`."""
    check_place_inside(folder, name)
    with writing(folder / name, made_from) as file:
        yield file


def check_place_inside(folder: Path, name: str) -> None:
    """Raise FileError if the relative path `name` leads out of `folder`, or cannot be written there."""
    path = folder
    for part in PurePath(name).parts:
        if part == ".." or PurePath(part).is_absolute():
            raise FileError(f"{folder / name} is not inside {folder}: name a file below it")
        if path.exists() and not path.is_dir():
            raise FileError(f"{folder / name} cannot be written: {path} is not a folder; name another folder")
        path = path / part
        if path.is_symlink():
            raise FileError(f"{path} is a symbolic link, and files below {folder} are not written through links: remove it")
    _check_replaceable(path)


@contextmanager
def staged(folder: Path, made_from: Iterable[Path]) -> Iterator[Path]:
    """Create a temporary folder. When the block ends without an exception, move all files in it to `folder`, or none.

    Raise FileError, with the path, if a file cannot move or would replace one of `made_from`, the inputs.
    """
    import shutil
    import tempfile

    with _path_in_errors(folder), described():
        folder.mkdir(parents=True, exist_ok=True)
        stage = Path(tempfile.mkdtemp(prefix=TEMPORARY_PREFIX, dir=folder))
    try:
        yield stage
        # .json files move last, because they refer to the others.
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
    """Move each file to its target: all files, or none if one fails. `replaced`: a folder to create for the replaced files."""
    replaced.mkdir()
    moved = dict[Path, int | None]()
    try:
        for file, target in zip(files, targets, strict=True):
            mode = _mode(target)
            if mode is not None:
                file.chmod(mode)
                with suppress(OSError):  # the file system has no hard links
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
    with _path_in_errors(path), described():
        if path.is_symlink():
            raise FileError("is a symbolic link, and files are not written through links: remove it")
        _mode(path)


def _mode(path: Path) -> int | None:
    """Return the permissions of a file that will be replaced. None if there is no file."""
    if not path.exists():
        return None
    check_regular(path)
    if not os.access(path, os.W_OK):
        raise PermissionError
    return stat.S_IMODE(path.stat().st_mode)


@contextmanager
def _path_in_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except FileError as error:
        raise FileError(f"{path} {error}") from None
