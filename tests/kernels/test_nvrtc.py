"""Faults that ci/kernels finds in machine code: NVRTC without a GPU, a driver or CuPy."""

from __future__ import annotations

import functools
from dataclasses import replace

import pytest

from dmlgather.backends.cuda.driver import kernel_source
from dmlgather.backends.cuda.variants import VARIANTS, KernelKind, Variant
from tests.kernels import matrix, nvrtc, sass

ONCE = Variant(KernelKind.GATHER, 2, 16, lookups=1, index_bytes=8, checked=False, invariant=True)
EACH = ONCE._replace(invariant=False)
SPAN = Variant(KernelKind.SPAN, 2, 16, lookups=1, index_bytes=8)
STAGED = Variant(KernelKind.STAGED, 0, 4, 1, 8)
LONG = Variant(KernelKind.LONG, 0, 2, 1, 8)
SQUARE = Variant(KernelKind.SQUARES, element_bytes=1, load_bytes=4, store_bytes=4)
GENERAL = Variant(KernelKind.GENERAL, element_bytes=16)
TILE = Variant(KernelKind.TILES, element_bytes=1, load_bytes=1, store_bytes=1)


def test_spills_and_more_registers_are_problems() -> None:
    name = ONCE.name
    spilled = {name: nvrtc.Usage(registers=20, stack=8, spills=8)}
    grown = {name: nvrtc.Usage(registers=200, stack=0, spills=0)}
    assert ["8 bytes of spills" in problem for problem in matrix.usage_problems("sm_90", spilled)] == [True]
    assert ["200 registers" in problem for problem in matrix.usage_problems("sm_90", grown)] == [True]


def test_the_record_covers_every_kernel_and_architecture() -> None:
    record = matrix.record()["registers"]
    assert set(record) == set(nvrtc.ARCHITECTURES)
    assert all(set(kernels) == {variant.name for variant in VARIANTS} for kernels in record.values())


def test_a_division_is_a_complaint() -> None:
    divided = kernel_source(EACH).replace("(static_cast<u64>(n) * multiplier) >> shift", "n / multiplier")
    assert divided != kernel_source(EACH)
    code = sass.disassemble(nvrtc.compile_source(divided, sass.ARCHITECTURE).cubin)[EACH.name]
    assert any("MUFU" in problem for problem in sass.complaints(EACH, code))


@functools.cache
def machine_code(variant: Variant) -> tuple[sass.Instruction, ...]:
    return tuple(sass.disassemble(nvrtc.compile_source(kernel_source(variant), sass.ARCHITECTURE).cubin)[variant.name])


def long_path(variant: Variant) -> tuple[list[sass.Instruction], list[int]]:
    """Return the machine code, and the positions of its long path's accesses."""
    code = list(machine_code(variant))
    accesses = [number for number, step in enumerate(code) if step.memory]
    if variant.kind is KernelKind.SPAN:
        return code, accesses[:13]  # an index, eight vectors, four stores
    return code, accesses[-12:]  # four indices, four elements, four stores


@pytest.mark.parametrize(
    ("variant", "first", "second"),
    [
        pytest.param(EACH, 0, 4, id="index after all"),
        pytest.param(EACH, 3, 4, id="payload early"),
        pytest.param(EACH, 7, 8, id="store early"),
        pytest.param(SPAN, 0, 1, id="a run's payload early"),
        pytest.param(SPAN, 8, 9, id="a run's store early"),
    ],
)
def test_accesses_out_of_order_are_a_complaint(variant: Variant, first: int, second: int) -> None:
    code, accesses = long_path(variant)
    assert list(sass.complaints(variant, code)) == []
    one, other = accesses[first], accesses[second]
    code[one], code[other] = code[other], code[one]
    assert any("no path accesses memory in the order" in problem for problem in sass.complaints(variant, code))


@pytest.mark.parametrize("variant", [ONCE, SPAN], ids=lambda variant: variant.name)
@pytest.mark.parametrize("access", [-5, -1], ids=["load", "store"])
def test_a_narrowed_access_is_a_complaint(variant: Variant, access: int) -> None:
    code, accesses = long_path(variant)
    wide = code[accesses[access]]
    code[accesses[access]] = replace(wide, opcode=wide.opcode.replace(".128", ".64"))
    assert wide.bytes == 16
    assert any("no path accesses memory in the order" in problem for problem in sass.complaints(variant, code))


@pytest.mark.parametrize(
    ("variant", "opcode", "mutated", "problem"),
    [
        pytest.param(GENERAL, "LDG.E.128", "LDG.E.64", "no load of 16 bytes", id="narrow loads of a general kernel"),
        pytest.param(GENERAL, "STG.E.EF.128", "STG.E.EF.64", "stores of [8] bytes", id="narrow stores of a general kernel"),
        pytest.param(STAGED, "LDG.E.128", "LDG.E.64", "four vectors at a time", id="narrow staging"),
        pytest.param(STAGED, "BAR", "NOP", "between two barriers", id="staged, no barrier"),
        pytest.param(STAGED, "LDS", "LDG", "between two barriers", id="columns from global memory"),
        pytest.param(STAGED, "STG.E.EF.128", "STG.E.EF", "not stored by vectors", id="narrow stores"),
        pytest.param(LONG, "LDG.E.128", "LDG.E.64", "in turn", id="a long row by narrow loads"),
        pytest.param(LONG, "LDG.E.64", "LDG.E", "in turn", id="narrow indices of a long row"),
        pytest.param(LONG, "BAR", "NOP", "not two barriers", id="a long row, no barrier"),
        pytest.param(LONG, "LDS", "LDG", "in turn", id="columns of a long row from global memory"),
        pytest.param(LONG, "STG.E.EF", "STG.E.EF.U16", "stores of", id="columns of a long row one by one"),
        pytest.param(TILE, "LDG.E.U8", "LDG.E", "no load of 1 bytes", id="wide loads"),
        pytest.param(TILE, "STS.U8", "LDS.U8", "wait for nothing but a barrier", id="units that do not come to shared memory"),
        pytest.param(TILE, "BAR", "NOP", "wait for nothing but a barrier", id="tile, no barrier"),
        pytest.param(TILE, "LDS.U8", "LDG.E.U8", "not only elements are read", id="elements from global memory"),
        pytest.param(TILE, "STG.E.EF.U8", "STG.E.EF", "stores of [4] bytes", id="wide stores"),
        pytest.param(SQUARE, "BAR", "NOP", "wait for nothing but a barrier", id="squares, no barrier"),
        pytest.param(SQUARE, "LDS", "LDS.U8", "not only elements are read", id="squares by elements"),
        pytest.param(SQUARE, "STG.E.EF", "STG.E.EF.U8", "stores of [1] bytes", id="squares stored by elements"),
    ],
)
def test_a_kernel_without_its_stages_is_a_complaint(variant: Variant, opcode: str, mutated: str, problem: str) -> None:
    code = machine_code(variant)
    assert list(sass.complaints(variant, list(code))) == []
    broken = [replace(step, opcode=step.opcode.replace(opcode, mutated)) for step in code]
    assert broken != list(code)
    assert any(problem in complaint for complaint in sass.complaints(variant, broken))


def test_a_compilation_error_shows_the_log() -> None:
    with pytest.raises(nvrtc.CompilationError, match=r"sm_90:[\s\S]*error: [\s\S]*nonsense"):
        nvrtc.compile_source("nonsense", "sm_90")


def test_an_empty_log_does_not_overwrite_shared_bytes() -> None:
    nvrtc.ptx('extern "C" __global__ void nothing() {}', "compute_90")
    assert [bytes([code])[0] for code in range(256)] == [*range(256)]
