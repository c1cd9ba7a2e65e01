"""The settings of a check, the search for files in folders, and the report on all files."""

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
from dmlgather.report.file_check import SUFFIXES, Checked, CheckOptions, Note, check_all, no_note, stdin_report
from dmlgather.report.finding_status import FindingStatus, ReportedFinding, UnusedIgnore
from dmlgather.report.formats import Output, complete
from dmlgather.report.paths import Patterns, absolute, relative, root, specification, without_matches_of
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
"""Why a search does not enter a path."""
REPOSITORY = ".git"
IGNORE_FILES = (".gitignore", f"{REPOSITORY}/info/exclude")


@dataclass(frozen=True, slots=True)
class FolderFiles:
    """The files that a search found, by absolute path, and the paths that it left out, by reason."""

    files: dict[str, Path] = field(default_factory=dict)
    left_out: dict[str, list[str]] = field(default_factory=dict)
    problems: list[OSError] = field(default_factory=list)

    def leave_out(self, kind: str, path: str) -> None:
        """Record a path that is not searched. `kind`: the reason, such as `HIDDEN`."""
        self.left_out.setdefault(kind, []).append(path)

    def note(self) -> str | None:
        """Return a sentence about the paths that were not searched. None if all were."""
        parts = [f"{counted(len(paths), kind)} ({paths[0]}{', …' * (len(paths) > 1)})" for kind, paths in self.left_out.items()]
        return f"not searched: {', '.join(parts)}; name a file or a folder to have it checked" if parts else None


def search(folder: Path, excluded: Patterns | None = None) -> FolderFiles:
    """Search a folder for files to check.

    If patterns leave no file, patterns that match the whole folder are dropped, because the user has named this folder.
    """
    result = _search(folder, excluded)
    if result.files or not result.left_out:
        return result
    return _search(folder, excluded and excluded.within(absolute(folder)), named=True)


def _search(folder: Path, excluded: Patterns | None, named: bool = False) -> FolderFiles:
    """Search a folder once. `named`: True to drop patterns of .gitignore files that match the whole folder."""
    result, start = FolderFiles(), absolute(folder)
    inherited = {start: _rules_above(start)}
    for directory, folders, names in os.walk(folder, onerror=result.problems.append):
        absolute_directory = absolute(directory)
        rules = _Rules.of(absolute_directory, [] if REPOSITORY in (*folders, *names) else inherited.pop(absolute_directory))
        if named and absolute_directory == start:
            rules = [rule._replace(spec=without_matches_of(rule.spec, relative(start, rule.folder) or ".")) for rule in rules]
        searched = []
        for name in sorted(folders):
            path = os.path.join(directory, name)  # noqa: PTH118 # a Path for each folder takes longer than the search
            kind = _reason_to_skip(path, name, rules)
            if kind is None:
                searched.append(name)
                inherited[os.path.join(absolute_directory, name)] = rules  # noqa: PTH118 # as above
            elif name != REPOSITORY:
                result.leave_out(kind, path)
        folders[:] = searched
        for name in sorted(names):
            if not name.lower().endswith(SUFFIXES):
                continue
            path = os.path.join(directory, name)  # noqa: PTH118 # as above
            if _ignored(absolute(path), rules):
                result.leave_out(IGNORED, path)
            elif excluded is not None and excluded.match(path):
                result.leave_out(EXCLUDED, path)
            else:
                result.files[absolute(path)] = Path(path)
    return result


def _reason_to_skip(path: str, name: str, rules: Sequence[_Rules]) -> str | None:
    if name.startswith("."):
        return HIDDEN
    if os.path.exists(os.path.join(path, "pyvenv.cfg")):  # noqa: PTH110, PTH118 # unlike Path.exists, it never raises
        return ENVIRONMENT
    return IGNORED if _ignored(f"{absolute(path)}/", rules) else None


def _ignored(path: str, rules: Sequence[_Rules]) -> bool:
    """Return True if git ignores a path. The path of a folder must end in "/"."""
    for rule in reversed(rules):
        include = rule.spec.check_file(path[len(rule.folder) :].replace(os.sep, "/").lstrip("/")).include
        if include is not None:
            return include
    return False


class _Rules(NamedTuple):
    """The patterns of one .gitignore file, for paths inside `folder`."""

    folder: str
    spec: GitIgnoreSpec

    @classmethod
    def of(cls, folder: str, above: Iterable[_Rules]) -> list[_Rules]:
        """Return the patterns from `above`, then the patterns of the folder itself."""
        return [*above, *(cls(folder, spec) for name in IGNORE_FILES for spec in _read(os.path.join(folder, name)))]  # noqa: PTH118


def _rules_above(folder: str) -> list[_Rules]:
    """Return the patterns of .gitignore files above a folder in its repository."""
    parents = list(Path(folder).parents)
    roots = [place for place, parent in enumerate(parents) if os.path.exists(parent / REPOSITORY)]  # noqa: PTH110 # never raises
    rules: list[_Rules] = []
    for parent in reversed(parents[: roots[0] + 1] if roots else []):
        rules = _Rules.of(str(parent), rules)
    return rules


def _read(path: str) -> Iterator[GitIgnoreSpec]:
    """Yield the patterns of a .gitignore file. Like git, skip invalid lines."""
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
"""A function that returns the feature level of a named file. None for the common level."""


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
    note: Note = no_note,
    limits: Limits = DEFAULT,
    provider: Provider | None = None,
) -> CheckReport:
    """Check files, and the models and descriptors in folders.

    `paths`: "-" is standard input. `level_of`: returns another level for some files. `excluded`: files to skip in folders.
    `skip_others`: also skip named files that are neither models nor descriptors. `jobs`: as in `check_all`. `allow_outside`,
    `include_host`: as in `CheckOptions`. Raise ValueError for a level that is unknown, or too low for the provider.
    """
    level = FeatureLevel.parse(level)
    if provider is not None:
        check_level(level)
    listed = [_listed(path, excluded, note) for path in paths]
    files = {name: path for part in listed for name, path in part.files.items()}
    named = {name: path for name, path in files.items() if name != STDIN}
    options = CheckOptions(allow_outside, include_host, provider, limits)
    arguments = [(path, (level_of(str(path)) if level_of else None) or level, options) for path in named.values()]
    results = dict(zip(named, check_all(arguments, jobs, note), strict=True))
    if STDIN in files:
        results[STDIN] = stdin_report(level, allow_outside)
    collected = _ReportFiles(level, skip_others, results)
    for part in listed:
        collected.add_all(part)
    return CheckReport(
        version=__version__,
        level=level,
        include_host=include_host,
        provider=provider,
        files=tuple(collected.files),
        skipped=tuple(collected.skipped),
    )


class _PathFiles(NamedTuple):
    files: Mapping[str, Path]
    folder: Path | None = None
    problems: tuple[OSError, ...] = ()


def _listed(path: Path, excluded: Patterns | None, note: Note) -> _PathFiles:
    if str(path) == "-":
        return _PathFiles({STDIN: path})
    if not os.path.isdir(path):  # noqa: PTH112 # unlike Path.is_dir, it never raises
        return _PathFiles({absolute(path): path})
    searched = search(path, excluded)
    if (left_out := searched.note()) is not None:
        note(left_out)
    return _PathFiles(searched.files, path, tuple(searched.problems))


@dataclass
class _ReportFiles:
    """The reports on files, in the order of the paths in the command. `results`: the report on each file, by absolute path."""

    level: FeatureLevel
    skip_others: bool
    results: Mapping[str, Checked]
    files: list[FileReport] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    """Absolute paths. A file that is named twice is reported once."""

    def add_all(self, listed: _PathFiles) -> None:
        before = len(self.skipped)
        for name, path in listed.files.items():
            self.add(name, path, self.skip_others or listed.folder is not None)
        for error in listed.problems:
            self.problem(str(error.filename), f"cannot be listed: {error.strerror}")
        if listed.folder is not None and not listed.problems and self.seen.isdisjoint(listed.files):
            suffixes = Counter(Path(name).suffix.lower() for name in self.skipped[before:])
            counts = " and ".join(counted(count, f"{suffix} file") for suffix, count in sorted(suffixes.items()))
            others = f" ({counts} of another sort)" if counts else ""
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
        problem = FileProblem(file=file, message=message)
        self.files.append(FileReport(file=file, level=self.level, kind="folder", problems=(problem,)))


def ignoring(report: CheckReport, loaded: LoadedConfiguration, checked: Sequence[Path]) -> CheckReport:
    """Mark the ignored findings of a report, and list the unused ignore entries.

    An entry counts as unused only if the check covered all files of the entry. Otherwise another run may need it.
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
    findings = tuple(_with_status(finding, file.file, entries) for finding in file.findings)
    return file.model_copy(update={"findings": findings})


def _with_status(finding: ReportedFinding, file: str, entries: list[_IgnoreEntry]) -> ReportedFinding:
    for entry in entries:
        source = finding.created and finding.created.file
        if entry.code == finding.code and (entry.covers(file) or (source and entry.covers(source))):
            entry.used = True
            return ReportedFinding.of_located(finding, FindingStatus.IGNORED, entry.reason)
    return finding


class _IgnoreEntry:
    def __init__(self, loaded: LoadedConfiguration, number: int) -> None:
        ignore = loaded.configuration.ignore[number]
        self.number, self.code, self.reason, self.used = number, ignore.code, ignore.reason, False
        self._patterns = None if ignore.paths is None else Patterns(ignore.paths, str(loaded.folder))
        self._roots = [str(loaded.folder / root(pattern)) for pattern in ignore.paths or ["*"]]

    def covers(self, file: str) -> bool:
        return self._patterns is None or self._patterns.match(file)

    def is_complete(self, report: CheckReport, checked: Iterable[Path]) -> bool:
        """Return True if the check covered every file that the ignore entry applies to, at least one, without problems."""
        files = [file for file in report.files if self.covers(file.file)]
        whole = all(any(relative(root, str(path)) is not None for path in checked) for root in self._roots)
        return whole and bool(files) and not any(file.problems for file in files)


@dataclass(frozen=True)
class Settings:
    """The settings of a check. Options of the command override the configuration file (`loaded`).

    Except for `jobs`, None means that the option was not given. `write_baseline`: the file to write all findings to. Other
    settings are explained in `check_paths`.
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
    note: Note = no_note
    limits: Limits = DEFAULT
    provider: Provider | None = None

    @property
    def configuration(self) -> Configuration:
        """The loaded configuration, or else the default one."""
        return self.loaded.configuration if self.loaded else Configuration()

    def complete_outputs(self) -> tuple[Output, ...]:
        """Return the reports to write: to files, then to standard output. Raise ValueError if two formats go to one place."""
        if self.outputs or self.loaded is None:
            return complete(self.outputs)
        return complete(Output.parse(value, self.loaded.folder) for value in self.configuration.formats)

    def check(self, paths: Iterable[Path], outputs: Sequence[Output] = ()) -> CheckReport:
        """Check files and folders, and write the baseline if requested.

        Raise FileError if a baseline cannot be used, or if it or an output would overwrite a file that was read.
        """
        old, paths = self._baseline(), tuple(paths)
        report = check_paths(
            paths,
            self.level or self.configuration.level,
            level_of=self._level_of(),
            excluded=Patterns(self.configuration.exclude, str(self.loaded.folder)) if self.loaded else None,
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
            # At another level there are other findings, so no entry counts as unused.
            report = ignoring(report, self.loaded, () if self.level is not None else paths)
        return report if self.write_baseline is None and old is None else self._compared(report, old)

    @property
    def _provider(self) -> Provider | None:
        return self.configuration.provider if self.provider is None else self.provider

    def low_levels(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield a configuration key, () for an option, and a message for each feature level too low for the provider."""
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
        """Mark the findings in the new baseline. If the check writes none, mark the findings in the old one."""
        from dmlgather.report import baseline as baselines

        if self.write_baseline is not None:
            new = baselines.renewed(report, self.write_baseline, old)
            baselines.write(self.write_baseline, new, self.made_from(report))
            vanished = baselines.compared(report, self.write_baseline, old).vanished if old is not None else ()
            return baselines.compared(report, self.write_baseline, new).model_copy(update={"vanished": vanished})
        assert old is not None
        assert self._baseline_file is not None
        return baselines.compared(report, self._baseline_file, old)

    def made_from(self, report: CheckReport) -> InputFiles:
        """Return the files that the check has read, so that no output overwrites them."""
        single_files = [self.loaded.file] if self.loaded is not None else []
        if self.write_baseline is None and self._baseline_file is not None:
            single_files.append(self._baseline_file)
        models: list[Path] = []
        for file in report.files:
            (single_files if file.kind in ("unknown", "folder") else models).append(Path(file.file))
        return InputFiles(tuple(models), tuple(single_files))

    def _targets(self, outputs: Sequence[Output]) -> list[Path]:
        files = [output.file for output in outputs if output.file is not None]
        return files if self.write_baseline is None else [*files, self.write_baseline]

    @cached_property
    def _baseline_file(self) -> Path | None:
        if self.baseline is not None or self.loaded is None or self.configuration.baseline is None:
            return self.baseline
        return self.loaded.folder / self.configuration.baseline

    def _baseline(self) -> Baseline | None:
        """Read the baseline before the check, which may overwrite it."""
        file = self._baseline_file if self.write_baseline is None else self.write_baseline
        if file is None or (file is self.write_baseline and not file.exists()):
            return None
        from dmlgather.report.baseline import read

        return read(file)

    def _level_of(self) -> LevelOf | None:
        if self.level is not None or self.loaded is None or not self.configuration.levels:
            return None
        rows = [(Patterns([pattern], str(self.loaded.folder)), level) for pattern, level in self.configuration.levels.items()]
        rows.reverse()
        return lambda file: next((level for patterns, level in rows if patterns.match(file)), None)
