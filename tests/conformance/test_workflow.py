"""The example's workflow writes and keeps its report for any results."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.command import ROOT

WORKFLOW = yaml.safe_load((ROOT / "examples/ci/.github/workflows/conformance.yml").read_text())
STEPS: dict[str, Any] = {step["name"]: step for step in WORKFLOW["jobs"]["directml"]["steps"] if "name" in step}


def write_report(place: Path) -> int:
    """Run the step like GitHub's runner, and return its exit code."""
    tools = place / "tools"
    tools.mkdir()
    command = tools / "python"  # with the checkout, like an editable installation
    command.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" "$@"\n')
    command.chmod(0o755)
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", STEPS["Write the report"]["run"]],
        cwd=place,
        env={"PATH": f"{tools}:/usr/bin:/bin"},
        capture_output=True,
        timeout=120,
        check=False,
    ).returncode


@pytest.mark.parametrize(("code", "outcomes", "ended"), [("0", [], 0), ("timeout", ["failed"], 0), (None, None, 2)])
def test_the_workflow_writes_a_report_of_any_results(few: Path, code: str | None, outcomes: list[str] | None, ended: int) -> None:
    few.rename(few.parent / "cases")
    cases = few.parent / "cases"
    if code is None:
        (cases / "results").rename(cases / "lost")
    else:
        (cases / "results" / "r00001.exit").write_text(code)
    assert (write_report(few.parent) != 0) is (ended != 0)
    text = (few.parent / "report.json").read_text()
    assert (None if not text else [case["outcome"] for case in json.loads(text)["cases"]]) == outcomes


def test_the_workflow_keeps_the_report_after_a_failure() -> None:
    names = list(STEPS)
    kept, compared = STEPS["Keep the results and the report"], names.index("Compare")
    assert STEPS["Write the report"]["if"] == kept["if"] == "always()"
    assert kept["with"]["path"].split() == ["cases", "report.json"]
    assert names.index("Write the report") < names.index("Keep the results and the report") < compared
    (run,) = [step["run"] for name, step in STEPS.items() if name.startswith("Run them")]
    assert '-DebugLayers:($env:DEBUG_LAYERS -eq "true")' in run
