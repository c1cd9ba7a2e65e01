"""The kernels through CuPy's compiler and disk cache, for selected architectures. NVRTC needs no driver, loading does.

RawModule first asks the driver for the current device. So the tests call the function that RawModule calls next.
"""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dmlgather.backends.cuda import driver
from dmlgather.backends.cuda.driver import OPTIONS, kernel_source, unit_source
from dmlgather.backends.cuda.variants import VARIANTS
from tests import processes
from tests.kernels.units import UNITS

pytestmark = pytest.mark.cupy


ROOT = Path(__file__).parents[2]

ARCHITECTURES = ("75", "90", "120")


class Compiler:
    """CuPy's compiler with its cache in a folder, and without requests for a device. loaded: the machine code to load, in order.
    compiled: how often NVRTC compiled a kernel.
    """

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        import cupy._core.core
        from cupy.cuda import compiler

        self._compile, self.compiler, self._folder = cupy._core.core.compile_with_cache, compiler, folder
        self.loaded: list[bytes] = []
        self.compiled = 0
        outer = self

        class Module(compiler.function.Module):  # type: ignore[misc] # CuPy ships no types
            def load(self, code: bytes) -> None:
                outer.loaded.append(code)

        class Program(compiler._NVRTCProgram):  # type: ignore[misc] # as above
            def compile(self, *args: Any) -> Any:
                outer.compiled += bool(self.src)  # CuPy asks for NVRTC's version with an empty source
                return super().compile(*args)

        patch.setenv("CUPY_CACHE_DIR", str(folder))
        if hasattr(compiler, "_kernel_cache_backend"):  # since 14.1, which reads the variable at import
            patch.setattr(compiler, "_kernel_cache_backend", type(compiler._kernel_cache_backend)(str(folder)))
        patch.setattr(compiler, "function", SimpleNamespace(Module=Module))
        patch.setattr(compiler, "_NVRTCProgram", Program)
        patch.setattr(compiler, "_get_arch_for_options_for_nvrtc", lambda arch=None: (f"-arch=sm_{arch}", "cubin"))

    def machine_code(self, source: str, architecture: str = "90", options: tuple[str, ...] = OPTIONS) -> bytes:
        """Return the machine code that CuPy would load for RawModule(code=source, options=options)."""
        self._compile(source, options, architecture, prepend_cupy_headers=False)
        return self.loaded[-1]

    @property
    def keys(self) -> set[str]:
        return {path.name for path in self._folder.glob("*.cubin")}

    def key(self, source: str, architecture: str = "90", options: tuple[str, ...] = OPTIONS) -> str:
        """Return the new key of this source in the cache."""
        before = self.keys
        self.machine_code(source, architecture, options)
        (new,) = self.keys - before
        return new


@pytest.fixture
def nvrtc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Compiler:
    return Compiler(tmp_path / "cache", monkeypatch)


def functions(elf: bytes) -> dict[str, bytes]:
    """Return the instructions of each kernel in machine code: the sections .text.NAME of an ELF file of 64 bits."""
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    rows = [struct.unpack_from("<IIQQQQ", elf, table + number * size) for number in range(count)]
    start = rows[names][4]
    found = {}
    for name, _, _, _, offset, length in rows:
        text = elf[start + name : elf.index(b"\0", start + name)].decode()
        if text.startswith(".text."):
            found[text.removeprefix(".text.")] = elf[offset : offset + length]
    return found


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("unit", UNITS)
def test_cupy_compiles_every_kernel(nvrtc: Compiler, unit: str, architecture: str) -> None:
    found = functions(nvrtc.machine_code(unit_source(unit), architecture))
    assert set(found) == {variant.name for variant in VARIANTS if variant.unit == unit}
    assert all(found.values())


@pytest.mark.parametrize("unit", UNITS)
def test_the_options_that_cupy_adds_change_no_instruction(nvrtc: Compiler, unit: str) -> None:
    """-ftz and a default execution space do not change kernels that move bits. So ci/kernels checks a user's kernels."""
    source = kernel_source(next(variant for variant in VARIANTS if variant.unit == unit))
    alone, _ = nvrtc.compiler._NVRTCProgram(source, "kernels.cu", method="cubin").compile((*OPTIONS, "-arch=sm_90"))
    assert functions(nvrtc.machine_code(source)) == functions(alone)


def test_a_kernel_is_compiled_once_and_then_read_from_disk(nvrtc: Compiler) -> None:
    source = kernel_source(VARIANTS[0])
    first = nvrtc.machine_code(source)
    assert list(functions(first)) == [VARIANTS[0].name]
    assert (nvrtc.compiled, len(nvrtc.keys)) == (1, 1)
    assert nvrtc.machine_code(source) == first
    assert (nvrtc.compiled, len(nvrtc.keys)) == (1, 1)


def test_the_key_depends_on_everything_that_a_kernel_depends_on(nvrtc: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    variant = VARIANTS[0]
    source = kernel_source(variant)
    nvrtc.key(source)
    nvrtc.key(source, architecture="120")
    nvrtc.key(source, options=(*OPTIONS, "-lineinfo"))
    nvrtc.key(kernel_source(VARIANTS[1]))
    monkeypatch.setattr(nvrtc.compiler, "_get_nvrtc_version", lambda: (99, 1))
    nvrtc.key(source)


def test_the_key_depends_on_every_header(nvrtc: Compiler, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """CuPy compares only the given text, and reads no included file."""
    for file in driver.kernel_folder().iterdir():
        (tmp_path / file.name).write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(driver, "kernel_folder", lambda: tmp_path)
    unit_source.cache_clear()
    try:
        nvrtc.key(kernel_source(VARIANTS[0]))
        for header in sorted(tmp_path.glob("*.cuh")):
            own = max(header.read_text(encoding="utf-8").splitlines(), key=len)  # a line that occurs in no other header
            using = next(variant for variant in VARIANTS if own in unit_source(variant.unit))
            before = kernel_source(using)
            nvrtc.machine_code(before)
            header.write_text(header.read_text(encoding="utf-8") + "// changed\n", encoding="utf-8")
            unit_source.cache_clear()
            nvrtc.key(kernel_source(using))
    finally:
        unit_source.cache_clear()


PRINT_KEYS = """
import sys, pathlib, pytest
from tests.real_cupy.test_compiling import VARIANTS, Compiler, kernel_source
with pytest.MonkeyPatch.context() as patch:
    found = Compiler(pathlib.Path(sys.argv[1]), patch)
    found.machine_code(kernel_source(VARIANTS[0]))
    print(*found.keys, found.compiled)
"""


def test_the_key_is_the_same_in_every_process(tmp_path: Path) -> None:
    def printed(seed: str) -> list[str]:
        done = processes.run(
            [sys.executable, "-W", "error", "-c", PRINT_KEYS, str(tmp_path)],
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed},
            cwd=tmp_path,
            timeout=120,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.split()

    first, second = printed("1"), printed("2")
    assert first[0] == second[0]
    assert (first[1], second[1]) == ("1", "0")


def test_a_kernel_that_does_not_compile_raises_cupys_exception(nvrtc: Compiler) -> None:
    with pytest.raises(nvrtc.compiler.CompileException) as raised:
        nvrtc.machine_code(kernel_source(VARIANTS[0]) + "nonsense\n")
    assert "error: " in str(raised.value).splitlines()[0]
