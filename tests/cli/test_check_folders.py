"""Which files of a folder are checked. Git judges what it ignores."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path

import pytest

from dmlgather.report.paths import Patterns
from dmlgather.report.settings import search
from tests import seeds
from tests.cli.command import Command

NAMES = ("a", "b", "build", "old models", "x.json", "y.onnx", "z.xml", "readme.txt")
RULES = ["build/", "/build", "*.json", "!x.json", "a/b", "a/**/x.json", "**/b", "b/*.xml", "#none", "old?models", "!", "/a/*"]
"""None brings a folder back: `!/a/` also brings back all that lies in it here, and only the folder itself in git."""


def made(folder: Path, *files: str) -> None:
    for name in files:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{}")


def found(folder: Path, below: str = ".") -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in search(folder / below).files.values())


def repository(folder: Path) -> None:
    subprocess.run(["git", "init", "-q", folder], check=True)


def listed_by_git(folder: Path) -> list[str]:
    command = [
        "git",
        "-C",
        str(folder),
        "-c",
        "core.excludesFile=",
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]
    names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
    return sorted(name for name in names if name.endswith((".json", ".onnx", ".xml")))


def test_git_ignores_the_same_files(tmp_path: Path) -> None:
    first = seeds.seed(60)
    ignored = 0
    for number in range(20):
        rng, folder = random.Random(first + number), tmp_path / str(number)
        repository(folder)
        tree = {"/".join([*rng.choices(NAMES[:4], k=rng.randint(0, 3)), rng.choice(NAMES[4:])]) for _ in range(30)}
        made(folder, *tree)
        for place in {folder, *rng.sample([file.parent for file in sorted(folder.rglob("*.*")) if ".git" not in file.parts], 3)}:
            (place / ".gitignore").write_text("\n".join(rng.choices(RULES, k=4)))
        expected = listed_by_git(folder)
        assert found(folder) == expected, first + number
        for below in ("a", "build"):
            if (folder / below).is_dir() and any(name.startswith(f"{below}/") for name in expected):
                assert found(folder, below) == [name for name in expected if name.startswith(f"{below}/")], first + number
        ignored += len([name for name in tree if name.endswith((".json", ".onnx", ".xml"))]) - len(expected)
    assert ignored


def test_hidden_folders_and_environments_are_left_out(tmp_path: Path) -> None:
    made(
        tmp_path, "a.json", ".tox/b.json", "env/pyvenv.cfg", "env/lib/c.json", "deep/.cache/d.json", "deep/e.json", ".git/f.json"
    )
    done = search(tmp_path)
    assert [path.name for path in done.files.values()] == ["a.json", "e.json"]
    assert done.note() == (
        f"not searched: 2 hidden folders ({tmp_path}/.tox, …), 1 environment of Python ({tmp_path}/env); "
        "name a file or a folder to have it checked"
    )
    assert found(tmp_path, "env/lib") == ["env/lib/c.json"]
    assert found(tmp_path, ".tox") == [".tox/b.json"]


def test_rules_of_git_elsewhere_and_of_inner_repositories_hold(tmp_path: Path) -> None:
    repository(tmp_path)
    (tmp_path / ".git" / "info").mkdir(exist_ok=True)
    (tmp_path / ".git" / "info" / "exclude").write_text("*.xml\n")
    (tmp_path / ".gitignore").write_text("*.json\n")
    repository(tmp_path / "inside")
    made(tmp_path, "a.json", "b.xml", "c.onnx", "inside/a.json", "inside/b.xml")
    assert found(tmp_path) == ["c.onnx", "inside/a.json", "inside/b.xml"]
    assert found(tmp_path, "inside") == ["inside/a.json", "inside/b.xml"]


def test_excluded_files(tmp_path: Path) -> None:
    made(tmp_path, "old/a.json", "new/a.json", "new/b.json")
    done = search(tmp_path, Patterns(["old/", "/new/b.*"], str(tmp_path)))
    assert [*done.files.values()] == [tmp_path / "new" / "a.json"]
    assert "2 excluded files (" in (done.note() or "")


@pytest.mark.parametrize("rules", ["build/", "build/*", "/build/**", "out/", "*/out/", "*.log\nbuild\n!/other"])
def test_a_folder_that_is_named_is_searched(tmp_path: Path, rules: str) -> None:
    """Whatever leaves it out as a whole; not so what leaves out some of it."""
    repository(tmp_path)
    made(tmp_path, "build/out/a.json", "build/out/deep/b.json", "build/out/deep/c.xml", "build/out/d.xml")
    (tmp_path / ".gitignore").write_text(rules)
    (tmp_path / "build" / "out" / "deep" / ".gitignore").write_text("*.json\n")
    assert found(tmp_path) == []
    expected = ["build/out/a.json", "build/out/d.xml", "build/out/deep/c.xml"]
    assert found(tmp_path, "build/out") == expected
    (tmp_path / ".gitignore").unlink()
    excluded = Patterns([*rules.split("\n"), "c.xml"], str(tmp_path))
    assert [*search(tmp_path, excluded).files] == []
    assert sorted(search(tmp_path / "build" / "out", excluded).files) == [str(tmp_path / name) for name in expected[:2]]


def test_a_folder_that_ignores_itself_is_searched_when_named(tmp_path: Path) -> None:
    """As Meson's build folders do."""
    repository(tmp_path)
    made(tmp_path, "build/a.json")
    (tmp_path / "build" / ".gitignore").write_text("*\n")
    assert (found(tmp_path), found(tmp_path, "build")) == ([], ["build/a.json"])


def test_a_folder_without_models_is_no_file_that_was_checked(tmp_path: Path, command: Command) -> None:
    ended = command("check", "--output-format", "json", tmp_path)
    assert (ended.code, json.loads(ended.out)["summary"]["files"]) == (2, 0)
    assert ended.err.splitlines()[-1] == "0 files checked, 1 problem"


@pytest.mark.parametrize("quiet", [False, True])
def test_the_command_says_what_it_left_out(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch, quiet: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    made(tmp_path, "env/pyvenv.cfg", "env/a.json", "old/a.json")
    tensors = {name: {"DataType": "FLOAT32", "Sizes": [4]} for name in ("InputTensor", "OutputTensor")}
    desc = {"type": "DML_OPERATOR_SLICE", "desc": {**tensors, "Offsets": [0], "Sizes": [4], "Strides": [1]}}
    (tmp_path / "old" / "b.json").write_text(json.dumps(desc))
    (tmp_path / "c.json").write_text(json.dumps(desc))
    (tmp_path / "dmlgather.toml").write_text('exclude = ["old/"]\n')
    ended = command("check", *["--quiet"] * quiet, ".")
    assert (ended.code, ended.out) == (0, "")
    note = (
        "dmlgather: note: not searched: 1 environment of Python (./env), 2 excluded files (./old/a.json, …); "
        "name a file or a folder to have it checked\n1 file checked, no findings\n"
    )
    assert ended.err == ("" if quiet else note)
    assert command("check", "old/b.json").err == "1 file checked, no findings\n"


def test_a_file_of_rules_that_cannot_be_read_has_none(tmp_path: Path) -> None:
    made(tmp_path, "a.json")
    (tmp_path / ".gitignore").write_bytes(b"\xff\xfe*.json")
    assert found(tmp_path) == ["a.json"]
