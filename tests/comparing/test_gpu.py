"""Comparing with CUDA devices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import dmlgather as dg
from dmlgather.comparing.saving import CompareReport
from tests import seeds
from tests.cli.command import process
from tests.dxdispatch.models import GATHER, write
from tests.strategies import problem


@pytest.mark.gpu(devices=2)
def test_buffers_are_read_and_written_as_described_on_the_device(cupy: Any, tmp_path: Path) -> None:
    seed = seeds.seed(40)
    for number in range(20):
        made = problem(seed + number)
        found = dg.compare(made.desc, *made.inputs, devices=("cuda:1", "cpu", "reference"), buffers=True)
        assert found.equal, f"problem({made.seed}): {found}"
    case, name = found.save(tmp_path), cupy.cuda.runtime.getDeviceProperties(1)["name"].decode()
    report = CompareReport.model_validate_json((case.parent / "case.report.json").read_text())
    assert (report.devices[0].name, report.devices[0].title) == ("cuda:1", name)
    assert report.dispatches[0].outputs["cuda:1"].endswith(".cuda1.npy")


@pytest.mark.gpu
def test_a_gpu_agrees_in_a_case(tmp_path: Path) -> None:
    options = ("--devices", "cuda,cpu,reference", "--seed", seeds.seed(32), "--save", tmp_path / "case")
    made = process("compare", write(tmp_path, GATHER), *options)
    assert (made.code, "equal on cuda, cpu, reference" in made.out) == (0, True)
    again = process("compare", "--devices", "cuda,cpu", tmp_path / "case" / "case.json")
    assert (again.code, "equal on cuda, cpu" in again.out) == (0, True)
