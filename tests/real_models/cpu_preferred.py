"""Differences between dmlgather's answer on the host's arithmetic and onnxruntime's rule for the CPU, for nodes of ONNX models:
`python -m tests.real_models.cpu_preferred FILE…`.

onnxruntime's rule (`dmlgather/onnx_checking/provider/placement.py`) goes forward, graph by graph, from values on the CPU to nodes
whose inputs are all there. dmlgather goes backward from uses.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from dmlgather.onnx_checking.following.model_nodes import ModelNode, find_nodes
from dmlgather.onnx_checking.provider.placement import Home, place
from dmlgather.onnx_checking.reading.file import read_model

HOMES = {Home.CPU: "on the CPU", Home.FOLDED: "folded", Home.DEVICE: "left to DirectML"}
"""onnxruntime's treatment of a node, in words."""


def difference(node: ModelNode, home: Home) -> str:
    """Return dmlgather's and onnxruntime's treatment of a node."""
    if ":" in node.graph:
        return "not compared: in a local function"
    if node.unreached is not None:
        return "not compared: no run of the model reaches it"
    host = "the host's" if node.is_shape_computation else "judged"
    return f"{host}; onnxruntime: {HOMES[home]}"


def compared(path: Path) -> Counter[str]:
    """Return the number of a model's nodes for each difference."""
    file = read_model(path)
    placed = place(file)
    return Counter(difference(node, placed[node.graph, node.index].home) for node in find_nodes(file).nodes)


if __name__ == "__main__":
    total: Counter[str] = Counter()
    for name in sys.argv[1:]:
        found = compared(Path(name))
        total += found
        print(f"{name}: {dict(found)}")
    for kind, number in sorted(total.items()):
        print(f"{number:6} {kind}")
