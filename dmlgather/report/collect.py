"""Check files and folders, and make one report of them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dmlgather import __version__
from dmlgather.directml.dxdispatch.descriptor_lines import STDIN
from dmlgather.directml.located import FileProblem
from dmlgather.directml.types import FeatureLevel
from dmlgather.files import FileError, read_text
from dmlgather.limits import DEFAULT, Limits
from dmlgather.report.check_report import CheckReport, FileReport
from dmlgather.report.file_check import SUFFIXES, stdin_report
from dmlgather.report.paths import absolute, relative
from dmlgather.report.patterns import Patterns, specification, telling_apart
from dmlgather.report.worker_processes import Checked, Note, check_all, ignored
from dmlgather.wording import counted

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


# Which files of a folder are checked: those of the project, as other tools for projects look for them.
#
# Left out are hidden folders, environments of Python, what git ignores, and what the configuration excludes. What a user names is
# never left out.

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
    """The files to check in `folder`. Links to folders are not followed. excluded: the configuration's patterns. Where they, or
    what git ignores, leave nothing, those that leave out the whole folder do not count.
    """
    found = _searched(folder, excluded)
    if found.files or not found.left_out:
        return found
    return _searched(folder, excluded and excluded.within(absolute(folder)), named=True)


def _searched(folder: Path, excluded: Patterns | None, named: bool = False) -> FolderFiles:
    """named: without what git's rules say of the whole folder."""
    found, start = FolderFiles(), absolute(folder)
    rules = {start: _rules_above(start)}
    for inside, folders, names in os.walk(folder, onerror=found.problems.append):
        here = absolute(inside)
        own = _Rules.of(here, [] if REPOSITORY in (*folders, *names) else rules.pop(here))
        if named and here == start:
            own = [replace(each, spec=telling_apart(each.spec, relative(start, each.folder) or ".")) for each in own]
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


LevelOf = Callable[[str], FeatureLevel | None]
"""The feature level of a file by its name; None for the common level."""


def check_paths(
    paths: Iterable[Path],
    level: str | FeatureLevel = "6_4",
    *,
    level_of: LevelOf | None = None,
    excluded: Patterns | None = None,
    skip_others: bool = False,
    jobs: int | None = 1,
    allow_outside: bool = False,
    include_host: bool = False,
    note: Note = ignored,
    limits: Limits = DEFAULT,
) -> CheckReport:
    """Check each file, and each model or descriptor in each folder, at `level`, or at the level that `level_of` has for it.

    "-" is standard input, which this process reads. excluded: files that are not checked where their folder is. skip_others:
    whether to skip files of another sort that are named, as those in folders are. allow_outside: as in `check_file`.
    include_host: as in `check_model`. jobs, note: as in `check_all`. limits: of the work on each file. ValueError for an unknown
    level.
    """
    level = FeatureLevel.parse(level)
    listed = [_listed(path, excluded, note) for path in paths]
    files = {name: path for part in listed for name, path in part.files.items()}
    named = {name: path for name, path in files.items() if name != STDIN}
    levels = [(level_of(str(path)) if level_of else None) or level for path in named.values()]
    leveled = [(path, each, allow_outside, include_host, limits) for path, each in zip(named.values(), levels, strict=True)]
    results = dict(zip(named, check_all(leveled, jobs, note), strict=True))
    if STDIN in files:
        results[STDIN] = stdin_report(level, allow_outside)
    collected = _ReportFiles(level, skip_others, results)
    for part in listed:
        collected.add_all(part)
    files_reported, skipped = tuple(collected.files), tuple(collected.skipped)
    return CheckReport(version=__version__, level=level, include_host=include_host, files=files_reported, skipped=skipped)


@dataclass(frozen=True, slots=True)
class _PathFiles:
    """The files to check for one path, by absolute path: the file itself, or those in the folder."""

    files: Mapping[str, Path]
    folder: Path | None = None
    problems: tuple[OSError, ...] = ()


def _listed(path: Path, excluded: Patterns | None, note: Note) -> _PathFiles:
    """The file, or the files to check in the folder."""
    if str(path) == "-":
        return _PathFiles({STDIN: path})
    if not os.path.isdir(path):  # noqa: PTH112 # unlike Path.is_dir, it never raises
        return _PathFiles({absolute(path): path})
    found = search(path, excluded)
    if (left_out := found.note()) is not None:
        note(left_out)
    return _PathFiles(found.files, path, tuple(found.problems))


@dataclass
class _ReportFiles:
    """The report while it is made. results: of each file that was checked, by absolute path."""

    level: FeatureLevel
    skip_others: bool
    results: Mapping[str, Checked]
    files: list[FileReport] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    """Absolute paths of `files`: a file that is named twice, or is also in a folder, is reported once."""

    def add_all(self, listed: _PathFiles) -> None:
        before = len(self.skipped)
        for name, path in listed.files.items():
            self.add(name, path, self.skip_others or listed.folder is not None)
        for error in listed.problems:
            self.problem(str(error.filename), f"cannot be listed: {error.strerror}")
        if listed.folder is not None and not listed.problems and self.seen.isdisjoint(listed.files):
            kinds = Counter(Path(name).suffix.lower() for name in self.skipped[before:])
            found = " and ".join(counted(count, f"{kind} file") for kind, count in sorted(kinds.items()))
            others = f" ({found} of another sort)" if found else ""
            self.problem(str(listed.folder), f"holds no model or descriptor{others}")

    def add(self, name: str, path: Path, skip_foreign: bool) -> None:
        if name in self.seen:
            return
        report, foreign = self.results[name]
        if foreign and skip_foreign:
            self.skipped.append(str(path))
        else:
            self.seen.add(name)
            self.files.append(report)

    def problem(self, file: str, message: str) -> None:
        """Add a folder that cannot be checked."""
        problem = FileProblem(file=file, message=message)
        self.files.append(FileReport(file=file, level=self.level, kind="folder", problems=(problem,)))
