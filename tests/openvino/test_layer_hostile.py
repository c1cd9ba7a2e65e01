"""Layers that are damaged, and traps: one clear message each, with its line, and nothing is expanded or fetched."""

from __future__ import annotations

import subprocess
import sys
import time
import tracemalloc
from typing import Any

import numpy as np
import pytest
from lxml import etree  # type: ignore[import-untyped] # ships no types

import dmlgather as dg
from dmlgather.package import installing
from tests.cli.command import ROOT
from tests.openvino.ir import GATHER, layer

X, I = np.arange(1, 11, dtype=np.float32).reshape(5, 2), np.array([4, 0, 1])  # noqa: E741 - indices

HEAD = '<?xml version="1.0"?>\n<!-- a comment -->\n'
ENTITIES = "".join(f'<!ENTITY a{level} "{f"&a{level - 1};" * 10}">\n' for level in range(1, 12))
LAUGHS = f'{HEAD}<!DOCTYPE layer [\n<!ENTITY a0 "ha">\n{ENTITIES}]>\n<layer name="&a11;">&a11;</layer>'
EXTERNAL = '<!DOCTYPE layer SYSTEM "http://127.0.0.1:9/x.dtd" [<!ENTITY f SYSTEM "file:///etc/passwd">]><layer>&f;</layer>'
DEEP = "<layer type='Gather'><input>" + "<port>\n" * 1000


def changed(old: str, new: str) -> str:
    assert old in GATHER
    return GATHER.replace(old, new, 1)


HOSTILE: dict[str, tuple[str, int | None, str]] = {
    "billion laughs": (LAUGHS, 3, "has a document type declaration"),
    "an external entity": (EXTERNAL, 1, "has a document type declaration"),
    "an undefined entity": (changed('name="Gather_3"', 'name="&who;"'), 1, "is not well-formed XML: Entity 'who' not defined"),
    "a document type in the middle": (changed("<output>", "<!DOCTYPE layer><output>"), 1, "is not well-formed XML"),
    "a document type without end": ("<!DOCTYPE layer [ <layer> <!-- ", 1, "has a document type declaration"),
    "nothing": ("", None, "is not well-formed XML"),
    "no XML": ("hello", 1, "is not well-formed XML"),
    "half a layer": (GATHER[: len(GATHER) // 2], 1, "is not well-formed XML"),
    "another element": (f"{HEAD}<svg/>", 3, "<svg> is no <layer>"),
    "a layer of something else": ("<layer name='sky'/>", 1, "layer 'sky' () is no Gather, "),
    "a namespace": (changed("<layer ", '<layer xmlns="urn:x" '), 1, "<{urn:x}layer> is no <layer>"),
    "a control character": (changed("opset8", "opset17\x1b"), 1, "is not well-formed XML: "),
    "a null byte": (changed("Gather_3", "\0"), 1, "is not well-formed XML: "),
    "deep nesting": (DEEP, 255, "is nested deeper than 256 elements"),
    "an id that is no number": (changed('id="3"', 'id="-3"'), 1, "id of <layer> is '-3', expected a number of 0 or more"),
    "an id without end": (changed('id="3"', f'id="{"9" * 5000}"'), 1, "id of <layer> is '9999"),
    "port ids that are not unique": (changed('<port id="1"', '<port id="0"'), 1, "input port 0 occurs twice"),
    "a port without an id": (changed('<port id="1"', "<port"), 1, "<port> has no id"),
    "a size that is negative": (changed("<dim>5</dim>", "<dim>-2</dim>"), 1, "<dim> is '-2', expected -1 or a size"),
    "a size that is no number": (changed("<dim>5</dim>", "<dim>&#27;[31m</dim>"), 1, "is not well-formed XML"),
    "many dimensions": (changed("<dim>5</dim>", "<dim>9</dim>" * 600), 1, "<port> has 601 dimensions, expected at most 64"),
    "no ports": (layer(3, "Gather"), 1, "has 0 input and 0 output ports, expected 3 inputs (data, indices, axis) and 1 output"),
    "batch_dims that is no number": (changed('dims="0"', 'dims="-"'), 1, "batch_dims of layer 3 'Gather_3' (Gather) is"),
    "an operation set without a Gather": (changed("opset8", "opset17"), 1, "version 'opset17', expected opset1 … opset16, which"),
    "names that steer a terminal": (changed("opset8", "&#10;::error::\u202e\x9b31m"), 1, r"has version '\\n::error::\\u202e"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_one_message_with_its_line(case: str) -> None:
    text, line, message = HOSTILE[case]
    start = time.process_time()
    with pytest.raises(ValueError, match="xml_layer") as raised:
        dg.openvino.run_layer(text, X, I, 0)
    assert time.process_time() - start < 5  # milliseconds
    said = str(raised.value)
    assert said.startswith("xml_layer: " if line is None else f"xml_layer in line {line}: ")
    assert message in said
    assert said.isprintable()
    assert len(said) < 300


def test_the_stated_encoding_of_a_text_changes_nothing() -> None:
    """A document type cannot hide in an encoding that the parser knows and the look at it does not."""
    for encoding in ("utf-8", "latin-1", "utf-7", "utf-16", "ebcdic-cp-us", "nonsense"):
        text = f'<?xml version="1.0" encoding="{encoding}"?>\n' + changed('"Gather_3"', '"größe"')
        assert dg.openvino.run_layer(text, X, I, 0).tolist() == X[I].tolist()
        with pytest.raises(ValueError, match="'größe'"):
            dg.openvino.run_layer(text.replace("opset8", "opset17"), X, I, 0)


def test_a_mark_of_byte_order_and_comments_are_passed_over() -> None:
    text = f"\ufeff{HEAD}" + changed("<input>", "<!-- ports --><input>")
    assert dg.openvino.run_layer(text, X, I, 0).tolist() == X[I].tolist()


def test_an_element_is_as_hostile_as_a_text() -> None:
    element = etree.fromstring(changed('<port id="1"', '<port id="0"'))
    with pytest.raises(ValueError, match="xml_layer in line 1: input port 0 occurs twice"):
        dg.openvino.run_layer(element, X, I, 0)


def test_many_ports_are_read_in_no_time_and_little_memory() -> None:
    text = layer(3, "Gather", dict.fromkeys(range(20_000), "FP32 2"), {3: "FP32 2"})
    start = time.process_time()
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="has 20000 input"):
            dg.openvino.run_layer(text, X, I, 0)
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()
    assert time.process_time() - start < 20  # a second or two, most of it tracing


def test_every_prefix_is_refused() -> None:
    complete = GATHER.rstrip()
    for end in range(0, len(complete), 7):
        with pytest.raises(ValueError, match="is not well-formed XML"):
            dg.openvino.run_layer(complete[:end], X, I, 0)


@pytest.mark.slow
def test_without_lxml_the_extra_is_named() -> None:
    call = f"dg.openvino.run_layer({GATHER!r}, np.zeros((5, 2), 'f4'), np.zeros(3, 'i8'), 0)"
    code = f"import sys; sys.modules['lxml'] = None; import numpy as np, dmlgather as dg; {call}"
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    needs = f"the text of a layer needs the package lxml, which is not installed: {installing('openvino')}"
    assert ended.stderr.splitlines()[-1] == f"dmlgather.package.MissingExtraError: {needs}"


def test_types_of_ports_are_openvino_s_names() -> None:
    names: dict[str, Any] = {"FP32": np.float32, "f32": np.float32, "BOOL": np.bool_, "boolean": np.bool_, "U8": np.uint8}
    for precision, kind in names.items():
        text = layer(3, "Gather", {0: f"{precision} 5,2", 1: "I64 3", 2: "I64 "}, {3: f"{precision} 3,2"}, 'batch_dims="0"')
        assert dg.openvino.run_layer(text, X.astype(kind), I, 0).dtype == kind
        with pytest.raises(TypeError, match=f"data has type f64, but port 0 has {precision[0].lower()}"):
            dg.openvino.run_layer(text, X.astype(np.float64), I, 0)
    for precision in ("UNSPECIFIED", "DYNAMIC"):
        text = layer(3, "Gather", {0: f"{precision} 5,2", 1: "I64 3", 2: "I64 "}, {3: f"{precision} 3,2"}, 'batch_dims="0"')
        assert dg.openvino.run_layer(text, X, I, 0).tolist() == X[I].tolist()
