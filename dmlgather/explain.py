"""What a descriptor becomes: plan, canonical plan, what each device would run, bytes moved, lowest feature level, a picture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

from dmlgather.backends import cpu, cuda
from dmlgather.dialects.problem import Problem
from dmlgather.directml import OperatorDesc, minimum_level
from dmlgather.legend import legend, printed
from dmlgather.plan import BytesMoved, IndexPlan, bytes_moved, canonicalise

if TYPE_CHECKING:
    from dmlgather.picture import Subject


@dataclass(frozen=True, slots=True)
class Explanation:
    """The result of `CompiledOperator.explain`: `str()` gives text, `to_json()` plain data, `picture()` SVG, `legend()` words.

    lowest_level: "3_0"; "" where DirectML's levels do not matter. plan: as lowered over the described layouts; canonical: its
    canonical form. cpu, cuda: what runs it there, in words. bytes_moved: of one run. A notebook shows the picture and the text.
    """

    operator: str
    lowest_level: str | None
    plan: str
    canonical: str
    cpu: str
    cuda: str
    bytes_moved: BytesMoved
    _subject: Callable[[str], Subject] = field(repr=False)

    def to_json(self) -> dict[str, Any]:
        """The explanation as JSON-able data; bytes_moved with its total."""
        stated = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "_subject"}
        return {**stated, "bytes_moved": {**asdict(self.bytes_moved), "total": self.bytes_moved.total}}

    def picture(self, indices: Any = None, data: Any = None) -> str:
        """An SVG document: the first cells of input, indices and output, what each output cell reads, the plan's dimensions.

        indices: index values, as integers of the shape IndicesTensor.Sizes or as its one-dimensional buffer, on the host; None
        for a few examples. data: the elements of InputTensor, likewise; None to show only addresses. TypeError for indices that
        are no integers, ValueError for another shape.
        """
        from dmlgather.picture import draw

        subject = self.subject()
        subject = subject if indices is None else subject.with_values(indices)
        return draw(subject if data is None else subject.with_elements(data))

    def subject(self, name: str = "") -> Subject:
        """What a picture is drawn from, for `dmlgather.picture.draw`. name: of the operator in its model, for the title."""
        return self._subject(f"{name}: {self._title}" if name else self._title)

    @property
    def _title(self) -> str:
        if self.lowest_level == "":
            return self.operator
        level = f"lowest feature level {self.lowest_level}" if self.lowest_level else "which no feature level takes"
        return f"{self.operator}, {level}"

    def legend(self) -> str:
        """The words of the text, with the parts of each kernel's name, and what they mean."""
        return printed(legend(str(self)))

    def _repr_html_(self) -> str:
        return f"<div>{self.picture()}<pre>{escape(str(self))}</pre></div>"

    def __str__(self) -> str:
        return "\n".join(
            (
                self._title,
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
    return _explained(desc.operator.name, None if level is None else str(level), plan, partial(_of_descriptor, desc, plan))


def explain_problem(problem: Problem, operator: str, lowest_level: str | None) -> Explanation:
    """Explain a dialect's call over packed arrays. lowest_level: as of an `Explanation`; None where no level takes the call."""
    plan = problem.plan()
    return _explained(operator, lowest_level, plan, partial(_of_problem, problem, plan))


def _explained(operator: str, level: str | None, plan: IndexPlan, subject: Callable[[str], Subject]) -> Explanation:
    return Explanation(
        operator=operator,
        lowest_level=level,
        plan=str(plan),
        canonical=str(canonicalise(plan)),
        cpu=cpu.prepare(plan).describe(),
        cuda=cuda.describe(plan),
        bytes_moved=bytes_moved(plan),
        _subject=subject,
    )


def _of_descriptor(desc: OperatorDesc, plan: IndexPlan, title: str) -> Subject:
    from dmlgather.picture import of_descriptor

    return of_descriptor(desc, plan, title)


def _of_problem(problem: Problem, plan: IndexPlan, title: str) -> Subject:
    from dmlgather.picture import of_problem

    return of_problem(problem, plan, title)


def _block(title: str, text: str) -> str:
    return "\n".join(f"{title if number == 0 else '':<9} {line}" for number, line in enumerate(text.splitlines()))
