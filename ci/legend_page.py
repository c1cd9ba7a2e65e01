"""The tables of docs/explain.md that say what the words of an explanation mean, generated from the words in the package."""

from __future__ import annotations

import re
from collections.abc import Iterable

from dmlgather.backends.cuda.families import FAMILIES
from dmlgather.backends.cuda.name_legend import LETTERS, WORDS
from dmlgather.picture.explanation import CPU_LOOPS, CPU_RECIPES, TERMS

_BLOCK = re.compile(r"(<!-- legend: (\w+) -->\n).*?(<!-- end of legend -->)", re.DOTALL)


def rendered(text: str) -> str:
    """`text` with a new table in every block."""
    return _BLOCK.sub(lambda block: f"{block[1]}\n{_TABLES[block[2]]}\n{block[3]}", text)


def _table(heading: tuple[str, str], rows: Iterable[tuple[str, str]]) -> str:
    lines = [f"| {' | '.join(heading)} |", "| --- | --- |", *(f"| `{name}` | {meaning} |" for name, meaning in rows)]
    return "\n".join(lines) + "\n"


_TABLES = {
    "words": _table(("in the output", "means"), ((term.shown, term.meaning) for term in TERMS)),
    "names": _table(
        ("part", "means"),
        [*WORDS.items(), *((f"{letter}N", f"N {counts}s {rest}") for letter, (counts, rest) in LETTERS.items())],
    ),
    "families": _table(("family", "chosen because"), ((family.name, family.why) for family in FAMILIES)),
    "loops": _table(("name", "for"), CPU_LOOPS),
    "recipes": _table(("name", "chosen because"), CPU_RECIPES),
}
