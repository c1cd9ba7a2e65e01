"""The text that `explain` returns, and its legend."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from html import escape
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from dmlgather.backends import cpu
from dmlgather.backends.cuda.describe import describe, name_legend
from dmlgather.dialects.problem import Problem
from dmlgather.directml import OperatorDesc, minimum_level
from dmlgather.plan import BytesMoved, IndexPlan, bytes_moved, canonicalise

if TYPE_CHECKING:
    from dmlgather.diagram import Subject


WIDTH = 120
"""Longest line of a printed legend."""


@dataclass(frozen=True, slots=True)
class Term:
    """A term in explanations.

    `shown`: the term as the legend shows it, with letters in place of numbers. `pattern`: a regular expression that finds it.
    """

    shown: str
    pattern: str
    meaning: str


TERMS = (
    Term("lowest feature level", r"lowest feature level", "the oldest feature level of DirectML that takes this operator"),
    Term("plan", r"^plan ", "the copy that the operator performs: each step reads one element and writes one"),
    Term(
        "canonical", r"^canonical ",
        "the same copy in as few dimensions and as wide elements as possible; devices run this form, and equal operators have "
        "equal canonical plans",
    ),
    Term("shape [n, …]", r"shape \[", "the number of steps along each dimension of the plan, which need not be a tensor's sizes"),
    Term(
        "n-byte elements", r"shape .*-byte elements",
        "what one step moves; in the canonical plan, neighbours that always move together are one wider element",
    ),
    Term("CLAMP", r", CLAMP$", "an index out of range reads the nearest valid position"),
    Term("FILL", r", FILL$", "for an index out of range, the fill value is written"),
    Term(
        "RAISE", r", RAISE$",
        "an index out of range is an IndexError; DirectML's own operators read the nearest valid position instead",
    ),
    Term("PROMISE", r", PROMISE$", "the caller promises that no index is out of range; if one is, some valid position is read"),
    Term("out [n], in [n]", r"^ +out \[", "the buffers that are written and read, and how many elements they must have"),
    Term("offset n", r"offset \d", "the buffer's element that the first step accesses"),
    Term(
        "strides [n, …]", r"strides \[",
        "the distance, in elements, to the next step along each dimension; 0 stays at an element, a negative one goes backwards",
    ),
    Term(
        "lookup n: TYPE [m]", r"lookup \d+: ",
        "each step reads an index of this type from the index tensor, which must have m elements; offset and strides say where",
    ),
    Term("values 0 … n", r"values 0 …", "the valid indices"),
    Term("no valid value", r"no valid value", "the axis that is indexed has no elements, so every index is out of range"),
    Term("wrap n", r"wrap \d", "added to a negative index, so that -1 is the last position; with 0, it is out of range"),
    Term("in stride n", r"in stride ", "index x n elements are added to the input address"),
    Term("fill 0x…", r"^ +fill 0x", "the bytes of the fill value"),
    Term(
        "cpu name: …", r"^cpu ",
        "the inner loop of the compiled engine, or NumPy's recipe and the reason for it; docs/cpu-recipes.md describes them",
    ),
    Term("units of n bytes", r"units of \d+ byte", "what the CPU moves as one: an element, or several contiguous elements"),
    Term("n blocks on m threads", r"blocks? on \d+ thread", "the number of parts of the work, and of threads at most"),
    Term("streamed", r"streamed ", "the output is so large that it is written past the cache"),
    Term("by the compiled engine", r"by the compiled engine", "`dmlgather env` names its instruction set"),
    Term("by NumPy, as …", r"by NumPy, as ", "why NumPy runs the plan, and not the compiled engine"),
    Term(
        "cuda name, n blocks of m threads", r"^cuda ",
        "the kernel that a GPU would run, and with how many threads; this needs no GPU. In brackets is why its family was "
        "chosen; docs/kernels.md has them all",
    ),
    Term("up to n per thread", r"(up to \d+|one) per thread", "the number of elements that a thread moves"),
    Term("along the dimension of n", r"along the dimension of", "a thread's elements differ only in this dimension of the plan"),
    Term("tiles of n x m", r"tiles of \d", "boxes of elements, read in the input's order and written in the output's order"),
    Term("squares of n x n", r"squares of \d", "elements of a tile that one thread transposes; it moves whole rows of them"),
    Term(
        "indices resolved", r"indices resolved",
        "an index is resolved when it is read, wrapped, and compared with the valid ones"
    ),
    Term("dimensions and lookups from a table", r"lookups from a table", "the kernel reads the plan from memory: it runs any"),
    Term("bytes", r"^bytes ", "useful bytes of one run: each index and element is counted each time it is read"),
)  # fmt: skip
"""All terms of the legend, in its order."""


def legend(explanation: str) -> tuple[tuple[str, str], ...]:
    """Return the terms and kernel names in an explanation, each with its meaning."""
    terms = tuple((term.shown, term.meaning) for term in TERMS if re.search(term.pattern, explanation, re.MULTILINE))
    return terms + tuple(_kernels(explanation))


def printed(entries: tuple[tuple[str, str], ...]) -> str:
    """Return a legend as indented text."""
    width = max((len(name) for name, _ in entries), default=0) + 2
    lines = ["legend"]
    for name, meaning in entries:
        first, *others = wrap(meaning, WIDTH - width - 2) or [""]
        lines += [f"  {name:<{width}}{first}".rstrip(), *(" " * (width + 2) + other for other in others)]
    return "\n".join(lines)


def _kernels(explanation: str) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    for name in dict.fromkeys(re.findall(r"^(?:cuda|) +([a-z]+_[a-z0-9_]+), ", explanation, re.MULTILINE)):
        new = [(part, meaning) for part, meaning in name_legend(name) if part not in seen]
        if new:
            seen.update(part for part, _ in new)
            yield name, "a kernel's name; its parts that were not named yet mean:"
            yield from ((f"  {part}", meaning) for part, meaning in new)


@dataclass(frozen=True, slots=True)
class Explanation:
    """The result of `CompiledOperator.explain`.

    `str()` gives text, `to_json()` a dict, `picture()` an SVG document, and `legend()` the meaning of the terms. A notebook
    shows the diagram and the text.

    `lowest_level`: the oldest feature level of DirectML that takes the operator, such as "3_0". None if no level does; "" if
    the operator is not DirectML's. `plan`: the plan for the described layouts, as text. `canonical`: the canonical plan, as
    text. `cpu`, `cuda`: the program on each device, as text. `bytes_moved`: the bytes that one run reads and writes. `reason`:
    the reason why no level takes a node of an ONNX model; otherwise None.
    """

    operator: str
    lowest_level: str | None
    plan: str
    canonical: str
    cpu: str
    cuda: str
    bytes_moved: BytesMoved
    _subject: Callable[[str], Subject] = field(repr=False)
    reason: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the explanation as a dict for JSON. Its entry "bytes_moved" also has the total."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(self) if entry.name not in ("_subject", "reason")}
        values |= {} if self.reason is None else {"reason": self.reason}
        return {**values, "bytes_moved": {**asdict(self.bytes_moved), "total": self.bytes_moved.total}}

    def picture(self, indices: Any = None, data: Any = None) -> str:
        """Return a diagram as an SVG document.

        The diagram shows the first cells of input, indices and output, and from which cell each output cell is read. Below is
        the plan.

        `indices`: the values of the indices, as an integer array in host memory. Its shape is IndicesTensor.Sizes, or it is a
        one-dimensional buffer. None means invented values. `data`: the elements of InputTensor, in the same forms. None means
        that cells show addresses instead of elements. Raises TypeError unless the indices are integers, ValueError for another
        shape.
        """
        from dmlgather.diagram import draw

        subject = self.subject()
        subject = subject if indices is None else subject.with_values(indices)
        return draw(subject if data is None else subject.with_elements(data))

    def subject(self, name: str = "") -> Subject:
        """Return the subject that `dmlgather.diagram.draw` draws. `name`: the operator's name in its model, for the title."""
        return self._subject(f"{name}: {self._title}" if name else self._title)

    @property
    def _title(self) -> str:
        if self.lowest_level == "":
            return self.operator
        level = f"lowest feature level {self.lowest_level}" if self.lowest_level else "which no feature level takes"
        return f"{self.operator}, {level}"

    def legend(self) -> str:
        """Return text that explains the terms and the kernel names of this explanation."""
        return printed(legend(str(self)))

    def _repr_html_(self) -> str:
        return f"<div>{self.picture()}<pre>{escape(str(self))}</pre></div>"

    def __str__(self) -> str:
        return "\n".join(
            (
                self._title if self.reason is None else f"{self._title}: {self.reason}",
                _block("plan", self.plan),
                _block("canonical", self.canonical),
                _block("cpu", self.cpu),
                _block("cuda", self.cuda),
                f"bytes     {self.bytes_moved}",
            )
        )


def explain(desc: OperatorDesc, plan: IndexPlan) -> Explanation:
    """Return the explanation of a valid descriptor and its plan."""
    level = minimum_level(desc)
    return _explained(desc.operator.name, None if level is None else str(level), plan, partial(_of_descriptor, desc, plan))


def explain_problem(problem: Problem, operator: str, lowest_level: str | None, reason: str | None = None) -> Explanation:
    """Return the explanation of a problem on contiguous arrays. `Explanation` describes `lowest_level` and `reason`."""
    plan = problem.plan()
    return replace(_explained(operator, lowest_level, plan, partial(_of_problem, problem, plan)), reason=reason)


def _explained(operator: str, level: str | None, plan: IndexPlan, subject: Callable[[str], Subject]) -> Explanation:
    return Explanation(
        operator=operator,
        lowest_level=level,
        plan=str(plan),
        canonical=str(canonicalise(plan)),
        cpu=cpu.prepare(plan).describe(),
        cuda=describe(plan),
        bytes_moved=bytes_moved(plan),
        _subject=subject,
    )


def _of_descriptor(desc: OperatorDesc, plan: IndexPlan, title: str) -> Subject:
    from dmlgather.diagram import of_descriptor

    return of_descriptor(desc, plan, title)


def _of_problem(problem: Problem, plan: IndexPlan, title: str) -> Subject:
    from dmlgather.diagram import of_problem

    return of_problem(problem, plan, title)


def _block(title: str, text: str) -> str:
    return "\n".join(f"{title if number == 0 else '':<9} {line}" for number, line in enumerate(text.splitlines()))


@dataclass(frozen=True, slots=True)
class FusedExplanation:
    """The result of `Fused.explain`.

    `str()` gives text, `to_json()` a dict, `picture()` an SVG document, and `legend()` the meaning of the terms. A notebook
    shows the diagrams and the text.

    `table`: the text that `str()` of the fused graph gives. `data`: the dict that the method `to_json` of the fused graph
    returns. `launches`: the explanation of each launch.
    """

    table: str
    data: Mapping[str, Any]
    launches: tuple[Explanation, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the fused graph as a dict for JSON, with the explanation of each launch added."""
        pairs = zip(self.data["launches"], self.launches, strict=True)
        return {**self.data, "launches": [{**launch, "explanation": explanation.to_json()} for launch, explanation in pairs]}

    def picture(self) -> str:
        """Return an SVG document with a diagram of each launch, one below the other. Raise ValueError if there is no launch."""
        from dmlgather.diagram import draw

        return draw(*(launch.subject() for launch in self.launches))

    def legend(self) -> str:
        """Return text that explains the terms and the kernel names of this explanation."""
        return printed(legend(str(self)))

    def _repr_html_(self) -> str:
        picture = self.picture() if self.launches else ""
        return f"<div>{picture}<pre>{escape(str(self))}</pre></div>"

    def __str__(self) -> str:
        return "\n\n".join((self.table, *map(str, self.launches)))
