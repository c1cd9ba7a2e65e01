"""IRs and layers for tests: some that OpenVINO itself writes, and some by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import dmlgather as dg
from tests.openvino.runtime import openvino

opset1, opset7, opset8 = openvino.opset1, openvino.opset7, openvino.opset8

PAGE = """<layer ... type="Gather" version="opset8">
    <data batch_dims="1" />
    <input>
        <port id="0">
            <dim>2</dim>
            <dim>64</dim>
            <dim>128</dim>
        </port>
        <port id="1">
            <dim>2</dim>
            <dim>32</dim>
            <dim>21</dim>
        </port>
        <port id="2"/>   <!--  axis = 1  -->
    </input>
    <output>
        <port id="2">
            <dim>2</dim>
            <dim>32</dim>
            <dim>21</dim>
            <dim>128</dim>
        </port>
    </output>
</layer>"""
"""The layer on the page of Gather-8."""


def save(folder: Path, results: Sequence[Any], parameters: Sequence[Any], name: str = "model") -> Path:
    """The .xml that OpenVINO writes of a model, with its .bin beside it."""
    path = folder / f"{name}.xml"
    openvino.save_model(openvino.Model(list(results), list(parameters), name), str(path), compress_to_fp16=False)
    return path


def parameter(name: str, shape: Any, kind: Any) -> Any:
    made = opset8.parameter(openvino.PartialShape(shape), kind, name=name)
    made.output(0).set_names({name})
    return made


def three_gathers(folder: Path) -> Path:
    """A model of one Gather of each version: batches with -1 indices, an axis that is converted, and a negative axis."""
    table, tokens = parameter("table", [2, 3, 5, 4], np.float32), parameter("tokens", [2, -1], np.int64)
    halves, rows = parameter("halves", [6, 3], np.float16), parameter("rows", [4], np.int32)
    newest = opset8.gather(table, tokens, opset8.constant(np.array(2, np.int64)), 1)
    middle = opset7.gather(halves, rows, opset8.convert(opset8.constant(np.array([1], np.int32)), "i64"))
    oldest = opset1.gather(middle, rows, opset8.constant(np.array([-2], np.int8)))
    for node, name in ((newest, "newest"), (middle, "middle"), (oldest, "oldest")):
        node.set_friendly_name(name)
    return save(folder, [newest, oldest], [table, tokens, halves, rows])


def layer(
    number: int,
    kind: str,
    inputs: Mapping[int, str] | None = None,
    outputs: Mapping[int, str] | None = None,
    attributes: str = "",
    *,
    version: str = "opset8",
) -> str:
    """A <layer>. Ports are "FP32 2,3", with "" for none stated: " 2,3" or "FP32 "."""
    stated = "".join(
        f"<{group}>{''.join(_port(port, text) for port, text in ports.items())}</{group}>"
        for group, ports in (("input", inputs), ("output", outputs))
        if ports is not None
    )
    return f'<layer id="{number}" name="{kind}_{number}" type="{kind}" version="{version}"><data {attributes}/>{stated}</layer>\n'


def _port(number: int, text: str) -> str:
    precision, sizes = text.split(" ")
    stated = f' precision="{precision}"' if precision else ""
    return f'<port id="{number}"{stated}>{"".join(f"<dim>{size}</dim>" for size in sizes.split(",") if size)}</port>'


GATHER = layer(3, "Gather", {0: "FP32 5,2", 1: "I64 3", 2: "I64 "}, {3: "FP32 3,2"}, 'batch_dims="0"')


def ran(*arguments: Any, **named: Any) -> Any:
    """Runs a layer, called later."""
    return lambda: dg.openvino.run_layer(*arguments, **named)
