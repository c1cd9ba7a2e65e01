"""ci/release: the version and the claims agree in all files, and wheels lack the files that a release must not contain."""

from __future__ import annotations

import email.message
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from ci.release_files import disagreements, faults, licences, version
from hatch_build import FOLDER, NOTICES, digest
from tests import processes

ROOT = Path(__file__).parents[1]
METADATA = f"dmlgather-{version(ROOT)}.dist-info/METADATA"
PAGES = ("README.md", "SECURITY.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "CHANGELOG.md", "docs/releasing.md")


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_all_files_state_the_same_version() -> None:
    assert not list(disagreements(ROOT))


SAYS = {
    "CHANGELOG.md": "# Changelog\n\n## 1.2.0 (unreleased)\n\n- All of it.\n\n## 1.1.0 (2026-01-02)\n",
    "CITATION.cff": "cff-version: 1.2.0\nversion: 1.2.0\n",
    "dmlgather/package.py": '__version__ = "1.2.0"\n',
}
DATED = {
    "CHANGELOG.md": SAYS["CHANGELOG.md"].replace("unreleased", "2026-12-01"),
    "CITATION.cff": f"{SAYS['CITATION.cff']}date-released: 2026-12-01\n",
}


@pytest.mark.parametrize(
    ("changed", "final", "reported"),
    [
        ({}, False, None),
        ({}, True, "CHANGELOG.md: version 1.2.0 must have a date, got (unreleased)"),
        (DATED, True, None),
        (
            {**DATED, "CITATION.cff": SAYS["CITATION.cff"]},
            True,
            "CITATION.cff: date-released must be 2026-12-01, as in CHANGELOG.md, got none",
        ),
        (
            {"CITATION.cff": DATED["CITATION.cff"]},
            False,
            "CITATION.cff: date-released must be left out, as in CHANGELOG.md, got 2026-12-01",
        ),
        (
            {"CITATION.cff": "version: 1.1.0\n"},
            False,
            "CITATION.cff: version must be 1.2.0, as in dmlgather/package.py, got 1.1.0",
        ),
        (
            {"CHANGELOG.md": "## 1.1.0 (unreleased)\n"},
            False,
            'CHANGELOG.md: the first section must be "## 1.2.0 (unreleased)" or have a date, got "## 1.1.0 (unreleased)"',
        ),
        (
            {"CHANGELOG.md": "## 1.2.0 (soon)\n"},
            False,
            'CHANGELOG.md: the first section must be "## 1.2.0 (unreleased)" or have a date, got none',
        ),
    ],
)
def test_another_version_or_date_is_reported(tmp_path: Path, changed: dict[str, str], final: bool, reported: str | None) -> None:
    (tmp_path / "dmlgather").mkdir()
    for name, text in {**SAYS, **changed}.items():
        (tmp_path / name).write_text(text)
    assert list(disagreements(tmp_path, final=final)) == ([reported] if reported else [])


def test_the_citation_file_is_valid() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.citation-file-format", "CITATION.cff"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)


def test_all_files_state_the_tested_python_versions() -> None:
    match = re.search(r"^for version in (.+); do$", read("ci/pythons"), re.MULTILINE)
    assert match
    run = match[1].split()
    project = tomllib.loads(read("pyproject.toml"))["project"]
    classifiers = [
        name.rpartition(" ")[2] for name in project["classifiers"] if name.startswith("Programming Language :: Python :: 3.")
    ]
    assert classifiers == run
    allowed = SpecifierSet(project["requires-python"])
    assert [minor for minor in (f"3.{number}" for number in range(30)) if allowed.contains(f"{minor}.5")] == run
    assert f"set -- {run[0]}\n" in read("ci/lint")
    for page in ("README.md", "docs/index.md"):
        assert re.findall(r"Python (3\.\d+) to (3\.\d+)", read(page)) == [(run[0], run[-1])]
    assert set(re.findall(r"^\| Python (3\.\d+) \|", read("docs/testing.md"), re.MULTILINE)) == set(run)


@pytest.mark.slow
def test_ci_pythons_lists_different_versions_in_order() -> None:
    every, ends = (subprocess.check_output(["ci/pythons", *options], cwd=ROOT, text=True).split() for options in (["--all"], []))
    assert ends == [every[0], every[-1]]
    show = "import sys; print(sys.version_info[1])"
    minors = [int(subprocess.check_output([python, "-c", show], text=True)) for python in every]
    assert minors == sorted(set(minors))


def test_the_pages_name_the_pytorch_that_is_tested() -> None:
    match = re.search(r"^version=\$\{TORCH:-(\d+\.\d+)\.\d+\}$", read("ci/checks/torch"), re.MULTILINE)
    assert match
    assert f"The rules are those of PyTorch {match[1]}." in read("docs/torch.md")
    assert f"Found in PyTorch {match[1]} on the CPU" in read("docs/torch.md")
    assert f"\n| PyTorch {match[1]} |" in read("docs/testing.md")
    assert f"with PyTorch {match[1]}," in read("tests/heavy.py")


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files_and_headings(page: str) -> None:
    text = re.sub(r"^```.*?^```$|`[^`\n]+`", "code", read(page), flags=re.MULTILINE | re.DOTALL)
    links = [target for target in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in target]
    for target in links:
        name, _, anchor = target.partition("#")
        path = (ROOT / page).parent / name if name else ROOT / page
        assert path.exists(), f"{page}: {target}"
        assert not anchor or anchor in anchors(path), f"{page}: {target}"


def anchors(path: Path) -> set[str]:
    """Return the anchors of a page's headings in links."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", heading.lower())) for heading in headings}


def packed(folder: Path, files: Mapping[str, bytes | None], platform: str = "any") -> Path:
    """Return a wheel of the checkout's files with changed contents. None removes a file."""
    stated = email.message.Message()
    for field, value in (("Version", version(ROOT)), ("License-Expression", "MIT"), ("License-File", "LICENSE")):
        stated[field] = value
    own = {METADATA: stated.as_bytes(), METADATA.replace("METADATA", "licenses/LICENSE"): (ROOT / "LICENSE").read_bytes()}
    for path in (ROOT / "dmlgather").rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts and path.suffix not in (".so", ".dylib", ".dll"):
            own[path.relative_to(ROOT).as_posix()] = path.read_bytes()
    wheel = folder / f"dmlgather-{version(ROOT)}-py3-none-{platform}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in {**own, **files}.items():
            if content is not None:
                archive.writestr(name, content)
    return wheel


ENGINE = b"\x7fELF".ljust(18, b"\0") + (62).to_bytes(2, "little") + digest(ROOT / "cpu_kernels").encode()
"""The part of an engine for Linux on x86-64 that is checked."""
LIBRARY, LICENCES = f"{FOLDER}/libdmlgather.so", f"{FOLDER}/{NOTICES}"


def test_a_wheel_of_own_files_has_no_fault(tmp_path: Path) -> None:
    assert not list(faults(packed(tmp_path, {}), ROOT))
    assert not list(faults(packed(tmp_path, {LIBRARY: ENGINE, LICENCES: b"MIT"}, "manylinux_2_17_x86_64"), ROOT))


@pytest.mark.parametrize(
    ("files", "platform", "reported"),
    [
        ({"dmlgather/vendored.py": b"#"}, "any", "dmlgather/vendored.py: is no file of the source tree"),
        ({"tests/__init__.py": b"#"}, "any", "tests/__init__.py: is no file of the source tree"),
        ({"dmlgather/py.typed": b"#"}, "any", "dmlgather/py.typed: is no file of the source tree"),
        ({"dmlgather/limits.py": None}, "any", "dmlgather/limits.py: is missing"),
        (
            {METADATA: b"Version: 9\nLicense-Expression: MIT\nLicense-File: LICENSE\n"},
            "any",
            f"METADATA: Version must be {version(ROOT)}, got 9",
        ),
        ({LIBRARY: ENGINE}, "any", f"the platform is any, and these engines are there: {LIBRARY}"),
        ({LICENCES: b"MIT"}, "win_amd64", "the platform is win_amd64, and these engines are there: none"),
        ({LIBRARY: ENGINE, LICENCES: b"MIT"}, "manylinux_2_17_aarch64", f"{LIBRARY}: must be ELF 183, got ELF 62"),
        (
            {LIBRARY: ENGINE},
            "manylinux_2_17_x86_64",
            f"{LICENCES}: is missing, the licences of what ziglang links into the engine",
        ),
        (
            {LIBRARY: ENGINE[:-1] + b"?", LICENCES: b"MIT"},
            "manylinux_2_17_x86_64",
            f"{LIBRARY}: was not built from these sources",
        ),
    ],
)
def test_a_fault_of_a_wheel_is_reported(tmp_path: Path, files: dict[str, bytes | None], platform: str, reported: str) -> None:
    assert list(faults(packed(tmp_path, files, platform), ROOT)) == [reported]


def test_licences_are_read_from_a_bill_of_materials(tmp_path: Path) -> None:
    bill = tmp_path / "bill.json"
    bill.write_text(
        '{"components": [{"name": "a", "version": "1", "licenses": [{"license": {"id": "MIT"}}]}, {"name": "b", "licenses": []},'
        ' {"name": "c", "version": "2", "licenses": [{"expression": "MIT OR ISC"}, {"license": {"name": "own"}}]}]}'
    )
    assert list(licences(bill)) == ["a 1: MIT", "b : not stated", "c 2: MIT OR ISC, own"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash: ci/release was not tried")
def test_ci_release_refuses_unknown_arguments() -> None:
    done = processes.run(["ci/release", "--publish"], cwd=ROOT)
    assert (done.returncode, done.stderr) == (2, "ci/release: expected no argument or --dry-run, got --publish\n")
