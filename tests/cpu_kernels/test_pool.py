"""The threads of the CPU engine under ThreadSanitizer, AddressSanitizer and UBSan, and broken pools that they notice."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import built, processes
from tests.cpu_kernels.building import ADDRESS, KERNELS, LIBRARY, THREAD, program, zig

DRIVER = "pool_driver.c"
OPTIONS = {"TSAN_OPTIONS": "atexit_sleep_ms=0", "ASAN_OPTIONS": "detect_stack_use_after_return=1"}


def run_driver(driver: Path, *words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Return the driver's result. The driver ends after 60 seconds at the latest."""
    known = {name: value for name, value in os.environ.items() if name != "DMLGATHER_NUM_THREADS"}
    return processes.run([driver, *map(str, words)], env={**known, **OPTIONS, **environment})


def clean(driver: Path, *words: object, **environment: str) -> str:
    done = run_driver(driver, *words, **environment)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout.strip()


SOUND: dict[str, tuple[object, ...]] = {
    **{f"each part runs once on {cpus} CPUs, also of calls within a part": ("storm", cpus, 8) for cpus in (1, 2, 8)},
    "a helper takes part and blocks signals": ("meet", 2, 60),
    "the caller waits for no helper that has not started": ("late", 6),
    **{f"{count} threads cannot start, and later ones can": ("failing", 8, count) for count in (1, 30, 100000)},
    **{f"{way}: broken pools fail": (way, 2, 2) for way in ("both", "awaited", "woken", "too late", "taken", "one failure")},
}
"""The driver's ways and their numbers. Helpers fall asleep in between."""


@pytest.mark.parametrize("flags", [THREAD, ADDRESS], ids=["thread", "address"])
@pytest.mark.parametrize("case", SOUND)
def test_the_pool_calls_every_part_without_a_race(case: str, flags: tuple[str, ...]) -> None:
    clean(program(DRIVER, flags), *SOUND[case])


@pytest.mark.parametrize(("cpus", "created"), [(1, 0), (2, 1), (5, 4)])
def test_there_are_at_most_as_many_helpers_as_other_cpus(cpus: int, created: int) -> None:
    assert clean(program(DRIVER, ADDRESS), "created", cpus) == str(created)


def test_the_environment_limits_the_number_of_helpers() -> None:
    assert clean(program(DRIVER, ADDRESS), "created", 8, DMLGATHER_NUM_THREADS="3") == "2"


@pytest.mark.parametrize("way", ["forks", "fork within"])
def test_a_process_may_fork_and_exit_during_calls(way: str) -> None:
    """This test has no sanitizer. A fork copies the locks that a sanitizer's other threads hold, so the child would wait for
    ever.
    """
    clean(program(DRIVER, ()), way, 2 if way == "fork within" else 4, 15)


@pytest.mark.parametrize("flags", [THREAD, ADDRESS], ids=["thread", "address"])
def test_a_process_may_exit_during_calls(flags: tuple[str, ...]) -> None:
    clean(program(DRIVER, flags), "forks", 4, 0, TSAN_OPTIONS="atexit_sleep_ms=0:report_thread_leaks=0")


PYTHON = """
import ctypes, os, sys, threading, time
pool = ctypes.CDLL(sys.argv[1])
ctypes.c_int.in_dll(pool, "pretended_cpus").value = 4
ctypes.c_long.in_dll(pool, "calls").value = 1 << 40
for number in range(3):
    threading.Thread(target=pool.caller, args=(number,), daemon=True).start()
time.sleep(0.02)
for _ in range(5):
    child = os.fork()
    if not child:
        pool.meetings(3)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""


def test_python_may_fork_and_exit_during_calls() -> None:
    command = [sys.executable, "-W", "ignore", "-c", PYTHON, str(program(DRIVER, LIBRARY))]
    done = processes.run(command, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_cpu_affinity_limits_the_number_of_helpers() -> None:
    cpus = os.sched_getaffinity(0)
    driver = program(DRIVER, ADDRESS)
    assert clean(driver, "cpus", 0) == str(len(cpus))
    one = ["taskset", "--cpu-list", str(min(cpus))]
    for way, says in (("cpus", "1"), ("created", "0")):
        done = processes.run([*one, driver, way, "0"], timeout=60)
        assert (done.returncode, done.stdout.strip(), done.stderr) == (0, says, "")


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        *[("1", 1), ("4", 4), ("007", 7), ("5000", 5000), ("6001", 6000), ("99999999999999999999", 6000)],
        *[(text, 6000) for text in ("0", "", "-1", "+2", " 2", "2 ", "2x", "0x2", "1.5")],
    ],
)
def test_the_environment_lowers_the_number_of_cpus(text: str, cpus: int) -> None:
    """A value that is no positive decimal integer counts as absent. More than 1024 CPUs are counted."""
    assert clean(program(DRIVER, ADDRESS), "cpus", 6000, DMLGATHER_NUM_THREADS=text) == str(cpus)


TAKE = "atomic_load(&each->call) || !atomic_compare_exchange_strong(&each->call, &none, &mine)"
JOIN = "!atomic_compare_exchange_strong(&me->state, &invited, INSIDE)"
OFFER = "IDLE)) wait_while(each, INSIDE, AWAITED);"
BOTH, FORK, MEET = ("both", 2, 2), ("fork within", 2), ("meet", 2, 1)


@dataclass(frozen=True, slots=True)
class Broken:
    """Text of pool.c, the text that breaks it, the driver's way that notices, and the message."""

    before: str
    after: str
    way: tuple[object, ...]
    says: str


BROKEN = {
    "two threads take one part": Broken(
        "[(own + k) % from->count];\n        for (int64_t part; (part = atomic_fetch_add(&of->next, 1))",
        "[k];\n        for (int64_t part; (part = of->next, two_are_here(), of->next = part + 1, part)",
        BOTH,
        "data race|mine.done",
    ),
    "one part too many": Broken("< of->end", "<= of->end", BOTH, "mine.done"),
    "the caller does not wait": Broken(OFFER, "IDLE)) {}", ("awaited", 2), "not !both.returned|data race"),
    "the caller sleeps unannounced": Broken(OFFER, OFFER.replace("AWAITED", "INSIDE"), ("awaited", 2), "not signals == 1"),
    "an offer is not taken back": Broken("int offered = INVITED;", "int offered = AWAITED;", ("too late", 2), "SEGV"),
    "a helper comes uninvited": Broken(JOIN, "atomic_exchange(&me->state, INSIDE) == AWAITED", ("too late", 2), "SEGV"),
    "a helper has two calls": Broken(
        TAKE, "none || (atomic_store(&each->call, &mine), 0)", ("taken", 2), r"not atomic_load\(&helpers\[0\].call\) == owner"
    ),
    "nobody is woken": Broken("    pthread_cond_signal(&each->changed);\n", "", ("woken", 2), "not signals > 0"),
    "signals reach helpers": Broken("sigfillset(&blocked)", "sigemptyset(&blocked)", MEET, "not !mine.unmasked"),
    "a crash is blocked": Broken("sigdelset(&blocked, SIGSEGV)", "(void)0", MEET, "not !mine.unmasked"),
    "helpers have no name": Broken("pthread_setname_np(pthread_self(), name)", "(void)name", MEET, "not strncmp"),
    "a fork is not noticed": Broken("pthread_atfork(NULL, NULL, forget)", "(void)forget", FORK, "created_threads"),
    "a thread that failed counts": Broken(
        "each->started = !pthread_create", "each->started = 1 | pthread_create", ("one failure", 2), "SEGV|created_threads"
    ),
}


@pytest.mark.heavy
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_pool_is_noticed(name: str, tmp_path: Path) -> None:
    """The driver stops threads at the fault, so every run notices it. The correct pool passes the same ways above."""
    broken = BROKEN[name]
    text = (KERNELS / "pool.c").read_text()
    assert text.count(broken.before) == 1
    (tmp_path / "pool.c").write_text(text.replace(broken.before, broken.after))
    (tmp_path / "pool.h").write_bytes((KERNELS / "pool.h").read_bytes())
    flags = () if broken.way is FORK else THREAD
    done = run_driver(program(DRIVER, (*flags, "-Wno-error"), tmp_path), *broken.way)
    assert done.returncode
    assert re.search(broken.says, done.stderr), done.stderr


LINUX, MACOS = ("x86_64-linux-gnu.2.17", "aarch64-linux-gnu.2.17"), ("x86_64-macos", "aarch64-macos")


@pytest.mark.parametrize("target", ["x86_64-windows-gnu", *LINUX, *MACOS])
def test_the_pool_compiles_for_every_platform(target: str, tmp_path: Path) -> None:
    built.run([*zig(target), "-O2", "-c", str(KERNELS / "pool.c"), "-o", str(tmp_path / "pool.o")])
