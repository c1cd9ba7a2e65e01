"""Paths of files in the forms that other programs expect, and patterns of them, as .gitignore writes them."""

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
    """The absolute path of `file`, without "." and "..". Links are not resolved: a file keeps the name that the user gave."""
    return os.path.abspath(file)  # noqa: PTH100 # resolve follows links


def relative(file: str, folder: str) -> str | None:
    """`file` relative to `folder`, with slashes; None when it is not below. Links are not resolved."""
    path, start = absolute(file), absolute(folder)
    try:
        found = os.path.relpath(path, start)
    except ValueError:  # another drive
        return None
    return None if found == os.pardir or found.startswith(os.pardir + os.sep) else found.replace(os.sep, "/")


def named(file: str, folder: str) -> str:
    """`file` relative to `folder`, with slashes, also if it is not below; absolute only on another drive."""
    try:
        return os.path.relpath(absolute(file), absolute(folder)).replace(os.sep, "/")
    except ValueError:  # another drive
        return Path(absolute(file)).as_posix()


def uri(file: str, folder: str) -> tuple[str, bool]:
    """`file` as a URI reference, and whether it is relative to `folder`. Names may have bytes that are not text."""
    found = relative(file, folder)
    if found is not None:
        return quote(os.fsencode(found), safe="/"), True
    return absolute_uri(file), False


def absolute_uri(file: str) -> str:
    """`file` as an absolute file URI."""
    path = Path(absolute(file)).as_posix()
    return "file://" + quote(os.fsencode(path if path.startswith("/") else f"/{path}"), safe="/:")


_PROGRAM_LINE = re.compile(r"(.+\.[A-Za-z+]+):([0-9]{1,9})")


def program_line(name: str) -> tuple[str, int] | None:
    """Return file and line of a name such as "src/rows.cpp:12", as dmlgather_dump.h gives it; None for another name."""
    found = _PROGRAM_LINE.fullmatch(name)
    return (found[1], int(found[2])) if found else None


def program_file(name: str) -> str | None:
    """Return a file as a compiler names it, with slashes, relative to the current folder if it is below.

    None for a path of Windows on another system.
    """
    path = PureWindowsPath(name)
    if path.drive and os.name != "nt":
        return None
    return relative(path.as_posix(), str(Path.cwd())) or path.as_posix()


def repository() -> str:
    """The folder to which reports name files relative: the checkout on GitHub, else the current folder."""
    return os.environ.get("GITHUB_WORKSPACE") or str(Path.cwd())


def beside(name: str, file: str | None) -> str:
    """The path of `name` in the folder of `file`."""
    return str(Path(file or "").parent / name)


# Patterns of paths, as .gitignore writes them, relative to a folder.


_SPECIAL = frozenset("*?[\\!")
"""Characters that make a name more, or other, than the name of one file."""


class Patterns:
    """Some patterns: "old/" matches all files below a folder of that name, "/models/*.json" the JSON files of one folder."""

    def __init__(self, patterns: Sequence[str], folder: str) -> None:
        self._spec, self._folder = specification(patterns), folder

    def within(self, folder: str) -> Patterns:
        """Those that tell files of `folder` apart."""
        found = copy(self)
        if (name := relative(folder, self._folder)) is not None:
            found._spec = telling_apart(self._spec, name)
        return found

    def match(self, file: str) -> bool:
        """Whether the patterns include `file`: the last that matches decides. A file outside the folder is never included."""
        name = relative(file, self._folder)
        return name is not None and self._spec.match_file(name)


def specification(patterns: Sequence[str]) -> GitIgnoreSpec:
    """The patterns, compiled. ValueError for an empty one or a comment."""
    from pathspec import GitIgnoreSpec

    spec = GitIgnoreSpec.from_lines(patterns)
    for text, pattern in zip(patterns, spec.patterns, strict=True):
        if pattern.include is None:
            raise ValueError(f"{text!r} is not a pattern of paths")
    return spec


def telling_apart(spec: GitIgnoreSpec, folder: str) -> GitIgnoreSpec:
    """The patterns but those that leave out a folder, or all in it. folder: relative to theirs, with slashes."""
    from pathspec import GitIgnoreSpec

    anything = f"{folder}/ ".removeprefix("./")  # no pattern for names matches a blank
    return GitIgnoreSpec([each for each in spec.patterns if not (each.include and each.match_file(anything))])


def root(pattern: str) -> str:
    """The folder or file that holds all files of a pattern: "models/old" for "/models/old/*.json", "." for "old/", which may
    lie anywhere.
    """
    anchored = "/" in pattern.rstrip("/")
    names = pattern.strip("/").split("/") if anchored else []
    plain = list(takewhile(lambda name: not _SPECIAL.intersection(name), names))
    return "/".join(plain) or "."
