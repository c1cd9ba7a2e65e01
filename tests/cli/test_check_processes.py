"""Files that several processes check: the report is the one that a single process makes."""

from __future__ import annotations

import json
import shutil
import sys
import threading
from pathlib import Path

import pytest

from dmlgather.directml.types import FeatureLevel
from dmlgather.report import file_check
from dmlgather.report.file_check import Checked, CheckOptions, check_all
from dmlgather.report.settings import check_paths
from tests.cli.command import Command

FILES = 40


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Descriptors of which every third has an axis that its input lacks, and every tenth is no JSON."""
    for number in range(FILES):
        tensors = {
            "InputTensor": {"DataType": "FLOAT32", "Sizes": [10 + number, 4]},
            "IndicesTensor": {"DataType": "INT64", "Sizes": [1, 3]},
            "OutputTensor": {"DataType": "FLOAT32", "Sizes": [3, 4]},
        }
        desc = {**tensors, "Axis": 7 if number % 3 == 0 else 0, "IndexDimensions": 1}
        text = json.dumps({"type": "DML_OPERATOR_GATHER", "desc": desc})
        (tmp_path / f"{number:03}.json").write_text(text[: len(text) - (number % 10 == 0)])
    return tmp_path


def test_processes_share_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = check_paths([folder])
    assert [len(file.problems) for file in alone.files] == [int(number % 10 == 0) for number in range(FILES)]
    assert [bool(file.findings) for file in alone.files] == [number % 3 == 0 and number % 10 != 0 for number in range(FILES)]
    monkeypatch.setattr(file_check, "FILES_PER_WORKER", FILES // 2)
    monkeypatch.setattr(file_check, "BATCH", 3)
    assert check_paths([folder], jobs=2) == alone


def test_this_process_takes_batches_from_the_back(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here: list[Path] = []
    check = file_check.file_report

    def noted(path: Path, level: FeatureLevel, options: CheckOptions) -> Checked:
        here.append(path)
        return check(path, level, options)

    monkeypatch.setattr(file_check, "FILES_PER_WORKER", 1)
    monkeypatch.setattr(file_check, "BATCH", 1)
    monkeypatch.setattr(file_check, "file_report", noted)
    paths = sorted(folder.iterdir())
    found = check_all([(path, FeatureLevel.LEVEL_6_4, CheckOptions()) for path in paths], 2)
    assert [report.file for report, _ in found] == list(map(str, paths))
    assert here == sorted(here, reverse=True)
    assert here[0] == paths[-1]


def test_if_a_worker_process_dies_this_one_checks_its_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = check_paths([folder])
    monkeypatch.setattr(file_check, "FILES_PER_WORKER", 1)
    monkeypatch.setattr(file_check, "BATCH", 1)
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    assert check_paths([folder], jobs=3) == alone


def test_worker_processes_that_cannot_be_started(
    folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    options = ["check", "--output-format", "json", "--jobs", 3, folder]
    alone = command(*options)
    monkeypatch.setattr(file_check, "FILES_PER_WORKER", 1)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "gone"))
    ended = command(*options)
    assert (ended.code, ended.out) == (alone.code, alone.out)
    (note,) = [line for line in ended.err.splitlines() if line not in alone.err.splitlines()]
    assert note.startswith("dmlgather: note: 0 of 2 worker processes could be started, and the rest is checked without them: ")
    assert "gone" in note


def test_a_thread_that_cannot_be_started(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would talk to the second worker process, which is then ended."""
    alone, notes = check_paths([folder]), list[str]()
    started, start = [], threading.Thread.start

    def second_fails(thread: threading.Thread) -> None:
        started.append(thread)
        if len(started) == 2:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(file_check, "FILES_PER_WORKER", 1)
    monkeypatch.setattr(threading.Thread, "start", second_fails)
    assert check_paths([folder], jobs=3, note=notes.append) == alone
    assert notes == ["1 of 2 worker processes could be started, and the rest is checked without them: can't start new thread"]


def test_few_files_and_one_job_start_no_process(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(file_check, "_check_with_workers", refuse)
    check_paths([folder], jobs=None)
    monkeypatch.setattr(file_check, "FILES_PER_WORKER", 1)
    check_paths([folder], jobs=1)
    with pytest.raises(AssertionError):
        check_paths([folder], jobs=2)
