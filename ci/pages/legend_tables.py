"""The tables of docs/explain.md that say what the words of an explanation mean, generated from the words in the package."""

from __future__ import annotations

from ci.pages.blocks import table
from dmlgather.backends.cuda.describe import LETTERS, WORDS
from dmlgather.backends.cuda.families import FAMILIES
from dmlgather.picture.explanation import CPU_LOOPS, CPU_RECIPES, TERMS

_NAMES = [*WORDS.items(), *((f"{letter}N", f"N {counts}s {rest}") for letter, (counts, rest) in LETTERS.items())]


def legend_tables() -> dict[str, str]:
    """The blocks: name -> table."""
    rows = {
        "the words": (("in the output", "means"), [(term.shown, term.meaning) for term in TERMS]),
        "the parts of names": (("part", "means"), _NAMES),
        "the kernel families": (("family", "chosen because"), [(family.name, family.why) for family in FAMILIES]),
        "the loops": (("name", "for"), CPU_LOOPS),
        "the recipes": (("name", "chosen because"), CPU_RECIPES),
    }
    return {
        block: table(heading, [(f"`{name}`", meaning) for name, meaning in entries]) for block, (heading, entries) in rows.items()
    }
