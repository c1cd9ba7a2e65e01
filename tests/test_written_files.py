"""Written files: an old file stays until the new one is complete, and nothing overwrites its own source."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from dmlgather.files import FileError, check_spared, staged, writing, writing_inside


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, OSError, FileError])
@pytest.mark.parametrize("older", [True, False])
def test_an_error_leaves_all_files_unchanged(tmp_path: Path, error: type[BaseException], older: bool) -> None:
    path = tmp_path / "file.txt"
    if older:
        path.write_text("old")
    before = content(tmp_path)

    def stop() -> None:
        with writing(path, ()) as file:
            file.write(b"half of it")
            file.flush()
            assert content(tmp_path).get("file.txt") == before.get("file.txt")
            raise error("stop")

    with pytest.raises(FileError if error is OSError else error):
        stop()
    assert content(tmp_path) == before


def test_a_process_that_is_killed_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    path.write_text("old")
    script = (
        "import os, signal, sys; from pathlib import Path; from dmlgather.files import writing\n"
        f"with writing(Path({str(path)!r}), ()) as file: file.write(b'new'); file.flush(); os.kill(os.getpid(), signal.SIGKILL)"
    )
    paths = os.pathsep.join(sys.path)
    ended = subprocess.run([sys.executable, "-c", script], check=False, env={**os.environ, "PYTHONPATH": paths})
    assert ended.returncode == -signal.SIGKILL
    assert path.read_text() == "old"


def test_a_replaced_file_keeps_its_permissions(tmp_path: Path) -> None:
    usual = tmp_path / "usual"
    usual.touch()
    for name, mode in (("new", stat.S_IMODE(usual.stat().st_mode)), ("older", 0o751)):
        path = tmp_path / name
        if name == "older":
            path.touch()
            path.chmod(mode)
        with writing(path, ()) as file:
            file.write(b"x")
        assert (stat.S_IMODE(path.stat().st_mode), path.read_bytes()) == (mode, b"x")
    assert sorted(content(tmp_path)) == ["new", "older", "usual"]


def test_writing_through_a_link_replaces_its_target(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    for name in ("older", "new"):
        link, place = tmp_path / f"{name}.txt", tmp_path / "there" / name
        link.symlink_to(place)
        if name == "older":
            place.write_text("old")
        with writing(link, ()) as file:
            file.write(b"made")
        assert (link.is_symlink(), place.read_text()) == (True, "made")


def test_files_move_together_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The third of three files cannot be moved, so the first replaces nothing."""
    for name in ("b.bin", "c.json"):
        (tmp_path / name).write_text(f"old {name}")
    before, move = content(tmp_path), Path.replace

    def failing(path: Path, target: Path) -> Path:
        if path.name == "c.json" and path.read_text() == "new":
            raise OSError(28, "No space left on device")
        return move(path, target)

    monkeypatch.setattr(Path, "replace", failing)

    def write() -> None:
        with staged(tmp_path, ()) as folder:
            for name in ("a.txt", "b.bin", "c.json"):
                (folder / name).write_text("new")

    with pytest.raises(FileError, match="No space left on device"):
        write()
    assert content(tmp_path) == before


def names_of_one_file(folder: Path) -> dict[str, Path]:
    """Return other names of folder / "model.onnx"."""
    path = folder / "model.onnx"
    path.write_bytes(b"model")
    (folder / "soft").symlink_to(path)
    (folder / "hard").hardlink_to(path)
    (folder / "deep").mkdir()
    (folder / "other").symlink_to(folder / "deep", target_is_directory=True)
    names = {
        "itself": path,
        "symbolic": folder / "soft",
        "hard": folder / "hard",
        "spelled": folder / "deep" / ".." / "model.onnx",
        "through a folder": folder / "other" / ".." / "model.onnx",
        "relative": Path(os.path.relpath(path)),
    }
    if (folder / "MODEL.ONNX").exists():  # names ignore case on this file system
        names["case"] = folder / "MODEL.ONNX"
    return names


def test_an_input_is_protected_under_all_its_names(tmp_path: Path) -> None:
    names = names_of_one_file(tmp_path)
    before = content(tmp_path)
    for target in names.values():
        for source in names.values():
            with pytest.raises(FileError, match="is an input"):
                check_spared([target], [source])
            with pytest.raises(FileError, match="is an input"), writing(target, [source]) as file:
                file.write(b"lost")
    with pytest.raises(FileError, match="is an input"), writing_inside(tmp_path, "hard", [names["itself"]]):
        pass
    with pytest.raises(FileError, match="is an input"), staged(tmp_path, [names["itself"]]) as folder:
        (folder / "hard").write_bytes(b"lost")
    assert content(tmp_path) == before


def test_equal_but_different_files_may_be_written(tmp_path: Path) -> None:
    source, target, missing = (tmp_path / name for name in ("a", "b", "c"))
    for path in (source, target):
        path.write_text("equal")
    check_spared([target, missing], [source, missing])
    check_spared([missing], iter([missing]))


def test_two_outputs_must_not_be_the_same_file(tmp_path: Path) -> None:
    target = tmp_path / "a"
    (tmp_path / "deep").mkdir()
    for _ in range(2):  # before the file exists, and afterwards
        with pytest.raises(FileError, match="are the same file, and each is an output"):
            check_spared([target, tmp_path / "deep" / ".." / "a"], [])
        target.touch()


@pytest.mark.parametrize("kind", ["folder", "pipe", "device"])
def test_only_regular_files_are_replaced(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "place"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/null")
    with pytest.raises(FileError, match="not a regular file"), writing(path, ()) as file:
        file.write(b"x")
    assert stat.S_ISREG(path.stat().st_mode) is False
