"""The package without the packages of an extra. Each test blocks a package in its own process."""

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
from tests import processes

ROOT = Path(__file__).parents[1]

CASES = {"onnx": ("onnx", "Backend", "gather"), "dask": ("distributed", "slice", "plan_gather")}
"""For each missing package, the module of dmlgather, a name that needs the package, and a name that does not."""


def installing(extra: str) -> str:
    """Return the command that installs an extra. It names packages, because an index need not have dmlgather."""
    packages = sorted(requirements()[extra])
    return f"pip install {' '.join(map(repr, packages))} (dmlgather's extra {extra})"


def output_of(missing: str, code: str) -> str:
    """Return the output of the code with `face`, `name` and `other` replaced."""
    face, name, other = CASES[missing]
    for word, meant in (("FACE", face), ("NAME", name), ("OTHER", other)):
        code = code.replace(word, meant)
    done = processes.run(
        [sys.executable, "-W", "error", "-c", f"import sys; sys.modules[{missing!r}] = None\n{code}"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("missing", CASES)
def test_a_name_without_its_package_is_absent(missing: str) -> None:
    output_of(
        missing,
        "import inspect, pydoc, dmlgather as dg\n"
        "assert not hasattr(dg.FACE, 'NAME') and hasattr(dg.FACE, 'OTHER')\n"
        "assert getattr(dg.FACE, 'NAME', 7) == 7\n"
        "assert 'NAME' not in dir(dg.FACE) and 'OTHER' in dir(dg.FACE)\n"
        "assert 'OTHER' in dict(inspect.getmembers(dg.FACE))\n"
        "assert 'OTHER(' in pydoc.render_doc(dg.FACE, renderer=pydoc.plaintext)\n"
        "from dmlgather.FACE import *\n"
        "assert callable(OTHER) and 'NAME' not in globals()",
    )


@pytest.mark.parametrize("missing", CASES)
@pytest.mark.parametrize(
    ("statement", "printed"),
    [
        ("from dmlgather.FACE import NAME", "MissingExtraError {missing} {needs}"),
        ("from dmlgather.FACE import OTHER, NAME as other", "MissingExtraError {missing} {needs}"),
        ("import dmlgather as dg; dg.FACE.NAME", "AttributeError {name} {needs}"),
    ],
)
def test_a_missing_name_says_what_to_install(missing: str, statement: str, printed: str) -> None:
    show = "print(type(error).__name__, str(error.name).partition('.')[0], error)"
    found = output_of(missing, f"try: {statement}\nexcept (ModuleNotFoundError, AttributeError) as error: {show}")
    face, name, _ = CASES[missing]
    needs = f"dmlgather.{face}.{name} needs the package {missing}, which is not installed: {installing(missing)}"
    assert found == f"{printed.format(missing=missing, name=name, needs=needs)}\n"


SLICE = ROOT / "examples" / "directml" / "slice.json"

SYMBOLIC = """
import onnx
from onnx.parser import parse_model
model = parse_model('''<ir_version: 8, opset_import: ["" : 17]>
g (float[N,4] x, int64[M] i) => (float[K,4] y) { s = Shape(x) two = Constant <value_ints = [2]> () h = Div(s, two)
r = Reshape(x, h) y = Gather <axis = 0> (r, i) }''')
onnx.save(model, "model.onnx")
"""
"""A model whose sizes are computed from open sizes."""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
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
def test_commands_name_the_missing_extra(models: Path, missing: str, arguments: str) -> None:
    words = arguments.split()
    code = f"import sys; sys.modules[{missing!r}] = None; from dmlgather.cli.app import run; sys.exit(run({words!r}))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = processes.run([sys.executable, "-c", code], env=environment, cwd=models, timeout=120)
    message = ended.stderr.splitlines()[0].removeprefix("dmlgather: ").removeprefix("model.onnx: ")
    assert ended.returncode == 2
    assert message == f"an ONNX model needs the package {missing}, which is not installed: {installing('onnx')}"


def requirements() -> dict[str, list[str]]:
    found: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    return found


def extras() -> dict[str, set[str]]:
    return {name: {re.split(r"[\[<>=]", each)[0] for each in packages} for name, packages in requirements().items()}


def all_of(extra: str) -> set[str]:
    """Return the packages of an extra and of the extras that it names."""
    found = set[str]()
    for each in requirements()[extra]:
        own = re.fullmatch(r"dmlgather\[(.*)\]", each)
        found |= all_of(own[1]) if own else {each}
    return found


def test_the_extra_of_gpu_tests_installs_no_second_nvrtc() -> None:
    """CuPy loads the newest NVRTC, and a driver of CUDA 12 refuses its PTX. The other tests need NVRTC without CuPy."""
    (installed,) = re.findall(r"^ *ci/setup (\S+) \"\$extra\"$", (ROOT / "ci" / "gpu").read_text(), re.MULTILINE)
    assert not [each for each in all_of(installed) if "nvrtc" in each]
    assert all_of("test") - all_of(installed) == {"nvidia-cuda-nvrtc>=13,<14"}


@pytest.mark.parametrize("extra", ["cuda12", "cuda13", "dask", "jax", "onnx", "openvino", "plot", "torch"])
def test_installing_names_the_packages_of_an_extra(extra: str) -> None:
    assert package.installing(extra) == installing(extra)


def test_without_metadata_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", missing)
    assert package.installing("onnx") == "install dmlgather's extra onnx"


def test_the_documented_hook_installs_the_packages_of_its_extra() -> None:
    listed = re.findall(r"additional_dependencies: \[(.*?)\]", (ROOT / "docs" / "check.md").read_text())
    assert [set(each.split(", ")) for each in listed] == [extras()["onnx"]]


def test_env_shows_every_package_of_the_extras() -> None:
    from dmlgather.cli.env import OPTIONAL, environment

    assert "onnxruntime" in environment()["packages"]  # translate runs this function
    shown = {name.replace("_", "-") for name in OPTIONAL}
    assert shown == set().union(*(extras()[name] for name in ("onnx", "openvino", "jax", "torch", "dask")))
    assert all(name.replace("_", "-") in extras()[extra] for name, extra in OPTIONAL.items())


def test_all_names_exist_if_everything_is_installed() -> None:
    import dmlgather as dg

    assert "Backend" in dg.onnx.__all__
    assert {"gather", "gather_elements", "run", "slice"} < set(dg.distributed.__all__)
