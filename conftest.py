"""README and docs run as tests: Python blocks with their doctest output, console blocks with their printed output.

A block with a title is a file. A page that has such blocks runs from top to bottom in an empty folder of its own, where they
are written; other pages run in the checkout. CuPy and torch are stand-ins over host memory on docs/gpu.md (tests/gpu_page.py),
unless DMLGATHER_REAL_GPU is set. The blocks of docs/torch.md have the marker torch.
"""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from sybil import Document, Example, Region, Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser
from sybil.parsers.markdown.lexers import RawFencedCodeBlockLexer

import tests.no_telemetry  # noqa: F401 - before anything imports openvino

ROOT = Path(__file__).parent
os.environ.setdefault("JAX_PLATFORMS", "cpu")  # before anything imports JAX, which else looks for other devices and says so

settings.register_profile("suite", deadline=None)  # how long an example takes is the machine's affair
settings.load_profile("suite")

TITLED = re.compile(r'\w+ title="(?P<title>[^"]+)"$\n', re.MULTILINE)
"""What stands behind the fence of a block that is a file."""


def folder_of(example: Example) -> Path:
    """Where the commands of a page run."""
    if not re.search(r'^```\w+ title="', example.document.text, re.MULTILINE):
        return ROOT
    if "folder" not in example.namespace:
        example.namespace["folder"] = example.namespace["tmp_path_factory"].mktemp("page")
    folder: Path = example.namespace["folder"]
    return folder


def parse_files(document: Document) -> Iterator[Region]:
    """The blocks with a title."""
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

    A last line `(exit code N)` states an exit code other than 0. Standard error counts as output.
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
    if printed != expected:
        return "expected:\n" + "\n".join(expected) + "\n\nprinted:\n" + "\n".join(printed)
    return None


def enter_gpu_page(namespace: dict[str, Any]) -> None:
    """Put the stand-ins in place."""
    namespace["stand_ins"] = stack = ExitStack()
    if not os.environ.get("DMLGATHER_REAL_GPU"):
        from tests.gpu_page import stand_in  # noqa: PLC0415 - it imports much, and most runs have no use for it

        stand_in(stack)


def leave_gpu_page(namespace: dict[str, Any]) -> None:
    """Take the stand-ins away."""
    namespace["stand_ins"].close()


PARSERS = (
    PythonCodeBlockParser(doctest_optionflags=doctest.ELLIPSIS),
    CodeBlockParser("console", run_console),
    parse_files,
)
GPU_PAGE = "docs/gpu.md"
TORCH_PAGE = ROOT / "docs" / "torch.md"


@pytest.hookimpl(tryfirst=True)  # before tests are deselected by their markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The blocks of the page about PyTorch need it."""
    for item in items:
        if item.path == TORCH_PAGE:
            item.add_marker(pytest.mark.torch)


pytest_collect_file = (
    Sybil(PARSERS, fixtures=["tmp_path_factory"], patterns=["README.md", "docs/*.md"], excludes=[GPU_PAGE])
    + Sybil(PARSERS, patterns=[GPU_PAGE], setup=enter_gpu_page, teardown=leave_gpu_page)
).pytest()
