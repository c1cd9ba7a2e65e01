"""Runs of bytes at any alignment: every pair of addresses in the interpreter, broken kernels, and the plan."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import gcd

import numpy as np
import pytest

from dmlgather.backends.cuda.arguments import POINTERS
from dmlgather.backends.cuda.describe import describe
from dmlgather.backends.cuda.driver import kernel_source
from dmlgather.backends.cuda.families import launches_for
from dmlgather.backends.cuda.launch import Launch
from dmlgather.backends.cuda.variants import BLOCK, SPAN_UNROLL, VECTOR, KernelKind, Variant
from dmlgather.plan import IndexPlan, OutOfBounds
from dmlgather.selftest.random_plans import random_buffers, random_runs
from tests.kernels.plans import axis_gather, fields, part, row_gather, slice_of
from tests.kernels.ptx.compile import ptx_of
from tests.kernels.ptx.draws import case_for_one_of
from tests.kernels.ptx.machine import Buffer, Module, pattern
from tests.kernels.ptx.runs import Case, judged, mismatches
from tests.noticing import BrokenPrograms

SHORTEST = 34
"""Bytes of the shortest slice that span kernels move."""


def at_addresses(number: int, rng: random.Random) -> Case:
    """Return a case with short or long runs of bytes. number: selects the addresses of input and output modulo 16."""
    while True:
        plan = random_runs(rng, element_bytes=1, longest=rng.choice((200, 6000)), packed=True)
        case = Case.at(plan, random_buffers(plan, rng), *divmod(number, 16))
        if {launch.variant.kind for launch in case.launches} == {KernelKind.SPAN}:
            return case


def runs_of_length(length: int, rng: random.Random) -> Case:
    """Return a case with rows of a slice, in chunks of one, two or four vectors per thread."""
    plan = slice_of((rng.randint(2, 2 + 20000 // length), length), (length + rng.randint(1, 20), 1), rng.randint(0, 3), 1)
    case = Case.at(plan, random_buffers(plan, rng), rng.randrange(16), rng.randrange(1, 16, 2))
    multiprocessors = rng.choice((0, 1, 2, 4, 100))
    return replace(case, launches=launches_for(plan, gcd(16, case.in_at, case.out_at), multiprocessors))


def nothing_but_fill(size: int, rng: random.Random) -> Case:
    """Return a case with rows of this size whose indices are all bad."""
    plan = replace(row_gather(5, 7, size), out_of_bounds=OutOfBounds.FILL, fill=b"\x12\x34")
    buffers = random_buffers(plan, rng)
    assert buffers.indices is not None
    buffers.indices[:] = 2**40
    return Case.at(plan, buffers, 2, 4)


def one_run(length: int, rng: random.Random, in_at: int | None = None, out_at: int | None = None) -> Case:
    """Return a case with a whole buffer of this length, so that the vectors at its ends stick out."""
    plan = IndexPlan((length,), (1,), (1,), 1, length, length)
    in_at = rng.randrange(16) if in_at is None else in_at
    return Case.at(plan, random_buffers(plan, rng), in_at, rng.randrange(1, 16, 2) if out_at is None else out_at)


def end_of_chunk(number: int, rng: random.Random) -> Case:
    """Return a case with one run whose input starts inside a vector. The number selects a last chunk of one byte, a chunk that
    ends with the run, or one that starts with it. This depends on the output's start in a line, so only an eighth of the cases
    are such.
    """
    chunk, ahead, (out_at, which) = SPAN_UNROLL * 32 * VECTOR, VECTOR * rng.randrange(8), divmod(number % 48, 3)
    length = (chunk + 1 - ahead - out_at, 2 * chunk - ahead, chunk + rng.randrange(chunk))[which]
    return one_run(length, rng, rng.randrange(1, 16, 2), 0 if which else out_at)


ADDRESSES = range(256)
ONE_RUN: dict[Callable[[int, random.Random], Case], Sequence[int]] = {
    one_run: range(SHORTEST, SHORTEST + 150),
    runs_of_length: (*range(SHORTEST, SHORTEST + 33), 1537, 2047, 2063, 10246),
    end_of_chunk: range(3 * 128),
}
"""Functions that return cases without lookups, and their numbers. Runs end at every byte of a vector."""
FILLED = 101, 3001


@pytest.mark.slow
def test_spans_are_exact_at_every_pair_of_addresses(rng: random.Random) -> None:
    assert mismatches(at_addresses(number, rng) for number in ADDRESSES) == []


def test_runs_of_every_length_and_fill_values_are_exact(rng: random.Random) -> None:
    cases = [make(number, rng) for make, numbers in ONE_RUN.items() for number in numbers]
    assert {launch.variant for case in cases for launch in case.launches} == {Variant(KernelKind.SPAN, 3, 16)}
    cases += [nothing_but_fill(size, rng) for size in FILLED]
    assert mismatches(cases) == []


def test_runs_far_behind_the_start_of_the_output_are_exact(rng: random.Random) -> None:
    """Finding runs needs quotients of more than 32 bits. The hardest chunks start with a run."""
    count, size, pitch = 2**26, 101, 103
    (launch,) = launches_for(slice_of((count, size), (pitch, 1), 1, 1))
    data, out = 2**40 + 5, 2**41 + 11
    inputs = Buffer(data, None, size=1 + (count - 1) * pitch + size, readable=True)
    outputs = Buffer(out, None, size=count * size, writable=True)
    arguments = bytearray(launch.arguments)
    POINTERS.pack_into(arguments, 0, data, 0, out, 0)
    source = kernel_source(launch.variant)
    module = Module(ptx_of(source), source)
    chunk = 32 * VECTOR * runs(launch)[1]
    first = -11 * pow(size, -1, chunk) % chunk  # the first run that starts with a chunk; the output starts at byte 11 of a line
    for run in (*(first + chunk * rng.randrange(count // chunk) for _ in range(20)), count - 3):
        offsets = np.arange(run * size, (run + 3) * size)
        block = int(offsets[0] + 11) // (chunk * BLOCK // 32)
        chosen = range(block, min(block + 2, launch.grid))
        module.launch(launch.variant.name, launch.grid, bytes(arguments), [inputs, outputs], blocks=chosen)
        content, stored = outputs.read(offsets)
        assert stored.all()
        addresses = data + 1 + offsets // size * pitch + offsets % size
        assert content.tobytes() == pattern(addresses.astype(np.uint64)).tobytes()


READABLE = "static_cast<u64>(first - a.in) <= static_cast<u64>(a.in_bytes) - 2 * VECTOR"
MUTATIONS = {
    "reads a vector behind the input": ("static_cast<u64>(a.in_bytes) - 2 * VECTOR", "static_cast<u64>(a.in_bytes) - VECTOR"),
    "reads a vector before the input": (READABLE, "first - a.in <= a.in_bytes - 2 * VECTOR"),
    "a part without its last byte": ("shift + part.high > VECTOR)", "shift + part.high > VECTOR + 1)"),
    "bytes without the first": ("if (byte > part.low) pair", "if (byte > part.low + 1) pair"),
    "writes the first vector whole": ("first = (begin + VECTOR - 1) & -VECTOR", "first = begin & -VECTOR"),
    "writes the last vector whole": ("last = end & -VECTOR", "last = (end + VECTOR - 1) & -VECTOR"),
    "a byte too many": ("byte < (lane < VECTOR ? first : end)", "byte <= (lane < VECTOR ? first : end)"),
    "no bytes at the ends": ("if (begin == first && last == end) return;", "return;"),
    "a vector before the output": (" + (lane * VECTOR < first ? WARP_BYTES : 0)", ""),
    "a run that starts a byte later": ("{next.in - rest, rest", "{next.in - rest + 1, rest"),
    "a run that ends a byte later": ("0x4444444444444444 >> (64", "0x4444444444444444 >> (60"),
    "the same run again": ("(a, place.run + 1)", "(a, place.run)"),
    "a chunk that leaves its run": ("chunk.at + SPAN_UNROLL * WARP_BYTES <= size", "chunk.at <= size"),
    "a chunk before the output": ("chunk.at >= 0 && ", ""),
    "a chunk without its only byte": ("if (left <= 0) return;", "if (left <= 1) return;"),
    "a chunk before the input": ("if (readable(a, in - shift) && ", "if ("),
    "a chunk behind the input": (" && readable(a, in - shift + (SPAN_UNROLL - 1) * WARP_BYTES)", ""),
    "shifts by whole words only": ("const u32 bits = 8 * (shift & 3);\n    return", "const u32 bits = 0;\n    return"),
    "the wrong words": ("case 2: join_all<2>", "case 2: join_all<1>"),
    "no fill value in the first run": ("if (Checked && !run.good) value", "if (false) value"),
    "no fill value in the second run": ("if (Checked && !next.good) tail", "if (false) tail"),
    "no fill value in bytes": ("Checked && !run.good ? static_cast<u8>(fill)", "false ? static_cast<u8>(fill)"),
    "no fill value inside a run": ("good ? first[u] : fill_value<VECTOR>(a.fill)", "good || true ? first[u] : uint4()"),
}
"""Text of span.cuh, and the text that breaks it."""


SOME = [Variant(KernelKind.SPAN, 3, 16), Variant(KernelKind.SPAN, 2, 16, 1, 8, checked=True)]
"""Two of the kernels to break. All share the broken text."""


def judge(name: str, seed: int) -> tuple[str, str]:
    rng = random.Random(seed)
    makers = {**ONE_RUN, nothing_but_fill: FILLED}
    make = rng.choice([*makers, None])
    case = case_for_one_of(SOME, rng) if make is None else make(rng.choice(makers[make]), rng)
    return judged(case, *MUTATIONS[name])


PROGRAMS = BrokenPrograms("tests/kernels/test_spans.py", MUTATIONS, judge)


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_kernel_is_noticed(name: str) -> None:
    PROGRAMS.check(name)


def runs(launch: Launch) -> tuple[int, int]:
    """Return the bytes of all runs, and the number of vectors that a thread moves."""
    _, all_bytes, _, steps = part(launch, "runs", "Qq2I")
    return all_bytes, steps


@pytest.mark.parametrize(
    ("plan", "alignment", "name", "steps"),
    [
        pytest.param(row_gather(30000, 10000, 2049), 16, "span_d2_k1_i8_clamp", 4, id="rows of an odd width"),
        pytest.param(row_gather(30000, 10000, 2048), 2, "span_d2_k1_i8_clamp", 4, id="arrays that start anywhere"),
        pytest.param(row_gather(30000, 10**5, 101), 16, "span_d2_k1_i8_clamp", 4, id="short rows"),
        pytest.param(row_gather(30000, 1000, 701), 16, "span_d2_k1_i8_clamp", 2, id="few rows: two vectors a thread"),
        pytest.param(row_gather(30000, 100, 101), 16, "span_d2_k1_i8_clamp", 1, id="very few rows: one vector a thread"),
        pytest.param(slice_of((10000, 2001), (2003, 1), 1, 2), 16, "span_d3", 4, id="rows of a slice"),
        pytest.param(axis_gather(128, 1024, 1024, 1001, 1), 16, "span_d3_k1_i4_clamp", 4, id="middle axis"),
        pytest.param(slice_of((192, 224, 225), (65536, 256, 1), 3, 1), 16, "span_d3", 4, id="crop"),
        pytest.param(slice_of((2**30 - 1,), (1,), 1, 1), 16, "span_d3", 4, id="one long run"),
        pytest.param(slice_of((2**29, 101), (103, 1), 1, 1), 16, "span_d3", 4, id="very many runs"),
    ],
)
def test_known_workloads_get_the_expected_span_kernel(plan: IndexPlan, alignment: int, name: str, steps: int) -> None:
    (launch,) = launches_for(plan, alignment)
    assert launch.variant.name == name
    assert runs(launch)[1] == steps
    assert (plan.elements * plan.element_bytes + 127) / 256 / 16 / steps <= launch.grid, "every vector has a thread"


@pytest.mark.parametrize(
    ("plan", "alignment", "name"),
    [
        pytest.param(row_gather(30000, 10000, 2050), 16, "gather_d2_k1_e4_i8_clamp_once", id="rows of 4-byte multiples"),
        pytest.param(row_gather(30000, 10000, 2052), 16, "gather_d2_k1_e8_i8_clamp_once", id="rows of 8-byte multiples"),
        pytest.param(row_gather(30000, 10**6, 31, 1), 16, "gather_d2_k1_e1_i8_clamp_each", id="too short"),
        pytest.param(slice_of((10**6, 101), (103, 1), 1, 2), 16, "copy_d2_e2", id="short rows of a slice"),
        pytest.param(slice_of((5, 192, 20, 225), (2**24, 65536, 256, 1), 3, 1), 16, "copy_d4_e1", id="crop of volumes"),
        pytest.param(
            replace(row_gather(30000, 10000, 2049), out_strides=(2051, 1), out_extent=2051 * 10000), 16,
            "gather_d2_k1_e2_i8_clamp_once", id="gaps in the output",
        ),
    ],
)  # fmt: skip
def test_plans_without_spans_get_other_kernels(plan: IndexPlan, alignment: int, name: str) -> None:
    assert [launch.variant.name for launch in launches_for(plan, alignment)] == [name]


def test_a_too_long_run_is_split() -> None:
    launches = launches_for(slice_of((2**33,), (1,), 1, 1))
    assert {launch.variant.name for launch in launches} == {"span_d3"}
    assert {runs(launch)[0] for launch in launches} == {2**29}
    assert len({fields(launch)["out_offset"] for launch in launches}) == len(launches) == 16


@pytest.mark.parametrize(
    ("element_bytes", "looked_up", "shortest"),
    [(1, True, 32), (2, True, 76), (2, True, 772), (1, False, SHORTEST), (2, False, 806)],
)
def test_spans_pay_from_the_modelled_length_on(element_bytes: int, looked_up: bool, shortest: int) -> None:
    """A search through the cost model finds the length. Some runs of up to 770 bytes are cheaper as a walk that cuts them into
    whole sectors, so that elements resolve an index once.
    """

    def kind(run_bytes: int) -> KernelKind:
        size = run_bytes // element_bytes
        plan = row_gather(10**5, 10**5, size, element_bytes)
        sliced = slice_of((10**5, size), (size + 1, 1), 1, element_bytes)
        return launches_for(plan if looked_up else sliced, element_bytes)[0].variant.kind

    assert kind(shortest) is KernelKind.SPAN
    assert kind(shortest - element_bytes) is (KernelKind.GATHER if looked_up else KernelKind.COPY)


def test_a_description_of_spans_says_what_a_thread_does() -> None:
    text = describe(row_gather(30000, 10000, 2049))
    assert text.startswith("span_d2_k1_i8_clamp, ")
    assert "runs of bytes by 16-byte vectors, each from two aligned ones, up to 4 per thread, indices resolved once" in text
