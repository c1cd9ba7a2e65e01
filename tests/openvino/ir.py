"""IR files for tests: some that OpenVINO itself writes, and some by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dmlgather.dialects.checked_model import CheckedModel, CheckedNode
from dmlgather.openvino.model.check import check_ir
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


def edge(source: int, source_port: int, target: int, port: int) -> str:
    return f'<edge from-layer="{source}" from-port="{source_port}" to-layer="{target}" to-port="{port}"/>\n'


def net(layers: str, edges: str = "", version: str = "11") -> str:
    inside = f"<layers>\n{layers}</layers>\n<edges>\n{edges}</edges>"
    return f'<?xml version="1.0"?>\n<net name="m" version="{version}">\n{inside}\n</net>\n'


CONST = layer(2, "Const", None, {0: "I64 "}, 'element_type="i64" shape="" offset="0" size="8"')
DATA = layer(0, "Parameter", None, {0: "FP32 5,2"}, 'shape="5,2" element_type="f32"')
INDICES = layer(1, "Parameter", None, {0: "I64 3"}, 'shape="3" element_type="i64"')
GATHER = layer(3, "Gather", {0: "FP32 5,2", 1: "I64 3", 2: "I64 "}, {3: "FP32 3,2"}, 'batch_dims="0"')
EDGES = edge(0, 0, 3, 0) + edge(1, 0, 3, 1) + edge(2, 0, 3, 2)
GOOD = net(DATA + INDICES + CONST + GATHER, EDGES)
"""A model of one Gather whose axis is a constant at the start of the .bin."""


NAMES = {"FP16": "f16", "FP32": "f32", "FP64": "f64", "BOOL": "boolean"}
"""A precision -> the element type's name, where it is not the same in lower case."""


def parameter_layer(number: int, text: str) -> str:
    """A Parameter of "FP32 2,3" whose output port states the same."""
    precision, sizes = text.split(" ")
    kind = NAMES.get(precision, precision.lower())
    return layer(number, "Parameter", None, {0: text}, f'shape="{sizes.replace("-1", "?")}" element_type="{kind}"')


def one_gather(data: str, indices: str, output: str, attributes: str = 'batch_dims="0"', *, version: str = "opset8") -> str:
    """A model of one Gather of "FP32 5,2" and "I64 3" that gives "FP32 3,2", its axis a constant at the start of the .bin."""
    gather = layer(3, "Gather", {0: data, 1: indices, 2: "I64 "}, {3: output}, attributes, version=version)
    return net(parameter_layer(0, data) + parameter_layer(1, indices) + CONST + gather, EDGES)


def write(folder: Path, text: str, content: bytes | None = bytes(8), name: str = "model") -> Path:
    """The .xml with that text, and the .bin with that content unless it is None."""
    path = folder / f"{name}.xml"
    path.write_text(text, encoding="utf-8")
    if content is not None:
        path.with_suffix(".bin").write_bytes(content)
    return path


def inferred(path: Path) -> Any:
    """Layer 3 of a file as OpenVINO reads it: joined to a Result, without which it would be dropped."""
    text = path.read_text(encoding="utf-8").replace("</layers>", layer(9, "Result", {0: "FP32 "}, version="opset1") + "</layers>")
    copy = write(
        path.parent, text.replace("</edges>", edge(3, 3, 9, 0) + "</edges>"), path.with_suffix(".bin").read_bytes(), "copy"
    )
    (result,) = openvino.Core().read_model(str(copy)).results
    return result.input_value(0).get_node()


def checked(path: Path, level: str = "6_4") -> CheckedModel:
    """What is found in a file that can be understood."""
    found = check_ir(path, level)
    assert found.problems == ()
    return found


def only(path: Path, level: str = "6_4") -> CheckedNode:
    """The one Gather of a file."""
    (node,) = checked(path, level).nodes
    return node
