"""A sample of what ci/kernels does for every kernel and architecture: NVRTC without a GPU, a driver or CuPy."""

from __future__ import annotations

import pytest

from dmlgather.backends.cuda.sources import kernel_source
from dmlgather.backends.cuda.variants import VARIANTS, Kind, Variant
from tests.kernels import matrix, nvrtc, sass

SAMPLE = (
    Variant(Kind.GATHER, 2, 16, lookups=1, index_bytes=8, checked=False, invariant=True),
    Variant(Kind.GATHER, 2, 16, lookups=1, index_bytes=8, checked=False, invariant=False),
    Variant(Kind.GATHER, 3, 4, lookups=2, index_bytes=4, checked=True, invariant=False),
    Variant(Kind.COPY, 3, 16),
    Variant(Kind.REVERSE, 3, 1),
    Variant(Kind.TRANSPOSE, 4, 4),
    Variant(Kind.GENERAL, element_bytes=8),
)


@pytest.mark.parametrize("variant", SAMPLE, ids=lambda variant: variant.name)
def test_a_kernel_compiles_alone_within_its_record_and_in_order(variant: Variant) -> None:
    assert variant in VARIANTS
    compiled = nvrtc.compile_source(kernel_source(variant), sass.ARCHITECTURE)
    assert set(compiled.usage) == {variant.name}
    assert list(matrix.usage_problems(sass.ARCHITECTURE, compiled.usage)) == []
    code = sass.disassemble(compiled.cubin)[variant.name]
    assert [step for step in code if step.memory], "the disassembly is read"
    assert list(sass.complaints(variant, code)) == []


def test_spills_and_growth_are_problems() -> None:
    name = SAMPLE[0].name
    spilled = {name: nvrtc.Usage(registers=20, stack=8, spills=8)}
    grown = {name: nvrtc.Usage(registers=200, stack=0, spills=0)}
    assert ["8 bytes of spills" in problem for problem in matrix.usage_problems("sm_90", spilled)] == [True]
    assert ["200 registers" in problem for problem in matrix.usage_problems("sm_90", grown)] == [True]


def test_the_record_covers_every_kernel_and_architecture() -> None:
    record = matrix.record()["registers"]
    assert set(record) == set(nvrtc.ARCHITECTURES)
    assert all(set(kernels) == {variant.name for variant in VARIANTS} for kernels in record.values())


def test_a_division_is_a_complaint() -> None:
    variant = SAMPLE[1]
    divided = kernel_source(variant).replace("(static_cast<u64>(n) * multiplier) >> shift", "n / multiplier")
    assert divided != kernel_source(variant)
    code = sass.disassemble(nvrtc.compile_source(divided, sass.ARCHITECTURE).cubin)[variant.name]
    assert any("MUFU" in problem for problem in sass.complaints(variant, code))


@pytest.mark.parametrize(("first", "second"), [(0, 4), (3, 4), (7, 8)], ids=["index after all", "payload early", "store early"])
def test_accesses_out_of_order_are_complaints(first: int, second: int) -> None:
    """The long path of this kernel loads four indices, loads four elements and stores them."""
    variant = SAMPLE[1]
    code = sass.disassemble(nvrtc.compile_source(kernel_source(variant), sass.ARCHITECTURE).cubin)[variant.name]
    accesses = [number for number, step in enumerate(code) if step.memory][-12:]
    one, other = accesses[first], accesses[second]
    code[one], code[other] = code[other], code[one]
    assert any("no path accesses memory in the order" in problem for problem in sass.complaints(variant, code))


def test_an_error_shows_the_log() -> None:
    with pytest.raises(nvrtc.CompilationError, match=r"sm_90:[\s\S]*error: [\s\S]*nonsense"):
        nvrtc.compile_source("nonsense", "sm_90")
