"""Mutated folders of conformance cases with their results."""

from __future__ import annotations

import json
import random
import shutil
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from conformance.case_files import MODELS, RESULTS
from conformance.case_writing import write_cases
from conformance.manifest import FILE
from dmlgather import __version__
from dmlgather.directml import FeatureLevel
from dmlgather.directml.dxdispatch.model_file import check_file
from dmlgather.model_runner import Runner
from tests.fuzzing.mutating import LARGEST, changed, flipped


def whole_cases(folder: Path) -> Path:
    """Write a folder of conformance cases with the CPU's results of those that break no rule."""
    write_cases(folder, 12, FeatureLevel.LEVEL_6_4, 1, __version__)
    (folder / RESULTS).mkdir()
    for model in sorted((folder / MODELS).glob("*.json")):
        checked = check_file(model)
        runs = checked.ok and not checked.refusals
        if runs:
            assert list(Runner(checked, "cpu", folder).run())
        (folder / RESULTS / f"{model.stem}.exit").write_text("0" if runs else "1")
        (folder / RESULTS / f"{model.stem}.out").write_text("Running on 'a CPU'\n")
    return folder


def mutated_cases(draw: random.Random, whole: Path, folder: Path) -> None:
    """Write a copy of a folder of conformance cases with some files mutated, removed, copied, or replaced by links or folders.
    The manifest may state the new digests, because the author of a folder writes both.
    """
    shutil.copytree(whole, folder)
    files = sorted(path for path in folder.rglob("*") if path.suffix in (".json", ".bin", ".exit", ".out"))
    for path in draw.sample(files, draw.choice((1, 1, 3, 10))):
        other = draw.choice(files)
        if path.suffix == ".json" and draw.random() < 0.7:
            path.write_bytes(_changed_text(draw, path))
            continue
        content = flipped(draw, path.read_bytes()) if draw.random() < 0.5 else other.read_bytes() if other.is_file() else b""
        path.unlink()
        match draw.randrange(8):
            case 0:
                path.symlink_to(draw.choice((other, Path("/etc/passwd"), Path("/dev/zero"), path)))
            case 1:
                path.mkdir()
            case 2:
                path.write_bytes(draw.randbytes(draw.choice((0, 1, 4096, LARGEST))))
            case 3 | 4 | 5 | 6:
                path.write_bytes(content)
    if draw.random() < 0.7:
        _state_digests(folder)


def _changed_text(draw: random.Random, path: Path) -> bytes:
    """Return a JSON file with changed parts."""
    value = json.loads(path.read_text(encoding="utf-8"))
    for _ in range(draw.choice((1, 1, 2))):
        value = changed(draw, value)
    try:
        text = json.dumps(value).encode("utf-8", "surrogatepass")
    except RecursionError:
        return b"["
    return text if len(text) < LARGEST else b"{"


def _state_digests(folder: Path) -> None:
    """Write the files' digests into the folder's manifest, if it still has that form."""
    with suppress(ValueError, TypeError, KeyError, AttributeError, OSError):
        manifest = json.loads((folder / FILE).read_text(encoding="utf-8"))
        for case in manifest["cases"]:
            for name in case["files"]:
                path = folder / MODELS / name
                case["files"][name] = sha256(path.read_bytes() if path.is_file() else b"").hexdigest()
        (folder / FILE).write_bytes(json.dumps(manifest).encode("utf-8", "surrogatepass"))
