"""Faults that the interpreter reports, each in a kernel of a few lines, and correct code that it must accept."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.kernels.ptx import machine
from tests.kernels.ptx.compile import ptx_of
from tests.kernels.ptx.machine import Buffer, Module, Violation

INPUT, OUTPUT, WORD = (5 << 32) - 64, (7 << 32) - 128, 9 << 32
"""Addresses. Input and output contain a multiple of 2^32."""

HEAD = """
struct Arguments { const unsigned* in; unsigned* out; unsigned long long* word; int n; };
extern __shared__ unsigned dynamic[];
"""


def kernel(body: str) -> Module:
    source = f'{HEAD}extern "C" __global__ void tried(const Arguments a) {{ const int t = threadIdx.x; {body} }}'
    return Module(ptx_of(source), source)


def launched(module: Module, *, block: int = 64, grid: int = 1, shared: int = 256, n: int = 4) -> NDArray[np.uint32]:
    """Run a kernel over 64 words of input (their numbers), 64 words of output and one word for atomic operations."""
    data, out, word = np.arange(64, dtype=np.uint32), np.full(64, 0xCDCDCDCD, np.uint32), np.full(8, 255, np.uint8)
    buffers = [
        Buffer(INPUT, data.view(np.uint8), readable=True),
        Buffer(OUTPUT, out.view(np.uint8), writable=True),
        Buffer(WORD, word, atomic=True),
    ]
    arguments = np.array([INPUT, OUTPUT, WORD, n], np.uint64).tobytes()
    module.launch("tried", grid, arguments, buffers, block=block, shared_bytes=shared)
    return out


FAULTS = {
    "a load behind the input": ("a.out[t] = a.in[t + 1];", "accesses 4 bytes .* outside every buffer .byte 256 of the 256"),
    "a load before the input": ("a.out[t] = a.in[t - 1];", "outside every buffer"),
    "a store behind the output": ("a.out[t + 1] = t;", "outside every buffer"),
    "a load of the output": ("a.out[t] = __ldg(a.out + t) + 1;", "loads 4 bytes .* may not be read"),
    "a store to the input": ("*(unsigned*)(a.in + t) = t;", "stores 4 bytes .* may not be written"),
    "a store twice": ("a.out[t / 2] = t;", "a second time"),
    "a store twice, by two blocks": ("a.out[t] = blockIdx.x;", "block 1, thread 0.* a second time"),
    "a misaligned load": ("a.out[t] = __ldg((const unsigned*)((const char*)a.in + 2 + t));", "not a multiple of 4"),
    "a misaligned vector": (
        "const uint4 v = __ldg((const uint4*)(a.in + 1)); if (t == 0) a.out[0] = v.x;",
        "not a multiple of 16",
    ),
    "an atomic on the output": ("atomicMin((unsigned long long*)a.out, 1ull);", "atomic operation"),
    "shared memory beyond its end": ("dynamic[t + 1] = t; __syncthreads(); a.out[t] = dynamic[t];", "shared memory, beyond"),
    "shared memory that nobody wrote": (
        "if (t) dynamic[t] = t; __syncthreads(); a.out[t] = dynamic[t];",
        "no thread of the block has",
    ),
    "a read beside a write": ("dynamic[t] = t; a.out[t] = dynamic[t ^ 1];", "without a barrier"),
    "a write beside a read": (
        "dynamic[t] = t; __syncthreads(); const unsigned v = dynamic[t ^ 1]; dynamic[t] = v;"
        "__syncthreads(); a.out[t] = dynamic[t];",
        "without a barrier",
    ),
    "two writes": ("dynamic[t / 2] = t; __syncthreads(); a.out[t] = dynamic[t / 2];", "without a barrier"),
    "a barrier for half of a warp": ("if (t % 2) __syncthreads(); a.out[t] = t;", "does not reach the barrier"),
    "a barrier for one warp": ("if (t < 32) __syncthreads(); a.out[t] = t;", "does not reach the barrier"),
    "a barrier after some have left": ("if (t == 5) return; __syncthreads(); a.out[t] = t;", "does not reach the barrier"),
    "two barriers for one": (
        "if (t < 32) { __syncthreads(); a.out[t] = 1; } else { __syncthreads(); }",
        "does not reach the barrier",
    ),
    "an atomic beside a read": (
        "dynamic[t] = 0; __syncthreads(); atomicAdd(dynamic + t / 2, 1u); a.out[t] = dynamic[t / 2];",
        "without a barrier",
    ),
    "a warp that synchronises for another": (
        "dynamic[t] = t; __syncwarp(); if (t >= 32) a.out[t] = dynamic[t - 32];",
        "without a barrier",
    ),
    "lanes that do not come": (
        'if (t % 2) { asm volatile("bar.warp.sync -1;"); a.out[t] = 1; }'
        'else { asm volatile("bar.warp.sync -1;"); a.out[t] = 2; }',
        "waits for threads of its warp that never come",
    ),
    "local memory beyond its end": (
        "unsigned s[8]; for (int i = 0; i < 8; ++i) s[i] = a.in[t]; a.out[t] = s[a.in[t] + a.n - 4];",
        "local memory, beyond its end",
    ),
    "a division by zero": ("a.out[t] = t / (a.n - 4);", "divides by zero"),
}


@pytest.mark.parametrize(("body", "said"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_reported(body: str, said: str) -> None:
    grid = 2 if "blockIdx" in body else 1
    with pytest.raises(Violation, match=rf"(?s){said}"):
        launched(kernel(body), grid=grid)


def test_a_loop_without_an_end_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "MOST_INSTRUCTIONS", 1000)
    with pytest.raises(Violation, match="executes more than 1000 instructions"):
        launched(kernel("unsigned i = 1, k = 0; for (; i != 0; i += a.n) k ^= i; a.out[t] = k;"))


@pytest.mark.parametrize(
    "how",
    [{"grid": 0}, {"grid": 2**31}, {"block": 0}, {"block": 1025}, {"shared": 48 * 1024 + 1}],
    ids=lambda how: next(iter(how)),
)
def test_a_launch_that_no_device_takes_is_refused(how: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="no device launches tried: "):
        launched(kernel("a.out[t] = t;"), **how)


def test_buffers_that_overlap_are_refused() -> None:
    module, data = kernel("a.out[t] = t;"), np.zeros(256, np.uint8)
    buffers = [Buffer(OUTPUT, data, writable=True), Buffer(OUTPUT + 255, data, readable=True)]
    arguments = np.array([INPUT, OUTPUT, WORD, 0], np.uint64).tobytes()
    with pytest.raises(ValueError, match="buffers overlap"):
        module.launch("tried", 1, arguments, buffers, block=64)


def test_a_register_that_is_not_set_is_reported() -> None:
    text = kernel("a.out[t] = t;").text
    with pytest.raises(Violation, match=r"reads register %r\d+, which is not set"):
        launched(Module("\n".join(line for line in text.splitlines() if "%tid.x" not in line) + "\n"))


def test_a_report_shows_the_source() -> None:
    with pytest.raises(
        Violation, match=r"tried, block 0, thread 63: [\s\S]*PTX: ld.global[\s\S]*source, line 4: extern .C. __global__"
    ):
        launched(kernel("a.out[t] = a.in[t + 1];"))


RIGHT: dict[str, tuple[str, Callable[[int], int]]] = {
    "a copy": ("a.out[t] = a.in[t];", lambda t: t),
    "parting and meeting": (
        "unsigned v = a.in[t]; if (t % 3) v += 100; else if (t % 2) v += 7; a.out[t] = v;",
        lambda t: t + 100 if t % 3 else t + 7 if t % 2 else t,
    ),
    "a loop of different lengths": (
        "unsigned v = 0; for (int i = 0; i < t; ++i) v += a.in[i]; a.out[t] = v;",
        lambda t: t * (t - 1) // 2,
    ),
    "an early return": ("if (t > 9) return; a.out[t] = t;", lambda t: t if t <= 9 else 0xCDCDCDCD),
    "neighbours through shared memory": ("dynamic[t] = a.in[t]; __syncthreads(); a.out[t] = dynamic[63 - t];", lambda t: 63 - t),
    "reads of one byte by all": ("if (t == 0) dynamic[0] = 5; __syncthreads(); a.out[t] = dynamic[0];", lambda t: 5),
    "shuffles": (
        "unsigned v = __shfl_xor_sync(~0u, t, 5); v = v * 100 + __shfl_down_sync(~0u, t, 3);"
        "v = v * 100 + __shfl_up_sync(~0u, t, 2); a.out[t] = v * 100 + __shfl_sync(~0u, t, 7, 8);",
        lambda t: (((t ^ 5) * 100 + (t + 3 if t % 32 < 29 else t)) * 100 + (t - 2 if t % 32 > 1 else t)) * 100 + t // 8 * 8 + 7,
    ),
    "votes": (
        "a.out[t] = __popc(__ballot_sync(~0u, t % 3 == 0)) * 4 + __any_sync(~0u, t == 40) * 2 + __all_sync(~0u, t < 32);",
        lambda t: 45 if t < 32 else 46,
    ),
    "lanes that part before they vote": (
        "unsigned v = t; if (t % 3) for (int i = 0; i < t % 3; ++i) v += a.in[i];"
        "a.out[t] = __ballot_sync(~0u, v % 2) >> t % 32 & 1;",
        lambda t: (t + (t % 3 == 2)) % 2,
    ),
    "a warp that synchronises": ("dynamic[t] = t; __syncwarp(); a.out[t] = dynamic[t ^ 1];", lambda t: t ^ 1),
    "atomics in shared memory": (
        "dynamic[t] = 0; __syncthreads(); atomicAdd(dynamic + t / 4, t); __syncthreads(); a.out[t] = dynamic[t / 4];",
        lambda t: t // 4 * 16 + 6,
    ),
    "local memory": (
        "unsigned s[8]; for (int i = 0; i < 8; ++i) s[i] = a.in[(i * 3 + t) % 64]; a.out[t] = s[a.in[t] % 8];",
        lambda t: (t % 8 * 3 + t) % 64,
    ),
    "writes in turn": (
        "dynamic[t] = t; __syncthreads(); const unsigned v = dynamic[t ^ 1]; __syncthreads(); dynamic[t] = v; __syncthreads();"
        "a.out[t] = dynamic[t ^ 1];",
        lambda t: t,
    ),
}


@pytest.mark.parametrize(("body", "meaning"), RIGHT.values(), ids=RIGHT)
def test_a_right_kernel_is_not_reported(body: str, meaning: Callable[[int], int]) -> None:
    assert launched(kernel(body)).tolist() == [meaning(t) for t in range(64)]


def test_a_sparse_buffer_has_written_bytes_and_a_pattern() -> None:
    module = kernel("a.out[t] = a.in[1ull * t * a.n];")
    step = 2**31 - 1
    data = Buffer(INPUT, None, size=64 * 4 * step, readable=True)
    data.write(5 * 4 * step, b"\x01\x02\x03\x04")
    target = Buffer(OUTPUT + 2**45, None, size=64 * 4, writable=True)
    arguments = np.array([INPUT, target.address, WORD, step], np.uint64).tobytes()
    places = [INPUT + 4 * step * t + byte for t in range(64) for byte in range(4)]
    expected = machine.pattern(np.array(places, np.uint64))
    expected[20:24] = 1, 2, 3, 4
    for _ in range(2):
        module.launch("tried", 1, arguments, [data, target], block=64)
        found, stored = target.read(np.arange(256))
        assert stored.all()
        assert target.bytes_stored() == 256
        assert found.tolist() == expected.tolist()


def test_executed_instructions_are_counted() -> None:
    module = kernel("if (a.n > 100) a.out[t] = 7; else a.out[t] = a.in[t];")
    steps = module.routine("tried").instructions
    loads = [number for number, step in enumerate(steps) if step.text.startswith("ld.global")]
    assert len(loads) == 1
    launched(module, n=101)
    assert module.executed("tried")[loads[0]] == 0
    launched(module, n=4)
    assert module.executed("tried")[loads[0]] == 2, "two warps"
