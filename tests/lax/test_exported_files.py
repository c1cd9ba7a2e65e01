"""Files that `jax.export` wrote are read apart from this process: one that makes JAX's reader crash or hang is refused."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL, Popen

import pytest

import dmlgather as dg
from dmlgather.child_process import start_python
from dmlgather.files import FileError
from dmlgather.lax.tracing import exported_files
from dmlgather.lax.tracing.exported_files import exported_graph
from dmlgather.limits import Limits
from dmlgather.package import MissingExtraError
from tests import seeds
from tests.cli.command import process
from tests.lax.test_exported_functions import FUNCTIONS, IDS, X, written


@pytest.mark.slow
def test_a_file_means_what_the_function_does(tmp_path: Path) -> None:
    path = tmp_path / "f.jax"
    path.write_bytes(written(FUNCTIONS["fill"], X, IDS))
    assert dg.equivalent(FUNCTIONS["fill"], path, X, IDS)
    with Limits(memory=10_000_000).over(path):  # which are for this process, and less than JAX takes
        assert exported_graph(path).outputs


@pytest.mark.slow
def test_a_damaged_file_is_refused_or_read(tmp_path: Path) -> None:
    """Every byte may be another one; nothing but a FileError comes of it."""
    path, rng = tmp_path / "f.jax", seeds.rng()
    whole = written(FUNCTIONS["x[i]"], X, IDS)
    path.write_bytes(whole[: len(whole) // 2])
    ended = process("equivalent", path, path)
    assert (ended.code, ended.err.count("\n")) == (2, 1), ended  # what JAX prints of it is not shown
    for _ in range(3):
        changed = bytearray(whole)
        changed[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        path.write_bytes(changed)
        with suppress(FileError):
            exported_graph(path)


READER = "import os, itertools, time, dmlgather.lax.tracing.exported_files as made"
CRASHES = {
    "a crash": ("lambda _: os.abort()", "JAX's reader crashed"),
    "an end": ("lambda _: os._exit(0)", "JAX's reader crashed"),
    "no end": ("lambda _: sum(itertools.repeat(1))", "takes more than 0.2 seconds to read"),
    "no work and no end": ("lambda _: time.sleep(1000)", "takes more than 0.2 seconds to read"),
    "all memory": ("lambda _: bytes(10**10)", "takes more than 350 MB of memory to read"),
    "no such depth": ("lambda _: (_ for _ in ()).throw(RecursionError())", "is nested too deeply"),
    "no JAX": ("lambda _: __import__('jaxes')", "a function of JAX needs the package jaxes, which is not installed"),
}


@pytest.mark.slow
@pytest.mark.parametrize("how", CRASHES)
def test_a_reader_that_crashes_or_hangs(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, words = CRASHES[how]

    def start(option: str, script: str, *, errors: int) -> Popen[bytes]:
        assert errors == DEVNULL
        return start_python(option, f"{READER}\nmade.graph_of = {reader}\n{script}", errors=errors)

    monkeypatch.setattr(exported_files, "start_python", start)
    if "no end" in how:
        monkeypatch.setattr(exported_files, "SECONDS", 0.2)
        monkeypatch.setattr(exported_files, "WAIT", 10 if "no work" in how else 1000)
    path = tmp_path / "f.jax"
    path.write_bytes(b"x")
    with pytest.raises((FileError, MissingExtraError), match=words):
        dg.equivalent(path, path)
