"""Faults that the simulated GPU notices, and programs that it allows. Each check is removed once, which its program shows."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import processes
from tests.simcuda import library

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        os.environ.get("SIMCUDA_LATE") != "1", reason="programs say what is simulated; one run of ci/heavy gpu is enough"
    ),
]

ABORTED, STOPPED = -signal.SIGABRT, -signal.SIGSEGV

ENDS: dict[str, tuple[int, str]] = {
    "an_access_one_byte_beyond": (ABORTED, "accesses 1 bytes at .*, outside every buffer .byte 40 of the 40 "),
    "use_after_free": (ABORTED, "outside every buffer .*which was freed"),
    "an_address_that_is_not_aligned": (ABORTED, "which is not a multiple of 4"),
    "the_host_reads_device_memory": (STOPPED, ""),
    "a_race_in_shared_memory": (ABORTED, "as thread 1 does without a barrier between them"),
    "memory_of_another_device": (ABORTED, "on device 0.*without peer access from device 1"),
}
"""Endings of programs that fail, and their messages."""

SETTINGS: dict[str, dict[str, int]] = {
    "a_fault_is_an_error_of_the_device": {"sticky": 1},
    "a_driver_that_is_too_old_for_the_ptx": {"ptx": 7},
}

ALLOWED = (
    "correct_kernels",
    "warps_synchronise",
    "a_captured_graph",
    "functions_of_the_host",
    "a_fault_is_an_error_of_the_device",
)
"""Programs that pass without any check."""

LEFT_OUT = {
    "an_access_one_byte_beyond": ("memory.h", "bytes <= size - (at - address)", "bytes <= size + 1 - (at - address)"),
    "use_after_free": ("allocations.cpp", "    live.erase(found);\n", ""),
    "a_free_of_what_is_free": ("allocations.cpp", "    live.erase(found);\n", ""),
    "an_address_that_is_not_aligned": ("accesses.cpp", "to[lane] % size", "false"),
    "the_host_reads_device_memory": ("allocations.cpp", "REGION, PROT_NONE", "REGION, PROT_READ | PROT_WRITE"),
    "a_race_in_shared_memory": ("memory.h", "return other == thread ||", "return true || other == thread ||"),
    "shared_memory_over_the_limit": ("modules.cpp", "if (shape.shared > function.most_dynamic) {", "if (false) {"),
    "grids_and_blocks_over_the_limits": ("modules.cpp", "    if (!fits) {", "    if (!threads) {"),
    "a_parameter_too_short": ("modules.cpp", "if (size < bytes.size())", "if (!size)"),
    "a_launch_on_a_destroyed_stream": ("streams.cpp", "    handles.erase(stream.get());\n", ""),
    "memory_of_another_device": (
        "modules.cpp",
        "return allocation.kind != Kind::Device ||",
        "return true || allocation.kind != Kind::Device ||",
    ),
    "memory_is_bounded": ("allocations.cpp", "if (used[device] + size > settings.memory)", "if (false)"),
    "a_copy_that_says_the_wrong_way": ("allocations.cpp", "    if (direction == Direction::Default) return;", "    return;"),
    "a_driver_that_is_too_old_for_the_ptx": ("modules.cpp", "    check_version(image);\n", ""),
    "a_wait_left_out": ("streams.cpp", "NodeType::Empty, {*event.recorded});", "NodeType::Empty);"),
    "blocking_streams_wait_for_the_legacy_one": (
        "streams.cpp",
        "    order_with_legacy(stream, after);\n    if (settings.trace)",
        "    if (settings.trace)",
    ),
    "an_array_let_go_too_early": ("streams.cpp", "NodeType::Empty, {*event.recorded});", "NodeType::Empty);"),
    "a_copy_between_devices_that_does_not_wait": ("streams.cpp", "if (settings.late == 0)", "if (settings.late < 2)"),
    "memory_of_the_host": ("allocations.cpp", "    if (!read && kept && !stream->capture) {", "    if (false) {"),
    "calls_that_captures_forbid": ("captures.cpp", "    capture.invalid = true;\n    fail(status", "    fail(status"),
}
"""A check of the device, by the program that needs it: the file, the replaced text, and its replacement."""

FORGOTTEN = {"forget_to_wait": "the_library_waits_for_who_lends", "forget_to_keep": "the_library_keeps_what_it_was_lent"}
"""Precautions of the library, and the program that needs each. The device only has to work late."""


def run(names: list[str], path: Path | None = None) -> subprocess.CompletedProcess[str]:
    settings = SETTINGS.get(names[-1], {})
    environment = library.environment(late=1, path=path, **settings)
    environment.pop("CUPY_CUDA_PER_THREAD_DEFAULT_STREAM", None)  # the programs choose their stream themselves
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-m", "tests.simcuda.programs", *names]
    return processes.run(command, env=environment, timeout=300)


def ends_well(name: str, done: subprocess.CompletedProcess[str]) -> bool:
    """Return True if the program has ended as expected."""
    status, said = ENDS.get(name, (0, ""))
    return done.returncode == status and re.search(said, done.stdout + done.stderr) is not None


@pytest.mark.parametrize("name", [*ALLOWED, *LEFT_OUT, *FORGOTTEN.values()])
def test_a_program_ends_as_it_must(name: str) -> None:
    done = run([name])
    assert ends_well(name, done), f"it ended with {done.returncode}:\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("name", LEFT_OUT)
def test_a_program_fails_without_its_check(name: str) -> None:
    assert not ends_well(name, run([name], library.broken(*LEFT_OUT[name])))


@pytest.mark.parametrize(("forgetting", "name"), FORGOTTEN.items(), ids=FORGOTTEN)
def test_a_library_that_does_not_wait_or_keep_is_noticed(forgetting: str, name: str) -> None:
    done = run([forgetting, name])
    assert done.returncode == 1, done.stderr
    assert "AssertionError" in done.stderr
