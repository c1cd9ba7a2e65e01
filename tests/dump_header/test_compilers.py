"""g++ and clang take the header without a warning, in every edition of DirectML.h, and beside windows.h."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dmlgather.cli.header import FOLDER
from tests.dump_header.building import HERE, LAYOUT, clang, compiled, gcc

VERSIONS = (0x1000, 0x2100, 0x3000, 0x6400)
USE = """
#include <dmlgather_dump.h>
#include <sstream>
std::string first_use(const DML_OPERATOR_DESC& desc) {
    std::ostringstream stream;
    dmlgather::dump(desc, stream, "rows");
    return stream.str() + dmlgather::to_json(&desc);
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS, ids=hex)
@pytest.mark.parametrize("compiler", [gcc, clang])
def test_every_edition(compiler: Callable[[], list[str]], version: int, tmp_path: Path) -> None:
    source = tmp_path / "use.cpp"
    source.write_text(USE)
    include = () if version < 0x6400 else ("-include", "DirectML.h")
    compiled(compiler(), f"-DDML_TARGET_VERSION={version:#x}", *include, "-c", source, "-o", tmp_path / "use.o")


@pytest.mark.slow
@pytest.mark.parametrize("compiler", [gcc, clang])
def test_the_whole_program(compiler: Callable[[], list[str]], tmp_path: Path) -> None:
    compiled(compiler(), "-c", HERE / "program.cpp", "-o", tmp_path / "program.o")


@pytest.mark.slow
def test_beside_the_header_of_windows(tmp_path: Path) -> None:
    """The macros and types of windows.h, as MinGW has it, for a 64-bit Windows."""
    command = [sys.executable, "-m", "ziglang", "c++", "-target", "x86_64-windows-gnu", "-include", "windows.h"]
    compiled(command, "-c", HERE / "program.cpp", "-o", tmp_path / "program.obj")


GRAPHS = """
#include <DirectML.h>
#include <dmlgather_dump.h>
#include <stdexcept>
#define DMLX_THROW_IF_FAILED(_hr) if ((_hr) < 0) { throw std::runtime_error(#_hr); }
namespace dml { namespace detail {
template <typename T> struct Owner { T* held; T* operator->() const { return held; } T** operator&() { return &held; } };
struct GraphBuilder {
    Owner<IDMLDevice> m_device;
    void CreateOperatorNode(DML_OPERATOR_TYPE type, const void* desc) {
        DML_OPERATOR_DESC opDesc = { type, desc };
        Owner<IDMLOperator> op = { nullptr };
        LINE
    }
};
void use(GraphBuilder& builder) { builder.CreateOperatorNode(DML_OPERATOR_GATHER, nullptr); }
} }
"""
"""What surrounds the line in DirectMLX.h that creates operators: a member that owns the device, and a macro around the call."""


@pytest.mark.slow
@pytest.mark.parametrize("compiler", [gcc, clang])
def test_the_line_for_users_of_directmlx(compiler: Callable[[], list[str]], tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "moving-off-directml.md").read_text(encoding="utf-8")
    (line,) = [line for line in page.splitlines() if line.startswith("DMLX_THROW_IF_FAILED")]
    assert "GraphBuilder::CreateOperatorNode" in page
    (tmp_path / "graphs.cpp").write_text(GRAPHS.replace("LINE", line))
    compiled(compiler(), "-c", tmp_path / "graphs.cpp", "-o", tmp_path / "graphs.o")


@pytest.mark.slow
def test_two_units_of_a_program_may_include_it(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / f"{name}.cpp").write_text(USE.replace("first_use", f"{name}_use"))
    (tmp_path / "main.cpp").write_text("int main() { return 0; }\n")
    compiled(gcc(), *(tmp_path / f"{name}.cpp" for name in ("first", "second", "main")), "-o", tmp_path / "both")


def test_without_directml_it_says_what_is_missing(tmp_path: Path) -> None:
    source = tmp_path / "use.cpp"
    source.write_text(USE)
    command = [*gcc(), "-std=c++17", f"-I{FOLDER}", "-fsyntax-only", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode
    assert "dmlgather_dump.h needs DirectML.h: include it before" in done.stderr


def test_an_older_standard_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "use.cpp"
    source.write_text(USE)
    command = [*gcc(), "-std=c++14", f"-I{FOLDER}", f"-I{LAYOUT}", "-fsyntax-only", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode
    assert "dmlgather_dump.h needs C++17: compile with -std=c++17" in done.stderr
