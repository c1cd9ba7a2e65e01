"""What a descriptor becomes: plan, canonical plan, what each device would run, bytes moved, lowest feature level, a picture."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any

from dmlgather.backends import cpu, cuda
from dmlgather.directml import OperatorDesc, minimum_level
from dmlgather.plan import BytesMoved, IndexPlan, bytes_moved, canonicalise


@dataclass(frozen=True, slots=True)
class Explanation:
    """The result of `CompiledOperator.explain`: `str()` gives text, `to_json()` plain data, `picture()` SVG.

    lowest_level: "3_0". plan: as lowered over the described layouts; canonical: its canonical form. cpu, cuda: what runs it
    there, in words. bytes_moved: of one run. A notebook shows the picture and the text.
    """

    operator: str
    lowest_level: str | None
    plan: str
    canonical: str
    cpu: str
    cuda: str
    bytes_moved: BytesMoved
    _desc: OperatorDesc = field(repr=False)
    _plan: IndexPlan = field(repr=False)

    def to_json(self) -> dict[str, Any]:
        """The explanation as JSON-able data; bytes_moved with its total."""
        return {
            "operator": self.operator,
            "lowest_level": self.lowest_level,
            "plan": self.plan,
            "canonical": self.canonical,
            "cpu": self.cpu,
            "cuda": self.cuda,
            "bytes_moved": {**asdict(self.bytes_moved), "total": self.bytes_moved.total},
        }

    def picture(self, indices: Any = None, data: Any = None) -> str:
        """An SVG document: the first cells of input, indices and output, what each output cell reads, the plan's dimensions.

        indices: index values, as integers of the shape IndicesTensor.Sizes or as its one-dimensional buffer, on the host; None
        for a few examples. data: the elements of InputTensor, likewise; None to show only addresses. TypeError for indices that
        are no integers, ValueError for another shape.
        """
        from dmlgather.picture import draw, of_descriptor

        subject = of_descriptor(self._desc, self._plan)
        subject = subject if indices is None else subject.with_values(indices)
        return draw(subject if data is None else subject.with_elements(data))

    def _repr_html_(self) -> str:
        return f"<div>{self.picture()}<pre>{escape(str(self))}</pre></div>"

    def __str__(self) -> str:
        return "\n".join(
            (
                f"{self.operator}, lowest feature level {self.lowest_level}",
                _block("plan", self.plan),
                _block("canonical", self.canonical),
                _block("cpu", self.cpu),
                _block("cuda", self.cuda),
                f"bytes     {self.bytes_moved}",
            )
        )


def explain(desc: OperatorDesc, plan: IndexPlan) -> Explanation:
    """Explain the valid descriptor `desc` that was lowered to `plan`."""
    level = minimum_level(desc)
    return Explanation(
        operator=desc.operator.name,
        lowest_level=None if level is None else str(level),
        plan=str(plan),
        canonical=str(canonicalise(plan)),
        cpu=cpu.prepare(plan).describe(),
        cuda=cuda.describe(plan),
        bytes_moved=bytes_moved(plan),
        _desc=desc,
        _plan=plan,
    )


def _block(title: str, text: str) -> str:
    return "\n".join(f"{title if number == 0 else '':<9} {line}" for number, line in enumerate(text.splitlines()))
