"""Turns index expressions into graphs of problems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from dmlgather.dialects.advanced_indexing import POSITIONS
from dmlgather.dialects.export_codes import CODES
from dmlgather.dialects.index_graph import Elementwise, IndexGraph, Step, chain
from dmlgather.dialects.planned import under
from dmlgather.dialects.problem import Problem, TensorType, check_axis
from dmlgather.directml import FeatureLevel, Report
from dmlgather.fusion import OUT
from dmlgather.numpy.problems.links import Link, TakenByMode
from dmlgather.plan import OutOfBounds

Policy: TypeAlias = tuple[OutOfBounds, bytes]
"""The rule for indices out of range, and the fill value as bytes. The bytes are empty without a fill value."""


def graph_of(links: Sequence[Link], data: TensorType, policy: Policy | None) -> IndexGraph:
    """Return the graph of an index expression for data of this type. `policy`: None keeps each step's own rule."""
    problems = list[Problem]()
    for link in links:
        step_data = problems[-1].output if problems else data
        problem = link.clipped(step_data) if isinstance(link, TakenByMode) else link.problem(step_data)
        problems.append(with_policy(problem, policy))
    graph = chain(problems)
    for number, link in reversed([*enumerate(links)]):  # from the last link on, because inserted steps shift later numbers
        if isinstance(link, TakenByMode) and link.mode == "wrap":
            graph = _with_remainders(graph, number, link)
    first, *indices = graph.inputs
    labels = ["indices"] if len(indices) == 1 else [name.replace("indices", "indices of step ") for name in indices]
    return replace(graph, labels={first: "x", **dict(zip(indices, labels, strict=True)), graph.outputs[0]: OUT})


def _with_remainders(graph: IndexGraph, number: int, link: TakenByMode) -> IndexGraph:
    """Make step `number` read remainders: insert steps that compute each index modulo the size of the axis."""
    step = graph.steps[number]
    data, indices = step.inputs
    int64_indices, size, remainders = (f"{indices} {suffix}" for suffix in ("as int64", "size", "remainders"))
    tensor = graph.types[data]
    axis_size = np.array(tensor.shape[check_axis("axis", link.axis, tensor.rank, "data")] or 1, POSITIONS)
    assert isinstance(link.indices_entry.entry, TensorType)
    positions = graph.types[indices]
    steps = (
        Step(f"{step.name}: as int64", Elementwise("cast", POSITIONS), (indices,), (int64_indices,)),
        Step(f"{step.name}: remainders", Elementwise("remainder", POSITIONS), (int64_indices, size), (remainders,)),
        replace(step, inputs=(data, remainders)),
    )
    types = {
        indices: link.indices_entry.entry,
        int64_indices: positions,
        size: TensorType((), POSITIONS),
        remainders: positions,
    }
    return replace(
        graph,
        steps=(*graph.steps[:number], *steps, *graph.steps[number + 1 :]),
        types={**graph.types, **types},
        constants={**graph.constants, size: axis_size},
    )


def first_with_mode(links: Sequence[Link]) -> TakenByMode | None:
    """Return the first step that is numpy.take with mode "clip" or "wrap", or None."""
    return next((link for link in links if isinstance(link, TakenByMode)), None)


def mode_report(link: TakenByMode, level: FeatureLevel) -> Report:
    """Return a report with EXP106, because DirectML cannot express this mode."""
    instead = "clip them (numpy.clip)" if link.mode == "clip" else "take their remainders by the size of the axis"
    finding = CODES["EXP106"].finding(
        "indices",
        expected="indices in brackets; from level 3_0 on, negative indices of a signed type count from the end",
        got=f"take with mode {link.mode!r}",
        remedy=f"{instead}, and describe brackets with the result",
    )
    return Report(subject="NumPy index", level=level, findings=(finding,))


def with_policy(problem: Problem, policy: Policy | None) -> Problem:
    """Return the problem with another rule for indices out of range. None keeps its rule."""
    return problem if policy is None else under(problem, *policy)
