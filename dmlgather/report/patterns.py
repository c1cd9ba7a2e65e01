"""Patterns of paths, as .gitignore writes them, relative to a folder."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from itertools import takewhile
from typing import TYPE_CHECKING

from dmlgather.report.paths import relative

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


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
