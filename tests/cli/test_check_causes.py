"""Findings by cause: what is grouped, how each format shows it, and that baselines and exit codes go by finding."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmlgather.dialects.export_codes import CODES
from dmlgather.directml.findings import LocatedFinding
from dmlgather.report.finding_status import FindingStatus, ReportedFinding, causes
from dmlgather.report.text import WIDTH
from tests.cli.command import Command
from tests.cli.readers import sarif_log
from tests.onnx_checking.modelling import saved

LAYERS = 47


def _slices(layers: int = LAYERS) -> str:
    """A slice of int64 in each layer, of another size each, which no level before 4_1 takes."""
    inputs = ", ".join(f"int64[{number + 4}] x{number}" for number in range(layers))
    outputs = ", ".join(f"int64[2] y{number}" for number in range(layers))
    nodes = " ".join(f"[layer{number}] y{number} = Slice(x{number}, s, e)" for number in range(layers))
    return f"agraph ({inputs}) => ({outputs}) <int64[1] s = {{1}}, int64[1] e = {{3}}> {{ {nodes} }}"


def test_47_nodes_of_one_pattern_are_one_finding(folder: Path, command: Command) -> None:
    ended = command("check", "--level", "3_0", saved(folder, _slices()).relative_to(folder))
    assert (ended.code, ended.err.splitlines()[-1]) == (
        1,
        "1 file checked, 47 nodes (0 decided, 0 conditional, 0 undecided, 0 host, 47 refused), 47 errors of 1 cause",
    )
    lines = ended.out.splitlines()
    assert sum("DML201" in line for line in lines) == 1
    assert lines[1].endswith("(InputTensor.DataType, at 47 places)")
    assert [line for line in lines if "layer" in line] == [
        f"    {label:8}  layer{number}: Slice-13(data int64[{number + 4}], starts {{1}}, ends {{3}}) -> int64[2]: refused at "
        "3_0: SLICE1 from 4_1"
        for number, label in enumerate(["nodes", "", ""])
    ]
    assert lines[-2] == "              and 44 others (--verbose lists them)"
    assert max(map(len, lines)) <= WIDTH


@pytest.mark.parametrize("output_format", ["text", "concise"])
def test_verbose_lists_all_places(tmp_path: Path, command: Command, output_format: str) -> None:
    out = command(
        "check", "--verbose", "--level", "3_0", "--output-format", output_format, saved(tmp_path, _slices())
    ).out.splitlines()
    assert sum("DML201" in line for line in out) == 1
    places = [line.removeprefix("    nodes").strip() for line in out]
    assert all(f"layer{number}" in places for number in range(LAYERS))
    nodes = [line for line in out if line.startswith("  layer")]
    assert [line.split(":")[0] for line in nodes] == [f"  layer{number}" for number in range(LAYERS)]


FIRST = ["layer0", "layer1", "layer2", "and 44 others (--verbose lists them)"]


def test_concise_and_quiet_name_the_first(tmp_path: Path, command: Command) -> None:
    path = saved(tmp_path, _slices())
    _, finding, *nodes = command("check", "--level", "3_0", "--output-format", "concise", path).out.splitlines()
    assert finding.startswith(f"  {path}: DML201 error InputTensor.DataType: ")
    assert finding.endswith(" (at 47 places)")
    assert [line.split(":")[0] for line in nodes] == [f"    {each}" for each in FIRST]
    quiet = command("check", "--quiet", "--level", "3_0", path).out.splitlines()
    assert quiet[0].startswith(f"{path}: DML201 error: ")
    assert [line.removeprefix("  nodes").strip() for line in quiet[-5:]] == [*FIRST, ""]


@pytest.mark.parametrize("output_format", ["text", "concise"])
def test_nodes_beside_the_family_have_causes_too(folder: Path, command: Command, output_format: str) -> None:
    path = saved(folder, _relus(12)).relative_to(folder)
    ended = command("check", "--output-format", output_format, path)
    assert ended.err.endswith(" 12 warnings of 1 cause\n")
    assert ended.out.count("EXP308") == 1
    lines = ended.out.splitlines()
    assert [line.removeprefix("    places").strip() for line in lines if "layer" in line] == ["layer0", "layer1", "layer2"]
    assert sum(line.endswith("and 9 others (--verbose lists them)") for line in lines) == 1
    (cause,) = json.loads(command("check", "--json", path).out)["files"][0]["causes"]
    assert cause["places"] == [f"layer{number}" for number in range(12)]
    assert len(command("check", "--output-format", "github", path).out.splitlines()) == 1
    (result,) = sarif_log(command("check", "--output-format", "sarif", path).out)["results"]
    assert result["occurrenceCount"] == 12


def _relus(layers: int) -> str:
    """Nodes beside the family, of each of which the model states a batch of 1 that its input does not have."""
    stated = ", ".join(f"float[1,3] x{number}" for number in range(1, layers + 1))
    nodes = " ".join(f"[layer{number}] x{number + 1} = Relu(x{number})" for number in range(layers))
    return f"agraph (float[batch,3] x0) => (float[batch,3] z) <{stated}> {{ {nodes} z = Identity(x0) }}"


def test_one_place_is_named_by_the_finding(folder: Path, command: Command) -> None:
    path = saved(folder, _slices(1)).relative_to(folder)
    out = command("check", "--level", "3_0", path).out.splitlines()
    assert out[1].endswith("(layer0.InputTensor.DataType)")
    assert out[5].startswith("    node      layer0: Slice-13(")
    assert "cause" not in command("check", "--level", "3_0", path).err


def test_machine_formats(tmp_path: Path, command: Command) -> None:
    path, formats = saved(tmp_path, _slices()), ("json", "sarif", "junit", "github")
    written = {name: command("check", "--level", "3_0", "--output-format", name, path).out for name in formats}
    (file,) = json.loads(written["json"])["files"]
    (cause,) = file["causes"]
    assert len(file["findings"]) == LAYERS
    assert cause == {
        "code": "DML201",
        "severity": "error",
        "standing": "open",
        "findings": list(range(LAYERS)),
        "places": [f"layer{number}.InputTensor.DataType" for number in range(LAYERS)],
    }
    (result,) = sarif_log(written["sarif"])["results"]
    assert result["occurrenceCount"] == LAYERS
    named = [place["logicalLocations"][0]["fullyQualifiedName"] for place in (*result["locations"], *result["relatedLocations"])]
    assert named == cause["places"]
    cases = ET.fromstring(written["junit"]).findall(".//testcase")
    assert sum(case.find("failure") is not None for case in cases) == LAYERS
    (annotation,) = written["github"].splitlines()
    assert "title=DML201 at 47 places::" in annotation
    assert annotation.split("%0A")[1:] == cause["places"]


def test_a_baseline_knows_findings_and_not_causes(folder: Path, command: Command) -> None:
    path, base = saved(folder, _slices(3)).relative_to(folder), folder / "base.json"
    command("check", "--level", "3_0", "--write-baseline", base, path)
    assert len(json.loads(base.read_text())["findings"]) == 3
    known = command("check", "--level", "3_0", "--baseline", base, path)
    assert (known.code, known.out.splitlines()[1:]) == (
        0,
        ["  DML201 error: the tensor's data type must be one that the feature level takes (InputTensor.DataType, at 3 places) "
         "(known: in the baseline)"],
    )  # fmt: skip
    saved(folder, _slices(5))
    more = command("check", "--level", "3_0", "--baseline", base, path)
    assert more.code == 1
    assert "2 errors of 1 cause, 3 known" in more.err
    shown = [line for line in more.out.splitlines() if "DML201" in line]
    assert ["at 3 places" in shown[0], "at 2 places" in shown[1], len(shown)] == [True, True, 2]


def test_ignored_findings_are_left_out_and_their_nodes_stay(folder: Path, command: Command) -> None:
    (folder / "dmlgather.toml").write_text('[[ignore]]\ncode = "DML201"\nreason = "r"')
    ended = command("check", "--level", "3_0", saved(folder, _slices(2)).relative_to(folder))
    assert (ended.code, len(ended.out.splitlines())) == (0, 3)
    assert ended.err.endswith("2 refused), 2 ignored\n")


SAME, OTHER = "the same cause", "two causes"

PAIRS = {
    "another tensor's name": ("EXP301", "'a' of type float[...]", "'b' of type float[...]", SAME),
    "an apostrophe before it": ("EXP301", "the model's value 'a'", "the model's value 'b'", SAME),
    "another size": ("EXP302", "'a' of type float[2,?]", "'b' of type float[N,3,?]", SAME),
    "trial sizes": ("EXP102", "{2,0} (with N = 2)", "{4,0} (with M = 3, K = 1)", SAME),
    "another data type": ("EXP103", "INT64", "INT32", OTHER),
    "another input of the model": ("EXP302", "'s', an input of the graph", "'t', an input of the graph", OTHER),
    "one input of it": ("EXP302", "'s', an input of the graph", "'s', an input of the graph", SAME),
    "values of one": ("EXP302", "'a', from 's', an input of the graph", "'b', from 's', an input of the graph", SAME),
    "another reason": ("EXP302", "'s', an input of the graph", "'s', computed when the model runs, by Add", OTHER),
    "another operator": ("EXP101", "axis is 7 in Slice-13", "axis is 7 in Slice-1", OTHER),
}  # fmt: skip


def _finding(
    code: str, got: str, subject: str, path: str = "data", status: FindingStatus = FindingStatus.OPEN
) -> ReportedFinding:
    found = CODES[code].finding(path, expected="e", got=got, remedy="r")
    return ReportedFinding.of_located(LocatedFinding.of(found, "f.onnx", None, None, subject), status)


@pytest.mark.parametrize("case", PAIRS)
def test_findings_share_a_cause_or_not(case: str) -> None:
    code, one, other, expected = PAIRS[case]
    found = causes([_finding(code, one, "a"), _finding(code, other, "b")], of_model=True)
    assert len(found) == (1 if expected == SAME else 2)


def test_an_input_of_the_model_decides_several_inputs_of_a_node() -> None:
    got = "'s', an input of the graph"
    assert len(causes([_finding("EXP302", got, "a", "starts"), _finding("EXP302", got, "a", "ends")], of_model=True)) == 1
    assert len(causes([_finding("EXP102", got, "a", "starts"), _finding("EXP102", got, "a", "ends")], of_model=True)) == 2


findings = st.builds(
    _finding,
    st.sampled_from(["EXP101", "EXP103", "EXP301", "EXP302"]),
    st.sampled_from(["'a'", "'b'", "INT64", "{1,2}", "'s', an input of the graph", "'a]{' 3"])
    | st.text("'\"a1{}[]\\ ,.", max_size=12),
    st.sampled_from(["", "a", "b", "graph"]),
    st.sampled_from(["data", "indices[3]", ""]),
    st.sampled_from(FindingStatus),
)


@given(st.lists(findings, max_size=12), st.booleans())
def test_every_finding_has_one_cause(found: list[ReportedFinding], of_model: bool) -> None:
    grouped = causes(found, of_model)
    assert sorted(number for cause in grouped for number in cause.findings) == list(range(len(found)))
    assert sum(len(cause.places) for cause in grouped) == len(found)
    for cause in grouped:
        members = [found[number] for number in cause.findings]
        assert {(each.code, each.severity, each.status) for each in members} == {(cause.code, cause.severity, cause.standing)}
        assert [each.full_path for each in members] == list(cause.places)
        assert len(members) == 1 or (of_model and all(each.subject for each in members))
