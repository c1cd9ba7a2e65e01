"""The settings of a check, from the command's options and the configuration; searching and checking files for one report."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dmlgather.directml.findings import FileProblem
from dmlgather.directml.types import FeatureLevel
from dmlgather.files import STDIN, FileError, check_spared, read_text
from dmlgather.input_files import InputFiles
from dmlgather.limits import DEFAULT, Limits
from dmlgather.onnx_checking.checked_model import Provider
from dmlgather.onnx_checking.provider.kernels import LEAST_LEVEL, check_level
from dmlgather.package import __version__
from dmlgather.report.check_report import CheckReport, FileReport
from dmlgather.report.configuration import Configuration, LoadedConfiguration
from dmlgather.report.file_check import SUFFIXES, Asked, Checked, Note, check_all, ignored, stdin_report
from dmlgather.report.finding_status import FindingStatus, ReportedFinding, UnusedIgnore
from dmlgather.report.formats import Output, complete
from dmlgather.report.paths import Patterns, absolute, relative, root, specification, telling_apart
from dmlgather.wording import counted

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

    from dmlgather.report.baseline import Baseline


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
            own = [each._replace(spec=telling_apart(each.spec, relative(start, each.folder) or ".")) for each in own]
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


class _Rules(NamedTuple):
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
    provider: Provider | None = None,
) -> CheckReport:
    """Check each file, and each model or descriptor in each folder, at `level`, or at the level that `level_of` has for it.

    "-" is standard input, which this process reads. excluded: files that are not checked where their folder is. skip_others:
    whether to skip files of another sort that are named, as those in folders are. allow_outside: as in `check_file`.
    include_host, provider: as in `check_model`. jobs, note: as in `check_all`. limits: of the work on each file. ValueError for a
    level that is unknown, or too low for the provider.
    """
    level = FeatureLevel.parse(level)
    if provider is not None:
        check_level(level)
    listed = [_listed(path, excluded, note) for path in paths]
    files = {name: path for part in listed for name, path in part.files.items()}
    named = {name: path for name, path in files.items() if name != STDIN}
    levels = [(level_of(str(path)) if level_of else None) or level for path in named.values()]
    asked = Asked(allow_outside, include_host, provider, limits)
    leveled = [(path, each, asked) for path, each in zip(named.values(), levels, strict=True)]
    results = dict(zip(named, check_all(leveled, jobs, note), strict=True))
    if STDIN in files:
        results[STDIN] = stdin_report(level, allow_outside)
    collected = _ReportFiles(level, skip_others, results)
    for part in listed:
        collected.add_all(part)
    files_reported, skipped = tuple(collected.files), tuple(collected.skipped)
    return CheckReport(
        version=__version__, level=level, include_host=include_host, provider=provider, files=files_reported, skipped=skipped
    )


class _PathFiles(NamedTuple):
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


# The settings of a check, from the command's options and the configuration, and running it.


def ignoring(report: CheckReport, loaded: LoadedConfiguration, checked: Sequence[Path]) -> CheckReport:
    """`report` where the findings that the configuration names are ignored, and with its entries that match no finding.

    checked: the files and folders that were named. An entry is reported as unused only if they hold all files that it is for, one
    of these was checked, and all of them could be understood. Otherwise it may be what ignores a finding of another run.
    """
    entries = [_IgnoreEntry(loaded, number) for number in range(len(loaded.configuration.ignore))]
    files = tuple(_with_ignored(file, entries) for file in report.files) if entries else report.files
    unused = tuple(
        UnusedIgnore(file=str(loaded.file), line=loaded.line("ignore", entry.number), code=entry.code)
        for entry in entries
        if not entry.used and entry.is_complete(report, checked)
    )
    return report.model_copy(update={"configuration": str(loaded.file), "files": files, "unused_ignores": unused})


def _with_ignored(file: FileReport, entries: list[_IgnoreEntry]) -> FileReport:
    if not file.findings:
        return file
    return file.model_copy(update={"findings": tuple(_judged(finding, file.file, entries) for finding in file.findings)})


def _judged(finding: ReportedFinding, file: str, entries: list[_IgnoreEntry]) -> ReportedFinding:
    for entry in entries:
        source = finding.created and finding.created.file
        if entry.code == finding.code and (entry.covers(file) or (source and entry.covers(source))):
            entry.used = True
            return ReportedFinding.of_located(finding, FindingStatus.IGNORED, entry.reason)
    return finding


class _IgnoreEntry:
    """One entry of the configuration, and whether it matched a finding."""

    def __init__(self, loaded: LoadedConfiguration, number: int) -> None:
        ignore = loaded.configuration.ignore[number]
        self.number, self.code, self.reason, self.used = number, ignore.code, ignore.reason, False
        self._patterns = None if ignore.paths is None else Patterns(ignore.paths, str(loaded.folder))
        self._roots = [str(loaded.folder / root(pattern)) for pattern in ignore.paths or ["*"]]

    def covers(self, file: str) -> bool:
        """Whether the entry applies to `file`."""
        return self._patterns is None or self._patterns.match(file)

    def is_complete(self, report: CheckReport, checked: Iterable[Path]) -> bool:
        """Whether the report on the `checked` paths has findings of all files that the entry applies to."""
        files = [file for file in report.files if self.covers(file.file)]
        whole = all(any(relative(root, str(path)) is not None for path in checked) for root in self._roots)
        return whole and bool(files) and not any(file.problems for file in files)


@dataclass(frozen=True)
class Settings:
    """The settings of a check. Options override the configuration; those that are None were not given.

    level: the feature level of every file. outputs: formats and where they are written. baseline: the file to compare with.
    write_baseline: the file to write, and to compare with if it exists. error_on_warning: whether warnings fail the check.
    include_host: whether nodes that are the host's arithmetic are judged like the others. provider: as in `check_model`.
    skip_others, jobs, allow_outside, note, limits: as in `check_paths`.
    """

    loaded: LoadedConfiguration | None = None
    level: FeatureLevel | None = None
    outputs: Sequence[Output] = ()
    baseline: Path | None = None
    write_baseline: Path | None = None
    error_on_warning: bool | None = None
    include_host: bool | None = None
    skip_others: bool = False
    jobs: int | None = 1
    allow_outside: bool = False
    note: Note = ignored
    limits: Limits = DEFAULT
    provider: Provider | None = None

    @property
    def configuration(self) -> Configuration:
        """The configuration; the default one where there is none."""
        return self.loaded.configuration if self.loaded else Configuration()

    def complete_outputs(self) -> tuple[Output, ...]:
        """All outputs of the report, standard output last. ValueError for two formats in one file or on standard output."""
        if self.outputs or self.loaded is None:
            return complete(self.outputs)
        return complete(Output.parse(value, self.loaded.folder) for value in self.configuration.formats)

    def check(self, paths: Iterable[Path], outputs: Sequence[Output] = ()) -> CheckReport:
        """Check these files and folders, and write the baseline if requested. FileError for a baseline that cannot be used, and
        where writing it, or one of the outputs, would replace a file that was checked or read.
        """
        old, paths = self._baseline(), tuple(paths)
        report = check_paths(
            paths,
            self.level or self.configuration.level,
            level_of=self._level_of(),
            excluded=self._excluded(),
            skip_others=self.skip_others,
            jobs=self.jobs,
            allow_outside=self.allow_outside,
            include_host=self.configuration.include_host if self.include_host is None else self.include_host,
            note=self.note,
            limits=self.limits,
            provider=self._provider,
        )
        check_spared(self._targets(outputs), self.made_from(report))
        fail = self.configuration.error_on_warning if self.error_on_warning is None else self.error_on_warning
        report = report.model_copy(update={"error_on_warning": fail})
        if self.loaded is not None:
            report = ignoring(report, self.loaded, () if self.level is not None else paths)  # other levels have other findings
        return report if self.write_baseline is None and old is None else self._compared(report, old)

    @property
    def _provider(self) -> Provider | None:
        return self.configuration.provider if self.provider is None else self.provider

    def low_levels(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """The levels that are too low for the provider: the keys of the configuration that state one, none for the option; and
        what is wrong.
        """
        if self._provider is None:
            return
        stated = self.configuration.levels.items()
        levels: list[tuple[tuple[str, ...], FeatureLevel]] = [((), self.level)] if self.level is not None else []
        if not levels:
            levels = [(("level",), self.configuration.level), *((("levels", pattern), level) for pattern, level in stated)]
        for keys, level in levels:
            if level < LEAST_LEVEL:
                yield keys, f"expected {LEAST_LEVEL} or newer, which {self._provider} needs, got {level}"

    def _compared(self, report: CheckReport, old: Baseline | None) -> CheckReport:
        """The report with what the baseline knows; the baseline is written if that is requested."""
        from dmlgather.report import baseline as baselines

        if self.write_baseline is not None:
            known = baselines.renewed(report, self.write_baseline, old)
            baselines.write(self.write_baseline, known, self.made_from(report))
            vanished = baselines.compared(report, self.write_baseline, old).vanished if old is not None else ()
            return baselines.compared(report, self.write_baseline, known).model_copy(update={"vanished": vanished})
        assert old is not None
        assert self._baseline_file is not None
        return baselines.compared(report, self._baseline_file, old)

    def made_from(self, report: CheckReport) -> InputFiles:
        """The files that the report is made from. What could not be understood is no model that consists of several."""
        read = [self.loaded.file] if self.loaded is not None else []
        if self.write_baseline is None and self._baseline_file is not None:
            read.append(self._baseline_file)
        files = [(Path(file.file), file.kind not in ("unknown", "folder")) for file in report.files]
        read += [file for file, known in files if not known]
        return InputFiles(tuple(file for file, known in files if known), tuple(read))

    def _targets(self, outputs: Sequence[Output]) -> list[Path]:
        files = [output.file for output in outputs if output.file is not None]
        return files if self.write_baseline is None else [*files, self.write_baseline]

    @cached_property
    def _baseline_file(self) -> Path | None:
        if self.baseline is not None or self.loaded is None or self.configuration.baseline is None:
            return self.baseline
        return self.loaded.folder / self.configuration.baseline

    def _baseline(self) -> Baseline | None:
        """The baseline to compare with. It is read before the check, which may overwrite it."""
        file = self._baseline_file if self.write_baseline is None else self.write_baseline
        if file is None or (file is self.write_baseline and not file.exists()):
            return None
        from dmlgather.report.baseline import read

        return read(file)

    def _excluded(self) -> Patterns | None:
        return Patterns(self.configuration.exclude, str(self.loaded.folder)) if self.loaded else None

    def _level_of(self) -> LevelOf | None:
        if self.level is not None or self.loaded is None or not self.configuration.levels:
            return None
        rows = [(Patterns([pattern], str(self.loaded.folder)), level) for pattern, level in self.configuration.levels.items()]
        rows.reverse()
        return lambda file: next((level for patterns, level in rows if patterns.match(file)), None)
