"""Table of docs/explain.md with the loops of the CPU engine."""

from __future__ import annotations

from ci.pages.blocks import table

CPU_LOOPS = (
    ("looked-up units", "each index moves a unit of up to 63 bytes"),
    ("looked-up runs", "each index moves a contiguous run of 64 bytes or more"),
    ("looked-up parts, …", "each index moves a part of the input that is not contiguous, by one of the copies below"),
    ("index checks", "nothing is written, but RAISE checks all indices"),
    ("constant fill", "an indexed axis is empty, so every element is the fill value"),
    ("nothing", "nothing is written and nothing is checked"),
    ("run", "contiguous runs of 65 bytes or more"),
    ("short run", "contiguous runs of up to 64 bytes whose size is no power of two"),
    ("strided", "single units, with the same step from each to the next"),
    ("picked", "short pieces of the output, each from few places: vectors are loaded, and bytes picked from them"),
    ("transposed", "input and output are contiguous along different dimensions: tiles are transposed in registers"),
    ("tiled", "like transposed, for units that do not fill registers evenly: tiles stay in the cache"),
)
"""Names of the compiled engine's loops, which follow "cpu" in explanations, and their use."""


def legend_tables() -> dict[str, str]:
    """Return the table by the name of its block."""
    return {"the loops": table(("name", "for"), [(f"`{name}`", use) for name, use in CPU_LOOPS])}
