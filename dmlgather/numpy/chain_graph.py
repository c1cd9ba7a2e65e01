"""The steps of an index expression as a graph, and why those with a mode have no descriptor."""

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
"""What an index out of bounds does, and the bytes of a fill."""


def graph_of(links: Sequence[Link], data: TensorType, policy: Policy | None) -> IndexGraph:
    """The steps for data of a type. policy: None for what each step says of indices out of bounds.

    Raises IndexError, ValueError and TypeError as NumPy does for such data.
    """
    found = list[Problem]()
    for link in links:
        own = found[-1].output if found else data
        found.append(with_policy(link.clipped(own) if isinstance(link, TakenByMode) else link.problem(own), policy))
    graph = chain(found)
    for number, link in reversed([*enumerate(links)]):  # from the end, since steps are added before
        if isinstance(link, TakenByMode) and link.mode == "wrap":
            graph = _with_remainders(graph, number, link)
    first, *indices = graph.inputs
    shown = ["indices"] if len(indices) == 1 else [name.replace("indices", "indices of step ") for name in indices]
    return replace(graph, labels={first: "x", **dict(zip(indices, shown, strict=True)), graph.outputs[0]: OUT})


def _with_remainders(graph: IndexGraph, number: int, link: TakenByMode) -> IndexGraph:
    """The graph whose step of this number takes the remainders of its indices by the size of its axis."""
    taking = graph.steps[number]
    data, indices = taking.inputs
    wide, size, remainders = (f"{indices} {what}" for what in ("as int64", "size", "remainders"))
    own = graph.types[data]
    sizes = np.array(own.shape[check_axis("axis", link.axis, own.rank, "data")] or 1, POSITIONS)
    assert isinstance(link.written.entry, TensorType)
    positions = graph.types[indices]
    steps = (
        Step(f"{taking.name}: as int64", Elementwise("cast", POSITIONS), (indices,), (wide,)),
        Step(f"{taking.name}: remainders", Elementwise("remainder", POSITIONS), (wide, size), (remainders,)),
        replace(taking, inputs=(data, remainders)),
    )
    types = {indices: link.written.entry, wide: positions, size: TensorType((), POSITIONS), remainders: positions}
    return replace(
        graph,
        steps=(*graph.steps[:number], *steps, *graph.steps[number + 1 :]),
        types={**graph.types, **types},
        constants={**graph.constants, size: sizes},
    )


def moded(links: Sequence[Link]) -> TakenByMode | None:
    """The first step with a mode; None where there is none."""
    return next((link for link in links if isinstance(link, TakenByMode)), None)


def mode_report(link: TakenByMode, level: FeatureLevel) -> Report:
    """Why there is no descriptor for a step with a mode."""
    instead = "clip them (numpy.clip)" if link.mode == "clip" else "take their remainders by the size of the axis"
    finding = CODES["EXP106"].finding(
        "indices",
        expected="indices that are looked up as they are, where a negative one of a signed type counts from the end from 3_0 on",
        got=f"take with mode {link.mode!r}",
        remedy=f"{instead}, and describe brackets with what that gives",
    )
    return Report(subject="NumPy index", level=level, findings=(finding,))


def with_policy(problem: Problem, policy: Policy | None) -> Problem:
    """A problem under a policy; as it is under None."""
    return problem if policy is None else under(problem, *policy)
