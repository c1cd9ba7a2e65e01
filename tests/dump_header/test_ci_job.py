"""The job and the hook of docs/cpp.md in a new project: they build it, and name the wrong line of the program."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import processes
from tests.dump_header.building import LAYOUT

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "cpp.md").read_text(encoding="utf-8")
PROJECT = """cmake_minimum_required(VERSION 3.16)
project(rows CXX)
{lines}
enable_testing()
add_executable(rows_test tests/rows_test.cpp)
add_test(NAME rows COMMAND rows_test)
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (shutil.which("ctest") and shutil.which("make")), reason="the job needs cmake and make"),
]


def _block(start: str) -> str:
    (found,) = re.findall(rf"^```{re.escape(start)}(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return str(found)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a repository with the page's test, the stand-in for DirectML.h, and `dmlgather` on the PATH of `_run`."""
    for folder in ("tests", "ci", "bin"):
        (tmp_path / folder).mkdir()
    source = _block('cpp title="rows_test.cpp"\n')
    traced = source.replace("dmlgather::dump(desc, std::cout, ", "dmlgather::trace(&desc, ")
    assert traced != source
    (tmp_path / "tests" / "rows_test.cpp").write_text(traced.lstrip())
    (tmp_path / "CMakeLists.txt").write_text(PROJECT.format(lines=_block('cmake title="CMakeLists.txt"\n')))
    shutil.copy(LAYOUT / "DirectML.h", tmp_path / "ci")
    command = tmp_path / "bin" / "dmlgather"
    command.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m dmlgather.cli "$@"\n')
    command.chmod(0o755)
    return tmp_path


def _run(script: str, project: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    path = f"{project / 'bin'}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "CPATH": "", "PATH": path, "GITHUB_ACTIONS": "", **environment}  # the job and the hook set CPATH
    return processes.run(["bash", "-ec", script], cwd=project, env=env, timeout=300)


def _correct(project: Path) -> None:
    file = project / "tests" / "rows_test.cpp"
    file.write_text(
        file.read_text().replace("output_sizes[] = {2, 3}", "output_sizes[] = {2, 4}").replace("nullptr, 24", "nullptr, 32")
    )


def test_the_documented_job_fails_and_passes_once_corrected(project: Path) -> None:
    job: dict[str, Any] = yaml.safe_load(_block('yaml title=".github/workflows/descriptors.yml"\n'))["jobs"]["descriptors"]
    env = {name: text.replace("${{ github.workspace }}", str(project)) for name, text in job["env"].items()}
    install, *steps, check = [step["run"] for step in job["steps"] if "run" in step]
    assert install.startswith("pip install")
    for step in steps:
        done = _run(step, project, **env)
        assert done.returncode == 0, done.stdout + done.stderr
    done = _run(check, project, **env)
    assert (done.returncode, done.stdout.splitlines()[0]) == (
        1,
        "tests/rows_test.cpp:17: DML302 error: OutputTensor must have the sizes of the result (OutputTensor.Sizes[1])",
    )
    _correct(project)
    for step in (*steps, check):
        done = _run(step, project, **env)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_documented_hook_works_in_a_fresh_clone(project: Path) -> None:
    (repository,) = yaml.safe_load(_block('yaml title=".pre-commit-config.yaml"\n'))["repos"]
    (hook,) = repository["hooks"]
    done = _run(hook["entry"], project)
    assert done.returncode == 1, done.stderr
    assert "tests/rows_test.cpp:17: DML302 error" in done.stdout
    _correct(project)
    assert _run(hook["entry"], project).returncode == 0
    ours = ["tests/rows_test.cpp", "ci/DirectML.h", "src/rows.cc", "src/rows.hpp", "CMakeLists.txt", "dmlgather.toml"]
    assert [name for name in [*ours, "README.md", "data/rows.json"] if re.search(hook["files"], name)] == ours
