"""The threads of the CPU engine under ThreadSanitizer, AddressSanitizer and UBSan; and proof that a broken pool is noticed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import built
from tests.cpu_kernels.building import ADDRESS, KERNELS, LIBRARY, THREAD, program, zig

DRIVER = "pool_driver.c"
OPTIONS = {"TSAN_OPTIONS": "atexit_sleep_ms=0", "ASAN_OPTIONS": "detect_stack_use_after_return=1"}


def driven(driver: Path, *words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """What the driver did. It ends by itself after 60 seconds."""
    known = {name: value for name, value in os.environ.items() if name != "DMLGATHER_NUM_THREADS"}
    return subprocess.run(
        [driver, *map(str, words)], capture_output=True, text=True, check=False, env={**known, **OPTIONS, **environment}
    )


def clean(driver: Path, *words: object, **environment: str) -> str:
    done = driven(driver, *words, **environment)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("flags", [THREAD, ADDRESS], ids=["thread", "address"])
@pytest.mark.parametrize("cpus", [1, 2, 8])
def test_every_part_is_executed_once_for_many_callers(flags: tuple[str, ...], cpus: int) -> None:
    """Callers that call again within a part, too, and helpers that fall asleep in between."""
    clean(program(DRIVER, flags), "storm", cpus, 8)


@pytest.mark.parametrize("flags", [THREAD, ADDRESS], ids=["thread", "address"])
def test_a_helper_takes_part_and_leaves_signals_to_others(flags: tuple[str, ...]) -> None:
    clean(program(DRIVER, flags), "meet", 2, 60)


@pytest.mark.parametrize("flags", [THREAD, ADDRESS], ids=["thread", "address"])
def test_the_caller_waits_for_no_helper_that_has_not_started(flags: tuple[str, ...]) -> None:
    clean(program(DRIVER, flags), "late", 6)


@pytest.mark.parametrize("flags", [THREAD, ADDRESS], ids=["thread", "address"])
@pytest.mark.parametrize("failures", [1, 30, 100000])
def test_threads_that_cannot_be_had(flags: tuple[str, ...], failures: int) -> None:
    """The calls go on without them; and with them when the system has some again."""
    clean(program(DRIVER, flags), "failing", 8, failures)


@pytest.mark.parametrize(("cpus", "created"), [(1, 0), (2, 1), (5, 4)])
def test_no_more_helpers_than_other_cpus(cpus: int, created: int) -> None:
    assert clean(program(DRIVER, ADDRESS), "created", cpus) == str(created)


def test_no_more_helpers_than_the_environment_allows() -> None:
    assert clean(program(DRIVER, ADDRESS), "created", 8, DMLGATHER_NUM_THREADS="3") == "2"


@pytest.mark.parametrize("flags", [THREAD, ADDRESS], ids=["thread", "address"])
@pytest.mark.parametrize("way", ["both", "awaited", "woken", "too late", "taken", "one failure"])
def test_a_thread_that_is_held_where_a_fault_would_be(flags: tuple[str, ...], way: str) -> None:
    """Each way of the driver that notices a broken pool."""
    clean(program(DRIVER, flags), way, 2, 2)


@pytest.mark.parametrize("way", ["forks", "fork within"])
def test_forks_and_an_exit_in_the_middle_of_calls(way: str) -> None:
    """Without a sanitizer: a fork copies the locks of theirs that other threads hold, and the child waits for one for ever."""
    clean(program(DRIVER, ()), way, 2 if way == "fork within" else 4, 15)


@pytest.mark.parametrize("flags", [THREAD, ADDRESS], ids=["thread", "address"])
def test_an_exit_in_the_middle_of_calls(flags: tuple[str, ...]) -> None:
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


def test_python_forks_and_exits_in_the_middle_of_calls() -> None:
    command = [sys.executable, "-W", "ignore", "-c", PYTHON, str(program(DRIVER, LIBRARY))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_one_cpu_by_affinity() -> None:
    cpus = os.sched_getaffinity(0)
    driver = program(DRIVER, ADDRESS)
    assert clean(driver, "cpus", 0) == str(len(cpus))
    one = ["taskset", "--cpu-list", str(min(cpus))]
    for way, says in (("cpus", "1"), ("created", "0")):
        done = subprocess.run([*one, driver, way, "0"], capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stdout.strip(), done.stderr) == (0, says, "")


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        *[("1", 1), ("4", 4), ("007", 7), ("5000", 5000), ("6001", 6000), ("99999999999999999999", 6000)],
        *[
            ("0", 6000),
            ("", 6000),
            ("-1", 6000),
            ("+2", 6000),
            (" 2", 6000),
            ("2 ", 6000),
            ("2x", 6000),
            ("0x2", 6000),
            ("1.5", 6000),
        ],
    ],
)
def test_the_environment_lowers_the_number_of_cpus(text: str, cpus: int) -> None:
    """What is no positive decimal integer counts as absent. More CPUs than 1024 are counted."""
    assert clean(program(DRIVER, ADDRESS), "cpus", 6000, DMLGATHER_NUM_THREADS=text) == str(cpus)


TAKE = "atomic_load(&each->call) || !atomic_compare_exchange_strong(&each->call, &none, &mine)"
JOIN = "!atomic_compare_exchange_strong(&me->state, &invited, INSIDE)"
OFFER = "IDLE)) wait_while(each, INSIDE, AWAITED);"
BOTH, FORK, MEET = ("both", 2, 2), ("fork within", 2), ("meet", 2, 1)


@dataclass(frozen=True, slots=True)
class Broken:
    """Text of pool.c, the text that breaks it, the way of the driver that notices, and what is said then."""

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
    """In every run: the driver holds threads where the fault is. The sound pool passes the same ways above."""
    broken = BROKEN[name]
    text = (KERNELS / "pool.c").read_text()
    assert text.count(broken.before) == 1
    (tmp_path / "pool.c").write_text(text.replace(broken.before, broken.after))
    (tmp_path / "pool.h").write_bytes((KERNELS / "pool.h").read_bytes())
    flags = () if broken.way is FORK else THREAD
    done = driven(program(DRIVER, (*flags, "-Wno-error"), tmp_path), *broken.way)
    assert done.returncode
    assert re.search(broken.says, done.stderr), done.stderr


WINDOWS, LINUX, MACOS = (
    ("x86_64-windows-gnu",),
    ("x86_64-linux-gnu.2.17", "aarch64-linux-gnu.2.17"),
    ("x86_64-macos", "aarch64-macos"),
)


@pytest.mark.parametrize("target", [*WINDOWS, *LINUX, *MACOS])
def test_it_compiles_for_every_platform(target: str, tmp_path: Path) -> None:
    """Without a warning."""
    built.run([*zig(target), "-O2", "-c", str(KERNELS / "pool.c"), "-o", str(tmp_path / "pool.o")])
