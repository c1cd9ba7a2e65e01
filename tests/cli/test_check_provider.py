"""`dmlgather check --provider`: what is printed, formats for programs, the configuration; and that nothing changes without it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dmlgather.cli.schema import Schema
from dmlgather.onnx_checking.provider.codes import CODES
from tests.cli.command import Command, Result
from tests.cli.readers import sarif_log
from tests.onnx_checking.following import ran
from tests.onnx_checking.modelling import parsed, saved

NAME = "onnxruntime-directml"
MODELS = {
    "fails.onnx": "g (float[2,3] x, int32[1,2] i) => (float[1,2] z) { [pick] z = GatherElements<axis = 1>(x, i) }",
    "shapes.onnx": "g (float[N,3] x, int32[2] j) => (int64[1] z, float[2,3] w) <int64[1] i = {0}> "
    "{ s = Shape(x) [size] z = Gather(s, i) [rows] w = Gather(x, j) }",
    "warns.onnx": "g (float[4] x) => (float[4] z) <int64[1] s = {-1}, int64[1] e = {-9223372036854775808}, int64[1] a = {0}, "
    "int64[1] t = {-1}> { [back] z = Slice(x, s, e, a, t) }",
}
"""A node that fails, one on the CPU beside one on DirectML, and one that is not clear."""


@pytest.fixture(autouse=True)
def models(folder: Path) -> None:
    """The models, in the current folder."""
    for name, text in MODELS.items():
        saved(folder, text, name)


def _check(command: Command, *arguments: object) -> Result:
    return command("check", "--provider", NAME, *arguments)


def test_a_model_has_a_line_and_each_node_its_verdict(command: Command) -> None:
    shown = _check(command, "--verbose", "shapes.onnx")
    text = " ".join(shown.out.split())
    assert f"{NAME}: 1 node on DirectML, in 1 part or more, 1 on the CPU (1 of shapes)" in text
    assert f"taken: GATHER from 4_1; {NAME}: CPU on purpose: Shape → Gather" in text
    assert f"{NAME}: DirectML by itself, because the sizes of 'x' are not numbers before the run: float[N,3]" in text
    assert shown.code == 0


def test_errors_fail_the_check_and_what_is_not_clear_warns(command: Command) -> None:
    assert command("check", "fails.onnx", "warns.onnx").code == 0
    assert _check(command, "fails.onnx").code == 1
    warned = _check(command, "warns.onnx")
    assert (warned.code, "1 unclear" in warned.out, "1 warning" in warned.err) == (0, True, True)
    assert _check(command, "--error-on-warning", "warns.onnx").code == 1
    assert "0x80070057" in _check(command, "--quiet", "fails.onnx").out


@pytest.mark.parametrize(("index", "runs"), [(2, True), (-3, True), (3, False)])
def test_strings_which_directml_alone_lacks_fail_no_check(command: Command, index: int, runs: bool) -> None:
    """DirectML has no strings. Judge: onnxruntime, whose CPU provider runs the node if the index is in range."""
    model = parsed(f"g (string[3] x) => (string[1] z) <int64[1] i = {{{index}}}> {{ [words] z = Gather(x, i) }}")
    saved(Path(), model, "words.onnx")
    shown = {provider: command("check", *provider, "words.onnx") for provider in ((), ("--provider", NAME))}
    assert [ended.code for ended in shown.values()] == [1, 0 if runs else 1]
    assert "EXP103 error" in shown[()].out
    assert "EXP103 note" in shown["--provider", NAME].out
    assert all("refused at 6_4: no level takes it" in " ".join(ended.out.split()) for ended in shown.values())
    found = ran(model, {"x": np.array(["a", "b", "c"], object)})
    assert (found is not None) is runs


def test_the_last_line_counts_all_nodes_of_the_provider(command: Command) -> None:
    """Each node once: what is in brackets is a part of the number before."""
    said = _check(command, *MODELS).err
    assert f"; {NAME}: 2 nodes on DirectML (1 unclear), in 2 parts or more, 1 on the CPU (1 of shapes), 1 fails), 1 error" in said


def test_json_has_it_and_obeys_the_schema(command: Command) -> None:
    report = command.report(Schema.REPORT, "check", "--provider", NAME, *MODELS, code=1)
    assert report["provider"] == NAME
    files = {file["file"]: file for file in report["files"]}
    (node,) = files["fails.onnx"]["nodes"]
    assert node["provider"] == {
        "verdict": "fails",
        "text": "the session cannot be created: 0x80070057 (ORT106)",
        "certainty": "read",
        "source": CODES["ORT106"].source,
        "part": None,
        "codes": ["ORT106"],
        "sometimes": False,
    }
    counts = {name: value for name, value in files["shapes.onnx"]["provider"].items() if isinstance(value, int) and value}
    assert counts == {"directml": 1, "parts": 1, "cpu": 1, "shapes": 1}
    assert [finding["code"] for finding in files["fails.onnx"]["findings"]] == ["ORT106"]


def test_without_it_nothing_of_it_is_said(command: Command) -> None:
    assert "provider" not in json.dumps(command.report(Schema.REPORT, "check", *MODELS))
    for output in ("text", "concise", "sarif", "junit", "github"):
        shown = command("check", "--verbose", "--output-format", output, *MODELS).out
        assert NAME not in shown
        assert "ORT" not in shown


def test_sarif_has_the_rules(command: Command) -> None:
    run = sarif_log(_check(command, "--output-format", "sarif", "fails.onnx").out)
    rules = run["tool"]["driver"]["rules"]
    (result,) = run["results"]
    assert rules[result["ruleIndex"]]["id"] == result["ruleId"] == "ORT106"
    assert [rule["id"] for rule in rules if rule["id"].startswith("ORT")] == list(CODES)
    plain = sarif_log(command("check", "--output-format", "sarif", "fails.onnx").out)["tool"]["driver"]["rules"]
    assert plain == rules[: -len(CODES)]


@pytest.mark.parametrize(("output", "shown"), [("junit", '<failure message="1 error: ORT106"'), ("github", "ORT106 pick")])
def test_junit_and_github_have_it(command: Command, output: str, shown: str) -> None:
    assert shown in _check(command, "--output-format", output, "fails.onnx").out


def test_the_configuration_has_it(command: Command, folder: Path) -> None:
    (folder / "dmlgather.toml").write_text(f'provider = "{NAME}"\n[[ignore]]\ncode = "ORT106"\nreason = "runs elsewhere"\n')
    shown = command("check", "fails.onnx")
    assert (shown.code, "1 ignored" in shown.err) == (0, True)


def test_another_name_is_refused(command: Command, folder: Path) -> None:
    assert f"'--provider': expected {NAME}, got 'winml'" in command.refused("check", "--provider", "winml", "fails.onnx")
    (folder / "dmlgather.toml").write_text('provider = "winml"\n')
    said = command.refused("check", "fails.onnx")
    assert f'dmlgather.toml:1: provider: expected a provider ({NAME}), got "winml"' in said


def test_a_baseline_knows_its_findings(command: Command) -> None:
    _check(command, "--write-baseline", "known.json", "fails.onnx")
    shown = _check(command, "--baseline", "known.json", "fails.onnx")
    assert (shown.code, "1 known" in shown.err) == (0, True)


LOW = {
    "the option": ("", ["--level", "4_1"], "'--level': expected 5_0 or newer, which onnxruntime-directml needs, got 4_1"),
    "the key level": ('level = "4_1"\n', [], "dmlgather.toml:1: level: expected 5_0 or newer, which onnxruntime-directml needs"),
    "the key levels": (
        '[levels]\n"*.onnx" = "6_4"\n"/old/" = "2_1"\n',
        [],
        'dmlgather.toml:3: levels["/old/"]: expected 5_0 or newer, which onnxruntime-directml needs, got 2_1',
    ),
}


@pytest.mark.parametrize("case", LOW)
def test_a_level_that_is_too_low(command: Command, folder: Path, case: str) -> None:
    text, options, told = LOW[case]
    (folder / "dmlgather.toml").write_text(text)
    assert told in command.refused("check", "--provider", NAME, *options, "fails.onnx")
    assert command("check", *options, "fails.onnx").code == 0
    assert _check(command, "--level", "5_0", "fails.onnx").code == 1
