"""The result of fusing: the graph that is left, what each launch holds, and where it was cut."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from dmlgather.dialects.index_graph import IndexGraph, Step
from dmlgather.dialects.planned import Planned
from dmlgather.dialects.problem import Problem
from dmlgather.fusion.running import run
from dmlgather.plan import BytesMoved, IndexPlan, bytes_moved, canonicalise


@dataclass(frozen=True, slots=True)
class FusedLaunch:
    """One pass over memory. step: its name in the fused graph; holds: the names of the steps that it does, in order."""

    step: str
    holds: tuple[str, ...]
    plan: IndexPlan
    bytes: BytesMoved


@dataclass(frozen=True, slots=True)
class Cut:
    """Two steps that stay apart: what `maker` writes exists in memory, and `reader` reads it.

    code: the reason in few words, one of docs/fusing.md. reason: what holds here.
    """

    maker: str
    reader: str
    code: str
    reason: str


@dataclass(frozen=True)
class Fused:
    """A graph after fusing. `fuse` makes it.

    graph: the fused graph, whose outputs are those of the program, then the values that were kept. source: the graph before,
    without steps that nothing needs. kept: the values that are kept.
    """

    graph: IndexGraph
    source: IndexGraph
    cuts: tuple[Cut, ...]
    kept: tuple[str, ...] = ()

    @cached_property
    def launches(self) -> tuple[FusedLaunch, ...]:
        """One for each problem that is left, in order."""
        return tuple(_launch(step, step.work) for step in self.graph.steps if isinstance(step.work, Problem))

    @property
    def bytes_moved(self) -> int:
        """Bytes that all launches read and write."""
        return sum(launch.bytes.total for launch in self.launches)

    @cached_property
    def bytes_saved(self) -> int:
        """Bytes that the steps one by one would read and write more."""
        before = [_launch(step, step.work).bytes.total for step in self.source.steps if isinstance(step.work, Problem)]
        return sum(before) - self.bytes_moved

    def __call__(self, *arrays: Any, device: str | None = None) -> Any:
        """Run on arrays: the graph's inputs, in order. Returns the output, or a tuple of several."""
        if len(arrays) != len(self.graph.inputs):
            raise TypeError(f"the graph has inputs {list(self.graph.inputs)}, got {len(arrays)} arrays")
        found = self.run(dict(zip(self.graph.inputs, arrays, strict=True)), device=device)
        results = tuple(found[name] for name in self.graph.outputs[: len(self.graph.outputs) - len(self.kept)])
        return results[0] if len(results) == 1 else results

    def run(
        self,
        values: Mapping[str, Any],
        *,
        compute: Callable[[Step, Sequence[Any]], Sequence[Any]] | None = None,
        device: str | None = None,
    ) -> dict[str, Any]:
        """The outputs, and the values that were kept, by name. values: the inputs, by name.

        compute: does an opaque step: from the step and its arrays to the arrays that it writes.
        """
        try:
            return run(self.graph, values, compute, device)
        except IndexError:
            if self.graph is not self.source:
                run(self.source, values, compute, device)  # which names the bad index as the step on its own does
            raise

    def __str__(self) -> str:
        lines = [f"{launch.step}: {' + '.join(launch.holds)}, {launch.bytes.total} bytes" for launch in self.launches]
        lines += [f"{cut.maker} | {cut.reader}: {cut.code}: {cut.reason}" for cut in self.cuts]
        return "\n".join((*lines, f"bytes moved: {self.bytes_moved}, saved: {self.bytes_saved}"))

    def to_json(self) -> dict[str, Any]:
        """As JSON-able data."""
        return {
            "launches": [
                {
                    "step": launch.step,
                    "holds": list(launch.holds),
                    "plan": str(launch.plan),
                    "bytes": {**asdict(launch.bytes), "total": launch.bytes.total},
                }
                for launch in self.launches
            ],
            "cuts": [asdict(cut) for cut in self.cuts],
            "bytes_moved": self.bytes_moved,
            "bytes_saved": self.bytes_saved,
        }


def _launch(step: Step, problem: Problem) -> FusedLaunch:
    plan = canonicalise(problem.plan())
    return FusedLaunch(step.name, problem.holds if isinstance(problem, Planned) else (step.name,), plan, bytes_moved(plan))
