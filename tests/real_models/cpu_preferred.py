"""Which nodes of ONNX models onnxruntime would keep on the CPU beside DirectML, and where dmlgather's answer is another:
`python -m tests.real_models.cpu_preferred FILE…`.

onnxruntime's rule (GetCpuPreferredNodes) goes forward, graph by graph: from values that lie on the CPU to the nodes all of whose
inputs lie there. It is stated here after onnxruntime's source, to compare with; dmlgather goes backward, from uses. onnxruntime
folds what has constant inputs alone beforehand.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from onnx import GraphProto, NodeProto, TensorProto

from dmlgather.onnx.problems.subgraphs import element_count, subgraphs
from dmlgather.onnx_checking.following.node_sites import NodeSite, find_nodes
from dmlgather.onnx_checking.following.operators import row_of
from dmlgather.onnx_checking.reading.file import read_model

SMALL = 100
"""The most elements of an initializer that counts as lying on the CPU."""

HALVES = {TensorProto.FLOAT16, TensorProto.BFLOAT16}
"""Types of inputs with which a node stays on the device; those of 8 bits, too, which no node of the family's models has."""

CPU, FOLDED = "on the CPU", "folded"
"""What onnxruntime does with a node."""


def placed(graph: GraphProto, around: frozenset[str] = frozenset()) -> Iterator[tuple[NodeProto, str]]:
    """The nodes of a graph, and of those inside it, that onnxruntime does not leave to DirectML. around: the constants of the
    graphs around it.
    """
    sizes = {tensor.name: element_count(tensor) for tensor in graph.initializer}
    constants = set(around | sizes.keys())
    held = {value.name for value in graph.input} | {name for name in constants if sizes.get(name, 0) <= SMALL}
    halves = {value.name for value in (*graph.input, *graph.value_info) if value.type.tensor_type.elem_type in HALVES}
    on_cpu: set[str] = set()
    for node in graph.node:
        fields = row_of(node).host
        bodies = [body for _, body in subgraphs(node)]
        for body in bodies:
            yield from placed(body, frozenset(constants))
        names = [(at, name) for at, name in enumerate(node.input) if name]
        if not bodies and constants.issuperset(name for _, name in names):
            constants.update(node.output)
            held.update(node.output)
            yield node, FOLDED
        elif node.op_type in ("Shape", "Size"):
            on_cpu.update(node.output)
        elif (
            not bodies
            and on_cpu.intersection(node.input)
            and halves.isdisjoint(node.input)
            and all(name in held or (name in on_cpu and at not in fields) for at, name in names)
        ):
            on_cpu.update(node.output)
            yield node, CPU


def difference(site: NodeSite, place: str | None) -> str:
    """What dmlgather and onnxruntime do with a node. place: as `placed` says; None where it is left to DirectML."""
    if ":" in site.graph:
        return "not compared: in a local function"
    if site.unreached is not None:
        return "not compared: no run of the model reaches it"
    host = "the host's" if site.host else "judged"
    return f"{host}; onnxruntime: {place or 'left to DirectML'}"


def compared(path: Path) -> Counter[str]:
    """How many nodes of the family a model has of each difference."""
    file = read_model(path)
    places = {id(node): (node, place) for node, place in placed(file.model.graph)}
    return Counter(difference(site, places.get(id(site.node), (None, None))[1]) for site in find_nodes(file).sites)


if __name__ == "__main__":
    total: Counter[str] = Counter()
    for name in sys.argv[1:]:
        found = compared(Path(name))
        total += found
        print(f"{name}: {dict(found)}")
    for kind, number in sorted(total.items()):
        print(f"{number:6} {kind}")
