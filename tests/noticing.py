"""Deliberately broken programs, and a case for each that notices it.

The cases are in `tests/noticed.json`. Most are the seed of a case. A test runs the case on the correct program and on the broken
one. `python -m tests.noticing` searches for new cases at random:

-                    for each broken program whose case no longer notices it, search for another one and store it
FILE                 the same for the programs of a test file
FILE NAME            the same for one of these programs
"""

from __future__ import annotations

import argparse
import importlib
import json
import shlex
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
TABLE = Path(__file__).with_name("noticed.json")
MOST = 3000
"""Largest number of cases that a search tries for one program."""

Judge = Callable[[str, Any], tuple[str, str]]
"""A function of a broken program's name and a case. It returns the faults of the correct and of the broken program, "" for
none.
"""


@dataclass(frozen=True, slots=True)
class BrokenPrograms:
    """Broken programs of one test file, which calls them PROGRAMS.

    `test`: the file's path from the root. `find`: returns a case that notices a program, if the file's cases are not seeds.
    """

    test: str
    names: Collection[str]
    judge: Judge
    find: Callable[[str], Any] | None = None

    def check(self, name: str) -> str:
        """Return the fault that the stored case shows. Raises AssertionError if there is none, or the correct program has one."""
        case = self.case(name)
        sound, broken = self.judge(name, case)
        named = f"the case of {name!r}, {_named(case)}"
        assert not sound, f"{named}, fails on the program as it is: {sound}"
        assert broken, f"{named}, no longer notices it: the program or the draw has changed; {self._search(name)}"
        return broken

    def case(self, name: str) -> Any:
        """Return the stored case of a program. Raises AssertionError if there is none, or one for a missing program."""
        table = stored().get(self.test, {})
        gone = [other for other in table if other not in self.names]
        assert not gone, f"cases are stored for {gone}, which {self.test} does not break; drop them: {command(self.test)}"
        assert name in table, f"no case is stored for {name!r}; {self._search(name)}"
        return table[name]

    def _search(self, name: str) -> str:
        return f"search for another one: {command(self.test, name)}"

    def search(self, name: str) -> Any:
        """Return a case that notices a program. Raises LookupError if none does, or if the correct program fails."""
        if self.find is not None:
            return self.find(name)
        for seed in range(MOST):
            sound, broken = self.judge(name, seed)
            if sound:
                raise LookupError(f"{name!r}, seed {seed}: the case fails on the program as it is: {sound}")
            if broken:
                return seed
        raise LookupError(f"{name!r}: none of {MOST} cases notices it; make one that does, and let the file's cases draw such")


def stored() -> dict[str, dict[str, Any]]:
    """Return the cases by test file and name."""
    table: dict[str, dict[str, Any]] = json.loads(TABLE.read_text(encoding="utf-8"))
    return table


def store(test: str, cases: dict[str, Any]) -> None:
    """Store the cases of a test file, one per line."""
    table = {**stored(), test: cases}
    rows = {file: ",\n".join(f"  {_json(name)}: {_json(case)}" for name, case in table[file].items()) for file in sorted(table)}
    text = ",\n".join(f" {_json(file)}: {{\n{lines}\n }}" for file, lines in rows.items())
    TABLE.write_text(f"{{\n{text}\n}}\n", encoding="utf-8")


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _named(case: object) -> str:
    return f"seed {case}" if isinstance(case, int) else f"{_json(case)[:100]}…"


def command(*arguments: str) -> str:
    """Return the command that searches in this environment."""
    own = Path(sys.prefix)
    python = own.relative_to(ROOT) / "bin/python" if own.is_relative_to(ROOT) else "python"
    return f"{python} -m tests.noticing {shlex.join(arguments)}"


def programs_of(test: str) -> BrokenPrograms:
    module = importlib.import_module(test.removesuffix(".py").replace("/", "."))
    found: BrokenPrograms = module.PROGRAMS
    return found


def search_all(test: str, only: str | None = None) -> list[str]:
    """Replace cases that do not notice their program, and drop cases of missing programs. Return the failures."""
    programs, failures = programs_of(test), list[str]()
    cases = {name: case for name, case in stored().get(test, {}).items() if name in programs.names}
    for name in programs.names if only is None else [only]:
        try:
            programs.check(name)
        except AssertionError:
            try:
                cases[name] = programs.search(name)
            except LookupError as error:
                failures.append(f"{test}: {error}")
                continue
            print(f"{test}: {name!r} is noticed by the case of {_named(cases[name])}", flush=True)
    store(test, {name: cases[name] for name in programs.names if name in cases})
    return failures


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Return 1 if a program is not noticed."""
    parser = argparse.ArgumentParser(
        "python -m tests.noticing", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", nargs="?", help="a test file; without one, all that the table has")
    parser.add_argument("name", nargs="?", help="of a broken program in it")
    chosen = parser.parse_args(arguments)
    tests = stored() if chosen.file is None else [chosen.file]
    failures: list[str] = []
    for test in tests:
        try:
            failures += search_all(test, chosen.name)
        except ModuleNotFoundError as error:
            failures.append(f"{test}: not searched, because this environment has {str(error).lower()} (VENV=… chooses another)")
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
