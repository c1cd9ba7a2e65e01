"""Programs that tests build once, for all test processes."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path


def once(group: str, recipe: object, sources: Sequence[Path], name: str, build: Callable[[Path], None]) -> Path:
    """Return the file `name`. `build` writes it into a folder, once for this recipe and these sources."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "dmlgather" / group
    cache.mkdir(parents=True, exist_ok=True)
    content = b"\0".join([repr(recipe).encode(), *(path.read_bytes() for path in sources)])
    key = hashlib.sha256(content).hexdigest()[:20]
    target = cache / key / name
    with (cache / f"{key}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            with tempfile.TemporaryDirectory(dir=cache) as folder:
                build(Path(folder))
                target.parent.mkdir(exist_ok=True)
                Path(folder, name).replace(target)
    return target


def run(command: Sequence[str]) -> None:
    """Run a compiler. Raises RuntimeError with its messages if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")
