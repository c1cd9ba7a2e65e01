"""The build of the CPU engine: its compiler, and the files of a release."""

from __future__ import annotations

import ctypes
import email
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from hatch_build import FOLDER, LIBRARIES, WITHOUT, ZIG, digest, zig_compiler
from tests import processes

ROOT = Path(__file__).parents[1]
SOURCES = {path.name for path in (ROOT / "cpu_kernels").iterdir()}
REQUIREMENTS = "from hatchling import build; print(build.get_requires_for_build_wheel())"


def hatchling(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python in the checkout, with the test's variables instead of this process's compiler."""
    kept = {name: value for name, value in os.environ.items() if name not in ("CC", "CFLAGS", "LDFLAGS", "DMLGATHER_PURE")}
    command = [sys.executable, *arguments]
    return processes.run(command, cwd=ROOT, env=kept | environment, timeout=600)


def test_the_checkouts_engine_was_built_from_its_sources() -> None:
    library = next((path for name in LIBRARIES if (path := ROOT / FOLDER / name).exists()), None)
    assert library, "the checkout has no engine: run ci/setup"
    engine = ctypes.CDLL(str(library))
    engine.dmlgather_sources.restype = ctypes.c_char_p
    assert engine.dmlgather_sources().decode() == digest(ROOT / "cpu_kernels"), f"{library} is stale: run ci/setup"


def test_any_change_of_a_source_changes_the_digest(tmp_path: Path) -> None:
    digests = set()
    for name, text in (("a.c", "1"), ("a.c", "2"), ("b.h", ""), ("b.h", "1")):
        (tmp_path / name).write_text(text)
        digests.add(digest(tmp_path))
    (tmp_path / "b.h").rename(tmp_path / "c.h")
    assert len(digests | {digest(tmp_path)}) == 5


def compiler(folder: Path, text: str) -> str:
    """Return a PATH with one C compiler, a script."""
    script = folder / "cc"
    script.write_text(f"#!{sys.executable}\n{text}\n")
    script.chmod(0o755)
    return str(folder)


def test_a_compiler_that_cannot_link_counts_as_none(tmp_path: Path) -> None:
    path = compiler(tmp_path, "import sys; sys.exit('-shared' in sys.argv)")
    assert hatchling("-c", REQUIREMENTS, PATH=path).stdout == f"['{ZIG}']\n"


@pytest.mark.slow
def test_a_working_compiler_is_used(tmp_path: Path) -> None:
    command = zig_compiler().command
    path = compiler(tmp_path, f"import os, sys; os.execv({command[0]!r}, [*{command!r}, *sys.argv[1:]])")
    assert hatchling("-c", REQUIREMENTS, PATH=path).stdout == "[]\n"


@pytest.mark.parametrize(
    ("target", "mingw"), [("manylinux_2_17_x86_64", False), ("macosx_11_0_arm64", False), ("win_amd64", True)]
)
def test_notices_contain_the_licences_of_what_ziglang_links(monkeypatch: pytest.MonkeyPatch, target: str, mingw: bool) -> None:
    monkeypatch.setenv("DMLGATHER_TARGET", target)
    text = zig_compiler().notices()
    assert text.startswith("The MIT License (Expat)\n\nCopyright (c) Zig contributors\n")
    assert ("Zope Public License (ZPL) Version 2.1" in text) == mingw
    assert ("2011-2016  mingw-w64 project" in text) == mingw  # the library's threads have a separate licence
    assert not re.search(r"\*/|^#", text, re.MULTILINE)


@pytest.mark.parametrize(("pure", "required"), [({}, [ZIG]), ({"DMLGATHER_PURE": "1"}, [])], ids=["engine", "pure"])
def test_only_a_pure_build_needs_no_compiler(tmp_path: Path, pure: dict[str, str], required: list[str]) -> None:
    assert hatchling("-c", REQUIREMENTS, PATH=str(tmp_path), **pure).stdout == f"{required}\n"


@pytest.mark.parametrize(
    ("environment", "pure", "required"),
    [
        (ROOT / "py_env-python3.12", "", []),
        (ROOT / "py_env-default", "", []),
        (ROOT / "py_env-python3.12", "0", [ZIG]),
        (ROOT / ".venv", "", [ZIG]),
        (ROOT.parent / "py_env-python3.12", "", [ZIG]),
    ],
)
def test_only_pre_commits_environment_builds_without_the_engine(
    tmp_path: Path, environment: Path, pure: str, required: list[str]
) -> None:
    """`ci/heavy hooks` tests pre-commit's real environment."""
    done = hatchling("-c", REQUIREMENTS, PATH=str(tmp_path), VIRTUAL_ENV=str(environment), DMLGATHER_PURE=pure)
    assert done.stdout == f"{required}\n", done.stderr


def needs(tool: str) -> pytest.MarkDecorator:
    """Return a mark that skips a test if a program is missing. ci/heavy bare deliberately has no compiler."""
    return pytest.mark.skipif(shutil.which(tool) is None, reason=f"no {tool} on the path: what it does was not tried")


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"CC": "no-such-compiler -m64"}, "the compiler of CC cannot build the CPU engine:\nno-such-compiler -m64 -std=gnu11 "),
        pytest.param(
            {"CFLAGS": "--no-such-flag", "CC": "cc"},
            "CFLAGS is '--no-such-flag', with which cc cannot build the CPU engine:\n",
            marks=needs("cc"),
        ),
        pytest.param({"CFLAGS": "--no-such-flag"}, "CFLAGS is '--no-such-flag', with which ", marks=needs("cc")),
        pytest.param({"LDFLAGS": "-lno-such-library"}, "LDFLAGS is '-lno-such-library', with which ", marks=needs("cc")),
        pytest.param(
            {"LDFLAGS": "-Wl,--no-such-flag", "CFLAGS": "-g", "CC": "cc"},
            "LDFLAGS is '-Wl,--no-such-flag', with which cc cannot ",
            marks=needs("cc"),
        ),
        ({"CFLAGS": "-O2 '"}, 'CFLAGS is "-O2 \'", which is no command line: No closing quotation'),
        ({"CC": "/bin/true"}, "it ended with exit status 0, but made no probe.o: no compiler does"),
        pytest.param({"CC": "true"}, "it ended with exit status 0, but made no probe.o: no compiler does", marks=needs("true")),
        pytest.param(
            {"CC": "echo -m64"}, "it ended with exit status 0, but made no probe.o: no compiler does", marks=needs("echo")
        ),
        ({"CC": "gcc '"}, 'CC is "gcc \'", which is no command line: No closing quotation'),
        ({"CC": "/bin/false"}, "it ended with exit status 1"),
        ({"DMLGATHER_PURE": "yes"}, "DMLGATHER_PURE is 'yes', expected 1 (no engine) or 0"),
        ({"DMLGATHER_TARGET": "win32"}, "DMLGATHER_TARGET is 'win32', expected one of manylinux_2_17_x86_64, "),
    ],
)
def test_a_failed_build_is_explained_without_a_traceback(variables: dict[str, str], message: str) -> None:
    done = hatchling("-c", REQUIREMENTS, **variables)
    printed = done.stdout + done.stderr
    assert done.returncode == 1
    assert f"dmlgather: {message}" in printed or ("CC" in variables and message in printed and WITHOUT in printed)
    assert "Traceback" not in printed


def test_a_compile_error_is_shown_with_its_remedy(tmp_path: Path) -> None:
    failing = "sys.exit('plan.c: wrong' if sys.argv[-4].endswith('plan.c') else 0)"
    path = compiler(tmp_path, f"import sys; open(sys.argv[-1], 'w').close(); {failing}")
    # The probe's compiler and linker succeed, and nobody checks their output.
    done = hatchling("-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path), CC=f"{path}/cc")
    assert done.returncode == 1
    assert "dmlgather: the CPU engine cannot be built: " in done.stdout + done.stderr
    assert f"plan.c: wrong\nMend that, {WITHOUT}" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    done = hatchling("-m", "hatchling", "build", "-t", "sdist", "-d", str(folder))
    assert done.returncode == 0, done.stdout + done.stderr
    return next(folder.glob("*.tar.gz"))


@pytest.mark.slow
def test_a_source_distribution_contains_all_that_the_build_needs(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"cpu_kernels/{name}" for name in SOURCES} | {"hatch_build.py", "pyproject.toml"} <= names
    assert not {f"{FOLDER}/{name}" for name in LIBRARIES} & names


@pytest.fixture
def checkout(sdist: Path, tmp_path: Path) -> Path:
    """Return an unpacked source distribution with an engine, like a checkout that is installed for editing."""
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    (folder / FOLDER / LIBRARIES[0]).touch()
    return folder


@pytest.mark.slow
def test_a_pure_wheel_has_no_engine_and_fits_any_platform(checkout: Path, tmp_path: Path) -> None:
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--wheel-dir", str(tmp_path)]
    done = hatchling("-m", "pip", "wheel", *options, str(checkout), DMLGATHER_PURE="1")
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        tags = email.message_from_bytes(archive.read(next(name for name in names if name.endswith("/WHEEL"))))
    assert not [name for name in names if name.endswith(LIBRARIES)]
    assert tags["Root-Is-Purelib"] == "true"


def test_a_pure_editable_installation_removes_the_engine(checkout: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel:editable", "-d", str(tmp_path)]
    subprocess.run(command, cwd=checkout, env=os.environ | {"DMLGATHER_PURE": "1"}, capture_output=True, check=True, timeout=120)
    assert not (checkout / FOLDER / LIBRARIES[0]).exists()
