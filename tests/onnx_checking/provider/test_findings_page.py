"""docs/onnxruntime-findings.md: a section per code, as the registry has it, with a model that breaks the rule and another."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dmlgather.dialects.export_codes import CODES as DIALECTS_CODES
from dmlgather.directml import CODES as DIRECTML_CODES
from dmlgather.directml import SOURCES as DIRECTML_SOURCES
from dmlgather.onnx_checking.provider.codes import CODES, SOURCES
from dmlgather.report.code_registry import explanation
from tests.onnx_checking.provider.asking import asked, codes, nodes_of

TEXT = (Path(__file__).parents[3] / "docs" / "onnxruntime-findings.md").read_text(encoding="utf-8")
SECTIONS = dict(part.split("\n", 1) for part in TEXT.split("\n## ")[1:] if part.startswith("ORT"))
MODELS = {
    code: re.findall(r"^(Fails|Fixed):\n\n```onnx\n(.*?)```", explanation(code), re.MULTILINE | re.DOTALL) for code in CODES
}


def test_every_code_has_its_section() -> None:
    assert [heading.split(" ", 1)[0] for heading in SECTIONS] == list(CODES)
    for (heading, text), row in zip(SECTIONS.items(), CODES.values(), strict=True):
        assert heading.split(" ", 1)[1].lower() == row.title.lower()
        assert text.strip().startswith(f"*{row.severity}* · {row.source}\n")


def test_no_code_and_no_source_is_another_registrys() -> None:
    assert not CODES.keys() & (DIRECTML_CODES.keys() | DIALECTS_CODES.keys())
    assert not SOURCES.keys() & DIRECTML_SOURCES.keys()


def test_every_source_is_explained() -> None:
    head, line, *listed = re.findall(r"^\| (.*) \| (.*) \|$", TEXT.split("\n## Sources")[1], re.MULTILINE)
    assert (head, line) == (("key", "document"), ("---", "---"))
    assert listed == list(SOURCES.items())
    named = {key for row in CODES.values() for key in re.findall(r"\[([A-Z0-9-]+)\]", row.source)}
    assert named <= SOURCES.keys() | DIRECTML_SOURCES.keys()


@pytest.mark.parametrize("code", CODES)
def test_the_examples(tmp_path: Path, code: str) -> None:
    (_, failing), (_, fixed) = MODELS[code]
    assert [kind for kind, _ in MODELS[code]] == ["Fails", "Fixed"]
    found = asked(tmp_path, failing)
    assert codes(found) == {code}
    assert code == "ORT111" or any(code in node.codes for node in nodes_of(found).values())  # it is about the model
    assert not codes(asked(tmp_path, fixed))
