"""Files that `jax.export` wrote, read in a process of its own: JAX's reader checks little, so that damaged ones make it crash, or
never end.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from dmlgather.child_process import TIMER_SIGNAL, WAIT, end, start_python
from dmlgather.dialects.index_graph import IndexGraph
from dmlgather.files import FileError, open_regular
from dmlgather.limits import MEGABYTE, MEMORY, SECONDS, data_limited, inherit_no_limit


def exported_graph(path: Path) -> IndexGraph:
    """The graph of the function in a file. FileError, without the path, for what is no such file, has sizes that are symbols, or
    an operation that gathers, slices and views do not need, and where reading takes more than 5 seconds of a processor or 350 MB
    per megabyte of the file, 5 seconds and 350 MB at least. ModuleNotFoundError without JAX.
    """
    with open_regular(path) as (file, _):
        content = file.read()
    megabytes = max(len(content) / MEGABYTE, 1.0)
    seconds, memory = SECONDS * megabytes, int(MEMORY * megabytes)
    process = start_python("-c", f"from {__name__} import serve; serve({seconds}, {memory})", errors=subprocess.DEVNULL)
    try:
        answer, _ = process.communicate(content, WAIT * seconds)
    except subprocess.TimeoutExpired:
        answer, late = b"", True
    else:
        late = process.returncode < 0 and -process.returncode == TIMER_SIGNAL
    finally:
        end(process)
    if late:
        raise FileError(f"takes more than {seconds:.3g} seconds to read, or is damaged so that reading it never ends")
    if not answer:
        raise FileError(f"holds no function that jax.export wrote, or a damaged one: JAX's reader crashed ({process.returncode})")
    found: IndexGraph | Exception = pickle.loads(answer)
    if isinstance(found, Exception):
        raise found
    return found


def serve(seconds: float, memory: int) -> None:
    """What the process runs: read a file's content at standard input, and write its graph, or what was raised, to standard
    output. seconds: of a processor, after which the process ends. memory: bytes, beyond what JAX takes.
    """
    os.environ["JAX_PLATFORMS"] = "cpu"  # a GPU's memory would be reserved
    inherit_no_limit()
    content, answers = sys.stdin.buffer.read(), os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # native code that prints must not print into an answer
    found: Any
    try:
        import jax.export

        from dmlgather.lax.tracing.exported_functions import exported_graph

        jax.devices()  # which starts threads
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_PROF, seconds)
        with data_limited(memory):
            found = exported_graph(content)
    except (FileError, ModuleNotFoundError) as error:
        found = error
    except MemoryError:
        found = FileError(f"takes more than {memory // MEGABYTE} MB of memory to read")
    except RecursionError:
        found = FileError("is nested too deeply")
    answers.write(pickle.dumps(found))
    answers.close()
