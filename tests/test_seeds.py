"""One seed decides all random numbers of a run. No file draws without it (unseeded.py), and seeds.py works as described."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import seeds
from tests.unseeded import faults, faults_inside_strings, faults_of_page, faults_of_script

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_every_random_number_has_a_seed() -> None:
    found = {}
    folders = [ROOT / name for name in ("tests", "ci", "examples", "benchmarks")]
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    for file in [ROOT / "conftest.py", *pages, *(path for folder in folders for path in folder.rglob("*"))]:
        if file.suffix not in ("", ".py", ".md") or not file.is_file():
            continue
        text = file.read_text(encoding="utf-8")
        if file.suffix == ".md":
            there = faults_of_page(text)
        elif file.suffix == ".py" or re.match(r"#!.*python", text):
            there = faults(text, imported=file.is_relative_to(ROOT / "tests"))
            there += [] if file == Path(__file__) else faults_inside_strings(text)
        else:
            there = faults_of_script(text)
        if there:
            found[str(file.relative_to(ROOT))] = [fault.partition(": ")[2] for fault in there]
    own = {"tests/seeds.py": ["random.SystemRandom"], "benchmarks/runner.py": ["secrets"]}  # both commands print the seed
    assert found == own, "draw with tests/seeds.py"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import random\nrandom.Random()", "random.Random without a seed"),
        ("import random as r\nr.Random(None)", "random.Random without a seed"),
        ("from random import Random as Chance\ndef f(): return Chance(x=None)", "random.Random without a seed"),
        ("import random\nlambda: random.choice([1])", "random.choice"),
        ("from random import sample as some\ndef f(): some([1], 1)", "random.sample"),
        ("from random import *", "random.*"),
        ("import random\nrandom.seed(1)", "random.seed"),
        ("import random\nrandom.SystemRandom(1)", "random.SystemRandom"),
        ("import random\npick = random\npick.choice([1])", "random"),
        ("import numpy as np\nnp.random.default_rng()", "numpy.random.default_rng without a seed"),
        ("import numpy\nnumpy.random.default_rng(seed=None)", "numpy.random.default_rng without a seed"),
        ("from numpy.random import default_rng as made\nmade()", "numpy.random.default_rng without a seed"),
        ("from numpy import random as chance\nchance.default_rng()", "numpy.random.default_rng without a seed"),
        ("import numpy as np\nmake = np.random.default_rng\nmake()", "numpy.random.default_rng without a seed"),
        ("import numpy as np\nnp.random.RandomState()", "numpy.random.RandomState without a seed"),
        ("import numpy as np\nnp.random.SeedSequence().entropy", "numpy.random.SeedSequence without a seed"),
        ("import numpy as np\nnp.random.Generator(np.random.PCG64())", "numpy.random.PCG64 without a seed"),
        ("import numpy as np\nnp.random.rand(3)", "numpy.random.rand"),
        ("import dask.array as da\nda.random.random(3)", "dask.array.random.random"),
        ("import secrets", "secrets"),
        ("from secrets import randbits", "secrets"),
        ("import os\nos.urandom(4)", "os.urandom"),
        ("from os import urandom as noise\nnoise(4)", "os.urandom"),
        ("import uuid\nuuid.uuid4()", "uuid.uuid4"),
        ("from uuid import uuid1\nuuid1()", "uuid.uuid1"),
    ],
)
def test_unseeded_generators_are_found(text: str, found: str) -> None:
    line = text.count("\n") + 1
    assert faults(text) == [f"line {line if 'pick' not in text else 2}: {found}"]
    assert faults_of_page(f"Words.\n\n```python\n{text}\n```\n") == faults(text)
    assert faults_of_script(f"#!/bin/bash\npython - <<'END'\n{text}\nEND\n") == faults(text)
    assert faults_of_script(f"python -c '{text}'") == faults(text)
    assert faults_inside_strings(f"RUN = {text!r}") == faults(text)


def test_a_doctest_in_a_page_is_read() -> None:
    page = "```python\n>>> import numpy as np\n```\n\n```python\n>>> np.random.default_rng().random()\n0.5\n```\n"
    assert faults_of_page(page) == ["line 3: numpy.random.default_rng without a seed"]


@pytest.mark.parametrize(
    "text",
    [
        "import random\nrandom.Random(5).choice([1])\nst.integers().map(random.Random)",
        "import numpy as np\ndef f(rng: np.random.Generator, kind: np.random.BitGenerator): np.random.default_rng([1, 2])",
        "import random\ndef f(random): return random.choice([1])",
        "import numpy as np\ndef f():\n    random = np.random.default_rng(3)\n    return random.integers(3)",
        "import random\nfrom tests import seeds\ndef f(): return seeds.rng().sample([1], 1)",
        "import uuid, os\nuuid.uuid5(space, 'name'), os.environ",
    ],
)
def test_seeded_generators_are_accepted(text: str) -> None:
    assert faults(text, imported=True) == faults(text) or "Random(5)" in text
    assert faults(text) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import numpy as np\nRNG = np.random.default_rng(1)", "numpy.random.default_rng at import"),
        ("import random\nclass A:\n    draw = random.Random(1).choice", "random.Random at import"),
        ("from tests import seeds\nX = [seeds.seed() for _ in range(3)]", "tests.seeds.seed at import"),
        ("from tests.seeds import rng\ndef f(x=rng()): ...", "tests.seeds.rng at import"),
        ("from tests import seeds\n@mark(seeds.numpy_rng())\ndef f(): ...", "tests.seeds.numpy_rng at import"),
    ],
)
def test_draws_at_import_are_found(text: str, found: str) -> None:
    assert [fault.partition(": ")[2] for fault in faults(text, imported=True)] == [found]
    assert faults(text) == []
    lazy = text.replace("\n", "\nif __name__ == '__main__':\n    ", 1)
    assert text.count("\n") > 1 or faults(lazy, imported=True) == []


SMALL = """
import json, os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import seeds


def note(request, *numbers):
    with Path(os.environ["NOTES"], request.node.name).open("a") as file:
        print(*numbers, file=file)


@pytest.fixture(scope="session")
def first():
    return seeds.seed()


@pytest.fixture(scope="module")
def shared(first):
    return first, seeds.rng().getrandbits(63), int(seeds.numpy_rng().integers(2**62))


@pytest.fixture
def own():
    return seeds.seed()


def test_one(request, shared, own):
    note(request, own, *shared, seeds.seed(), seeds.seed(8))


@pytest.mark.parametrize("many", [1, 2])
def test_two(request, own, shared, many):
    note(request, own, *shared, *(seeds.seed() for _ in range(many)))


def test_unlucky(request):
    note(request, seeds.seed())
    assert not os.environ.get("UNLUCKY")


@settings(max_examples=5)
@given(st.integers(0, 2**60), st.integers(0, 2**60))
def test_drawn(request, one, two):
    note(request, one, two)
"""


@dataclass(frozen=True)
class Ran:
    """The exit status of pytest, its output, and the numbers that each test drew."""

    code: int
    printed: str
    numbers: dict[str, str]

    def found(self, pattern: str) -> str:
        match = re.search(pattern, self.printed, re.MULTILINE)
        assert match, self.printed
        return match[1]


@dataclass(frozen=True)
class Checkout:
    """A folder with Git, this project's conftest.py and seeds.py, and small tests."""

    path: Path

    def bash(self, command: str, **environment: str) -> Ran:
        """Run a command in the folder with only these variables."""
        notes = self.path / "notes"
        shutil.rmtree(notes, ignore_errors=True)
        notes.mkdir()
        kept = {name: value for name, value in os.environ.items() if name not in ("CI", seeds.VARIABLE, seeds.REPEAT)}
        kept = {name: value for name, value in kept.items() if not name.startswith(("PYTEST_", "UNLUCKY"))}
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.path,
            env={**kept, "NOTES": str(notes), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
        return Ran(done.returncode, done.stdout, {file.name: file.read_text() for file in notes.iterdir()})

    def pytest(self, arguments: str, **environment: str) -> Ran:
        return self.bash(f".venv/bin/python -m pytest {arguments}", **environment)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    folder = tmp_path_factory.mktemp("checkout")
    (folder / "tests").mkdir()
    for name in ("conftest.py", "pyproject.toml", "tests/__init__.py", "tests/seeds.py", "tests/no_telemetry.py"):
        shutil.copy(ROOT / name, folder / name)
    (folder / "tests" / "test_small.py").write_text(SMALL)
    (folder / "tests" / "test_early.py").write_text("from tests import seeds\nX = seeds.numpy_rng()\n\n\ndef test_x(): ...\n")
    (folder / ".venv").symlink_to(sys.prefix)
    made = Checkout(folder)
    identity = "-c user.name=a -c user.email=a@example.com"
    ended = made.bash(f"git init -q && git add conftest.py && git {identity} commit -q -m x")
    assert ended.code == 0, ended.printed
    return made


SMALL_TESTS = "tests/test_small.py"


@pytest.fixture(scope="module")
def fresh(checkout: Checkout) -> Ran:
    """Run all small tests in two processes without a stated seed. One test fails."""
    return checkout.pytest(f"{SMALL_TESTS} -n 2", UNLUCKY="yes")


@pytest.mark.slow
def test_a_failure_names_the_command_that_repeats_it(checkout: Checkout, fresh: Ran) -> None:
    assert fresh.code == 1
    seed = fresh.found(r"^seed: (\d+), fresh$")
    command = fresh.found("^repeat: (.*)$")
    assert command == f"DMLGATHER_SEED={seed} .venv/bin/python -m pytest -m '' {SMALL_TESTS}::test_unlucky"
    assert fresh.printed.count(command) == 2, "in the failure's report and at the end"
    again = checkout.bash(command, UNLUCKY="yes")
    assert (again.code, again.numbers) == (1, {"test_unlucky": fresh.numbers["test_unlucky"]})
    assert again.found("^repeat: (.*)$") == command


@pytest.mark.slow
def test_a_test_draws_the_same_numbers_alone_and_among_others(checkout: Checkout, fresh: Ran) -> None:
    """Shared fixtures do not depend on which test comes first. Hypothesis has the same seed."""
    seed = fresh.found(r"^seed: (\d+)")
    whole = checkout.pytest(SMALL_TESTS, DMLGATHER_SEED=seed)
    assert (whole.code, whole.numbers) == (0, fresh.numbers)
    assert whole.found("^(seed: .*)$") == f"seed: {seed}, from DMLGATHER_SEED"
    assert "repeat: " not in whole.printed
    alone = checkout.pytest(f"'{SMALL_TESTS}::test_two[2]' {SMALL_TESTS}::test_drawn", DMLGATHER_SEED=seed)
    assert alone.code == 0
    assert alone.numbers == {name: fresh.numbers[name] for name in ("test_two[2]", "test_drawn")}


def test_every_draw_has_numbers_of_its_own(fresh: Ran) -> None:
    one, two = (fresh.numbers[name].split() for name in ("test_one", "test_two[2]"))
    assert one[1:4] == two[1:4], "the fixtures that they share"
    other = [*one, two[0], *two[4:], *fresh.numbers["test_unlucky"].split()]
    assert len(set(other)) == len(other)
    assert int(one[-1]) < 2**8 < int(one[-2]) < 2**63


@pytest.mark.slow
def test_under_ci_the_seed_follows_from_the_commit(checkout: Checkout, fresh: Ran) -> None:
    ended = checkout.pytest(f"{SMALL_TESTS} tests/test_early.py --continue-on-collection-errors", CI="true")
    commit = checkout.bash("git rev-parse HEAD").printed.strip()
    assert ended.found("^(seed: .*)$") == f"seed: {int(commit[:12], 16)}, from the commit"
    assert ended.numbers.keys() == fresh.numbers.keys()
    other = {name: numbers.split() for name, numbers in ended.numbers.items()}
    before = {name: numbers.split() for name, numbers in fresh.numbers.items()}
    assert other.pop("test_drawn") != before.pop("test_drawn")  # hypothesis prefers some numbers with any seed
    wide = [{number for each in numbers.values() for number in each if int(number) >= 2**32} for numbers in (other, before)]
    assert len(wide[0]) == len(wide[1]) == 11
    assert not wide[0] & wide[1]
    assert ended.code == 1
    assert "RuntimeError: random numbers belong to a test: draw them in a test or a fixture" in ended.printed


@pytest.mark.slow
def test_a_seed_that_is_no_number_is_a_usage_error(checkout: Checkout) -> None:
    ended = checkout.pytest(SMALL_TESTS, DMLGATHER_SEED="-3")
    assert (ended.code, ended.numbers) == (4, {})
    assert "DMLGATHER_SEED must be a number without a sign, not '-3'" in ended.printed


@pytest.mark.parametrize("stated", ["", " ", "x", "1.5", "+1", "²"])
def test_a_malformed_seed_is_refused(stated: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(seeds.VARIABLE, stated)
    with pytest.raises(ValueError, match="must be a number without a sign, not "):
        seeds.run_seed()


def test_without_a_commit_ci_must_state_a_seed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(seeds.VARIABLE)
    monkeypatch.setenv("CI", "true")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.setattr(seeds, "ROOT", tmp_path)
    with pytest.raises(ValueError, match=r"the seed follows from the commit, and git knows none: .*; set DMLGATHER_SEED"):
        seeds.run_seed()


def test_the_repeat_command_uses_the_script_and_whole_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(seeds.VARIABLE, "7")
    monkeypatch.setenv(seeds.REPEAT, "ci/heavy torch -k x")
    assert (
        seeds.repeating("tests/test_a.py::test_b[c d]") == "DMLGATHER_SEED=7 ci/heavy torch -k x 'tests/test_a.py::test_b[c d]'"
    )
    assert seeds.repeating("docs/run.md::line:4,column:1") == "DMLGATHER_SEED=7 ci/heavy torch -k x docs/run.md"
