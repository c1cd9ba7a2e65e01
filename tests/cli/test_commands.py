"""levels, explain, compare, schema, env, and help."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import numpy as np
import pytest
import typer
from hypothesis import HealthCheck, given, settings

import dmlgather as dg
from dmlgather.backends.cpu import engine
from dmlgather.backends.cuda import driver as cuda_driver
from dmlgather.backends.cuda import nvidia_driver, wheels
from dmlgather.backends.cuda.driver import DeviceError
from dmlgather.cli import env
from dmlgather.cli.app import SUBCOMMANDS, build
from dmlgather.cli.schema import Schema, schema_of
from dmlgather.comparing.dispatches import compare_model
from dmlgather.directml import OPERATORS
from dmlgather.directml.dxdispatch.jsonc import Document
from dmlgather.directml.dxdispatch.model_file import check_file
from dmlgather.directml.dxdispatch.writing import write_model
from dmlgather.model_runner import Printed, Runner
from tests import processes
from tests.cli.command import EXAMPLES, Command
from tests.directml.making import Described
from tests.dxdispatch.models import GATHER, MODEL, PRINTED, changed, write
from tests.strategies import legal_descriptors


def test_levels_text(command: Command) -> None:
    ended = command("levels", "--operator", "slice1")
    lines = ended.out.splitlines()
    assert ended.code == 0
    assert lines[0] == "DML_OPERATOR_SLICE1 (111), from feature level 2_1"
    assert " ".join(lines[2].split()) == "2_1 InputTensor 4-5 FLOAT32 FLOAT16 INT32 INT16 INT8 UINT32 UINT16 UINT8"


def test_levels_takes_its_operator_with_and_without_the_option(command: Command) -> None:
    assert command("levels", "slice1").out == command("levels", "--operator", "slice1").out
    assert command("levels", "GATHER", "--json").out == command("levels", "--operator", "DML_OPERATOR_GATHER", "--json").out
    assert "at most one of OPERATOR and --operator" in command.refused("levels", "GATHER", "--operator", "SLICE")
    assert "OPERATOR" in command.refused("levels", "GATHR")


def test_levels_json_is_the_public_query(command: Command) -> None:
    everything = json.loads(command("levels", "--json").out)
    assert everything == [dg.support(table["operator"]) for table in everything]
    assert [table["value"] for table in everything] == [operator.value for operator in OPERATORS.values()]
    assert json.loads(command("levels", "--operator", "DML_OPERATOR_GATHER", "--json").out) == everything[:1]


def test_explain(tmp_path: Path, command: Command) -> None:
    ended = command("explain", write(tmp_path, MODEL))
    assert ended.code == 0
    assert ended.out.startswith("dispatchable 'gather'\nGATHER, lowest feature level 3_0\n")
    for word in ("plan ", "canonical ", "cpu ", "cuda ", "bytes "):
        assert f"\n{word}" in ended.out
    (data,) = json.loads(command("explain", "--json", write(tmp_path, GATHER)).out)
    assert (data["operator"], data["lowest_level"]) == ("GATHER", "3_0")
    assert data["bytes_moved"] == {"index": 16, "read": 32, "written": 32, "total": 80}


COMPARED = ("compare", "--devices", "cpu,reference")
EQUAL = "commands[0] 'gather': equal on cpu, reference: 8 elements, bit for bit\n"


def test_a_wrong_descriptor_is_not_explained(tmp_path: Path, command: Command) -> None:
    ended = command("explain", write(tmp_path, changed((("desc", "Axis"), 2), start=GATHER)))
    assert (ended.code, ended.out) == (1, "")


def test_a_model_is_compared(tmp_path: Path, command: Command) -> None:
    ended = command(*COMPARED, write(tmp_path, MODEL))
    assert (ended.code, ended.out) == (0, EQUAL)


def test_an_element_that_nobody_writes_differs(tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dg.CompiledOperator, "run_buffers", lambda self, *inputs, out: None)
    ended = command(*COMPARED, write(tmp_path, MODEL))
    assert ended.code == 1
    assert "8 of 8 elements differ" in ended.out


def test_compare_without_a_gpu_says_so(tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(index: int) -> None:
        raise DeviceError("no GPU today; buy one, or wait for another day")

    monkeypatch.setattr("dmlgather.backends.cuda.require", refuse)
    ended = command("compare", write(tmp_path, MODEL))
    assert (ended.code, ended.err) == (0, "cuda is left out: no GPU today; `dmlgather env` says what to do\n")
    assert "equal on cpu, reference" in ended.out
    for wrong in (["--seed", 1, write(tmp_path, MODEL)], ["--against", tmp_path, write(tmp_path, GATHER, "gather.json")]):
        assert "left out: " not in command.refused("compare", *wrong)


@pytest.mark.parametrize("case", ["case", "deep/case.json"])
def test_a_saved_case_replays(tmp_path: Path, command: Command, case: str) -> None:
    saved = command(*COMPARED, "--save", tmp_path / case, write(tmp_path, MODEL))
    assert saved.code == 0
    file = tmp_path / case if case.endswith(".json") else tmp_path / case / "case.json"
    assert f"Case written to '{file}'" in saved.err
    jsonschema.validate(json.loads(file.read_text()), schema_of(Schema.MODEL))
    assert "null" not in file.read_text()  # DxDispatch reads none
    assert command("run", "--output-dir", tmp_path, file).out == PRINTED
    assert command(*COMPARED, file).out == saved.out


def test_a_descriptor_gets_random_inputs_that_a_seed_repeats(folder: Path, command: Command) -> None:
    file = write(folder, GATHER)
    first = command(*COMPARED, file, "--save", "first")
    seed = first.err.partition("--seed ")[2].split()[0]
    again = command(*COMPARED, file, "--save", "again", "--seed", seed)
    assert (first.code, first.out, again.out) == (0, EQUAL, EQUAL)
    made = {"json", "report.json", "0_InputTensor.npy", "1_IndicesTensor.npy"}
    made |= {f"out0_gather.{device}.npy" for device in ("cpu", "reference")}
    assert {path.name for path in Path("first").iterdir()} == {f"case.{name}" for name in made}
    for path in Path("first").iterdir():
        assert path.read_bytes() == (Path("again") / path.name).read_bytes()


@pytest.mark.slow
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(legal_descriptors())
def test_random_descriptors_compare_and_replay(tmp_path: Path, command: Command, described: Described) -> None:
    file = write(tmp_path, described.desc.document())
    ended = command(*COMPARED, "--seed", 1, file, "--save", tmp_path / "case")
    assert ended.code == 0, ended.err
    assert "bit for bit" in ended.out
    jsonschema.validate(Document(file.read_text()).value, schema_of(Schema.DESCRIPTOR))
    saved = check_file(tmp_path / "case" / "case.json")
    assert saved.ok, (saved.problems, saved.errors)
    rewritten = check_file(write_model(saved, tmp_path / "rewritten"))
    assert {name: item.buffer().tobytes() for name, item in rewritten.resources.items()} == {
        name: item.buffer().tobytes() for name, item in saved.resources.items()
    }
    (found,) = compare_model(rewritten, ["reference", "cpu"])
    assert found.comparison.equal


def test_saving_keeps_every_part_of_a_model(tmp_path: Path) -> None:
    model = changed(
        (("dispatchables", "gather", "desc", "InputTensor", "Flags"), "OWNED_BY_DML"),
        (("dispatchables", "gather", "bindings"), {"InputTensor": {"name": "table", "elementOffset": 4}}),
        (("resources", "table", "sizeInBytes"), 64),
        (("resources", "table", "initialValuesOffsetInBytes"), 16),
        (("commands", 0, "bindings"), {"IndicesTensor": "rows", "OutputTensor": ["output"]}),
        (("commands", 1, "verbose"), True),
        (("commands", 2), {"type": "writeFile", "resource": "output", "targetPath": "x.npy", "dimensions": [8]}),
    )
    original = check_file(write(tmp_path, model))
    saved = check_file(write_model(original, tmp_path / "saved"))
    assert saved.ok, (saved.problems, saved.errors)

    def outcome(checked: Any) -> list[Any]:
        events = list(Runner(checked, "cpu", tmp_path).run())
        return [(event.values.tolist(), event.verbose) if isinstance(event, Printed) else type(event) for event in events]

    assert outcome(saved) == outcome(original)
    assert outcome(saved)[1] == ([1, 2, 3, 4, 3, 4, 5, 6], True)
    assert [type(command) for command in saved.commands] == [type(command) for command in original.commands]


@pytest.mark.slow
@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.json")), ids=lambda file: file.name)
def test_examples_follow_the_schema(file: Path) -> None:
    value = Document(file.read_text(encoding="utf-8")).value
    jsonschema.validate(value, schema_of(Schema.MODEL if "resources" in value else Schema.DESCRIPTOR))


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        (("desc", "InputTensor", "DataType"), "FLOAT31"),
        (("desc", "InputTensor", "DataType"), 1),
        (("desc", "InputTensor", "Flags"), 0),
        (("desc", "InputTensor", "Sizes"), [1.5]),
        (("desc", "Axis"), -1),
        (("desc", "Axes"), 0),
        (("desc", "IndicesTensor"), 3),
        (("type",), "DML_OPERATOR_GATHR"),
        (("executionFlags",), ["FAST"]),
    ],
)
def test_the_schema_refuses_what_reading_refuses(tmp_path: Path, change: Any) -> None:
    wrong = changed(change, start=GATHER)
    assert check_file(write(tmp_path, wrong)).problems
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, schema_of(Schema.DESCRIPTOR))


@pytest.mark.parametrize(("name", "value"), [("DMLGATHER_NUM_THREADS", "two"), ("DMLGATHER_PURE", "yes")])
def test_a_setting_that_means_nothing_is_shown(command: Command, monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    assert f"dmlgather: {name} is '{value}', expected " in command.refused("run", EXAMPLES / "slice.json")
    asked = command("env")
    assert asked.code == 0
    assert f"engine       {name} is '{value}', expected " in asked.out


def test_env(command: Command) -> None:
    text, found = _told(command)
    assert (found["dmlgather"], found["packages"]["numpy"]) == (dg.__version__, np.__version__)
    assert found["gpu"]["usable"] == (not found["missing"])
    assert all(item["what"] and item["remedy"] for item in found["missing"])
    assert f"dmlgather    {dg.__version__}\n" in text
    assert text.count("\nmissing: ") == len(found["missing"])
    assert found["engine"] == engine.status()
    assert f"engine       {engine.status()}\n" in text


def _machine(monkeypatch: pytest.MonkeyPatch, driver: nvidia_driver.Driver, **packages: str) -> None:
    """Let `env` find this driver, and these packages alone; _ stands for -."""
    known = {name.replace("_", "-"): version for name, version in packages.items()}
    monkeypatch.setattr(nvidia_driver, "ask", lambda: driver)
    monkeypatch.setattr(wheels, "version_of", known.get)
    monkeypatch.setattr(wheels, "has_files", lambda: True)
    monkeypatch.setattr(env, "OPTIONAL", {})
    monkeypatch.setattr(env, "PACKAGES", ())


NO_DRIVER = nvidia_driver.Driver(None, (), "there is no NVIDIA driver")


def _driver(version: str, capability: str = "9.0") -> nvidia_driver.Driver:
    """A driver of CUDA of a version, with a GPU."""
    return nvidia_driver.Driver(version, (nvidia_driver.NvidiaGpu("GPU", capability, 2**34),), None)


def _told(command: Command) -> tuple[str, dict[str, Any]]:
    """What `env` shows, and the same as JSON."""
    return command("env").out, command.report(Schema.ENVIRONMENT, "env")


def test_env_says_where_nvrtc_comes_from(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    _machine(monkeypatch, NO_DRIVER, cupy="14.2.0")
    assert "nvrtc        no package installed: the extras cuda12 and cuda13 have it, or a CUDA toolkit\n" in _told(command)[0]
    _machine(monkeypatch, NO_DRIVER, cupy="14.2.0", nvidia_cuda_nvrtc="13.3.1")
    shown, found = _told(command)
    assert "nvrtc        nvidia-cuda-nvrtc 13.3.1\n" in shown
    assert found["nvrtc"] == "nvidia-cuda-nvrtc 13.3.1"


NEWER = "an NVRTC for the driver: CuPy has loaded NVRTC 13.3, and the driver has CUDA 12.4"


@pytest.mark.parametrize(
    ("version", "file", "missed"),
    [
        ((12, 9), "/usr/lib/libnvrtc.so.12", ""),
        ((13, 3), "/v/nvidia/cu13/lib/libnvrtc.so.13", NEWER),
        ((13, 3), None, NEWER),
    ],
)
def test_env_names_the_nvrtc_that_cupy_loads(
    command: Command, monkeypatch: pytest.MonkeyPatch, version: tuple[int, int], file: str | None, missed: str
) -> None:
    _machine(monkeypatch, _driver("12.4"), cupy_cuda12x="14.2.0", nvidia_cuda_nvrtc_cu12="12.9.86")
    monkeypatch.setattr(cuda_driver, "require", lambda number: None)
    monkeypatch.setattr(cuda_driver, "nvrtc", lambda: cuda_driver.Nvrtc(version, file))
    shown, found = _told(command)
    named = f"{version[0]}.{version[1]}" + (f", {file}" if file else "")
    assert f"nvrtc        {named}\ndriver       CUDA 12.4\n" in shown
    assert (found["nvrtc"], found["gpu"]["usable"]) == (named, not missed)
    remedy = "pip uninstall nvidia-cuda-nvrtc, and pip install 'cupy-cuda12x[ctk]>=14' (dmlgather's extra cuda12)"
    assert found["missing"] == ([{"what": missed, "remedy": remedy}] if missed else [])
    assert shown.endswith(f"\nmissing: {missed}\n    {remedy}\n" if missed else "compute capability 9.0, 16.0 GiB\n")


def test_env_says_that_cupy_loads_no_nvrtc(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    _machine(monkeypatch, _driver("13.0"), cupy_cuda12x="14.2.0")

    def absent() -> tuple[int, int]:
        raise RuntimeError("CuPy failed to load libnvrtc.so.12: OSError: cannot open")

    cupy = SimpleNamespace(cuda=SimpleNamespace(nvrtc=SimpleNamespace(getVersion=absent)))
    monkeypatch.setattr(cuda_driver, "require", lambda number: cupy)
    (missing,) = _told(command)[1]["missing"]
    assert missing["what"] == "a working CUDA backend"
    assert missing["remedy"].startswith("CuPy cannot load NVRTC (CuPy failed to load libnvrtc.so.12")
    assert missing["remedy"].endswith("pip install 'cupy-cuda12x[ctk]>=14' (dmlgather's extra cuda12)")  # that of the CuPy there


@pytest.mark.parametrize(("driver", "wheel", "missed"), [("12.4", "13", True), ("13.0", "13", False), ("12.4", "12", False)])
def test_env_names_the_wheel_for_the_driver(
    command: Command, monkeypatch: pytest.MonkeyPatch, driver: str, wheel: str, missed: bool
) -> None:
    _machine(monkeypatch, nvidia_driver.Driver(driver, (), None), **{f"cupy_cuda{wheel}x": "14.2.0"})
    what = f"a CuPy for the driver: cupy-cuda13x 14.2.0 is for CUDA 13, and the driver has CUDA {driver}"
    other = "pip install 'cupy-cuda12x[ctk]>=14' (dmlgather's extra cuda12)"
    remedy = f"pip uninstall cupy-cuda13x, and {other}; or install driver 580 or newer"
    assert (f"\nmissing: {what}\n    {remedy}\n" in command("env").out) == missed


def test_env_names_only_the_driver_where_there_is_none(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    _machine(monkeypatch, NO_DRIVER)
    (missing,) = _told(command)[1]["missing"]
    assert missing["what"] == "there is no NVIDIA driver"
    assert "pip" not in missing["remedy"]


@pytest.mark.parametrize(("cuda", "capability", "extra"), [("12.4", "9.0", "12"), ("13.0", "9.0", "13"), ("13.0", "7.0", "12")])
def test_env_names_the_extras_of_cupy_and_nvrtc(
    command: Command, monkeypatch: pytest.MonkeyPatch, cuda: str, capability: str, extra: str
) -> None:
    _machine(monkeypatch, _driver(cuda, capability))
    told = command("env").out
    install = f"pip install 'cupy-cuda{extra}x[ctk]>=14' (dmlgather's extra cuda{extra})"
    assert f"cupy         not installed: {install}\n" in told
    assert "nvrtc        not installed: it comes with CuPy\n" in told
    assert told.endswith(f"\nmissing: CuPy\n    {install}\n")


def test_env_names_the_extra_of_a_missing_package(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    known = env._version
    monkeypatch.setattr(env, "_version", lambda name: None if name == "lxml" else known(name))
    shown, found = _told(command)
    assert found["packages"]["lxml"] is None
    assert "lxml         not installed: pip install 'lxml>=5.3' 'ml-dtypes>=0.6' (dmlgather's extra openvino)\n" in shown


def test_help_of_every_subcommand(command: Command) -> None:
    assert all(name in command("--help").out for name in SUBCOMMANDS)
    for name in SUBCOMMANDS:
        ended = command(name, "--help")
        assert (ended.code, ended.err) == (0, "")
        assert f"Usage: dmlgather {name}" in ended.out
    assert "Usage: python -m benchmarks [OPTIONS]" in command("benchmarks", "--help").out
    for name in ("write", "read"):
        assert f"Usage: python -m conformance {name}" in command("conformance", name, "--help").out


def test_a_subcommand_that_is_imported_on_use_is_the_same() -> None:
    """The command imports one; its reference on the web is made from all."""
    every, lazy = (typer.main.get_command(build(lazy=wanted)) for wanted in (False, True))
    context = typer.Context(every, info_name="dmlgather")
    assert every.get_help(context) == lazy.get_help(typer.Context(lazy, info_name="dmlgather"))
    for name in SUBCOMMANDS:
        (_, known, _), (_, found, _) = (group.resolve_command(context, [name]) for group in (every, lazy))  # type: ignore[attr-defined] # of a group
        inside = [command.get_help(typer.Context(command, info_name=name, parent=context)) for command in (known, found)]
        assert inside[0] == inside[1]
        assert found.name == name


@pytest.mark.parametrize("option", ["--node", "--size", "--picture"])
def test_an_option_of_another_subcommand_is_said_to_be_one(command: Command, option: str) -> None:
    """Judge: the help of both subcommands."""
    said = command.refused("check", option, "x", "model.onnx")
    assert f"No such option: {option}; it is an option of explain" in said
    assert option in command("explain", "--help").out
    assert option not in command("check", "--help").out
    assert "it is an option" not in command("check", "--nodes-of-nothing", "x", "model.onnx").err


def test_help_is_whole_at_80_columns(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    listed = command("--help").out
    for name, line in SUBCOMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(line)}$", listed, re.MULTILINE), name
        told = command(name, "--help").out
        assert max(map(len, told.splitlines())) <= 80 or name == "schema", name  # which lists names without a space
    assert "\n  --error-on-warning / --no-error-on-warning\n" in command("check", "--help").out


def test_without_arguments_there_is_help(command: Command) -> None:
    ended = command()
    assert ended.code == 2
    assert "Usage: dmlgather" in ended.out + ended.err


@pytest.mark.parametrize("module", ["dmlgather", "dmlgather.cli"])
def test_the_module_is_the_command(module: str) -> None:
    ended = processes.run([sys.executable, "-m", module, "levels", "--operator", "GATHER"], timeout=60)
    assert ended.stdout.startswith("DML_OPERATOR_GATHER (67)")
