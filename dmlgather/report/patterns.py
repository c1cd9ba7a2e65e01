"""Patterns of paths, as .gitignore writes them, relative to a folder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dmlgather.report.places import relative

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


class Patterns:
    """Some patterns: "old/" is all below any folder of that name, "/models/*.json" the JSON files of one folder."""

    def __init__(self, patterns: Sequence[str], folder: str) -> None:
        self._spec, self._folder = specification(patterns), folder

    def match(self, file: str) -> bool:
        """Whether the last pattern that matches `file` takes it. A file that does not lie below the folder is never taken."""
        name = relative(file, self._folder)
        return name is not None and self._spec.match_file(name)


def specification(patterns: Sequence[str]) -> GitIgnoreSpec:
    """The patterns, compiled. ValueError for one that means nothing."""
    from pathspec import GitIgnoreSpec

    spec = GitIgnoreSpec.from_lines(patterns)
    for text, pattern in zip(patterns, spec.patterns, strict=True):
        if pattern.include is None:
            raise ValueError(f"{text!r} is no pattern of paths")
    return spec
