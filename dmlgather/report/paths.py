"""Paths for reports and other programs, and patterns of paths in the syntax of .gitignore."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from copy import copy
from itertools import takewhile
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


def absolute(file: str | os.PathLike[str]) -> str:
    """Return an absolute path without "." and "..". Links are not resolved."""
    return os.path.abspath(file)  # noqa: PTH100 # resolve follows links


def relative(file: str, folder: str) -> str | None:
    """Return a path relative to a folder, with slashes. Return None for a path outside the folder."""
    path, start = absolute(file), absolute(folder)
    try:
        result = os.path.relpath(path, start)
    except ValueError:  # another drive
        return None
    return None if result == os.pardir or result.startswith(os.pardir + os.sep) else result.replace(os.sep, "/")


def named(file: str, folder: str) -> str:
    """Return a path relative to a folder, with slashes and perhaps "..". A path on another drive becomes absolute."""
    try:
        return os.path.relpath(absolute(file), absolute(folder)).replace(os.sep, "/")
    except ValueError:  # another drive
        return Path(absolute(file)).as_posix()


def uri(file: str, folder: str) -> tuple[str, bool]:
    """Return a file's URI, and True if it is relative to `folder`. Bytes that are not UTF-8 are percent-encoded."""
    path = relative(file, folder)
    if path is not None:
        return quote(os.fsencode(path), safe="/"), True
    return absolute_uri(file), False


def absolute_uri(file: str) -> str:
    """Return a path as an absolute file URI."""
    path = Path(absolute(file)).as_posix()
    return "file://" + quote(os.fsencode(path if path.startswith("/") else f"/{path}"), safe="/:")


_PROGRAM_LINE = re.compile(
    r"((?!\w\w+://|[^/\\]*\s).+\.(?:c|cc|cp|cpp|cxx|c\+\+|cppm|ixx|h|hh|hpp|hxx|h\+\+|inc|inl|ipp|tcc|tpp|txx|cu|cuh|hip|m|mm|cs|rs|py))"
    r":([0-9]{1,9})",
    re.IGNORECASE,
)
"""A source file of C, C++, Objective-C, CUDA, HIP, C#, Rust or Python, and a line number."""


def program_line(name: str) -> tuple[str, int] | None:
    """Split a descriptor's name such as "src/rows.cpp:12" into file and line.

    Return None for "net.weight:7" (not a source file) and "see rows.cpp:12" (a space in the first folder or file name).
    """
    match = _PROGRAM_LINE.fullmatch(name)
    return (match[1], int(match[2])) if match else None


def program_file(name: str) -> str | None:
    """Return a source file's name with slashes. Inside the current folder, it becomes a relative path.

    Return None for a path with a Windows drive on another system.
    """
    path = PureWindowsPath(name)
    if path.drive and os.name != "nt":
        return None
    return relative(path.as_posix(), str(Path.cwd())) or path.as_posix()


def repository() -> str:
    """Return the folder for relative paths in reports: the checkout in GitHub Actions, else the current folder."""
    return os.environ.get("GITHUB_WORKSPACE") or str(Path.cwd())


def beside(name: str, file: str | None) -> str:
    """Return the path of a file called `name` in the folder of `file`."""
    return str(Path(file or "").parent / name)


_SPECIAL = frozenset("*?[\\!")


class Patterns:
    """Patterns of paths such as "old/" or "/models/*.json", relative to a folder."""

    def __init__(self, patterns: Sequence[str], folder: str) -> None:
        self._spec, self._folder = specification(patterns), folder

    def within(self, folder: str) -> Patterns:
        """Return the patterns that do not match the whole `folder`."""
        patterns = copy(self)
        if (name := relative(folder, self._folder)) is not None:
            patterns._spec = without_matches_of(self._spec, name)
        return patterns

    def match(self, file: str) -> bool:
        """Return True if a file matches. The last matching pattern decides: if it begins with "!", the result is False."""
        name = relative(file, self._folder)
        return name is not None and self._spec.match_file(name)


def specification(patterns: Sequence[str]) -> GitIgnoreSpec:
    """Compile patterns. Raise ValueError for an empty pattern or a comment."""
    from pathspec import GitIgnoreSpec

    spec = GitIgnoreSpec.from_lines(patterns)
    for text, pattern in zip(patterns, spec.patterns, strict=True):
        if pattern.include is None:
            raise ValueError(f"{text!r} is not a pattern of paths")
    return spec


def without_matches_of(spec: GitIgnoreSpec, folder: str) -> GitIgnoreSpec:
    """Drop the patterns that match a whole folder."""
    from pathspec import GitIgnoreSpec

    any_file = f"{folder}/ ".removeprefix("./")  # no real file: only patterns for the whole folder or for all files match it
    return GitIgnoreSpec([pattern for pattern in spec.patterns if not (pattern.include and pattern.match_file(any_file))])


def root(pattern: str) -> str:
    """Return the folder that contains all matches of a pattern: "models/old" for "/models/old/*.json"."""
    anchored = "/" in pattern.rstrip("/")
    names = pattern.strip("/").split("/") if anchored else []
    plain = list(takewhile(lambda name: not _SPECIAL.intersection(name), names))
    return "/".join(plain) or "."
