"""The table of variants, the entry points and the argument block agree."""

from __future__ import annotations

import re
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest

from dmlgather import files
from dmlgather.backends.cuda.arguments import CONSTANTS_OFFSET, LAYOUT, POINTERS
from dmlgather.backends.cuda.driver import kernel_folder, kernel_source, unit_source
from dmlgather.backends.cuda.variants import BLOCK, GENERAL_UNROLL, SPAN_UNROLL, VARIANTS, VECTOR
from tests.kernels.ptx.machine import Buffer
from tests.kernels.ptx.runs import AS_WRITTEN, module_of
from tests.kernels.units import KERNELS, UNITS, unit_text


def test_the_variants_are_few_and_their_names_unique() -> None:
    assert len(VARIANTS) <= 220
    assert len({variant.name for variant in VARIANTS}) == len(VARIANTS)


@pytest.mark.parametrize("unit", UNITS)
def test_every_unit_has_exactly_the_declared_entry_points(unit: str) -> None:
    assert (KERNELS / unit).read_text() == unit_text(unit), "run ci/kernels --write"


def test_there_are_no_other_units() -> None:
    assert {path.name for path in KERNELS.glob("*.cu")} == set(UNITS)


def test_constants_are_equal_in_python_and_cuda() -> None:
    headers = "".join(path.read_text() for path in KERNELS.glob("*.cuh"))
    assert f"BLOCK = {BLOCK};" in headers
    assert f"GENERAL_UNROLL = {GENERAL_UNROLL};" in headers
    assert f"SPAN_UNROLL = {SPAN_UNROLL};" in headers
    assert f"VECTOR = {VECTOR};" in headers


def compilers_offsets() -> list[int]:
    """Return the offsets of the fields of `Arguments`, then its size, from a kernel that NVRTC compiled."""
    fields = ", ".join(f"__builtin_offsetof(Arguments, {name})" for name, _ in LAYOUT)
    count = len(LAYOUT) + 1
    source = f"""{unit_source("arguments.cuh")}
struct To {{ u64* offsets; }};
extern "C" __global__ void layout(const To to) {{
    constexpr u64 offsets[] = {{{fields}, sizeof(Arguments)}};
#pragma unroll
    for (int i = 0; i < {count}; ++i) to.offsets[i] = offsets[i];
}}
"""
    found = np.zeros(count, np.uint64)
    to = Buffer(2**32 - 64, found.view(np.uint8), writable=True)
    module_of(source, AS_WRITTEN.architecture).launch("layout", 1, struct.pack("<Q", to.address), [to], block=1)
    return [int(offset) for offset in found]


def test_the_argument_block_has_the_compilers_offsets() -> None:
    offsets = [struct.calcsize("<" + "".join(code for _, code in LAYOUT[:count])) for count in range(len(LAYOUT) + 1)]
    assert offsets == compilers_offsets()
    assert {AS_WRITTEN.module(variant).routine(variant.name).parameter_bytes for variant in VARIANTS[::20]} == {offsets[-1]}
    names = [name for name, _ in LAYOUT]
    assert names[:4] == ["in", "indices", "out", "first_bad"]
    assert POINTERS.size == offsets[names.index("table")] == CONSTANTS_OFFSET


def test_a_kernels_source_has_one_entry_point_and_no_includes() -> None:
    for variant in VARIANTS:
        source = kernel_source(variant)
        assert "#include" not in source
        assert source.isascii(), "CuPy writes it in the locale's encoding"
        entries = [line for line in source.splitlines() if re.match(r"[A-Z]+\(\w", line)]
        assert entries == [variant.line]


def test_an_installed_package_uses_the_folder_inside_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "dmlgather"
    monkeypatch.setattr(files, "_PACKAGE", package)
    with pytest.raises(FileNotFoundError, match=r"is neither at .*cuda_kernels \(wheel\) nor at .*cuda_kernels \(checkout\)"):
        kernel_folder()
    shutil.copytree(KERNELS, package / "cuda_kernels")
    assert kernel_folder() == package / "cuda_kernels"
