"""The code has the structure that ARCHITECTURE.md and CONTRIBUTING.md describe."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "dmlgather"
PAGES = ("ARCHITECTURE.md", "CONTRIBUTING.md", "README.md", *(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/*.md")))

BASE = {"child_process", "chunks", "files", "host", "limits", "model_formats", "output", "package", "record", "wording"}
"""Components that all others may import."""


def files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def component_of(module: str) -> str:
    """Return the component of a module, such as "onnx" for dmlgather.onnx.problems.gather."""
    return module.split(".")[1] if "." in module else ""


def imported_components(file: Path) -> Iterator[str]:
    """Yield the components that a file imports at run time."""
    tree = ast.parse(file.read_text())
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and id(node) not in for_types:
            names = [f"dmlgather.{alias.name}" for alias in node.names] if node.module == "dmlgather" else [node.module]
            yield from (component_of(name) for name in names if name.startswith("dmlgather."))


def components() -> dict[str, set[str]]:
    """Return the components that each component imports, except itself and the base."""
    found: dict[str, set[str]] = {}
    for file in files():
        parts = file.relative_to(PACKAGE).with_suffix("").parts
        if parts not in {("__init__",), ("__main__",)}:
            found.setdefault(parts[0], set()).update(imported_components(file))
    return {component: others & {*found} - {component} - BASE for component, others in found.items() if component not in BASE}


def documented() -> dict[str, set[str]]:
    """Return the imports of each component in ARCHITECTURE.md."""
    rows = re.findall(r"^\| `dmlgather/(\w+)(?:/|\.py)` \| .* \| (.*?) \|$", (ROOT / "ARCHITECTURE.md").read_text(), re.MULTILINE)
    return {name: set(re.findall(r"\w+", imports)) for name, imports in rows}


def test_the_table_of_components_lists_the_actual_imports() -> None:
    assert documented() == components()


def test_class_names_are_unique() -> None:
    names = Counter(name for file in files() for name in re.findall(r"^class (\w+)", file.read_text(), re.MULTILINE))
    assert {name for name, count in names.items() if count > 1} == set()


def test_modules_have_at_most_500_lines_and_three_levels() -> None:
    assert {str(file): lines for file in files() if (lines := file.read_text().count("\n")) > 500} == {}
    assert {str(file) for file in files() if len(file.relative_to(PACKAGE).parts) > 3} == set()


@pytest.mark.parametrize("page", PAGES)
def test_files_that_a_page_names_exist(page: str) -> None:
    folders = "dmlgather|tests|ci|cuda_kernels|examples|benchmarks|conformance|docs"
    named = set(re.findall(rf"`((?:{folders})/[\w/.]*\w/?)`", (ROOT / page).read_text()))
    assert {name for name in named if not (ROOT / name).exists()} == set()


def test_the_readme_is_short_and_shares_the_landing_pages_table() -> None:
    readme, landing = ((ROOT / name).read_text() for name in ("README.md", "docs/index.md"))
    assert len(readme.split()) <= 800
    assert all(words in readme for words in ("not on PyPI", "from a checkout", "140 MB", "2 GB"))
    rows = re.findall(r"^\| .+ \| \[.*$", readme, re.MULTILINE)
    assert len(rows) > 10
    *shared, documentation = (row.replace("(docs/", "(") for row in rows)
    assert documentation.endswith("(index.md) |")
    assert re.findall(r"^\| .+ \| \[.*$", landing, re.MULTILINE) == shared


EXTRAS = {"onnx": "onnx", "onnxruntime": "onnxruntime", "jax": "jax", "torch": "torch", "dask": "dask", "cupy": "cuda13"}
"""Packages that code blocks of pages import, and the names by which a page requires them."""


@pytest.mark.parametrize("page", [page for page in PAGES if page.startswith("docs/")])
def test_a_page_states_the_extras_that_its_blocks_import(page: str) -> None:
    text = (ROOT / page).read_text()
    blocks = "\n".join(re.findall(r"^```python.*?\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    imported = set(re.findall(r"^(?:>>> )?(?:import|from) (\w+)", blocks, re.MULTILINE))
    needs = re.match(r"# .+\n\nNeeds: (.+\n)", text)
    for package in imported & EXTRAS.keys():
        assert needs is not None, package
        if (
            page not in {"docs/gpu.md", "docs/streams.md"} or package == "cupy"
        ):  # their arrays are arrays of a library that a user may have
            assert re.search(rf"\b{EXTRAS[package]}\b", needs[1]), package


@pytest.mark.parametrize("page", PAGES)
def test_no_page_says_that_the_package_is_on_pypi(page: str) -> None:
    assert re.findall(r"(?<![/\w])dmlgather\[\w|pip install (?:-\S+ )*'?dmlgather", (ROOT / page).read_text()) == []
