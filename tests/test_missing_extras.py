"""What a package offers where the package that an extra installs is missing: in processes of their own, with it blocked."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from dmlgather import package

ROOT = Path(__file__).parents[1]

CASES = {"onnx": ("onnx", "Backend", "gather"), "dask": ("distributed", "slice", "plan_gather")}
"""By the missing package: the face, a name that needs it, and one that does not."""


def installing(extra: str) -> str:
    """What installs an extra, by pyproject.toml. An index need not have dmlgather: the message names the packages."""
    packages = sorted(stated()[extra])
    return f"pip install {' '.join(map(repr, packages))} (dmlgather's extra {extra})"


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
    needs = f"dmlgather.{face}.{name} needs the package {missing}, which is not installed"
    assert printed == f"{needs}: {installing(missing)} {missing}\n"


@pytest.mark.parametrize("missing", CASES)
def test_so_does_an_attribute(missing: str) -> None:
    printed = said(missing, "import dmlgather as dg\ntry: dg.FACE.NAME\nexcept AttributeError as error: print(error)")
    assert printed.endswith(f"needs the package {missing}, which is not installed: {installing(missing)}\n")


SLICE = ROOT / "examples" / "directml" / "slice.json"

SYMBOLIC = """
import onnx
from onnx.parser import parse_model
model = parse_model('''<ir_version: 8, opset_import: ["" : 17]>
g (float[N,4] x, int64[M] i) => (float[K,4] y) { s = Shape(x) two = Constant <value_ints = [2]> () h = Div(s, two)
r = Reshape(x, h) y = Gather <axis = 0> (r, i) }''')
onnx.save(model, "model.onnx")
"""
"""A model whose sizes are computed from sizes that it leaves open."""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model whose sizes are open."""
    folder = tmp_path_factory.mktemp("models")
    subprocess.run([sys.executable, "-c", SYMBOLIC], cwd=folder, check=True, timeout=60)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("missing", "arguments"),
    [
        ("sympy", "check model.onnx"),
        ("sympy", "explain model.onnx"),
        ("onnx", "explain model.onnx"),
        ("onnx", f"compare {SLICE} --against model.onnx"),
        ("onnx", f"translate {SLICE}"),
    ],
)
def test_commands_name_the_extra(models: Path, missing: str, arguments: str) -> None:
    words = arguments.split()
    code = f"import sys; sys.modules[{missing!r}] = None; from dmlgather.cli.app import run; sys.exit(run({words!r}))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=models, capture_output=True, text=True, timeout=120, check=False
    )
    said = ended.stderr.splitlines()[0].removeprefix("dmlgather: ").removeprefix("model.onnx: ")
    assert ended.returncode == 2
    assert said == f"an ONNX model needs the package {missing}, which is not installed: {installing('onnx')}"


def stated() -> dict[str, list[str]]:
    """The requirements of each extra of pyproject.toml."""
    found: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    return found


def extras() -> dict[str, set[str]]:
    """The packages of each extra."""
    return {name: {re.split(r"[\[<>=]", each)[0] for each in packages} for name, packages in stated().items()}


def all_of(extra: str) -> set[str]:
    """The packages of an extra, with those of the extras that it names."""
    found = set[str]()
    for each in stated()[extra]:
        own = re.fullmatch(r"dmlgather\[(.*)\]", each)
        found |= all_of(own[1]) if own else {each}
    return found


def test_moving_to_a_gpu_without_cupy() -> None:
    """An array of the host is moved before anything is compiled; the error is that of a GPU that is missing."""
    code = """
import sys; sys.modules["cupy"] = None
import numpy as np
import dmlgather as dg
try:
    dg.onnx.gather(np.zeros((3, 4), "f4"), np.array([1]), device="cuda")
except dg.DeviceError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "driver" in done.stdout or "cupy" in done.stdout


def test_the_tests_of_a_gpu_bring_no_nvrtc_beside_cupys() -> None:
    """CuPy loads the newest NVRTC, and a driver of CUDA 12 refuses what NVRTC 13 makes. The other tests need one without CuPy."""
    (installed,) = re.findall(r"^ *ci/setup (\S+) \"\$extra\"$", (ROOT / "ci" / "gpu").read_text(), re.MULTILINE)
    assert not [each for each in all_of(installed) if "nvrtc" in each]
    assert all_of("test") - all_of(installed) == {"nvidia-cuda-nvrtc>=13,<14"}


@pytest.mark.parametrize("extra", ["cuda12", "cuda13", "dask", "jax", "onnx", "openvino", "plot", "torch"])
def test_what_installs_an_extra_is_what_it_states(extra: str) -> None:
    assert package.installing(extra) == installing(extra)


def test_without_metadata_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", missing)
    assert package.installing("onnx") == "install dmlgather's extra onnx"


def test_the_hook_of_the_page_installs_what_the_extras_do() -> None:
    listed = re.findall(r"additional_dependencies: \[(.*?)\]", (ROOT / "docs" / "check.md").read_text())
    assert [set(each.split(", ")) for each in listed] == [extras()["onnx"]]


def test_env_shows_every_package_of_the_extras() -> None:
    from dmlgather.cli.env import OPTIONAL, environment

    assert "onnxruntime" in environment()["packages"]  # which translate runs
    shown = {name.replace("_", "-") for name in OPTIONAL}
    assert shown == set().union(*(extras()[name] for name in ("onnx", "openvino", "jax", "torch", "dask")))
    assert all(name.replace("_", "-") in extras()[extra] for name, extra in OPTIONAL.items())


def test_with_everything_installed_nothing_is_left_out() -> None:
    import dmlgather as dg

    assert "Backend" in dg.onnx.__all__
    assert {"gather", "gather_elements", "run", "slice"} < set(dg.distributed.__all__)
