"""Ctrl-C ends the command with 130 and never by the signal, wherever it comes: each place is forced, not waited for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import processes
from tests.cli.command import EXAMPLES, ROOT
from tests.cli.interrupting import start
from tests.onnx_checking.modelling import saved

PRESS = """
import os, signal, sys
def press(kill=os.kill, own=os.getpid(), number=signal.SIGINT):
    kill(own, number)
"""
"""The real signal, from inside the process."""


def ended(before: str, *arguments: object, heeding: bool = True) -> tuple[int, str]:
    """How the command ended, and what it said. before: Python that runs before it."""
    with start(*arguments, before=PRESS + before, heeding=heeding, stdout=subprocess.DEVNULL) as running:
        assert running.stderr is not None
        return running.wait(120), running.stderr.read().decode()


IMPORTING = """
class Pressing:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            sys.meta_path.remove(self)
            press()
sys.meta_path.insert(0, Pressing())
"""


@pytest.mark.parametrize(
    "module", ["dmlgather.cli.app", "typer", "numpy", "pydantic", "dmlgather.directml.dxdispatch.model_file"]
)
def test_while_modules_are_imported(module: str) -> None:
    """Nothing but the entry point itself is imported before interrupts are heeded."""
    assert ended(IMPORTING.format(name=module), "check", EXAMPLES) == (130, "dmlgather: interrupted\n")


WORKING = """
import dmlgather.cli.levels
def table(*_):
    {}
dmlgather.cli.levels.table = table
"""


def test_while_the_command_works() -> None:
    assert ended(WORKING.format("press()"), "levels") == (130, "dmlgather: interrupted\n")


def test_where_python_drops_exceptions() -> None:
    """The command runs to its end, which is not then what was asked for."""
    dropping = "class Dropping:\n        __del__ = lambda self: press()\n    Dropping()\n    return 'nothing'"
    code, said = ended(WORKING.format(dropping), "levels")
    assert code == 130
    assert said.endswith("dmlgather: interrupted\n")


def test_twice() -> None:
    pressing = WORKING.format("press()") + "import dmlgather.cli.app as app\napp.interrupted = press\n"
    assert ended(pressing, "levels") == (130, "dmlgather: interrupted\n")


AT_EXIT = """
import atexit
class Later:
    def find_spec(self, name, path=None, target=None):
        if name == "dmlgather.cli.app":
            atexit.register(press)
sys.meta_path.insert(0, Later())
"""
THREAD = """
import threading
def run():
    threading.main_thread().join()
    press()
threading.Thread(target=run).start()
"""
TEARDOWN = """
class Last:
    def __del__(self, press=press):
        press()
sys.last_of_all = Last()
"""


PLACES = [AT_EXIT, "import atexit; atexit.register(press)", THREAD, TEARDOWN]


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("arguments", "code"), [(("levels",), 0), (("levels", "--unknown"), 2)])
def test_after_the_command_its_own_code_stays(place: str, arguments: tuple[str, ...], code: int) -> None:
    found, said = ended(place, *arguments)
    assert found == code
    assert "Traceback" not in said
    assert "Exception ignored" not in said


@pytest.mark.parametrize("place", PLACES)
def test_pressed_again_while_the_process_ends(place: str) -> None:
    assert ended(place + WORKING.format("press()"), "levels") == (130, "dmlgather: interrupted\n")


STOPPED = """
import dmlgather.child_process as made
start = made.start_python
def stopped(*arguments, **options):
    child = start(*arguments, **options)
    os.kill(child.pid, signal.SIGSTOP)
    child.stdout = Announced(child.stdout, child.pid)
    return child
class Announced:
    def __init__(self, pipe, pid):
        self.close, self.pipe, self.pid = pipe.close, pipe, pid
    def read(self, size):
        print(self.pid, file=sys.stderr, flush=True)
        return self.pipe.read(size)
made.start_python = stopped
"""
"""A child process is stopped as soon as it runs; its number is printed once the command waits for it."""


def test_while_a_child_process_is_waited_for(tmp_path: Path) -> None:
    saved(tmp_path, "g (float[4,2] x, int64[2] i) => (float[2,2] y) { y = Gather(x, i) }")
    with start("check", "model.onnx", before=PRESS + STOPPED, cwd=tmp_path, start_new_session=True) as running:
        assert running.stderr is not None
        child = int(running.stderr.readline())
        os.killpg(running.pid, signal.SIGINT)  # as a terminal does
        said = running.stderr.read().decode()
        assert running.wait(60) == 130
    assert said == "dmlgather: interrupted\n"
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_a_caller_who_ignores_it_is_obeyed() -> None:
    ignoring = "signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + WORKING.format("press()\n    return 'nothing'")
    assert ended(ignoring, "levels", heeding=False)[0] == 0


def test_next_to_nothing_runs_before_interrupts_are_heeded() -> None:
    """What is imported before is not covered: Python's own start, and these."""
    script = "import sys; before = set(sys.modules); import dmlgather.cli; print(sorted(set(sys.modules) - before))"
    done = processes.run([sys.executable, "-S", "-c", script], env={"PYTHONPATH": str(ROOT)}, timeout=60, check=True)
    assert done.stdout == "['__future__', 'dmlgather', 'dmlgather.cli', 'dmlgather.package']\n"
