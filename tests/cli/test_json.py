"""JSON is asked for in one way in all commands, a schema describes it, and older spellings keep working."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from benchmarks.bench_report import BenchReport
from conformance.conformance_report import ConformanceReport
from conformance.manifest import WrittenCases
from dmlgather.cli.app import SUBCOMMANDS
from dmlgather.cli.schema import Schema, document_schema, schema_of
from tests.cli.command import Command
from tests.conformance.stand_in import run_models
from tests.dxdispatch.models import GATHER, MODEL, changed, write
from tests.onnx_checking.modelling import saved

Case = tuple[Any, Callable[[Path], tuple[object, ...]]]

ROWS = "agraph (float[N,4] x, int64[3] i) => (float[3,4] y) { y = Gather(x, i) }"
FIXED = "agraph (float[5,4] x, int64[3] i) => (float[3,4] y) { y = Gather(x, i) }"
CLIPPED = """agraph (float[3,2] x, int64[4] i) => (float[4,2] y) {
    least = Constant<value_int = {least}>()
    most = Constant<value_int = 2>()
    within = Clip(i, least, most)
    y = Gather(x, within)
}"""


def _against(folder: Path, text: str) -> tuple[object, ...]:
    return write(folder, GATHER), "--against", saved(folder, text)


def _chain(folder: Path) -> Path:
    """A model of two dispatches."""
    model = changed(
        (("resources", "again"), MODEL["resources"]["output"]),
        (("dispatchables", "second"), MODEL["dispatchables"]["gather"]),
        (("commands",), [MODEL["commands"][0], {**MODEL["commands"][0], "dispatchable": "second"}]),
    )
    return write(folder, model)


def _cases(folder: Path) -> Path:
    """A folder of cases that came back."""
    from conformance.case_writing import write_cases
    from dmlgather.directml import FeatureLevel

    write_cases(folder / "cases", 2, FeatureLevel.LEVEL_6_4, 7, "0.1.0")
    run_models(folder / "cases")
    return folder / "cases"


CASES: dict[str, Case] = {
    "run": (Schema.RUN, lambda folder: (write(folder, MODEL), "--device", "cpu", "--output-dir", folder)),
    "check": (Schema.REPORT, lambda folder: (write(folder, MODEL), saved(folder, ROWS), "--no-config")),
    "rule": (Schema.RULE, lambda _: ("DML302",)),
    "rule, all": (Schema.RULE, lambda _: ()),
    "levels": (Schema.LEVELS, lambda _: ()),
    "explain": (Schema.EXPLANATION, lambda folder: (write(folder, GATHER),)),
    "explain, a chain": (Schema.EXPLANATION, lambda folder: (_chain(folder),)),
    "explain, a node": (Schema.EXPLANATION, lambda folder: (saved(folder, FIXED),)),
    "explain, no node": (Schema.EXPLANATION, lambda folder: (saved(folder, ROWS),)),
    "compare": (Schema.COMPARISON, lambda folder: (write(folder, GATHER), "--devices", "cpu,reference", "--seed", 1)),
    "compare, a model": (Schema.AGREEMENT, lambda folder: _against(folder, CLIPPED.replace("{least}", "-3"))),
    "compare, another model": (Schema.AGREEMENT, lambda folder: _against(folder, CLIPPED.replace("{least}", "0"))),
    "compare, a model of other inputs": (Schema.AGREEMENT, lambda folder: _against(folder, FIXED)),
    "translate": (Schema.TRANSLATION, lambda folder: (write(folder, MODEL), "--to", "onnx")),
    "env": (Schema.ENVIRONMENT, lambda _: ()),
    "benchmarks": (BenchReport, lambda _: ("--rounds", 1, "--peers", "numpy", "--only", "launch", "--seed", 7)),
    "selftest": (Schema.SELFTEST, lambda _: ("--device", "cpu", "--trials", 2, "--seed", 7)),
    "conformance write": (WrittenCases, lambda folder: (folder / "new", "--cases", 1, "--seed", 7)),
    "conformance read": (ConformanceReport, lambda folder: (_cases(folder),)),
}
"""By subcommand: the schema of its JSON or the record that it prints, and its arguments. Also the commands of a checkout."""

FILES = {"header", "schema"}
"""Subcommands that print a file: a C++ header, a JSON Schema."""


def test_every_command_is_tried() -> None:
    checkout = {"benchmarks", "conformance write", "conformance read"}
    assert {name.partition(",")[0] for name in CASES} == {*SUBCOMMANDS, *checkout} - FILES


def _schema(kind: Any) -> dict[str, Any]:
    return schema_of(kind) if isinstance(kind, Schema) else document_schema(kind)


def _steady(value: Any) -> Any:
    """A report without what differs between two runs."""
    varying = {"cpu_ms", "seconds", "median_ms", "low_ms", "high_ms", "date", "ratios", "rounds", "geometric_means"}
    if isinstance(value, dict):
        return {key: _steady(each) for key, each in value.items() if key not in varying}
    return [_steady(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", CASES)
def test_json_is_printed_or_written(tmp_path: Path, command: Command, name: str) -> None:
    schema, make = CASES[name]
    words = name.partition(",")[0].split()
    for folder in ("text", "printed", "written"):
        (tmp_path / folder).mkdir()
    text = command(*words, *make(tmp_path / "text"))
    printed = command(*words, *make(tmp_path / "printed"), "--json")
    report = json.loads(printed.out)
    jsonschema.validate(report, _schema(schema))
    assert printed.code == text.code
    if name == "translate":  # whose --output is the translation
        return
    file = tmp_path / "new folder" / "report.json"
    written = command(*words, *make(tmp_path / "written"), "--output", file)
    assert (written.code, written.out.count("\n")) == (text.code, text.out.count("\n"))
    both = json.loads(file.read_text().replace(str(tmp_path / "written"), str(tmp_path / "printed")))
    assert _steady(both) == _steady(report)


def test_a_schema_can_be_written(tmp_path: Path, command: Command) -> None:
    ended = command("schema", "rule", "--output", tmp_path / "rule.json")
    assert (tmp_path / "rule.json").read_text() == ended.out


def test_numbers_of_a_run_keep_their_bits(tmp_path: Path, command: Command) -> None:
    """Those that JSON lacks are text."""
    values = np.array([0.1, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3.4e38, 16777216], np.float32)
    values.tofile(tmp_path / "values.bin")
    table = {"initialValuesDataType": "FLOAT32", "initialValues": {"sourcePath": "values.bin"}}
    commands = [{"type": "print", "resource": "table"}]
    file = write(tmp_path, changed((("resources", "table"), table), (("commands",), commands), (("dispatchables",), {})))
    (shown,) = json.loads(command("run", file, "--device", "cpu", "--json").out)["commands"]
    assert np.array(list(map(float, shown["values"])), np.float32).tobytes() == values.tobytes()
    assert [value for value in shown["values"] if isinstance(value, str)] == ["inf", "-inf", "nan"]


def test_check_writes_json_in_the_older_way_with_a_note(folder: Path, command: Command) -> None:
    file = write(folder, MODEL)
    ended = command("check", file, "--output-format", "json")
    jsonschema.validate(json.loads(ended.out), schema_of(Schema.REPORT))
    (note,) = [line for line in ended.err.splitlines() if line.startswith("dmlgather: note: ")]
    assert (ended.code, "is now spelled --" in note, note.endswith("both work")) == (0, True, True)
    older = command("check", file, "--output-format", "json:a.json")
    newer = command("check", file, "--output", "b.json")
    assert (folder / "a.json").read_bytes() == (folder / "b.json").read_bytes()
    note = "dmlgather: note: --output-format json:FILE is now spelled --output FILE, as in all commands; both work\n"
    assert older.err == note + newer.err
    assert command("check", "--quiet", file, "--output-format", "json").err == ""


@pytest.mark.parametrize("name", ["run", "check", "explain", "compare"])
def test_json_never_replaces_an_input(tmp_path: Path, command: Command, name: str) -> None:
    file = write(tmp_path, MODEL)
    before = file.read_bytes()
    ended = command(name, file, "--output", file)
    assert (ended.code, file.read_bytes()) == (2, before)
    assert "is an input" in ended.err
    assert "must be a file" in command("levels", "--output", tmp_path).err
