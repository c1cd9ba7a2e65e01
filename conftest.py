"""The seed of the run; README and docs as tests: Python blocks with their doctest output, console blocks with what they print.

A block with a title is a file. A page that has such blocks runs from top to bottom in an empty folder of its own, where they
are written; other pages run in the checkout. The blocks of docs/gpu.md and docs/streams.md have the marker gpu, and those of
docs/torch.md the marker torch. On the first two torch is a stand-in (tests/other_libraries.py) where there is none with CUDA.
"""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest

try:
    from hypothesis import HealthCheck, settings
    from sybil import Document, Example, Region, Sybil
    from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser
    from sybil.parsers.markdown.lexers import RawFencedCodeBlockLexer
except ModuleNotFoundError as missing:
    raise pytest.UsageError(
        f"{sys.executable} has no {missing.name}: run ci/setup test dev examples, then .venv/bin/python -m pytest"
    ) from None

import tests.no_telemetry  # noqa: F401 - before anything imports openvino
from tests import seeds

ROOT = Path(__file__).parent
os.environ.setdefault("JAX_PLATFORMS", "cpu")  # before anything imports JAX, which else looks for other devices and says so

# How long examples take is the machine's affair, and which are drawn that of the run's seed, with CI=true as well.
settings.register_profile("suite", deadline=None, derandomize=False, database=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")

REPEATED = "repeat this test"
"""The title of the command that does it, in a failure's report."""
TITLED = re.compile(r'\w+ title="(?P<title>[^"]+)"$\n', re.MULTILINE)
"""What stands behind the fence of a block that is a file."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options of `ci/test`."""
    parser.addoption("--quick", action="store_true", help="leave out tests that are marked slow")


@pytest.hookimpl(tryfirst=True)  # before hypothesis looks for its seed
def pytest_configure(config: pytest.Config) -> None:
    """Hypothesis takes the run's seed."""
    try:
        config.option.hypothesis_seed = str(seeds.run_seed().value)
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None


@pytest.fixture
def no_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a GPU with a driver, without CuPy, on any machine."""
    from dmlgather.backends.cuda import driver, nvidia_driver  # noqa: PLC0415 - only its tests load it

    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.setattr(nvidia_driver, "ask", lambda: nvidia_driver.Driver("13.0", (), None))
    driver.require.cache_clear()


@pytest.fixture(scope="session")
def cupy() -> Any:
    """CuPy's module, for a test that is marked gpu."""
    import cupy  # noqa: PLC0415 - most runs have none

    return cupy


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that is marked gpu, or gpu(devices=2), if there are fewer GPUs."""
    marker = item.get_closest_marker("gpu")
    if marker is not None:
        from dmlgather.backends.cuda import DeviceError, require  # noqa: PLC0415 - only such tests load it

        try:
            require(marker.kwargs.get("devices", 1) - 1)
        except DeviceError as error:
            pytest.skip(str(error))


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With pytest -n, one process gets all blocks of a page, because they go together."""
    from xdist.scheduler import LoadScheduling  # noqa: PLC0415 - some runs do without pytest-xdist

    class WholePages(LoadScheduling):
        def _send_tests(self, node: Any, num: int) -> None:
            files = [self.collection[each].partition("::")[0] for each in self.pending]
            while 0 < num < len(files) and files[num - 1] == files[num] and files[num].endswith(".md"):
                num += 1
            super()._send_tests(node, num)

    return WholePages(config, log)


def pytest_report_header() -> str:
    """Name the run's seed."""
    found = seeds.run_seed()
    return f"seed: {found.value}, {found.origin}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Random numbers belong to the test that draws them."""
    with seeds.belonging_to(item.nodeid):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> Iterator[None]:
    """Or to the fixture, so that one that tests share does not depend on the test that comes first."""
    with seeds.belonging_to(f"{request.node.nodeid}::{fixturedef.argname}"):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Add to a failure the command that repeats it."""
    report: pytest.TestReport = yield  # type: ignore[assignment] # what pluggy sends
    if report.failed:
        report.sections.append((REPEATED, seeds.repeating(item.nodeid)))
    return report  # type: ignore[return-value]


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the commands of all failures once more, at the end."""
    for outcome in ("failed", "error"):
        for report in terminalreporter.getreports(outcome):
            terminalreporter.write_line("".join(f"repeat: {text}" for name, text in report.sections if name == REPEATED))


def folder_of(example: Example) -> Path:
    """Where the commands of a page run."""
    if not re.search(r'^```\w+ title="', example.document.text, re.MULTILINE):
        return ROOT
    if "folder" not in example.namespace:
        example.namespace["folder"] = example.namespace["tmp_path_factory"].mktemp("page")
    folder: Path = example.namespace["folder"]
    return folder


def parse_files(document: Document) -> Iterator[Region]:
    """Return the blocks with a title."""
    for region in RawFencedCodeBlockLexer(TITLED)(document):
        region.parsed, region.evaluator = (region.lexemes["title"], str(region.lexemes["source"])), write_file
        yield region


def write_file(example: Example) -> None:
    """Write a block to the file that its title names."""
    name, text = example.parsed
    file = folder_of(example) / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def run_console(example: Example) -> str | None:
    """Run each `$ command` of a console block with bash and compare what it prints with the lines below it.

    A last line `(exit code N)` states an exit code other than 0. Standard error counts as output. In a line, `...` stands for
    anything, such as the version of another library.
    """
    expected = str(example.parsed).strip().splitlines()
    printed: list[str] = []
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "120"}
    environment.pop("GITHUB_ACTIONS", None)  # which chooses a format
    environment["CPLUS_INCLUDE_PATH"] = str(ROOT / "tests" / "dump_header" / "layout")  # stands in for DirectML.h
    for command in (line.removeprefix("$ ") for line in expected if line.startswith("$ ")):
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=folder_of(example),
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=120,
            check=False,
        )
        printed += [f"$ {command}", *(line.rstrip() for line in done.stdout.strip().splitlines())]
        if done.returncode:
            printed.append(f"(exit code {done.returncode})")
    same = doctest.OutputChecker().check_output
    if len(printed) != len(expected) or not all(map(same, expected, printed, repeat(doctest.ELLIPSIS))):
        return "expected:\n" + "\n".join(expected) + "\n\nprinted:\n" + "\n".join(printed)
    return None


def enter_gpu_page(namespace: dict[str, Any]) -> None:
    """Put the stand-in for torch in place, where there is none with CUDA."""
    namespace["stand_ins"] = stack = ExitStack()
    try:
        import torch  # noqa: PLC0415 - most runs have none

        real = torch.cuda.is_available()
    except ImportError:
        real = False
    if not real:
        from tests.other_libraries import torch_in_place  # noqa: PLC0415 - most runs have no use for it

        stack.enter_context(torch_in_place())


def leave_gpu_page(namespace: dict[str, Any]) -> None:
    """Take it away."""
    namespace["stand_ins"].close()


PARSERS = (
    PythonCodeBlockParser(doctest_optionflags=doctest.ELLIPSIS),
    CodeBlockParser("console", run_console),
    parse_files,
)
GPU_PAGES = ["docs/gpu.md", "docs/streams.md"]
MARKED_PAGES = {**{ROOT / page: pytest.mark.gpu for page in GPU_PAGES}, ROOT / "docs" / "torch.md": pytest.mark.torch}
"""Pages whose blocks need what not every machine has."""


@pytest.hookimpl(tryfirst=True)  # before tests are deselected by their markers
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Blocks of pages get their markers. --quick leaves out slow tests."""
    for item in items:
        if item.path in MARKED_PAGES:
            item.add_marker(MARKED_PAGES[item.path])
    if config.getoption("--quick"):
        slow = {item for item in items if item.get_closest_marker("slow")}
        config.hook.pytest_deselected(items=list(slow))
        items[:] = [item for item in items if item not in slow]


pytest_collect_file = (
    Sybil(PARSERS, fixtures=["tmp_path_factory"], patterns=["README.md", "docs/*.md"], excludes=GPU_PAGES)
    + Sybil(PARSERS, patterns=GPU_PAGES, setup=enter_gpu_page, teardown=leave_gpu_page)
).pytest()
