"""Short names for the sizes of a model whose own names are long: "s1" for "floor_div(sequence_length + 1, 2)"."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import count
from typing import TypeVar

from dmlgather.dialects.checked_model import CheckedNode, CheckedTensor
from dmlgather.directml.findings import Finding
from dmlgather.report.check_report import FileReport
from dmlgather.wording import printable

LONGEST = 24
"""Characters of a size's own name that lines show."""

_RELATION = re.compile(r" (?:<=|>=|<|>|=) ")
"""What stands between the sizes of a condition: "1 <= N <= 7"."""

_WORD = re.compile(r"\w+")

F = TypeVar("F", bound=Finding)


class ShortNames:
    """Short names for long sizes of a file: s1, s2, …, without those that are words in the file already; none without a file."""

    def __init__(self, file: FileReport | None = None) -> None:
        self.legend: dict[str, str] = {}
        """What each short name stands for, in the order of their first use."""
        self._short: dict[str, str] = {}
        self._long = {name for name in _sizes(file.nodes) if len(name) > LONGEST} if file else set()
        words = {word for text in _texts(file) for word in _WORD.findall(text)} if file and self._long else set()
        self._free = (name for number in count(1) if (name := f"s{number}") not in words)

    def text(self, text: str) -> str:
        """A text with short names for the sizes in it. A name in quotes is a tensor's, and stays."""
        inside = sorted((name for name in self._long if name in text), key=len, reverse=True)
        return re.sub("|".join(map(_alone, inside)), lambda found: self._named(found[0]), text) if inside else text

    def finding(self, finding: F) -> F:
        """The finding with short names in its texts."""
        if not self._long:
            return finding
        texts = {"expected": finding.expected, "got": finding.got, "remedy": finding.remedy}
        return finding.model_copy(update={field: self.text(text) for field, text in texts.items()})

    def node(self, node: CheckedNode) -> CheckedNode:
        """The node with short names in its shapes and conditions."""
        if not self._long:
            return node
        return node.model_copy(
            update={
                "inputs": tuple(map(self._tensor, node.inputs)),
                "outputs": tuple(map(self._tensor, node.outputs)),
                "provided": tuple(map(self.text, node.provided)),
            }
        )

    def _tensor(self, tensor: CheckedTensor) -> CheckedTensor:
        known = {"shape": tensor.shape, "values": tensor.values}
        return tensor.model_copy(
            update={name: tuple(map(self._size, sizes)) for name, sizes in known.items() if sizes is not None}
        )

    def _size(self, size: int | str | None) -> int | str | None:
        if not isinstance(size, str) or printable(size) not in self._long:
            return size
        return self._named(printable(size))

    def _named(self, name: str) -> str:
        if name not in self._short:
            self._short[name] = next(self._free)
            self.legend[self._short[name]] = name
        return self._short[name]


def _sizes(nodes: Iterable[CheckedNode]) -> Iterator[str]:
    """The names of sizes in the shapes, values and conditions of nodes, as they are printed."""
    for node in nodes:
        yield from _named(node)
        for condition in node.provided:
            sides = _RELATION.split(condition)
            yield from sides if len(sides) > 1 else ()  # others are sentences


def _named(node: CheckedNode) -> Iterator[str]:
    """The sizes with names in the shapes and values of a node, as they are printed."""
    for tensor in (*node.inputs, *node.outputs):
        yield from (printable(size) for size in (*(tensor.shape or ()), *(tensor.values or ())) if isinstance(size, str))


def _texts(file: FileReport) -> Iterator[str]:
    """All that lines about a file may show."""
    yield file.file
    for finding in file.findings:
        yield from (finding.subject, finding.path, finding.expected, finding.got, finding.remedy)
    for node in file.nodes:
        yield from (node.place, *node.provided, *node.attributes)
        yield from (tensor.role for tensor in node.inputs)
        yield from _named(node)


def _alone(name: str) -> str:
    """A pattern for a name that is no part of a longer one, and not in quotes."""
    return rf"(?<![\w.'\"]){re.escape(name)}(?!\w|\.\w|['\"\[])"
