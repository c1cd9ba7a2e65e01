"""Which files of a folder are checked: those of the project, as other tools for projects look for them.

Left out are hidden folders, environments of Python, what git ignores, and what the configuration excludes. What a user names is
never left out.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dmlgather.files import FileError, read_text
from dmlgather.report.file_check import SUFFIXES
from dmlgather.report.paths import absolute
from dmlgather.report.patterns import Patterns, specification
from dmlgather.wording import counted

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

HIDDEN, ENVIRONMENT, IGNORED, EXCLUDED = (
    "hidden folder",
    "environment of Python",
    "ignored path",
    "excluded file",
)
"""What is left out: by its name, by what lies in it, by git, by the configuration."""
REPOSITORY = ".git"
IGNORE_FILES = (".gitignore", f"{REPOSITORY}/info/exclude")


@dataclass(frozen=True, slots=True)
class FolderFiles:
    """The files to check in a folder, by absolute path, sorted by name. left_out: paths that were not searched, by what they are.
    problems: folders that cannot be listed.
    """

    files: dict[str, Path] = field(default_factory=dict)
    left_out: dict[str, list[str]] = field(default_factory=dict)
    problems: list[OSError] = field(default_factory=list)

    def leave_out(self, what: str, path: str) -> None:
        """Note that it is not checked."""
        self.left_out.setdefault(what, []).append(path)

    def note(self) -> str | None:
        """A sentence about what was left out; None where nothing was."""
        parts = [f"{counted(len(paths), what)} ({paths[0]}{', …' * (len(paths) > 1)})" for what, paths in self.left_out.items()]
        return f"not searched: {', '.join(parts)}; name a file or a folder to have it checked" if parts else None


def search(folder: Path, excluded: Patterns | None = None) -> FolderFiles:
    """The files to check in `folder`. Links to folders are not followed. excluded: the configuration's patterns."""
    found = FolderFiles()
    rules = {absolute(folder): _rules_above(absolute(folder))}
    for inside, folders, names in os.walk(folder, onerror=found.problems.append):
        here = absolute(inside)
        own = _Rules.of(here, [] if REPOSITORY in (*folders, *names) else rules.pop(here))
        kept = []
        for name in sorted(folders):
            path = os.path.join(inside, name)  # noqa: PTH118 # a Path for each folder takes longer than the search
            what = _left_out(path, name, own)
            if what is None:
                kept.append(name)
                rules[os.path.join(here, name)] = own  # noqa: PTH118 # as above
            elif name != REPOSITORY:
                found.leave_out(what, path)
        folders[:] = kept
        for name in sorted(names):
            if not name.lower().endswith(SUFFIXES):
                continue
            path = os.path.join(inside, name)  # noqa: PTH118 # as above
            if _ignored(absolute(path), own):
                found.leave_out(IGNORED, path)
            elif excluded is not None and excluded.match(path):
                found.leave_out(EXCLUDED, path)
            else:
                found.files[absolute(path)] = Path(path)
    return found


def _left_out(path: str, name: str, rules: Sequence[_Rules]) -> str | None:
    """Why a folder is not searched."""
    if name.startswith("."):
        return HIDDEN
    if os.path.exists(os.path.join(path, "pyvenv.cfg")):  # noqa: PTH110, PTH118 # unlike Path.exists, it never raises
        return ENVIRONMENT
    return IGNORED if _ignored(f"{absolute(path)}/", rules) else None


def _ignored(path: str, rules: Sequence[_Rules]) -> bool:
    """Whether git ignores it: of the files of rules, the deepest one that has a rule for it decides. A folder ends in "/"."""
    for each in reversed(rules):
        decided = each.spec.check_file(path[len(each.folder) :].replace(os.sep, "/").lstrip("/")).include
        if decided is not None:
            return decided
    return False


@dataclass(frozen=True, slots=True)
class _Rules:
    """The patterns of one file, for the paths below a folder."""

    folder: str
    spec: GitIgnoreSpec

    @classmethod
    def of(cls, folder: str, above: Iterable[_Rules]) -> list[_Rules]:
        """The rules of the folders above, and those that this one has."""
        return [*above, *(cls(folder, spec) for name in IGNORE_FILES for spec in _read(os.path.join(folder, name)))]  # noqa: PTH118


def _rules_above(folder: str) -> list[_Rules]:
    """Of the folders from the root of the repository down to the one that holds `folder`; none outside of repositories."""
    above = list(Path(folder).parents)
    roots = [place for place, each in enumerate(above) if os.path.exists(each / REPOSITORY)]  # noqa: PTH110 # never raises
    rules: list[_Rules] = []
    for each in reversed(above[: roots[0] + 1] if roots else []):
        rules = _Rules.of(str(each), rules)
    return rules


def _read(path: str) -> Iterator[GitIgnoreSpec]:
    """The patterns of a file; none where there is no such file, or it cannot be read. Git skips lines that are no patterns."""
    if not os.path.isfile(path):  # noqa: PTH113 # unlike Path.is_file, it never raises
        return
    try:
        lines = read_text(Path(path)).splitlines()
    except FileError:
        return
    yield specification([line for line in lines if _is_pattern(line)])


def _is_pattern(line: str) -> bool:
    try:
        specification([line])
    except ValueError:
        return False
    return True
