"""What a PyTorch program turns into: its gathers, slices and views as plans, what they cost, and how DirectML does them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dmlgather.dialects.exporter import LEVELS
from dmlgather.dialects.index_graph import Step
from dmlgather.dialects.problem import Problem
from dmlgather.directml import Report
from dmlgather.plan import bytes_moved
from dmlgather.torch.problems.export import EXPORTER, differences
from dmlgather.torch.tracing import nodes
from dmlgather.torch.tracing.exported import ExportedGraph
from dmlgather.torch.tracing.fused_program import FusedTorchProgram
from dmlgather.torch.tracing.index_graph import read_program
from dmlgather.torch.tracing.node_calls import NodeCall
from dmlgather.torch.tracing.unknown_sizes import DynamicShapes
from dmlgather.tracing.entries import Array, Directml, TraceEntry
from dmlgather.tracing.trace import Trace


def trace(source: Any, /, *example: Any, dynamic_shapes: Any = None) -> Trace:
    """Every gather, slice and view of a module, a function or an ExportedProgram, in the order of the program.

    source, example, dynamic_shapes: as for torch.export.export, which runs the source once on tensors without elements. example:
    tensors, or trees of them; a program that holds its own needs none. Where sizes are dynamic, entries have plans for the sizes
    of the example, and state the conditions under which DirectML takes them at every size. The trace's `run` runs the
    program fused.

    Needs the package torch. Raises what torch.export raises; ValueError for sizes that depend on elements; TypeError for elements
    of a type that NumPy and ml_dtypes lack.

    >>> import torch
    >>> trace = dg.torch.trace(lambda x, rows: x[:, rows].T, torch.zeros(8, 5), torch.tensor([1, 4]))
    >>> for entry in trace:
    ...     print(entry.equation, entry.directml, sep=" | ")
    index.Tensor float32[8,5], int64[2] -> float32[8,2] | GATHER from 1_0 (EXP201)
    numpy_T.default float32[8,2] -> float32[2,8] | SLICE from 1_0
    """
    program = ExportedGraph.of(source, example, dynamic_shapes)
    values = program.values(example)
    read = read_program(program, values)
    fused = FusedTorchProgram.of(program, read)
    launches, steps = fused.launches(), {step.name: step for step in read.graph.steps}
    sizes = DynamicShapes(program)
    entries = (
        replace(_entry(node, call, steps[name]), launches=launches.get(name, ()), dynamic=sizes.of(node, number))
        for node, call in read.calls
        for number, name in enumerate(call.indexing)
    )
    return Trace(tuple(entries), fused)


def _entry(node: Any, call: NodeCall, step: Step) -> TraceEntry:
    problem = step.work
    assert isinstance(problem, Problem), "steps that index are problems"
    operand, *indices, result = (Array(tensor.shape, tensor.dtype.name) for tensor in problem.tensors)
    plan = problem.plan()
    return TraceEntry(
        where=nodes.where(node),
        primitive=call.operator,
        operand=operand,
        indices=indices[0] if indices else None,
        result=result,
        source=nodes.source_line(node),
        mode="raise" if plan.lookups else None,
        problem=problem,
        plan=plan,
        bytes_moved=bytes_moved(plan),
        directml=_directml(problem),
    )


def _directml(problem: Problem) -> Directml:
    lowest = EXPORTER.lowest(problem)
    if lowest is not None:
        return Directml(*lowest, differences=tuple(differences(problem)))
    refused = EXPORTER.express(problem, LEVELS[-1])
    assert isinstance(refused, Report), "no level takes it"
    return Directml(reasons=refused.findings)
