"""What an operator becomes: plan, what each device runs, bytes moved, lowest level, a picture; and what these words mean."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
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
"""Characters of a line of the printed legend."""


@dataclass(frozen=True, slots=True)
class Term:
    """One word of an explanation. shown: as it is printed, with letters for numbers. pattern: where it occurs."""

    shown: str
    pattern: str
    meaning: str


TERMS = (
    Term("lowest feature level", r"lowest feature level", "the oldest feature level of DirectML that takes this operator"),
    Term("plan", r"^plan ", "the copy that the operator is: in each step, one element is read and one is written"),
    Term(
        "canonical", r"^canonical ",
        "the same copy in as few dimensions and as wide elements as possible; devices run this form, and operators that do the "
        "same have the same one",
    ),
    Term("shape [n, …]", r"shape \[", "the number of steps along each dimension of the plan, which need not be a tensor's sizes"),
    Term(
        "n-byte elements", r"shape .*-byte elements",
        "what one step moves; in the canonical plan, neighbours that always move together are one wider element",
    ),
    Term("CLAMP", r", CLAMP$", "an index out of range reads the nearest valid position"),
    Term("FILL", r", FILL$", "for an index out of range, the fill value is written"),
    Term("RAISE", r", RAISE$", "an index out of range is an IndexError"),
    Term("PROMISE", r", PROMISE$", "the caller promises that no index is out of range; if one is, some valid position is read"),
    Term("out [n], in [n]", r"^ +out \[", "the buffers that are written and read, and how many elements they must have"),
    Term("offset n", r"offset \d", "the element of the buffer at which the first step is"),
    Term(
        "strides [n, …]", r"strides \[",
        "how many elements further the next step along each dimension is; 0 stays at an element, a negative one goes backwards",
    ),
    Term(
        "lookup n: TYPE [m]", r"lookup \d+: ",
        "each step reads an index of this type from the index tensor, which must have m elements; offset and strides say where",
    ),
    Term("values 0 … n", r"values 0 …", "the valid indices"),
    Term("no valid value", r"no valid value", "the axis that is indexed has no elements, so every index is out of range"),
    Term("wrap n", r"wrap \d", "added to a negative index, so that -1 is the last position; with 0, it is out of range"),
    Term("in stride n", r"in stride ", "an index moves the place that is read by index x n elements"),
    Term("fill 0x…", r"^ +fill 0x", "the bytes of the fill value"),
    Term(
        "cpu name: …", r"^cpu ",
        "the inner loop of the compiled engine, or NumPy's recipe and the reason for it; docs/cpu-recipes.md describes them",
    ),
    Term("units of n bytes", r"units of \d+ byte", "what the CPU moves as one: an element, or several that lie side by side"),
    Term("n blocks on m threads", r"blocks? on \d+ thread", "the parts of the work, and the most threads that take them"),
    Term("streamed", r"streamed ", "the output is so large that it is written past the cache"),
    Term("by the compiled engine", r"by the compiled engine", "`dmlgather env` names its instruction set"),
    Term("by NumPy, as …", r"by NumPy, as ", "why NumPy runs the plan, and not the compiled engine"),
    Term(
        "cuda name, n blocks of m threads", r"^cuda ",
        "the kernel that a GPU would run, and with how many threads; this needs no GPU. In brackets is why its family was "
        "chosen; docs/kernels.md has them all",
    ),
    Term("up to n per thread", r"(up to \d+|one) per thread", "the number of elements that a thread moves"),
    Term("along the dimension of n", r"along the dimension of", "a thread's elements lie apart along this dimension of the plan"),
    Term("tiles of n x m", r"tiles of \d", "boxes of elements, read as the input lies and written as the output lies"),
    Term("squares of n x n", r"squares of \d", "elements of a tile that a thread turns together; it moves whole rows of them"),
    Term(
        "indices resolved", r"indices resolved",
        "an index is resolved when it is read, wrapped, and compared with the valid ones"
    ),
    Term("dimensions and lookups from a table", r"lookups from a table", "the kernel reads the plan from memory: it takes any"),
    Term("bytes", r"^bytes ", "useful bytes of one run: each index and element is counted each time it is read"),
)  # fmt: skip
"""All words, in the order in which they are printed."""


def legend(explanation: str) -> tuple[tuple[str, str], ...]:
    """The words that occur in an explanation with their meanings, then the names of its kernels, part by part."""
    words = tuple((term.shown, term.meaning) for term in TERMS if re.search(term.pattern, explanation, re.MULTILINE))
    return words + tuple(_kernels(explanation))


def printed(entries: tuple[tuple[str, str], ...]) -> str:
    """A legend as lines of text."""
    room = max((len(name) for name, _ in entries), default=0) + 2
    lines = ["legend"]
    for name, meaning in entries:
        first, *others = wrap(meaning, WIDTH - room - 2) or [""]
        lines += [f"  {name:<{room}}{first}".rstrip(), *(" " * (room + 2) + other for other in others)]
    return "\n".join(lines)


def _kernels(explanation: str) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    for name in dict.fromkeys(re.findall(r"^(?:cuda|) +([a-z]+_[a-z0-9_]+), ", explanation, re.MULTILINE)):
        new = [(part, meaning) for part, meaning in name_legend(name) if part not in seen]
        if new:
            seen.update(part for part, _ in new)
            yield name, "a kernel's name; its parts that were not named yet mean:"
            yield from ((f"  {part}", meaning) for part, meaning in new)


# What a descriptor becomes: plan, canonical plan, what each device would run, bytes moved, lowest feature level, a picture.


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
        from dmlgather.diagram import draw

        subject = self.subject()
        subject = subject if indices is None else subject.with_values(indices)
        return draw(subject if data is None else subject.with_elements(data))

    def subject(self, name: str = "") -> Subject:
        """What a picture is drawn from, for `dmlgather.diagram.draw`. name: of the operator in its model, for the title."""
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


# What a fused graph runs, launch by launch, in words and as pictures.


@dataclass(frozen=True, slots=True)
class FusedExplanation:
    """The result of `Fused.explain`: `str()` gives text, `to_json()` plain data, `picture()` SVG, `legend()` words.

    table: `str()` of the fused graph. launches: in order. A notebook shows the pictures and the text.
    """

    table: str
    data: Mapping[str, Any]
    launches: tuple[Explanation, ...]

    def to_json(self) -> dict[str, Any]:
        """`Fused.to_json()`, with the explanation of each launch."""
        found = zip(self.data["launches"], self.launches, strict=True)
        return {**self.data, "launches": [{**launch, "explanation": each.to_json()} for launch, each in found]}

    def picture(self) -> str:
        """An SVG document with a picture of each launch: what each output cell reads. ValueError where there is no launch."""
        from dmlgather.diagram import draw

        return draw(*(each.subject() for each in self.launches))

    def legend(self) -> str:
        """The words of the text, with the parts of each kernel's name, and what they mean."""
        return printed(legend(str(self)))

    def _repr_html_(self) -> str:
        picture = self.picture() if self.launches else ""
        return f"<div>{picture}<pre>{escape(str(self))}</pre></div>"

    def __str__(self) -> str:
        return "\n\n".join((self.table, *map(str, self.launches)))
