"""g++ and clang compile the header without warnings, with every edition of DirectML.h, and with windows.h."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dmlgather.cli.header import FOLDER
from tests import processes
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
def test_the_header_compiles_with_every_directml(compiler: Callable[[], list[str]], version: int, tmp_path: Path) -> None:
    source = tmp_path / "use.cpp"
    source.write_text(USE)
    include = () if version < 0x6400 else ("-include", "DirectML.h")
    compiled(compiler(), f"-DDML_TARGET_VERSION={version:#x}", *include, "-c", source, "-o", tmp_path / "use.o")


@pytest.mark.slow
@pytest.mark.parametrize("compiler", [gcc, clang])
def test_the_test_program_compiles(compiler: Callable[[], list[str]], tmp_path: Path) -> None:
    compiled(compiler(), "-c", HERE / "program.cpp", "-o", tmp_path / "program.o")


@pytest.mark.slow
def test_the_header_compiles_beside_windows_h(tmp_path: Path) -> None:
    """MinGW's windows.h has the macros and types for a 64-bit Windows."""
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
"""Code around the line in DirectMLX.h that creates operators: a member that owns the device, and a macro around the call."""


@pytest.mark.slow
@pytest.mark.parametrize("compiler", [gcc, clang])
def test_the_documented_line_for_directmlx_compiles(compiler: Callable[[], list[str]], tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "moving-off-directml.md").read_text(encoding="utf-8")
    (line,) = [line for line in page.splitlines() if line.startswith("DMLX_THROW_IF_FAILED")]
    assert "GraphBuilder::CreateOperatorNode" in page
    (tmp_path / "graphs.cpp").write_text(GRAPHS.replace("LINE", line))
    compiled(compiler(), "-c", tmp_path / "graphs.cpp", "-o", tmp_path / "graphs.o")


@pytest.mark.slow
def test_two_units_of_a_program_may_include_the_header(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / f"{name}.cpp").write_text(USE.replace("first_use", f"{name}_use"))
    (tmp_path / "main.cpp").write_text("int main() { return 0; }\n")
    compiled(gcc(), *(tmp_path / f"{name}.cpp" for name in ("first", "second", "main")), "-o", tmp_path / "both")


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        pytest.param(["-std=c++17"], "DirectML.h: include it before", id="without DirectML.h"),
        pytest.param(["-std=c++14", f"-I{LAYOUT}"], "C++17: compile with -std=c++17", id="C++14"),
    ],
)
def test_a_missing_requirement_is_named(options: list[str], advice: str, tmp_path: Path) -> None:
    source = tmp_path / "use.cpp"
    source.write_text(USE)
    command = [*gcc(), *options, f"-I{FOLDER}", "-fsyntax-only", str(source)]
    done = processes.run(command)
    assert done.returncode
    assert f"dmlgather_dump.h needs {advice}" in done.stderr
