"""Names from files reach a terminal only through the function that escapes them."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from dmlgather.output import put
from tests.cli.command import process
from tests.dxdispatch.models import changed

ROOT = Path(__file__).parents[1] / "dmlgather"

CONTROLS = "a\x1b[31m\r\x9b\u202e\u2066\u200b\ufeff\x85\x7f"


def writes(tree: ast.AST) -> bool:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            to_errors = any(key.arg == "file" and ast.unparse(key.value) == "sys.stderr" for key in node.keywords)
            if called.startswith("sys.stdout.write") or "stdout.buffer" in called or (called == "print" and not to_errors):
                return True
    return False


@pytest.mark.slow
def test_only_output_py_writes_to_standard_output() -> None:
    found = {
        path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py") if writes(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert found == {"output.py"}


@pytest.mark.parametrize(
    "character", [chr(code) for code in (*range(9), *range(11, 32), *range(127, 160), 0x202E, 0x2066, 0xD800)]
)
def test_control_characters_are_escaped(character: str, capsys: pytest.CaptureFixture[str]) -> None:
    put(f"a{character}b\tc\n\nd é")
    written = capsys.readouterr().out
    assert character not in written
    assert written.endswith("b\tc\n\nd é")


def model(folder: Path) -> Path:
    """Return a model whose names all contain terminal control characters."""
    text = json.dumps(
        changed(
            (("commands", 2), {"type": "print", "resource": "rows", "verbose": True}),
            (("commands", 3), {"type": "writeFile", "resource": "output", "targetPath": "out.npy"}),
        )
    )
    for name in ("table", "rows", "output", "gather"):
        text = text.replace(f'"{name}"', json.dumps(f"{CONTROLS}\n{name}"))
    path = folder / f"m{CONTROLS}.json".replace("\r", "")
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "--device", "cpu", "--output-dir", "."),
        ("check",),
        *(("check", "--output-format", name) for name in ("json", "sarif", "junit", "github")),
        ("explain",),
        ("explain", "--picture", "p.svg"),
        ("explain", "--only", CONTROLS + "x"),
        ("compare", "--devices", "cpu,reference"),
        ("compare", "--devices", "cpu,reference", "--json"),
    ],
)
def test_commands_print_no_control_codes(arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = model(tmp_path)
    monkeypatch.chdir(tmp_path)
    result = process(arguments[0], path, *arguments[1:])
    assert result.code in (0, 1, 2)
    assert "Traceback" not in result.err
    texts = [result.out, result.err]
    texts += [file.read_text(encoding="utf-8") for file in tmp_path.glob("*.svg")]
    for character in set(CONTROLS) - set("a[31m"):
        assert not any(character in text for text in texts), hex(ord(character))
