"""Files that a command writes: first beside their places, and never over one that they are made from."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import BinaryIO

from dmlgather.files import FileError, check_regular, described

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
