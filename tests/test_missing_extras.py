"""What a package offers where the package that an extra installs is missing: in processes of their own, with it blocked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

CASES = {"onnx": ("onnx", "Backend", "gather"), "dask": ("distributed", "slice", "plan_gather")}
"""By the missing package: the face, a name that needs it, and one that does not."""


def said(missing: str, code: str) -> str:
    """What the code prints, with `face`, `name` and `other` replaced."""
    face, name, other = CASES[missing]
    for word, meant in (("FACE", face), ("NAME", name), ("OTHER", other)):
        code = code.replace(word, meant)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", f"import sys; sys.modules[{missing!r}] = None\n{code}"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("missing", CASES)
def test_a_name_that_is_missing_is_absent(missing: str) -> None:
    said(
        missing,
        "import inspect, pydoc, dmlgather as dg\n"
        "assert not hasattr(dg.FACE, 'NAME') and hasattr(dg.FACE, 'OTHER')\n"
        "assert getattr(dg.FACE, 'NAME', 7) == 7\n"
        "assert 'NAME' not in dir(dg.FACE) and 'OTHER' in dir(dg.FACE)\n"
        "assert 'OTHER' in dict(inspect.getmembers(dg.FACE))\n"
        "assert 'OTHER(' in pydoc.render_doc(dg.FACE, renderer=pydoc.plaintext)",
    )


@pytest.mark.parametrize("missing", CASES)
def test_a_star_import_takes_the_others(missing: str) -> None:
    said(missing, "from dmlgather.FACE import *\nassert callable(OTHER) and 'NAME' not in globals()")


@pytest.mark.parametrize("missing", CASES)
@pytest.mark.parametrize("statement", ["from dmlgather.FACE import NAME", "from dmlgather.FACE import OTHER, NAME as other"])
def test_an_import_by_name_says_what_to_install(missing: str, statement: str) -> None:
    printed = said(missing, f"try: {statement}\nexcept ModuleNotFoundError as error: print(error, error.name.partition('.')[0])")
    face, name, _ = CASES[missing]
    remedy = f"pip install 'dmlgather[{missing}]'"
    assert printed == f"dmlgather.{face}.{name} needs the package {missing}, which is not installed: {remedy} {missing}\n"


@pytest.mark.parametrize("missing", CASES)
def test_so_does_an_attribute(missing: str) -> None:
    printed = said(missing, "import dmlgather as dg\ntry: dg.FACE.NAME\nexcept AttributeError as error: print(error)")
    assert printed.endswith(f"needs the package {missing}, which is not installed: pip install 'dmlgather[{missing}]'\n")


def test_with_everything_installed_nothing_is_left_out() -> None:
    import dmlgather as dg

    assert "Backend" in dg.onnx.__all__
    assert {"gather", "gather_elements", "run", "slice"} < set(dg.distributed.__all__)
